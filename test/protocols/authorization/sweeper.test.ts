/** The sweeper: it keeps pace, and lets others in between. Source: docs/spec/authorization.md, sections 1.3 and
 *  19.1. */
import { expect, it } from "vitest"
import { CachedTables } from "../../../protocols/authorization/cached-tables.ts"
import {
  AuditEvents,
  Expiries,
  Issuances,
  ProofIds,
  Requests
} from "../../../protocols/authorization/records.ts"
import { Sweeper } from "../../../protocols/authorization/sweeper.ts"
import { openMemory } from "../../../storage/memory.ts"
import type { Store, Write } from "../../../storage/store.ts"

const startMs = Date.UTC(2026, 10, 21, 12)
const slice = 250

/** A store that counts the writes of each commit. */
const observed = (): { readonly store: Store; readonly commits: Array<number> } => {
  const store = openMemory()
  const commits: Array<number> = []
  return {
    commits,
    store: {
      ...store,
      commit: (writes: ReadonlyArray<Write>, settled) => {
        commits.push(writes.length)
        return store.commit(writes, settled)
      }
    }
  }
}

const opened = (limits = {}) => {
  const { store, commits } = observed()
  const time = { nowMs: startMs }
  const books = new CachedTables(store, () => time.nowMs, limits)
  const rowsOf = ({ name }: { readonly name: string }) => store.range(name, { limit: 100_000 }).length
  return { store, commits, time, books, rowsOf }
}

const proofs = (books: CachedTables, count: number, expiresMs: number) =>
  books.write(
    Array.from({ length: count }, (_, i) =>
      books.expiring(ProofIds, [`${expiresMs}-${i}`], { expiresMs }, expiresMs, "absent")
    ).flat()
  )

it("A-3: one sweep removes everything that is due, in slices, and nothing else", async () => {
  const { commits, time, books, rowsOf } = opened()
  await proofs(books, 5_200, startMs + 1_000)
  await proofs(books, 300, startMs + 9_000)
  time.nowMs += 1_000
  commits.length = 0
  await new Sweeper([() => books.sweep()], () => {}).sweep()
  expect([rowsOf(ProofIds), rowsOf(Expiries)]).toEqual([300, 300])
  expect(commits.length).toBeGreaterThanOrEqual(5_200 / slice)
  expect(Math.max(...commits)).toBeLessThanOrEqual(4 * slice)
})

it("A-3: old issuances and audit rows leave in one sweep too, whatever their number", async () => {
  const { time, books, rowsOf } = opened()
  const old = { value: new Uint8Array([1]) }
  const write = ({ name }: { readonly name: string }): Write => ({
    _tag: "put",
    table: name,
    key: [books.id()],
    ...old
  })
  await books.write(Array.from({ length: 3_000 }, () => [write(Issuances), write(AuditEvents)]).flat())
  time.nowMs += 9 * 86_400_000
  await books.write([write(Issuances)])
  const sweeper = new Sweeper([() => books.sweep()], () => {})
  await sweeper.sweep()
  expect([rowsOf(Issuances), rowsOf(AuditEvents)]).toEqual([1, 3_000])
  time.nowMs += 82 * 86_400_000
  await sweeper.sweep()
  expect([rowsOf(Issuances), rowsOf(AuditEvents)]).toEqual([0, 0])
})

it("A-3: other work has its turn between two slices", async () => {
  const { time, books } = opened()
  await proofs(books, 3_000, startMs)
  time.nowMs += 1
  let turns = 0
  let sweeping = true
  const others = (): void => {
    turns++
    if (sweeping) setImmediate(others)
  }
  setImmediate(others)
  await new Sweeper([() => books.sweep()], () => {}).sweep()
  sweeping = false
  expect(turns).toBeGreaterThanOrEqual(3_000 / slice)
})

it("A-3: a sweep that is under way is joined, and one that failed is followed by another", async () => {
  let slices = 0
  let resolve: (hasMore: boolean) => void = () => {}
  const promise = new Promise<boolean>((done) => {
    resolve = done
  })
  const sweeper = new Sweeper(
    [
      () => {
        slices++
        if (slices === 2) throw new Error("disk")
        return slices === 1 ? promise : false
      }
    ],
    () => {}
  )
  const both = Promise.allSettled([sweeper.sweep(), sweeper.sweep()])
  resolve(true)
  expect((await both).map(({ status }) => status)).toEqual(["rejected", "rejected"])
  await sweeper.sweep()
  expect(slices).toBe(3)
})

it("A-3: rows are counted from their commit until they are removed, also through a restart", async () => {
  const limits = { [ProofIds.name]: { rowsMax: 700 }, [Requests.name]: { rowsMax: 1 } }
  const { store, time, books } = opened(limits)
  books.countRows()
  await proofs(books, 600, startMs + 1_000)
  await proofs(books, 100, startMs + 2_000)
  expect(books.ceiling(ProofIds)).toMatchObject({ size: 700, isReached: true })
  expect(books.ceiling(Requests)).toMatchObject({ size: 0, isReached: false })
  const restarted = new CachedTables(store, () => time.nowMs, limits)
  restarted.countRows()
  expect(restarted.ceiling(ProofIds)).toMatchObject({ size: 700 })
  time.nowMs += 1_000
  await new Sweeper([() => books.sweep()], () => {}).sweep()
  expect(books.ceiling(ProofIds)).toMatchObject({ size: 100, isReached: false })
})
