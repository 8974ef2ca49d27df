/** The laws of documents 12 over real files: identity, locality, completeness, validity, determinism. */
import { execFileSync } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import mammoth from "mammoth"
import { SaxesParser } from "saxes"
import { describe, expect, it } from "vitest"
import * as XLSX from "xlsx"
import { XmlScanner } from "../../../protocols/formats/xml-scan.ts"
import { Zip } from "../../../protocols/formats/zip.ts"
import { changed, extracted, identity, latin, pseudo, sample, sampleFiles } from "./pseudo.ts"

const inPlace = ["docx", "pptx", "xlsx", "idml", "html", "srt", "mif", "dita"]

const files = inPlace.flatMap((folder) =>
  sampleFiles(folder).map((name) => [`${folder}/${name}`, folder] as const)
)

const packages = files.filter(([, folder]) => ["docx", "pptx", "xlsx", "idml"].includes(folder))

const xmlParts = (bytes: Buffer): ReadonlyArray<readonly [string, string]> => {
  const zip = new Zip(bytes)
  return zip.entries
    .filter(({ name }) => /\.(?:xml|rels)$/.test(name))
    .map(({ name }) => [name, zip.part(name)!.toString("utf8")])
}

/** The tokens of a part without its text: what must stay as it is. */
const skeleton = (text: string): string => {
  const scan = new XmlScanner(text)
  const out: Array<string> = []
  while (scan.next())
    if (scan.kind !== "text")
      out.push(
        scan.raw
          .replace(' xml:space="preserve"', "")
          .replace(/\s(?:descr|title|prompt|promptTitle|error|errorTitle)="[^"]*"/g, "")
      )
  return out.join("")
}

const wellFormed = (text: string): void => {
  const parser = new SaxesParser()
  parser.on("error", (error) => {
    throw error
  })
  parser.write(text).close()
}

const clone = (bytes: Buffer): Buffer => Buffer.from(bytes)

describe("R1 identity: the same bytes come back", () => {
  it.each(files)("%s", async (path, folder) => {
    const bytes = sample(path)
    expect((await changed(folder, clone(bytes), identity)).equals(bytes)).toBe(true)
  })
})

describe("R2, R4, R5: only text changes, parts stay well-formed, twice the same", () => {
  it.each(packages)("%s", async (path, folder) => {
    const bytes = sample(path)
    const rebuilt = await changed(folder, clone(bytes), pseudo)
    expect(rebuilt.equals(await changed(folder, clone(bytes), pseudo))).toBe(true)
    const before = new Map(xmlParts(bytes))
    const after = xmlParts(rebuilt)
    expect(after.map(([name]) => name)).toEqual([...before.keys()])
    for (const [name, text] of after) {
      if (text === before.get(name)) continue
      wellFormed(text)
      if (path !== "xlsx/japanese_phonetic_run_property.xlsx")
        expect(skeleton(text), name).toBe(skeleton(before.get(name)!))
    }
    if (folder === "idml") expect(rebuilt.toString("latin1", 30, 38)).toBe("mimetype")
  })
})

describe("R3 completeness: an independent reader finds no source word", () => {
  it.each(sampleFiles("docx"))("docx/%s by mammoth", async (name) => {
    const bytes = sample(`docx/${name}`)
    const text = async (buffer: Buffer): Promise<string> => (await mammoth.extractRawText({ buffer })).value
    const before = latin(await text(bytes))
    const after = latin(await text(await changed("docx", clone(bytes), pseudo)))
    expect(
      after
        .filter((word) => before.includes(word))
        .filter((word) => !/^(?:http|www|com|org|htm|html)/.test(word))
        .slice(0, 5)
    ).toEqual([])
  })
  it.each(sampleFiles("xlsx"))(
    "xlsx/%s by another reader: same grid and formulas, other texts",
    async (name) => {
      const bytes = sample(`xlsx/${name}`)
      const rebuilt = await changed("xlsx", clone(bytes), pseudo)
      const grid = (buffer: Buffer) => {
        const book = XLSX.read(buffer, { cellFormula: true })
        return Object.entries(book.Sheets).map(([sheet, cells]) => [
          sheet,
          Object.entries(cells).map(([at, cell]) => [at, cell.f, cell.t])
        ])
      }
      expect(grid(rebuilt)).toEqual(grid(bytes))
    }
  )
  it.each(["pptx", "docx"].flatMap((folder) => sampleFiles(folder).map((name) => `${folder}/${name}`)))(
    "%s: every w:t and a:t of its text parts",
    async (path) => {
      const rebuilt = await changed(path.split("/")[0]!, sample(path), pseudo)
      const left = xmlParts(rebuilt)
        .filter(([name]) =>
          /^(?:word|ppt)\/(?:document|header|footer|footnotes|endnotes|comments|slides\/|notesSlides\/|diagrams\/data)/.test(
            name
          )
        )
        .flatMap(([, text]) =>
          [
            ...text
              .replace(
                /<w:del [\s\S]*?<\/w:del>|<m:oMath>[\s\S]*?<\/m:oMath>|<a:fld [\s\S]*?<\/a:fld>|<w:ruby>[\s\S]*?<\/w:ruby>/g,
                ""
              )
              .matchAll(/<(?:w|a):t(?: [^>]*)?>([^<]*)</g)
          ].flatMap(([, words]) => latin(words!.replace(/&\w+;|\S+@\S+|www\.\S+|https?:\S+/g, " ")))
        )
      expect(
        left.filter((word) => !/^(?:http|www|com|org|htm|html|[A-Z]{3})/.test(word)).slice(0, 5)
      ).toEqual([])
    }
  )
})

describe("xliff: targets are created, the rest is as it was", () => {
  it.each(sampleFiles("xliff"))("%s", async (name) => {
    const bytes = sample(`xliff/${name}`)
    const rebuilt = (await changed("xlf", clone(bytes), pseudo)).toString("utf8")
    const source = bytes.toString("utf8")
    wellFormed(rebuilt)
    const bare = (text: string): string =>
      text
        .replace(/\s*<((?:[\w]+:)?)target\b[^>]*?(?:\/>|>[\s\S]*?<\/\1target>)/g, "")
        .replace(/\s(?:target-language|trgLang|state|subState|approved)="[^"]*"/g, "")
    const withoutAlternatives = (text: string): string =>
      bare(text.replace(/<alt-trans[\s\S]*?<\/alt-trans>|<mtc:matches[\s\S]*?<\/mtc:matches>/g, ""))
    expect(withoutAlternatives(rebuilt)).toBe(withoutAlternatives(source))
    const { segments } = await extracted("xlf", clone(bytes))
    if (segments.length > 0) expect(rebuilt).toMatch(/<(?:\w+:)?target/)
  })
})

it("a translated package is what other programs read: xmllint", async () => {
  const folder = mkdtempSync(join(tmpdir(), "troupe-xml-"))
  try {
    for (const name of ["docx/sample.docx", "pptx/sample.pptx"])
      for (const [part, text] of xmlParts(await changed(name.split("/")[0]!, sample(name), pseudo))) {
        const file = join(folder, part.replaceAll("/", "_"))
        writeFileSync(file, text)
        try {
          execFileSync("xmllint", ["--noout", file], { stdio: "pipe" })
        } catch (cause) {
          if ((cause as NodeJS.ErrnoException).code === "ENOENT") {
            console.warn("xmllint is not installed: not checked")
            return
          }
          throw cause
        }
      }
  } finally {
    rmSync(folder, { recursive: true })
  }
})
