import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { execFile } from "node:child_process"
import { afterAll, beforeAll, expect, it } from "vitest"
import { areDocuments, bar } from "../../../../runtime/program/cli/documents.ts"
import { DocumentWorld } from "../../../protocols/translation/documents/document-world.ts"

const folder = mkdtempSync(join(tmpdir(), "troupe-cli-documents-"))
const program = new URL("../../../../runtime/bin/troupe.mjs", import.meta.url).pathname
let world: DocumentWorld

beforeAll(async () => {
  world = await DocumentWorld.open({ change: (text) => text.toUpperCase() })
})

afterAll(async () => {
  await world.close()
  rmSync(folder, { recursive: true })
})

const troupe = (...words: ReadonlyArray<string>): Promise<{ readonly code: number; readonly out: string }> =>
  new Promise((resolve) => {
    execFile(
      process.execPath,
      [program, "--url", world.url, "--key", world.secret, ...words],
      { cwd: folder, timeout: 30_000 },
      (cause, out) => resolve({ code: cause === null ? 0 : Number(cause.code), out })
    )
  })

const file = (name: string, content: string): string => {
  const path = join(folder, name)
  writeFileSync(path, content)
  return path
}

it("translate FILE…: results beside their sources, one line each; a bad one is told and makes the exit code 1", async () => {
  const good = file("a.txt", "hello there\n")
  const other = file("b.json", '{"a":"hello"}')
  const bad = file("c.json", "{")
  const { code, out } = await troupe("translate", good, other, "--to", "DE", "--from", "EN")
  expect([code, out]).toEqual([
    0,
    `${good} -> ${join(folder, "a.de.txt")}\n${other} -> ${join(folder, "b.de.json")}\n`
  ])
  expect(readFileSync(join(folder, "a.de.txt"), "utf8")).toBe("HELLO THERE\n")
  const failed = await troupe("--json", "translate", bad, "--to", "DE", "--from", "EN")
  expect(failed.code).toBe(1)
  expect(JSON.parse(failed.out)[0].error).toMatch(/not valid JSON/)
})

it("what is no file is text; the bar", () => {
  expect(areDocuments([join(folder, "a.txt")])).toBe(true)
  expect(areDocuments(["hello there.txt"])).toBe(false)
  expect([bar(0, 4), bar(0.5, 4), bar(1, 4)]).toEqual(["[----]   0 %", "[##--]  50 %", "[####] 100 %"])
})
