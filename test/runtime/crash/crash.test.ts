import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it } from "vitest"
import { packing } from "../../../storage/store.ts"
import { openLmdb } from "../../../storage/lmdb.ts"
import { buildChild, startChild } from "../../child.ts"
import { Ledger, ledgers } from "./ledger.ts"

/** More by TROUPE_CRASH_ROUNDS, for a soak. */
const rounds = Number(process.env["TROUPE_CRASH_ROUNDS"] ?? 200)

it(`kill -9 in a loop while durable asks run: every acknowledged event is there, none twice`, async () => {
  const folder = mkdtempSync(join(tmpdir(), "troupe-crash-"))
  const program = await buildChild("test/runtime/crash/ledger.ts")
  const acknowledged = new Map<string, { ledger: string; count: number }>()
  let seed = 7
  for (let round = 0; round < rounds; round++) {
    const child = startChild(program, [folder, String(round)])
    await child.line(/^l/)
    seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff
    await new Promise((resolve) => setTimeout(resolve, (seed >> 8) % 25))
    child.process.kill("SIGKILL")
    await child.exited
    for (const line of child.lines) {
      const [ledger, count, entry] = line.split(" ") as [string, string, string | undefined]
      if (entry !== undefined) acknowledged.set(entry, { ledger, count: Number(count) })
    }
  }
  const store = await openLmdb({ folder })
  const { unpack } = packing(Ledger.event)
  const found = new Map<string, { ledger: string; count: number }>()
  let events = 0
  for (let i = 0; i < ledgers; i++)
    for (const { seq, event } of store.readJournal("ledger", `l${i}`, 0)) {
      events++
      found.set(unpack(event).entry, { ledger: `l${i}`, count: seq })
    }
  expect(found.size).toBe(events)
  expect(acknowledged.size).toBeGreaterThan(rounds)
  for (const [entry, where] of acknowledged) expect(found.get(entry)).toEqual(where)
  expect(await store.check()).toMatchObject({ ok: true, faults: [] })
  await store.close()
  rmSync(folder, { recursive: true, force: true })
}, 300_000)
