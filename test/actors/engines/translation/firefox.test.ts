import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect } from "effect"
import { afterEach, describe, expect, it } from "vitest"
import { firefox } from "../../../../actors/engines/translation/firefox.ts"
import { hosted, type Hosted } from "../hosted.ts"

let host: Hosted | undefined
let folder = ""

afterEach(async () => {
  await host?.close()
  rmSync(folder, { recursive: true, force: true })
})

const models = (files: Readonly<Record<string, ReadonlyArray<string>>>) => {
  folder = mkdtempSync(join(tmpdir(), "models-"))
  for (const [pair, names] of Object.entries(files)) {
    mkdirSync(join(folder, pair))
    for (const name of names) writeFileSync(join(folder, pair, name), Buffer.alloc(4_096, name))
  }
  host = hosted("real")
  return firefox({ system: host.system, starts: host.starts, folder })
}

const ask = (engine: ReturnType<typeof models>, source: string, target: string) =>
  Effect.runPromise(
    Effect.result(
      engine.translate({ source, target, segments: [{ units: [{ _tag: "text", text: "hello" }] }] })
    )
  )

describe("Firefox models", () => {
  it("no folder, or folders without the two files: not ready, in one line", () => {
    host = hosted("real")
    expect(firefox({ ...host, folder: "/nowhere" }).readiness()).toEqual({
      ready: false,
      reason: "no models in /nowhere"
    })
    expect(models({ "en-es": ["model.bin"], notes: ["model.bin", "vocab.spm"] }).pairs()).toEqual([])
  })
  it("pairs are the folders' names, others pivot through English only", () => {
    const files = ["model.bin", "vocab.spm"]
    const engine = models({ "en-es": files, "de-en": files, "es-fr": files })
    expect(
      engine
        .pairs()
        .map((pair) => pair.join(">"))
        .toSorted()
    ).toEqual(["de>en", "de>es", "en>es", "es>fr"])
    expect([
      engine.supports("de", "es-419"),
      engine.supports("en", "fr"),
      engine.supports("en", "es")
    ]).toEqual(["pivot", false, "direct"])
  })
  it("garbage files: a clean fault, then not ready and no pair", async () => {
    const engine = models({ "en-es": ["model.bin", "vocab.spm"] })
    expect(engine.readiness()).toEqual({ ready: true })
    expect(await ask(engine, "en", "es")).toMatchObject({
      failure: { reason: "unavailable", detail: expect.stringContaining("en-es") }
    })
    expect(engine.pairs()).toEqual([])
    expect(engine.readiness()).toEqual({ ready: false, reason: `the models in ${folder} do not load` })
    expect(await ask(engine, "en", "es")).toMatchObject({ failure: { reason: "unsupported" } })
  })
})
