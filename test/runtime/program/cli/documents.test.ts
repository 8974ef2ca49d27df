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

it("G-15: a mistyped file name, a folder or another file is refused by name, and text is text", async () => {
  const good = file("d.txt", "hello\n")
  const other = file("letter.zzz", "hello\n")
  for (const [words, said] of [
    [[join(folder, "nowhere.txt")], "no such file"],
    [["nowhere.docx"], "no such file"],
    [["./nowhere"], "no such file"],
    [[folder], "is a folder"],
    [[other], "is a file of no known document format"],
    [[good, "hello"], "documents and text are translated apart: hello is no file"]
  ] as const) {
    expect(() => areDocuments(words), words.join(" ")).toThrow(said)
    const { code, out } = await troupe("translate", ...words, "--to", "DE", "--from", "EN")
    expect([code, out], words.join(" ")).toEqual([1, ""])
  }
  const text = await troupe("translate", "--text", "nowhere.docx", "--to", "DE", "--from", "EN")
  expect(text).toEqual({ code: 0, out: "NOWHERE.DOCX\n" })
})

it("what is no file is text; the bar", () => {
  expect(areDocuments([join(folder, "a.txt")])).toBe(true)
  for (const text of ["hello there.txt", "and/or", "...", "hello ./there", "x".repeat(70_000)])
    expect(areDocuments([text]), text.slice(0, 20)).toBe(false)
  expect([bar(0, 4), bar(0.5, 4), bar(1, 4)]).toEqual(["[----]   0 %", "[##--]  50 %", "[####] 100 %"])
})
