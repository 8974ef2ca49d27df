/** The order of what the store asks of LMDB. Every call goes through to a real database; the test holds the
 *  flush, holds or fails a transaction, and notes the order. */
import { existsSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeEach, expect, it, vi } from "vitest"
import { openLmdb } from "../../storage/lmdb.ts"
import { restore } from "../../storage/restore.ts"
import { schemaVersion } from "../../storage/keys.ts"
import { committed, type Write } from "../../storage/store.ts"

const disk = vi.hoisted(() => ({
  /** What the store did, in order. */
  calls: [] as Array<string>,
  options: undefined as { readonly noSync?: boolean } | undefined,
  /** A transaction waits for this before it begins. */
  beforeBatch: undefined as (() => Promise<void>) | undefined,
  /** The flush waits for this. */
  beforeFlush: undefined as Promise<void> | undefined
}))

vi.mock("lmdb", async (importOriginal) => {
  const lmdb = await importOriginal<typeof import("lmdb")>()
  const watched = (db: any): any =>
    new Proxy(db, {
      get: (_, name) => {
        const value = db[name]
        switch (name) {
          case "batch":
            return async (work: () => void) => {
              await disk.beforeBatch?.()
              await db.batch(work)
              disk.calls.push("batch")
            }
          case "flushed":
            disk.calls.push("flush asked")
            return Promise.resolve(disk.beforeFlush).then(() => value)
          case "close":
            return () => {
              disk.calls.push("close")
              return db.close()
            }
          case "backup":
            return (...args: Array<unknown>) => {
              disk.calls.push("backup")
              return db.backup(...args)
            }
          default:
            return typeof value === "function" ? value.bind(db) : value
        }
      }
    })
  return {
    ...lmdb,
    open: (options: { readonly noSync?: boolean }) => {
      disk.options = options
      return watched(lmdb.open(options as never))
    }
  }
})

const root = mkdtempSync(join(tmpdir(), "troupe-lmdb-"))
afterAll(() => rmSync(root, { recursive: true, force: true }))
let folders = 0
const folder = (): string => join(root, String(folders++))

const put = (name: string): Write => ({
  _tag: "put",
  table: "t",
  key: [name],
  value: new TextEncoder().encode(name)
})

const turn = (): Promise<void> =>
  new Promise((resolve) => {
    setImmediate(resolve)
  })

const until = async (holds: () => boolean): Promise<void> => {
  while (!holds()) await turn()
}

const gate = (): { readonly opened: Promise<void>; readonly open: () => void } => {
  let open!: () => void
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { opened, open }
}

beforeEach(() => {
  disk.calls = []
  disk.beforeBatch = undefined
  disk.beforeFlush = undefined
})

it("a commit settles after its transaction and the flush behind it", async () => {
  const store = await openLmdb({ folder: folder() })
  disk.calls = []
  const [batch, flush] = [gate(), gate()]
  disk.beforeBatch = () => batch.opened
  disk.beforeFlush = flush.opened
  let settled = false
  store.commit([put("a")], () => {
    settled = true
  })
  for (let turns = 0; turns < 5; turns++) await turn()
  expect([settled, disk.calls]).toEqual([false, []])
  batch.open()
  await until(() => disk.calls.includes("batch"))
  for (let turns = 0; turns < 5; turns++) await turn()
  expect([settled, disk.calls]).toEqual([false, ["batch", "flush asked"]])
  flush.open()
  await until(() => settled)
  await store.close()
})

it("a relaxed store asks LMDB for no flush, a full one lets LMDB sync", async () => {
  const full = await openLmdb({ folder: folder() })
  expect(disk.options?.noSync).toBe(false)
  await full.close()
  const relaxed = await openLmdb({ folder: folder(), durability: "relaxed" })
  expect(disk.options?.noSync).toBe(true)
  disk.calls = []
  await committed(relaxed, [put("a")])
  expect(disk.calls).toEqual(["batch"])
  await relaxed.close()
})

it("a transaction that LMDB refuses is a fault of its commits", async () => {
  const store = await openLmdb({ folder: folder() })
  disk.beforeBatch = () => Promise.reject(new Error("MDB_MAP_FULL: Environment mapsize limit reached"))
  await expect(committed(store, [put("a")])).rejects.toMatchObject({ reason: "full" })
  disk.beforeBatch = undefined
  await committed(store, [put("b")])
  expect([store.get("t", ["a"]), store.get("t", ["b"])?.length]).toEqual([undefined, 1])
  await store.close()
})

it("a backup begins when everything accepted before it is flushed, and holds it", async () => {
  const copy = folder()
  const restored = folder()
  const store = await openLmdb({ folder: folder() })
  const batch = gate()
  disk.beforeBatch = () => batch.opened
  store.commit([put("accepted")], () => {})
  const backup = store.backup(copy)
  await until(() => existsSync(join(copy, "blobs")))
  for (let turns = 0; turns < 20; turns++) await turn()
  batch.open()
  await backup
  const calls = disk.calls.filter((call) => call !== "close")
  expect([calls.slice(0, 2), calls.at(-1)]).toEqual([["batch", "flush asked"], "backup"])
  await store.close()
  await restore({ backup: copy, folder: restored })
  const again = await openLmdb({ folder: restored })
  expect(again.get("t", ["accepted"])?.length).toBe(8)
  await again.close()
})

it("closing waits for what was accepted in the same turn", async () => {
  const at = folder()
  const store = await openLmdb({ folder: at })
  const flush = gate()
  disk.beforeFlush = flush.opened
  disk.calls = []
  let fault: unknown = "not settled"
  store.commit([put("last")], (outcome) => {
    fault = outcome
    disk.calls.push("settled")
  })
  const closed = store.close()
  await until(() => disk.calls.includes("flush asked"))
  // Long enough for a close that does not wait.
  await new Promise((resolve) => setTimeout(resolve, 100))
  flush.open()
  await closed
  expect(fault).toBeUndefined()
  expect(disk.calls.filter((call) => call !== "batch")).toEqual(["flush asked", "settled", "close"])
  const again = await openLmdb({ folder: at })
  expect(again.get("t", ["last"])?.length).toBe(4)
  await again.close()
})

it("a folder that was refused is not left locked", async () => {
  const at = folder()
  const store = await openLmdb({ folder: at })
  await store.close()
  const { open } = await import("lmdb")
  const raw = open({ path: join(at, "store.lmdb"), encoding: "binary" })
  await raw.put(["m", "schema"] as never, Buffer.from(String(schemaVersion + 1)))
  await raw.close()
  await expect(openLmdb({ folder: at })).rejects.toMatchObject({ reason: "newer-schema" })
  await expect(openLmdb({ folder: at })).rejects.toMatchObject({ reason: "newer-schema" })
})
