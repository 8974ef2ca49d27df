/** Documents, section 11: every limit and bad input by its id, through the service as a client meets it. U:
 *  refused at upload, S: the job's error, OK: done. */
import { Effect } from "effect"
import { deflateRawSync } from "node:zlib"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { Zip } from "../../../../protocols/formats/zip.ts"
import { XmlScanner } from "../../../../protocols/formats/xml-scan.ts"
import { docxOf, docxParts, mainPart, p, pptxOf, w, xlsxOf, zipOf } from "../../formats/build.ts"
import { TmxFault, TmxReader } from "../../../../protocols/formats/tmx.ts"
import { sample } from "../../formats/pseudo.ts"
import { DocumentWorld } from "./document-world.ts"

let world: DocumentWorld

/** Upper case translates, but for texts that tests name. */
let answers: Record<string, string> = {}

const change = (text: string): string => answers[text] ?? text.toUpperCase()

beforeAll(async () => {
  world = await DocumentWorld.open({ change })
})

afterAll(() => world.close())

const outcome = async (
  name: string,
  content: string | Uint8Array,
  fields: Record<string, string> = {}
): Promise<string> => {
  const result = await world.translate(name, content, fields)
  return result.at === "OK"
    ? "OK"
    : `${result.at} ${result.status === 200 || result.status === 400 ? "" : `${result.status} `}${result.message}`
}

const translatedBytes = async (
  name: string,
  content: string | Uint8Array,
  fields: Record<string, string> = {}
): Promise<Buffer> => {
  const result = await world.translate(name, content, fields)
  if (result.at !== "OK") throw new Error(`${result.at} ${result.message}`)
  return result.bytes
}

const text = async (...args: Parameters<typeof translatedBytes>): Promise<string> =>
  (await translatedBytes(...args)).toString("utf8")

const part = (bytes: Buffer, name = mainPart): string => new Zip(bytes).part(name)!.toString("utf8")
const word = (body: string): Promise<string> =>
  translatedBytes("a.docx", docxOf(body)).then((bytes) => part(bytes))

/** Every occurrence of these bytes. */
const patched = (
  bytes: Buffer,
  find: Buffer,
  put: Buffer,
  which: "first" | "last" | "all" = "all"
): Buffer => {
  const out = Buffer.from(bytes)
  const places: Array<number> = []
  for (let at = out.indexOf(find); at >= 0; at = out.indexOf(find, at + 1)) places.push(at)
  const chosen = { all: places, first: places.slice(0, 1), last: places.slice(-1) }[which]
  for (const at of chosen) put.copy(out, at)
  return out
}

const simple = docxOf(p("Some words here"))

const u16 = (value: number): Buffer => {
  const bytes = Buffer.alloc(2)
  bytes.writeUInt16LE(value)
  return bytes
}

/** Offset of a record of the central directory, by part. */
const recordOf = (bytes: Buffer, name: string): number => new Zip(bytes).get(name)!.recordAt

const formats = [
  "docx",
  "pptx",
  "xlsx",
  "pdf",
  "html",
  "txt",
  "xlf",
  "srt",
  "idml",
  "xml",
  "json",
  "dita",
  "mif",
  "jpg",
  "png"
]

describe("names and kinds", () => {
  it("DOC-1 an empty file, any format: U empty", async () => {
    for (const format of formats)
      expect(await outcome(`a.${format}`, ""), format).toMatch(/^U Invalid file: empty/)
  })
  it.each(["a", "a.exe", "a.docx.zip", ""])("DOC-2 %s: U unsupported file extension", async (name) =>
    expect(await outcome(name || ".", "words")).toMatch(/^U Invalid file: unsupported file extension/)
  )
  it("DOC-3 upper case, blanks and umlauts, RFC 5987, a name of 300 characters", async () => {
    expect(await outcome("a.DOCX", simple)).toBe("OK")
    const spaced = await world.translate("ä ü.docx", simple)
    expect(spaced.at === "OK" && spaced.headers.get("content-disposition")).toContain(
      "filename*=UTF-8''%C3%A4%20%C3%BC.docx"
    )
    const boundary = "xyz"
    const body = `--${boundary}\r\nContent-Disposition: form-data; name="target_lang"\r\n\r\nDE\r\n--${boundary}\r\nContent-Disposition: form-data; name="file"; filename*=UTF-8''%e2%82%ac%20rates.txt\r\n\r\nwords\r\n--${boundary}--\r\n`
    const answer = await fetch(`${world.url}/v2/document`, {
      method: "POST",
      headers: {
        authorization: `DeepL-Auth-Key ${world.secret}`,
        "content-type": `multipart/form-data; boundary=${boundary}`
      },
      body
    })
    const handle = (await answer.json()) as any
    await world.ended(handle)
    expect((await world.download(handle)).headers.get("content-disposition")).toContain(
      "%E2%82%AC%20rates.txt"
    )
    const long = await world.translate(`${"n".repeat(300)}.txt`, "words")
    expect(long.at === "OK" && long.headers.get("content-disposition")).toBe(
      `attachment; filename="${"n".repeat(200)}.txt"`
    )
  })
  it("DOC-4 a name with a path, line breaks, quotes, NUL", async () => {
    const result = await world.translate('../../etc/x"y\r\n\u0000z.txt', "words")
    expect(result.at === "OK" && result.headers.get("content-disposition")).toMatch(
      /^attachment; filename="x_y(?:%0D%0A|[a-zA-Z0-9%_])*z?\.txt"/
    )
  })
  it("DOC-5 another kind inside: U mismatch; html named txt is text", async () => {
    expect(await outcome("a.docx", sample("pptx/sample.pptx"))).toMatch(/^U .*does not match/)
    expect(await outcome("a.jpg", Buffer.from("89504e470d0a1a0a0000000d49484452", "hex"))).toMatch(
      /^U .*does not match/
    )
    expect(await text("a.txt", "<p>hello</p>")).toBe("<P>HELLO</P>")
  })
  it("DOC-6 an old Word file named docx: U legacy", async () =>
    expect(
      await outcome("a.docx", Buffer.concat([Buffer.from("d0cf11e0a1b11ae1", "hex"), Buffer.alloc(600)]))
    ).toMatch(/^U .*legacy or password-protected Office file/))
  it("DOC-7 a password-protected docx: U the same", async () =>
    expect(
      await outcome(
        "a.docx",
        Buffer.concat([
          Buffer.from("d0cf11e0a1b11ae1", "hex"),
          Buffer.alloc(600),
          Buffer.from("EncryptedPackage", "utf16le")
        ])
      )
    ).toMatch(/^U .*legacy or password-protected Office file/))
})

describe("packages", () => {
  it("DOC-8 cut off in the middle: U damaged archive", async () =>
    expect(await outcome("a.docx", simple.subarray(0, simple.length >> 1))).toMatch(/^U .*damaged archive/))
  it("DOC-9 wrong CRC in the main part: S damaged archive", async () => {
    const bytes = Buffer.from(simple)
    bytes.writeUInt32LE(12_345, recordOf(bytes, mainPart) + 16)
    expect(await outcome("a.docx", bytes)).toMatch(/^S .*damaged archive/)
  })
  it("DOC-10 a zip bomb of 300 MB, 1:1000, as it is made: refused without being unpacked", async () => {
    const real = zipOf(docxParts(p("words"), { "word/bomb.xml": Buffer.alloc(300 * 1_048_576, 32) }))
    expect(real.length).toBeLessThan(400_000)
    expect(await outcome("a.docx", real)).toMatch(/^U .*too large when unpacked/)
  })
  it("DOC-10 a part that declares 300 MB: refused without being unpacked", async () => {
    const packed = deflateRawSync(Buffer.alloc(1_048_576, 32), { level: 9 })
    const bytes = zipOf(docxParts(p("words"), { "word/bomb.xml": "x" }))
    expect(packed.length).toBeLessThan(2_000)
    bytes.writeUInt32LE(300 * 1_048_576, recordOf(bytes, "word/bomb.xml") + 24)
    expect(await outcome("a.docx", bytes)).toMatch(/^U .*too large when unpacked/)
  })
  it("DOC-11 a forged size: S damaged archive, unpacking stops at what is declared", async () => {
    const bytes = docxOf(p("word ".repeat(100_000)))
    bytes.writeUInt32LE(1_000, recordOf(bytes, mainPart) + 24)
    expect(await outcome("a.docx", bytes)).toMatch(/^S .*damaged archive/)
  })
  it("DOC-12 a bomb in an embedded package is never opened", async () =>
    expect(
      await outcome(
        "a.docx",
        docxOf(p("words"), { "word/embeddings/bomb.zip": zipOf({ x: Buffer.alloc(20_000_000) }) })
      )
    ).toBe("OK"))
  it("DOC-13 overlapping entries, two of one name, names that differ: U damaged archive", async () => {
    const two = zipOf(docxParts(p("words"), { "word/aaaa.xml": "a", "word/bbbb.xml": "b" }))
    expect(await outcome("a.docx", patched(two, Buffer.from("bbbb"), Buffer.from("aaaa")))).toMatch(
      /^U .*damaged archive/
    )
    expect(await outcome("a.docx", patched(two, Buffer.from("bbbb"), Buffer.from("cccc"), "first"))).toMatch(
      /^U .*damaged archive/
    )
    const oversized = Buffer.from(two)
    oversized.writeUInt32LE(9_999, recordOf(oversized, "word/aaaa.xml") + 20)
    expect(await outcome("a.docx", oversized)).toMatch(/^U .*damaged archive/)
  })
  it.each(["../../etc/x", "/etc/passw", "a\\b\\c\\d\\e\\", "a\u0000b\u0000c\u0000de\u0000"])(
    "DOC-14 an entry named %j: U damaged archive",
    async (name) =>
      expect(await outcome("a.docx", zipOf(docxParts(p("words"), { [name]: "x" })))).toMatch(
        /^U .*damaged archive/
      )
  )
  it("DOC-15 100,000 entries, by a ZIP64 end and by a count that overflows: U too many parts", async () => {
    const bytes = manyEntries()
    expect(await outcome("a.docx", bytes)).toMatch(/^U .*too many parts/)
    const end = Buffer.from(bytes.subarray(-22))
    const narrow = Buffer.concat([bytes.subarray(0, -98), end]) // without the ZIP64 records
    end.writeUInt16LE(100_000 & 0xffff, 8)
    end.writeUInt16LE(100_000 & 0xffff, 10)
    const said = Buffer.concat([narrow.subarray(0, -22), end])
    said.writeUInt32LE(bytes.readUInt32LE(bytes.length - 98 + 48), said.length - 6)
    expect(await outcome("a.docx", said)).toMatch(/^U .*too many parts/)
  })
  it("DOC-16 ZIP64, bytes before the archive, a comment: byte-equal when nothing changes", async () => {
    const number = docxOf(p("1234"))
    const commented = Buffer.concat([number.subarray(0, -2), u16(5), Buffer.from("hello")])
    const prefixed = Buffer.concat([Buffer.from("PK before"), number])
    for (const bytes of [commented, prefixed, zip64(number)])
      expect((await translatedBytes("a.docx", bytes)).equals(bytes)).toBe(true)
    const changed = zip64(docxOf(p("some words")))
    expect(part(await translatedBytes("a.docx", changed))).toContain("SOME WORDS")
    expect(
      part(
        await translatedBytes("a.docx", Buffer.concat([Buffer.from("PK before"), docxOf(p("some words"))]))
      )
    ).toContain("SOME WORDS")
  })
  it("DOC-17 another compression, an encrypted entry: U unsupported compression", async () => {
    for (const [offset, value] of [
      [10, 14],
      [8, 1]
    ] as const) {
      const bytes = Buffer.from(simple)
      bytes.writeUInt16LE(value, recordOf(bytes, mainPart) + offset)
      expect(await outcome("a.docx", bytes)).toMatch(/^U .*unsupported compression/)
    }
  })
  it("DOC-18 no main part, no content types: U not a Word document", async () => {
    const { [mainPart]: _, ...without } = docxParts(p("words"))
    expect(await outcome("a.docx", zipOf(without))).toMatch(/^U Invalid file: not a Word document/)
    expect(await outcome("a.docx", zipOf({ "a.txt": "x" }))).toMatch(/^U Invalid file: not a Word document/)
  })
  it("DOC-19 relationships to files, addresses and themselves are never followed", async () => {
    const link = (target: string, mode = ' TargetMode="External"') =>
      `<Relationship Id="r${target.length}" Type="x" Target="${target}"${mode}/>`
    const rels = `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">${link("file:///etc/passwd")}${link("http://127.0.0.1:9/")}${link("document.xml", "")}</Relationships>`
    const bytes = await translatedBytes(
      "a.docx",
      docxOf(p("words"), { "word/_rels/document.xml.rels": rels })
    )
    expect(part(bytes, "word/_rels/document.xml.rels")).toBe(rels)
  })
  it("DOC-20 a main part that is not well-formed: S with part and offset", async () =>
    expect(await outcome("a.docx", docxOf(`<w:document ${w}><w:body><w:p></w:body></w:document>`))).toMatch(
      /^S .*damaged document \(word\/document\.xml offset \d+\)/
    ))
})

/** 100,000 entries: the parts of two archives in one, with a ZIP64 end that says so. */
const manyEntries = (): Buffer => {
  const halves = ["x", "y"].map((folder) =>
    zipOf({
      ...(folder === "x" ? docxParts(p("words")) : {}),
      ...Object.fromEntries(Array.from({ length: 50_000 }, (_, i) => [`${folder}/${i}`, ""]))
    })
  )
  const [locals, directories] = [
    halves.map((half) => half.subarray(0, half.readUInt32LE(half.length - 6))),
    halves.map((half) => Buffer.from(half.subarray(half.readUInt32LE(half.length - 6), -22)))
  ]
  for (let at = 0; at < directories[1]!.length; at += 46 + directories[1]!.readUInt16LE(at + 28))
    directories[1]!.writeUInt32LE(directories[1]!.readUInt32LE(at + 42) + locals[0]!.length, at + 42)
  const bytes = zip64(Buffer.concat([...locals, ...directories, halves[0]!.subarray(-22)]))
  const record = bytes.length - 98
  const last = bytes.length - 22
  const count = halves.reduce((sum, half) => sum + half.readUInt16LE(half.length - 12), 0)
  const at = locals[0]!.length + locals[1]!.length
  const size = directories[0]!.length + directories[1]!.length
  expect(count).toBeGreaterThanOrEqual(100_000)
  for (const [value, offset] of [
    [count, 24],
    [count, 32],
    [size, 40],
    [at, 48]
  ] as const)
    bytes.writeBigUInt64LE(BigInt(value), record + offset)
  bytes.writeUInt16LE(0xffff, last + 8)
  bytes.writeUInt16LE(0xffff, last + 10)
  bytes.writeUInt32LE(size, last + 12)
  return bytes
}

/** The same archive with a ZIP64 end. */
const zip64 = (bytes: Buffer): Buffer => {
  const end = bytes.length - 22
  const at = bytes.readUInt32LE(end + 16)
  const size = bytes.readUInt32LE(end + 12)
  const count = bytes.readUInt16LE(end + 10)
  const record = Buffer.alloc(56)
  const locator = Buffer.alloc(20)
  const last = Buffer.from(bytes.subarray(end))
  record.writeUInt32LE(0x06064b50, 0)
  record.writeBigUInt64LE(44n, 4)
  for (const [value, offset] of [
    [count, 24],
    [count, 32],
    [size, 40],
    [at, 48]
  ] as const)
    record.writeBigUInt64LE(BigInt(value), offset)
  locator.writeUInt32LE(0x07064b50, 0)
  locator.writeBigUInt64LE(BigInt(end), 8)
  locator.writeUInt32LE(1, 16)
  last.writeUInt32LE(0xffffffff, 16)
  return Buffer.concat([bytes.subarray(0, end), record, locator, last])
}

const bomb = `<!DOCTYPE x [<!ENTITY a "lol"><!ENTITY b "${"&a;".repeat(10)}"><!ENTITY c "${"&b;".repeat(10)}">]>`

describe("markup", () => {
  it("DOC-21 an entity bomb: references are kept in xml, a DOCTYPE is refused in Office parts", async () => {
    expect(await text("a.xml", `<?xml version="1.0"?>${bomb}<x>hello &c; there</x>`)).toBe(
      `<?xml version="1.0"?>${bomb}<x>HELLO &c; THERE</x>`
    )
    expect(
      await outcome(
        "a.xlf",
        `${bomb}<xliff version="1.2"><file><body><trans-unit id="1"><source>hi &c; you</source></trans-unit></body></file></xliff>`
      )
    ).toBe("OK")
    expect(
      await outcome("a.docx", docxOf(`${bomb}<w:document ${w}><w:body>${p("&c;")}</w:body></w:document>`))
    ).toMatch(/^S .*DOCTYPE is not allowed/)
  })
  it("DOC-21 an entity bomb in TMX: never expanded; a reference to what only a DOCTYPE declares is refused", () => {
    const read = (segment: string) => {
      const reader = new TmxReader()
      const units = reader.push(
        Buffer.from(
          `<?xml version="1.0"?>${bomb}<tmx version="1.4"><header srclang="en"/><body><tu><tuv xml:lang="en"><seg>${segment}</seg></tuv></tu></body></tmx>`
        )
      )
      return [...units, ...reader.end()]
    }
    expect(read("plain &amp; simple")).toEqual([{ variants: [{ language: "en", text: "plain & simple" }] }])
    expect(() => read("hello &c; there")).toThrow(TmxFault)
  })
  it("DOC-22 external entities and DTDs: as 21, nothing is fetched", async () => {
    const source =
      '<!DOCTYPE x SYSTEM "http://127.0.0.1:9/x.dtd" [<!ENTITY e SYSTEM "file:///etc/passwd">]><x>see &e; now</x>'
    expect(await text("a.xml", source)).toBe(source.replace("see", "SEE").replace(" now", " NOW"))
  })
  it("DOC-23 200,000 nested elements: S nested too deeply", async () =>
    expect(await outcome("a.xml", "<a>".repeat(200_000) + "</a>".repeat(200_000))).toMatch(
      /^S .*nested too deeply/
    ))
  it("DOC-24 100,000 attributes: S damaged document", async () =>
    expect(
      await outcome(
        "a.xml",
        `<a ${Array.from({ length: 100_000 }, (_, i) => `a${i}=""`).join(" ")}>words</a>`
      )
    ).toMatch(/^S .*damaged document/))
  it("DOC-25 UTF-16 with its mark is kept; UTF-16 that is only declared: S encoding", async () => {
    const utf16 = Buffer.from('\uFEFF<?xml version="1.0" encoding="UTF-16"?><a>hello</a>', "utf16le")
    expect((await translatedBytes("a.xml", utf16)).toString("utf16le")).toBe(
      '\uFEFF<?xml version="1.0" encoding="UTF-16"?><a>HELLO</a>'
    )
    expect(await outcome("a.xml", '<?xml version="1.0" encoding="UTF-16"?><a>hello</a>')).toMatch(
      /^S .*encoding/
    )
  })
  it("DOC-26 Latin-1 declared, Japanese target: numeric references", async () => {
    answers = { hello: "こんにちは" }
    expect(
      (
        await translatedBytes(
          "a.xml",
          Buffer.from('<?xml version="1.0" encoding="ISO-8859-1"?><a>hello</a>', "latin1"),
          { target_lang: "JA" }
        )
      ).toString("latin1")
    ).toBe('<?xml version="1.0" encoding="ISO-8859-1"?><a>&#12371;&#12435;&#12395;&#12385;&#12399;</a>')
  })
  it.each(["txt", "srt", "json"])("DOC-27 invalid UTF-8 in %s: S", async (format) =>
    expect(await outcome(`a.${format}`, Buffer.from([0x68, 0xc3, 0x28]))).toMatch(/^S .*not valid UTF-8/)
  )
  it("DOC-28 illegal characters from the engine are removed", async () => {
    answers = { hello: "ha\u0000l\u0001lo\uFFFE" }
    expect(await text("a.xml", "<a>hello</a>")).toBe("<a>hallo</a>")
    expect(await word(p("hello"))).toContain(">hallo<")
  })
  it("DOC-29 markup from the engine is escaped in every format", async () => {
    const evil = "<script>\"&'</script>"
    answers = { hello: evil }
    const escaped = "&lt;script&gt;\"&amp;'&lt;/script&gt;"
    expect(await text("a.xml", "<a>hello</a>")).toBe(`<a>${escaped}</a>`)
    expect(await text("a.html", '<p title="hello">hello</p>')).toBe(
      `<p title="&lt;script&gt;&quot;&amp;&#39;&lt;/script&gt;">${escaped}</p>`
    )
    expect(JSON.parse(await text("a.json", '{"a":"hello"}'))).toEqual({ a: evil })
    expect(await word(p("hello"))).toContain(escaped)
    expect(
      await text(
        "a.xlf",
        '<xliff version="1.2"><file><body><trans-unit id="1"><source>hello</source></trans-unit></body></file></xliff>'
      )
    ).toContain(`<target>${escaped}</target>`)
    expect(await text("a.mif", "<MIFFile 8.00>\n<TextFlow <Para <ParaLine <String `hello'>>>>\n")).toContain(
      "<String `<script\\>\"&\\q</script\\>'>"
    )
    answers = { hello: "a\n\n2\n00:00:01,000 --> 00:00:02,000\nb" }
    expect((await text("a.srt", "1\n00:00:01,000 --> 00:00:02,000\nhello\n")).match(/-->/g)).toHaveLength(1)
    answers = {}
  })
  it("DOC-30 text that holds markers is kept verbatim", async () => {
    expect(await text("a.txt", "see ⟦1⟧ and ⟦/1⟧")).toBe("SEE ⟦1⟧ AND ⟦/1⟧")
    expect(await text("a.xml", "<a>x \uFDD01\uFDD1 y word</a>")).toBe("<a>x \uFDD01\uFDD1 y word</a>")
  })
  it("DOC-31 an engine that drops, doubles and reorders codes: repaired, well-formed", async () => {
    const other = await DocumentWorld.open({ change }, { deps: { translate: (batch) => scrambled(batch) } })
    try {
      const result = await other.translate("a.xml", "<a>one <b>two</b> three <i>four</i> and <x/> five</a>")
      expect(result.at).toBe("OK")
      const output = result.at === "OK" ? result.bytes.toString("utf8") : ""
      expect(output.match(/<x\/>/g)).toHaveLength(1)
      const scan = new XmlScanner(output)
      while (scan.next()) expect(["a", "b", "i", "x"]).toContain(scan.name || "a")
    } finally {
      await other.close()
    }
  })
})

const scrambled = (batch: { readonly texts: ReadonlyArray<string> }) =>
  Effect.succeed({
    engine: "scrambler",
    texts: batch.texts.map((text) =>
      text
        .split(/(?=\uFDD0)/)
        .toReversed()
        .filter((_, i) => i % 4 !== 1)
        .flatMap((part) => [part, part])
        .join("")
    )
  })

describe("Word", () => {
  const run = (look: string, words: string): string => `<w:r><w:rPr>${look}</w:rPr><w:t>${words}</w:t></w:r>`
  it("DOC-32 5,000 runs of one letter: one segment", async () => {
    const before = world.asked.length
    await translatedBytes(
      "a.docx",
      docxOf(
        p(...Array.from({ length: 5_000 }, (_, i) => run('<w:lang w:val="en"/>', i % 6 === 5 ? " " : "a")))
      )
    )
    const asked = world.asked.slice(before).flatMap(({ segments }) => segments)
    expect(asked).toHaveLength(1)
    expect(asked[0]!.units).toHaveLength(1)
  })
  it("DOC-33 a text box in a table in a text box; AlternateContent: each text once, billed once", async () => {
    const box = (inner: string): string =>
      `<w:r><w:pict><w:txbxContent>${inner}</w:txbxContent></w:pict></w:r>`
    const nested = p(
      "outer text",
      box(`<w:tbl><w:tr><w:tc>${p("cell text", box(p("inner text")))}</w:tc></w:tr></w:tbl>`)
    )
    const alternate = p(
      `<w:r><mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"><mc:Choice Requires="wps">${p("same words")}</mc:Choice><mc:Fallback>${p("same words")}</mc:Fallback></mc:AlternateContent></w:r>`
    )
    const xml = await word(nested + alternate)
    for (const [words, count] of [
      ["OUTER TEXT", 1],
      ["CELL TEXT", 1],
      ["INNER TEXT", 1],
      ["SAME WORDS", 2]
    ] as const)
      expect(xml.split(words).length - 1, words).toBe(count)
    const { extracted } = await import("../../formats/pseudo.ts")
    expect((await extracted("docx", docxOf(nested + alternate))).characters).toBe(10 + 9 + 10 + 10)
  })
  it("DOC-34 only numbers: the same bytes, the minimum is billed", async () => {
    const bytes = docxOf(p("123") + p("4.5 %"))
    const result = await world.translate("a.docx", bytes)
    expect(result.at === "OK" && [result.bytes.equals(bytes), result.billed]).toEqual([true, 50_000])
  })
  it("DOC-35 tracked changes: what is inserted is translated, what is deleted is not", async () => {
    const xml = await word(
      p(
        "kept ",
        '<w:ins w:id="1"><w:r><w:t>added</w:t></w:r></w:ins>',
        '<w:del w:id="2"><w:r><w:delText>gone</w:delText></w:r></w:del>'
      )
    )
    expect(xml).toContain("ADDED")
    expect(xml).toContain("<w:delText>gone</w:delText>")
  })
  it("DOC-36 strict namespaces and odd prefixes", async () => {
    const strict =
      '<ns0:document xmlns:ns0="http://purl.oclc.org/ooxml/wordprocessingml/main"><ns0:body><ns0:p><ns0:r><ns0:t>hello</ns0:t></ns0:r></ns0:p></ns0:body></ns0:document>'
    expect(await word(strict)).toBe(strict.replace("hello", "HELLO"))
  })
  it("DOC-37 docm renamed: U mismatch; a template is fine", async () => {
    expect(
      await outcome(
        "a.docx",
        docxOf(p("words"), {}, "application/vnd.ms-word.document.macroEnabled.main+xml")
      )
    ).toMatch(/^U .*does not match/)
    expect(
      await outcome(
        "a.docx",
        docxOf(
          p("words"),
          {},
          "application/vnd.openxmlformats-officedocument.wordprocessingml.template.main+xml"
        )
      )
    ).toBe("OK")
  })
  it("looks are kept: bold stays on its words, also when the engine moves it", async () => {
    const xml = await word(p(run("", "my name "), run("<w:b/>", "is"), run("", " Michael")))
    expect(xml).toContain(
      `${run("", "MY NAME ").replace("<w:t>", '<w:t xml:space="preserve">')}${run("<w:b/>", "IS")}${run("", " MICHAEL").replace("<w:t>", '<w:t xml:space="preserve">')}`
    )
  })
})

describe("PowerPoint and Excel", () => {
  it("DOC-38 1,000 slides", async () => {
    const bytes = await translatedBytes(
      "a.pptx",
      pptxOf(Array.from({ length: 1_000 }, (_, i) => `Slide number ${i}`))
    )
    expect(part(bytes, "ppt/slides/slide1000.xml")).toContain("SLIDE NUMBER 999")
  })
  it("DOC-39 28,297 strings in 10,000 rows", async () => {
    const strings = Array.from({ length: 28_297 }, (_, i) => `Entry ${i} words`)
    const rows = Array.from(
      { length: 10_000 },
      (_, r) =>
        `<row r="${r + 1}">${[0, 1, 2, 3, 4].map((c) => `<c t="s"><v>${(r * 5 + c) % 28_297}</v></c>`).join("")}</row>`
    ).join("")
    const bytes = await translatedBytes("a.xlsx", xlsxOf(strings, `<sheetData>${rows}</sheetData>`))
    expect(part(bytes, "xl/sharedStrings.xml")).toContain("ENTRY 28296 WORDS")
  })
  it("DOC-40 a sheet of 90 MB without inline strings is copied raw, not parsed", async () => {
    const rows = Array.from(
      { length: 1_048_576 },
      (_, i) =>
        `<row r="${i + 1}" spans="1:1" s="${(i * 7_919) % 97}" customFormat="1" ht="${(i * 31) % 89}.${(i * 17) % 83}"><c r="A${i + 1}" s="1"/></row>`
    ).join("")
    expect(rows.length).toBeGreaterThan(80_000_000)
    const bytes = xlsxOf(["hello"], `<sheetData>${rows}<row><not well formed</sheetData>`)
    const result = await translatedBytes("a.xlsx", bytes)
    const before = new Zip(bytes)
    const after = new Zip(result)
    const entry = before.get("xl/worksheets/sheet1.xml")!
    const copy = after.get("xl/worksheets/sheet1.xml")!
    expect(
      result
        .subarray(copy.dataAt, copy.dataAt + copy.packed)
        .equals(bytes.subarray(entry.dataAt, entry.dataAt + entry.packed))
    ).toBe(true)
    expect(part(result, "xl/sharedStrings.xml")).toContain("HELLO")
  }, 60_000)
  it("DOC-41 a shared string that is not there stays untouched", async () => {
    const sheet = '<sheetData><row><c t="s"><v>99</v></c></row></sheetData>'
    expect(
      part(await translatedBytes("a.xlsx", xlsxOf(["hello"], sheet)), "xl/worksheets/sheet1.xml")
    ).toContain(sheet)
  })
  it("DOC-42 formulas are byte-equal", async () => {
    const sheet =
      '<sheetData><row><c><f>HYPERLINK("http://x.y","text")</f><v>0</v></c><c><f>SUM(Table1[Some column])</f></c><c t="inlineStr"><is><t>inline words</t></is></c></row></sheetData>'
    expect(
      part(await translatedBytes("a.xlsx", xlsxOf(["hello"], sheet)), "xl/worksheets/sheet1.xml")
    ).toContain(sheet.replace("inline words", "INLINE WORDS"))
  })
  it("DOC-43 a translation longer than a cell may be: the source is kept", async () => {
    answers = { hello: "x".repeat(32_768) }
    const strings = part(
      await translatedBytes("a.xlsx", xlsxOf(["hello", "other"], "<sheetData/>")),
      "xl/sharedStrings.xml"
    )
    expect(strings).toContain("<t>hello</t>")
    expect(strings).toContain("<t>OTHER</t>")
    answers = {}
  })
})
