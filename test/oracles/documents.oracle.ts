/** Documents 12, R4: a translated file is what other programs open. LibreOffice makes a PDF of it and the
 *  words are in there, qpdf finds no fault, poppler reads the translation and not the source, xmllint finds
 *  well-formed XML. Each program is a process of its own; one that is missing is said in a visible line. */
import { execFileSync, spawnSync } from "node:child_process"
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { plainOf } from "../../protocols/formats/marks.ts"
import { Zip } from "../../protocols/formats/zip.ts"
import { pdfOf } from "../protocols/formats/build.ts"
import { changed, extracted, sample, sampleFiles } from "../protocols/formats/pseudo.ts"

const has = (program: string): boolean => {
  const there = spawnSync(program, ["--version"], { stdio: "ignore" }).error === undefined
  if (!there) console.warn(`${program} is not installed: not checked`)
  return there
}

const programs = {
  soffice: has("soffice"),
  qpdf: has("qpdf"),
  pdftotext: has("pdftotext"),
  xmllint: has("xmllint")
}

const folder = mkdtempSync(join(tmpdir(), "troupe-oracles-"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Latin letters stay Latin, so that any font has them, and no word stays what it was. */
const turned = (text: string): string =>
  text.replace(/[a-z]/gi, (letter) => {
    const first = letter <= "Z" ? 65 : 97
    return String.fromCharCode(((letter.charCodeAt(0) - first + 13) % 26) + first)
  })

const wordsOf = (text: string): ReadonlyArray<string> => text.match(/\b[A-Za-z]{4,}\b/g) ?? []

const textOfPdf = (file: string): string =>
  execFileSync("pdftotext", ["-enc", "UTF-8", file, "-"], { encoding: "utf8", maxBuffer: 1e8 })

const pagesOf = (file: string): number =>
  Number(/^Pages:\s+(\d+)/m.exec(execFileSync("pdfinfo", [file], { encoding: "utf8" }))![1])

const toPdf = (files: ReadonlyArray<string>, out: string): void => {
  execFileSync(
    "soffice",
    [
      `-env:UserInstallation=file://${join(folder, "profile")}`,
      "--headless",
      "--convert-to",
      "pdf",
      "--outdir",
      out,
      ...files
    ],
    { stdio: "pipe", timeout: 280_000 }
  )
}

/** How many of the words stand in a text. */
const share = (words: ReadonlySet<string>, text: string): number => {
  const there = new Set(wordsOf(text))
  return [...words].filter((word) => there.has(word)).length
}

const office = ["docx", "pptx", "xlsx", "html"]

describe.runIf(programs.soffice && programs.pdftotext).each(office)(
  "LibreOffice opens a translated %s",
  (kind) => {
    const names = sampleFiles(kind)
    const at = (which: string, name: string): string =>
      join(folder, which, `${name.replace(/\.\w+$/, "")}.pdf`)
    beforeAll(async () => {
      for (const [which, change] of [
        [`${kind}-source`, (text: string) => text],
        [`${kind}-made`, turned]
      ] as const) {
        mkdirSync(join(folder, which))
        const files: Array<string> = []
        for (const name of names) {
          files.push(join(folder, which, name))
          writeFileSync(files.at(-1)!, await changed(kind, sample(`${kind}/${name}`), change))
        }
        toPdf(files, join(folder, which))
      }
    })
    it.each(names)("%s", async (name) => {
      const source = at(`${kind}-source`, name)
      const converted = at(`${kind}-made`, name)
      expect(existsSync(converted), "a PDF was made").toBe(existsSync(source))
      if (!existsSync(source)) {
        console.warn(`LibreOffice does not open ${name} as it was`)
        return
      }
      const { segments } = await extracted(kind, sample(`${kind}/${name}`))
      const all = segments.flatMap(({ text }) => wordsOf(plainOf(text)))
      const words = new Set(all)
      const before = share(words, textOfPdf(source))
      const after = share(new Set(all.map(turned)), textOfPdf(converted))
      console.log(
        `${kind}/${name}: words on its pages ${before} before, ${after} after; pages ${pagesOf(source)}, ${pagesOf(converted)}`
      )
      expect(after).toBeGreaterThanOrEqual(Math.floor(before * 0.9))
      expect(Math.abs(pagesOf(converted) - pagesOf(source))).toBeLessThanOrEqual(
        Math.max(1, pagesOf(source) * 0.2)
      )
    })
  }
)

describe.runIf(programs.qpdf && programs.pdftotext)("a translated pdf", () => {
  it.each([
    ["plain pages", 3, 0],
    ["a turned page", 1, 90],
    ["many pages", 40, 0]
  ] as const)("%s: qpdf finds no fault, poppler reads the translation alone", async (name, count, turn) => {
    const lines = ["The quick brown fox jumps over the lazy dog", "Another line that stands below"]
    const source = await pdfOf(
      Array.from({ length: count }, () => lines.map((text, i) => ({ text, y: 700 - i * 40, turn: 0 }))),
      (doc) => {
        if (turn !== 0)
          for (const page of doc.getPages()) page.setRotation({ type: "degrees", angle: turn } as any)
      }
    )
    const file = join(folder, `${name.replaceAll(" ", "-")}.pdf`)
    writeFileSync(file, await changed("pdf", source, turned))
    const checked = spawnSync("qpdf", ["--check", file], { encoding: "utf8" })
    expect([checked.status, checked.stdout.match(/WARNING.*/g) ?? [], checked.stderr]).toEqual([0, [], ""])
    const read = textOfPdf(file)
    const words = wordsOf(lines.join(" "))
    expect(words.filter((word) => !read.includes(turned(word)))).toEqual([])
    expect(words.filter((word) => read.includes(word))).toEqual([])
    expect(pagesOf(file)).toBe(count)
  })
  it("turned into docx: LibreOffice opens it", async () => {
    if (!programs.soffice) return
    const source = await pdfOf([[{ text: "The quick brown fox jumps" }]])
    const extraction = await extracted("pdf", source, { convertTo: "docx" })
    const file = join(folder, "converted.docx")
    writeFileSync(file, await extraction.rebuild((id) => turned(extraction.segments[id]!.text)))
    toPdf([file], folder)
    expect(textOfPdf(join(folder, "converted.pdf"))).toContain(turned("quick"))
  })
})

describe.runIf(programs.xmllint)("xmllint finds well-formed", () => {
  const lint = (name: string, bytes: Buffer): void => {
    const file = join(folder, "part.xml")
    writeFileSync(file, bytes)
    const { status, stderr } = spawnSync("xmllint", ["--noout", "--nonet", file], { encoding: "utf8" })
    // What is said of names and entities of a DTD that is not read is no fault of form.
    expect(
      status === 0
        ? ""
        : stderr
            .split("\n")
            .filter((line) => /error/.test(line) && !/Entity '\w+' not defined/.test(line))
            .join("\n"),
      name
    ).toBe("")
  }
  it.each(["xliff", "dita"].flatMap((kind) => sampleFiles(kind).map((name) => [kind, name] as const)))(
    "%s/%s",
    async (kind, name) =>
      lint(name, await changed(kind === "xliff" ? "xlf" : kind, sample(`${kind}/${name}`), turned))
  )
  it("an xml with a DOCTYPE", async () =>
    lint(
      "xml",
      await changed(
        "xml",
        Buffer.from(
          '<!DOCTYPE a [<!ENTITY b "c">]><a>some words &b; & more</a>'.replace("& more", "&amp; more")
        ),
        turned
      )
    ))
  it.each(
    ["docx", "pptx", "xlsx", "idml"].flatMap((kind) => sampleFiles(kind).map((name) => [kind, name] as const))
  )("%s/%s, every part", async (kind, name) => {
    const before = new Zip(sample(`${kind}/${name}`))
    const after = new Zip(await changed(kind, sample(`${kind}/${name}`), turned))
    for (const { name: part } of after.entries)
      if (/\.(?:xml|rels)$/.test(part) && !after.part(part)!.equals(before.part(part)!))
        lint(`${name} ${part}`, after.part(part)!)
  })
})
