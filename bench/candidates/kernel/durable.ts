/** Measures asks that are answered when their event is on disk, with a fixed number in flight. The floor puts
 *  the same bytes into LMDB and waits for the flush. */
import { Context } from "effect"
import { mkdtempSync, rmSync } from "node:fs"
import { createRequire } from "node:module"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { ActorSystem } from "../../../runtime/registry.ts"
import { openLmdb } from "../../../storage/lmdb.ts"
import { counter } from "./counter.ts"
import { concurrent, type Work } from "./work.ts"

const require = createRequire(import.meta.url)

const temporaryFolder = (): string => {
  const folder = mkdtempSync(join(tmpdir(), "troupe-bench-"))
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }))
  return folder
}

const floor = (width: number): Work => {
  const db = (require("lmdb") as typeof import("lmdb")).open<Buffer, any>({
    path: join(temporaryFolder(), "raw.lmdb"),
    encoding: "binary"
  })
  const value = Buffer.alloc(100, 7)
  let seq = 0
  return concurrent(width, async (i) => {
    await db.put(["j", "counter", `a${i % width}`, seq++], value)
    await db.flushed
  })
}

const troupe = async (width: number): Promise<Work> => {
  const Durable = counter("journal")
  const system = new ActorSystem({ store: await openLmdb({ folder: temporaryFolder() }), nowMs: Date.now })
  system.host(Durable, Context.empty())
  const refs = Array.from({ length: width }, (_, i) => system.ref(Durable, `a${i}`))
  const pad = { pad: "x".repeat(80) }
  return concurrent(
    width,
    (i) =>
      new Promise((answer) => {
        refs[i % width]!.askNow("Add", pad, answer)
      })
  )
}

export const durable = (candidate: string, width: number): Work | Promise<Work> =>
  candidate === "floor" ? floor(width) : troupe(width)
