/** SIGKILL in a storm of writes: every acknowledged one is there, indexes agree with rows, webhooks arrive.
 *  Source: docs/spec/store.md, sections 9.2, 10. */
import { mkdtempSync, rmSync } from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it } from "vitest"
import { openLmdb } from "../../../storage/lmdb.ts"
import { buildChild, startChild } from "../../child.ts"
import { disagreements } from "./engine/index-check.ts"
import { StoreHarness } from "./harness.ts"

const rounds = Number(process.env["TROUPE_CRASH_ROUNDS"] ?? 25)

it("STORE-63 STORE-64 kill -9 during a storm of creates and updates: acknowledged is there, indexes agree, webhooks are delivered", async () => {
  const delivered = new Set<number>()
  const ids = new Set<string>()
  let doubled = 0
  const hook = createServer((request, response) => {
    let text = ""
    request.on("data", (part) => {
      text += String(part)
    })
    request.on("end", () => {
      const delivery = String(request.headers["x-store-delivery"])
      if (ids.has(delivery)) doubled++
      ids.add(delivery)
      delivered.add(JSON.parse(text).product.id)
      response.end()
    })
  }).listen(0, "127.0.0.1")
  await new Promise((resolve) => hook.once("listening", resolve))
  const url = `http://127.0.0.1:${(hook.address() as AddressInfo).port}/`
  const folder = mkdtempSync(join(tmpdir(), "troupe-store-"))
  const program = await buildChild("test/protocols/store/store-child.ts")
  const acknowledged = new Map<number, { version: number; number: string }>()
  let seed = 7
  try {
    for (let round = 0; round < rounds; round++) {
      const child = startChild(program, [folder, String(round), url, "storm"])
      await child.line(/^\d+ 1/)
      seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff
      await new Promise((resolve) => setTimeout(resolve, (seed >> 8) % 40))
      child.process.kill("SIGKILL")
      await child.exited
      for (const line of child.lines) {
        const [id, version, number] = line.split(" ") as [string, string?, string?]
        if (number !== undefined && Number(version) > (acknowledged.get(Number(id))?.version ?? 0))
          acknowledged.set(Number(id), { version: Number(version), number })
      }
    }
    const last = startChild(program, [folder, "last", url, "calm"])
    await last.line(/^empty/)
    last.process.kill("SIGKILL")
    await last.exited
    const store = await openLmdb({ folder })
    const {
      shop: { engine }
    } = new StoreHarness({}, store)
    expect(acknowledged.size).toBeGreaterThan(rounds)
    for (const [id, { version, number }] of acknowledged) {
      const row = engine.get("products", id)
      expect(row?.version).toBeGreaterThanOrEqual(version)
      if (row!.version === version) expect(row!.values["item_number"]).toBe(number)
    }
    expect(disagreements(engine)).toEqual([])
    expect([...acknowledged.keys()].filter((id) => !delivered.has(id))).toEqual([])
    expect(await store.check()).toMatchObject({ ok: true })
    await store.close()
    expect(doubled).toBeLessThanOrEqual(rounds + 1)
  } finally {
    hook.close()
    rmSync(folder, { recursive: true, force: true })
  }
}, 120_000)
