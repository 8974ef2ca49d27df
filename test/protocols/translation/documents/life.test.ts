/** Documents, section 11, the second half: PDF, HTML, XLIFF, SRT, JSON, DITA, MIF, IDML, pictures; and what
 *  happens around an upload. */
import { createCanvas, GlobalFonts, loadImage } from "@napi-rs/canvas"
import { PDFDict, PDFName, PDFNumber, PDFString } from "@cantoo/pdf-lib"
import { Effect } from "effect"
import { crc32, deflateSync } from "node:zlib"
import { createRequire } from "node:module"
import { connect } from "node:net"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { headOf } from "../../../../protocols/formats/image.ts"
import { openMemory } from "../../../../storage/memory.ts"
import { PDFDocument } from "@cantoo/pdf-lib"
import { pdfOf, pdfText, zipOf } from "../../formats/build.ts"
import { extracted, sample } from "../../formats/pseudo.ts"
import { DocumentWorld, type Handle } from "./document-world.ts"

let world: DocumentWorld

beforeAll(async () => {
  world = await DocumentWorld.open({ change: (text) => text.toUpperCase(), detects: { "Guten Tag": "de" } })
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

describe("PDF", () => {
  it("DOC-44 no header in the first 1,024 bytes: U not a PDF", async () =>
    expect(await outcome("a.pdf", `${" ".repeat(1_100)}%PDF-1.7`)).toMatch(/^U .*not a PDF/))
  it("DOC-45 a damaged cross-reference: recovered", async () => {
    const bytes = (await pdfOf([[{ text: "Recovered words" }]]))
      .toString("latin1")
      .replace(/startxref\s+\d+/, "startxref\n7")
    expect((await pdfText(await translatedBytes("a.pdf", Buffer.from(bytes, "latin1")))).join(" ")).toContain(
      "RECOVERED WORDS"
    )
    const untabled = bytes.slice(0, bytes.lastIndexOf("xref\n", bytes.lastIndexOf("startxref") - 1)) + "%%EOF"
    expect(await outcome("a.pdf", Buffer.from(untabled, "latin1")), "no table and no trailer at all").toMatch(
      /^(?:OK|S .*damaged PDF)/
    )
    const shifted = bytes.replace(
      /\n(\d{10}) (\d{5}) n/g,
      (_, at: string, generation: string) =>
        `\n${String((Number(at) + 5) % 1e10).padStart(10, "0")} ${generation} n`
    )
    expect(await outcome("a.pdf", Buffer.from(shifted, "latin1")), "every offset wrong").toMatch(
      /^(?:OK|S .*damaged PDF)/
    )
  })
  it("DOC-46 a user password: U password-protected", async () => {
    expect(
      await outcome(
        "a.pdf",
        await pdfOf([[{ text: "Secret words" }]], (doc) =>
          doc.encrypt({ userPassword: "open", ownerPassword: "own" })
        )
      )
    ).toMatch(/^U .*password-protected/)
  })
  it("DOC-47 no pages; a page tree that holds itself: S damaged PDF", async () => {
    const empty = await pdfOf([[{ text: "x" }]], (doc) => {
      doc.catalog.Pages().set(PDFName.of("Kids"), doc.context.obj([]))
      doc.catalog.Pages().set(PDFName.of("Count"), PDFNumber.of(0))
    })
    expect(await outcome("a.pdf", empty)).toMatch(/^S .*damaged PDF/)
    const cycle = await pdfOf([[{ text: "x" }]], (doc) => {
      doc.catalog.Pages().set(PDFName.of("Kids"), doc.context.obj([doc.catalog.get(PDFName.of("Pages"))!]))
    })
    expect(await outcome("a.pdf", cycle)).toMatch(/^S .*damaged PDF/)
  })
  it("DOC-48 pages without text: S no text found", async () =>
    expect(await outcome("a.pdf", await pdfOf([[], []]))).toMatch(/^S .*no text found/))
  it("DOC-49 glyphs without a Unicode value: S text cannot be extracted where they are over 30 %, else those lines stay", async () => {
    const odd = (glyphs: number, words: number) =>
      pdfOf(
        [
          Array.from({ length: words }, (_, i) => ({
            text: `Some plain words on line ${"abcdefgh"[i]!}`,
            y: 600 - 30 * i
          }))
        ],
        (doc) => {
          const font = doc.context.obj({
            Type: "Font",
            Subtype: "Type0",
            BaseFont: "Odd",
            Encoding: "Identity-H",
            DescendantFonts: [
              doc.context.obj({
                Type: "Font",
                Subtype: "CIDFontType2",
                BaseFont: "Odd",
                CIDSystemInfo: {
                  Registry: PDFString.of("Adobe"),
                  Ordering: PDFString.of("Identity"),
                  Supplement: 0
                }
              } as any)
            ]
          })
          const page = doc.getPage(0)
          const stream = doc.context.register(
            doc.context.stream(`BT /FX 12 Tf 72 700 Td <${"0001000200030004".repeat(glyphs / 4)}> Tj ET`)
          )
          if (words === 0) {
            page.node.set(PDFName.of("Resources"), doc.context.obj({ Font: { FX: font } } as any))
            page.node.set(PDFName.of("Contents"), stream)
          } else {
            ;(page.node.Resources()!.lookup(PDFName.of("Font")) as PDFDict).set(PDFName.of("FX"), font)
            page.node.addContentStream(stream)
          }
        }
      )
    expect(await outcome("a.pdf", await odd(80, 0))).toMatch(/^S .*text cannot be extracted/)
    expect(await outcome("a.pdf", await odd(80, 4))).toMatch(/^S .*text cannot be extracted/)
    expect((await pdfText(await translatedBytes("a.pdf", await odd(8, 6)))).join(" ")).toContain(
      "SOME PLAIN WORDS ON LINE A"
    )
  })
  it("DOC-50 500 pages, over 7 million characters: S too many characters, before any engine is asked", async () => {
    const before = world.asked.length
    const page = Array.from({ length: 60 }, (_, i) => ({
      text: `word ${"letters ".repeat(28)}${i}`,
      y: 830 - i * 13,
      size: 4
    }))
    expect(await outcome("a.pdf", await pdfOf(Array.from({ length: 500 }, () => page)))).toMatch(
      /^S .*too many characters/
    )
    expect(world.asked.length).toBe(before)
  }, 60_000)
  it("DOC-51 a bomb in a stream: S too large; forms that draw themselves end", async () => {
    const bomb = await pdfOf([[{ text: "Some words" }]], (doc) => {
      doc
        .getPage(0)
        .node.set(
          PDFName.of("Contents"),
          doc.context.register(
            doc.context.stream(deflateSync(Buffer.alloc(200_000_000, 32), { level: 9 }), {
              Filter: "FlateDecode"
            } as any)
          )
        )
    })
    expect(await outcome("a.pdf", bomb)).toMatch(/^S .*too large/)
    const loop = await pdfOf([[{ text: "Some words here" }]], (doc) => {
      const ref = doc.context.nextRef()
      const form = doc.context.stream("/F Do", {
        Type: "XObject",
        Subtype: "Form",
        BBox: [0, 0, 9, 9],
        Resources: { XObject: { F: ref } }
      } as any)
      doc.context.assign(ref, form)
      const resources = doc.getPage(0).node.Resources()!
      resources.set(PDFName.of("XObject"), doc.context.obj({ F: ref }))
      doc.getPage(0).node.addContentStream(doc.context.register(doc.context.stream("/F Do")))
    })
    expect(await outcome("a.pdf", loop)).toMatch(/^(?:OK|S .*(?:too large|damaged))/)
    // A chain of forms, each drawing the next, deeper than any reader follows.
    const chain = await pdfOf([[{ text: "Some words here" }]], (doc) => {
      let inner = doc.context.register(
        doc.context.stream("q Q", { Type: "XObject", Subtype: "Form", BBox: [0, 0, 9, 9] } as any)
      )
      for (let depth = 0; depth < 10_000; depth++)
        inner = doc.context.register(
          doc.context.stream("/F Do", {
            Type: "XObject",
            Subtype: "Form",
            BBox: [0, 0, 9, 9],
            Resources: { XObject: { F: inner } }
          } as any)
        )
      doc
        .getPage(0)
        .node.Resources()!
        .set(PDFName.of("XObject"), doc.context.obj({ F: inner }))
      doc.getPage(0).node.addContentStream(doc.context.register(doc.context.stream("/F Do")))
    })
    expect(await outcome("a.pdf", chain)).toMatch(/^(?:OK|S .*(?:too large|damaged))/)
  }, 60_000)
  it("DOC-52 turned pages, a crop box, user units, turned text: the text lands where it was", async () => {
    const source = await pdfOf(
      [
        [
          { text: "Turned words", x: 200, y: 300, turn: 90 },
          { text: "Level words", x: 100, y: 500 }
        ]
      ],
      (doc) => {
        const page = doc.getPage(0)
        page.setCropBox(50, 50, 400, 600)
        page.node.set(PDFName.of("Rotate"), PDFNumber.of(90))
        page.node.set(PDFName.of("UserUnit"), PDFNumber.of(2))
      }
    )
    const result = await translatedBytes("a.pdf", source)
    const where = async (bytes: Buffer): Promise<ReadonlyArray<ReadonlyArray<number>>> => {
      await pdfText(bytes)
      const { getDocument } = await import("pdfjs-dist/legacy/build/pdf.mjs")
      const doc = await getDocument({ data: new Uint8Array(bytes), verbosity: 0 }).promise
      const { items } = await (await doc.getPage(1)).getTextContent()
      const lines = items.flatMap((item) =>
        "str" in item && item.str.trim() !== ""
          ? [
              [
                ...item.transform.slice(4).map(Math.round),
                Math.round(Math.atan2(item.transform[1], item.transform[0]) * 10)
              ]
            ]
          : []
      )
      return lines
        .filter(
          ([x, y, turn], i) =>
            i === 0 || turn !== lines[i - 1]![2] || x !== lines[i - 1]![0]! || y === undefined
        )
        .filter((line, i, all) => all.findIndex((other) => other[2] === line[2]) === i)
    }
    expect(await where(result)).toEqual(await where(source))
    const page = (await PDFDocument.load(result)).getPage(0)
    expect([page.getCropBox(), page.getRotation().angle]).toEqual([
      { x: 50, y: 50, width: 400, height: 600 },
      90
    ])
  })
  it("DOC-53 Thai, Arabic, Japanese: S no font for this script, before translating", async () => {
    const before = world.asked.length
    const other = await DocumentWorld.open({
      pairs: [
        ["en", "th"],
        ["en", "ar"],
        ["en", "ja"]
      ]
    })
    try {
      for (const target of ["TH", "AR", "JA"]) {
        const result = await other.translate("a.pdf", await pdfOf([[{ text: "Some words" }]]), {
          target_lang: target
        })
        expect(result).toMatchObject({ at: "S", message: expect.stringContaining("no font for this script") })
      }
    } finally {
      await other.close()
    }
    expect(world.asked.length).toBe(before)
  })
  it("DOC-54 scripts, launch actions and attachments are kept and never run", async () => {
    const source = await pdfOf([[{ text: "Some words" }]], async (doc) => {
      doc.addJavaScript("main", "app.alert(1)")
      doc.catalog.set(
        PDFName.of("OpenAction"),
        doc.context.obj({ S: "Launch", F: PDFString.of("calc.exe") } as any)
      )
      await doc.attach(Buffer.from("attached"), "a.txt", { mimeType: "text/plain" })
    })
    const { catalog, context } = await PDFDocument.load(await translatedBytes("a.pdf", source))
    const names = context.lookup(catalog.get(PDFName.of("Names")), PDFDict)
    expect(
      names.has(PDFName.of("JavaScript")) &&
        names.has(PDFName.of("EmbeddedFiles")) &&
        catalog.has(PDFName.of("OpenAction"))
    ).toBe(true)
  })
})

describe("HTML", () => {
  it("DOC-55 unclosed and crossing markup stays byte for byte", async () => {
    expect(await text("a.html", "<p>one<p>two <b>x<i>three</b> four</i><div>five<b>six")).toBe(
      "<p>ONE<p>TWO <b>X<i>THREE</b> FOUR</i><div>FIVE<b>SIX"
    )
  })
  it("DOC-56 20,000 nested div, 3,000 b over 500 p", async () => {
    expect(await outcome("a.html", "<div>".repeat(20_000) + "hello" + "</div>".repeat(20_000))).toBe("OK")
    expect(await outcome("a.html", "<b>".repeat(3_000) + "<p>hello</p>".repeat(500))).toBe("OK")
  })
  it("DOC-57 scripts, CDATA and conditional comments are untouched", async () => {
    const source =
      '<!doctype html><script>var a = "<p>text<\\/script>"; // words</script><style>p { content: "words" }</style><!--[if IE]><p>old words</p><![endif]--><svg><![CDATA[some words]]></svg>'
    expect(await text("a.html", `${source}<p>hello</p>`)).toBe(`${source}<p>HELLO</p>`)
  })
  it("DOC-58 no tag at all: one text", async () =>
    expect(await text("a.html", "just some words")).toBe("JUST SOME WORDS"))
  it("DOC-59 windows-1251 declared: read; written as UTF-8 and declared so", async () => {
    const source = Buffer.concat([
      Buffer.from('<meta charset="windows-1251"><p>'),
      Buffer.from([0xef, 0xf0, 0xe8, 0xe2, 0xe5, 0xf2]),
      Buffer.from("</p>")
    ])
    expect(await text("a.html", source, { source_lang: "RU" })).toBe('<meta charset="UTF-8"><p>ПРИВЕТ</p>')
  })
  it("no-translate, attributes, entities, language", async () => {
    expect(
      await text(
        "a.html",
        '<html lang="en"><p translate="no">keep</p><p>go <span class="notranslate">keep</span> on&nbsp;now &amp; then</p><img alt="a picture"><input type="submit" value="send it"></html>'
      )
    ).toBe(
      '<html lang="de"><p translate="no">keep</p><p>GO <span class="notranslate">keep</span> ON&nbsp;NOW &amp; THEN</p><img alt="A PICTURE"><input type="submit" value="SEND IT"></html>'
    )
  })
})

describe("XLIFF", () => {
  const file = (units: string): string =>
    `<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file source-language="en" target-language="de" original="x" datatype="x"><body>${units}</body></file></xliff>`
  it("DOC-60 versions 3.0, 2.2, none; XML that is no XLIFF: U", async () => {
    for (const version of [' version="3.0"', ' version="2.2"', ""])
      expect(await outcome("a.xlf", `<xliff${version}><file/></xliff>`)).toMatch(
        /^U .*unsupported XLIFF version/
      )
    expect(await outcome("a.xlf", "<other/>")).toMatch(/^U .*not an XLIFF file/)
  })
  it("DOC-61 a unit without source is untouched", async () => {
    const source = file('<trans-unit id="1"><note>words</note></trans-unit>')
    expect(await text("a.xlf", source)).toBe(source)
  })
  it("DOC-62 bpt without ept: points, in order", async () => {
    expect(
      await text(
        "a.xlf",
        file('<trans-unit id="1"><source>one <bpt id="1">&lt;b&gt;</bpt>two</source></trans-unit>')
      )
    ).toContain('<target>ONE <bpt id="1">&lt;b&gt;</bpt>TWO</target>')
    const two =
      '<xliff version="2.0" srcLang="en" trgLang="DE"><file id="f"><unit id="u"><segment><source>one <sc id="1"/>two</source></segment><segment><source>three<ec startRef="1"/> four</source></segment></unit></file></xliff>'
    const output = await text("a.xliff", two)
    expect(output).toContain('<target>ONE <sc id="1"/>TWO</target>')
    expect(output).toContain('<target>THREE<ec startRef="1"/> FOUR</target>')
  })
  it("DOC-63 a code that may not be deleted comes back when the engine drops it", async () => {
    const { segments, rebuild } = await extracted(
      "xlf",
      Buffer.from(
        '<xliff version="2.0" srcLang="en"><file id="f"><unit id="u"><segment><source>one <ph id="1" canDelete="no"/> two</source></segment></unit></file></xliff>'
      )
    )
    expect(String(await rebuild(() => "eins zwei"))).toMatch(
      /<target>.*<ph id="1" canDelete="no"\/>.*<\/target>/
    )
    expect(segments).toHaveLength(1)
  })
  it("DOC-64 units of one id", async () =>
    expect(
      (
        await text(
          "a.xlf",
          file(
            '<trans-unit id="1"><source>one word</source></trans-unit><trans-unit id="1"><source>two words</source></trans-unit>'
          )
        )
      ).match(/<target>/g)
    ).toHaveLength(2))
})

describe("SRT", () => {
  it("DOC-65 odd numbers and times stay byte for byte", async () => {
    for (const source of [
      "00:00:01.000 --> 00:00:00,500\nhello",
      "x\n1\n-00:00:01,000 --> 00:00:02,000 X1:1\r\nhello\r\n\r\n2\r00:00:02,000 --> 00:00:03,000\rhello\r",
      "1\n00:00:01,000 --> 00:00:02,000\nhello\n2\n00:00:01,500 --> 00:00:02,500\nhello"
    ]) {
      expect(await text("a.srt", source)).toBe(source.replaceAll("hello", "HELLO"))
    }
  })
  it("DOC-66 a closing tag that was never opened is kept, never completed", async () =>
    expect(await text("a.srt", "1\n00:00:01,000 --> 00:00:02,000\nhello</i> <b>there\n")).toBe(
      "1\n00:00:01,000 --> 00:00:02,000\nHELLO</i> <b>THERE\n"
    ))
  it("DOC-67 no time line at all: S", async () =>
    expect(await outcome("a.srt", "just words")).toMatch(/^S .*not an SRT file/))
  it("cues keep their lines, speakers are parted", async () => {
    expect(
      (await text("a.srt", "1\n00:00:01,000 --> 00:00:02,000\nsome words here\nand more of them\n")).split(
        "\n"
      )
    ).toHaveLength(5)
    expect(await text("a.srt", "1\n00:00:01,000 --> 00:00:02,000\n- who are you?\n- nobody\n")).toContain(
      "- WHO ARE YOU?\n- NOBODY\n"
    )
  })
})

describe("JSON", () => {
  it.each(['{"a":"b",}', '{"a":"b"} // c', '{"a":NaN}', '"a" "b"', "{'a':1}", '["a\nb"]', "01", "[1,]"])(
    "DOC-68 %s: S not valid JSON",
    async (source) => expect(await outcome("a.json", source)).toMatch(/^S .*not valid JSON/)
  )
  it("DOC-68 a BOM is kept", async () =>
    expect(await text("a.json", '\uFEFF{"a":"hello"}')).toBe('\uFEFF{"a":"HELLO"}'))
  it("DOC-69 too deep: S; odd keys and long numbers are byte-equal", async () => {
    expect(await outcome("a.json", "[".repeat(200_000) + "]".repeat(200_000))).toMatch(
      /^S .*nested too deeply/
    )
    const source = `{"__proto__":"hello", "a" :"hello","a":"hello","n":${"9".repeat(400)},"x":[1.0,-0,1E400,12345678901234567890],"id":"hello","u":"caf\\u00e9 au lait"}`
    expect(await text("a.json", source)).toBe(
      source
        .replaceAll(':"hello"', ':"HELLO"')
        .replace('"id":"HELLO"', '"id":"hello"')
        .replace("caf\\u00e9 au lait", "CAF\\u00c9 AU LAIT")
    )
  })
  it("DOC-70 a text or a number at the top", async () => {
    expect(await text("a.json", '"hello"')).toBe('"HELLO"')
    expect(await text("a.json", " 12 ")).toBe(" 12 ")
  })
})

describe("DITA, MIF, IDML", () => {
  it("DOC-71 a map: U topics only; nothing but conref: unchanged", async () => {
    expect(await outcome("a.dita", '<?xml version="1.0"?><map><topicref href="x"/></map>')).toMatch(
      /^U .*topics only/
    )
    const source = '<topic id="t"><title conref="x#y"/><body><p conref="x#z"/></body></topic>'
    expect(await text("a.dita", source)).toBe(source)
  })
  it("DITA: code stays, inline markup is kept, the language is set", async () => {
    expect(
      await text(
        "a.dita",
        '<topic id="t" xml:lang="en"><title>a title</title><body><p>type <codeph>ls</codeph> and <b>wait</b></p><codeblock>rm x</codeblock></body></topic>'
      )
    ).toBe(
      '<topic id="t" xml:lang="de"><title>A TITLE</title><body><p>TYPE <codeph>ls</codeph> AND <b>WAIT</b></p><codeblock>rm x</codeblock></body></topic>'
    )
  })
  it("DOC-72 MIF 7, binary, unbalanced, an escape without end", async () => {
    expect(await outcome("a.mif", "<MIFFile 7.00>\n")).toMatch(/^U .*MIF 8 or newer/)
    expect(await outcome("a.mif", Buffer.from("<MakerFile 8.0>\u0000\u0001"))).toMatch(/^U Invalid file/)
    expect(await outcome("a.mif", "<MIFFile 8.00>\n<Para <ParaLine <String `x'>>\n")).toMatch(
      /^S .*damaged document/
    )
    const odd = "<MIFFile 8.00>\n<Para <ParaLine <String `some \\x wo'>>>\n"
    expect(await text("a.mif", odd)).toBe(odd)
  })
  it("MIF: one paragraph over lines is one text", async () => {
    expect(
      await text(
        "a.mif",
        "<MIFFile 9.00>\n<TextFlow <Para <ParaLine <String `some wo'>><ParaLine <String `rds \\>'>>>>\n"
      )
    ).toBe("<MIFFile 9.00>\n<TextFlow <Para <ParaLine <String `SOME WORDS \\>'>><ParaLine <String `'>>>>\n")
  })
  it("DOC-73 no designmap: U; a story that is listed but missing is passed over", async () => {
    expect(
      await outcome("a.idml", zipOf({ mimetype: "application/vnd.adobe.indesign-idml-package" }))
    ).toMatch(/^U .*not an IDML file/)
    expect(
      await outcome(
        "a.idml",
        zipOf({
          "designmap.xml": '<Document><idPkg:Story xmlns:idPkg="x" src="Stories/Story_u1.xml"/></Document>'
        })
      )
    ).toBe("OK")
  })
})

describe("pictures", () => {
  // A font that is here on every machine; what "sans-serif" draws is the machine's.
  GlobalFonts.registerFromPath(
    createRequire(import.meta.url).resolve("dejavu-fonts-ttf/ttf/DejaVuSans.ttf"),
    "Picture Sans"
  )
  const picture = (words: string, width = 700, height = 120) => {
    const canvas = createCanvas(width, height)
    const context = canvas.getContext("2d")
    context.fillStyle = "white"
    context.fillRect(0, 0, width, height)
    context.fillStyle = "black"
    context.font = '40px "Picture Sans"'
    context.fillText(words, 20, 70)
    return canvas
  }
  it("DOC-74 60,000 × 60,000 in few bytes, a cut jpeg: U; one pixel: unchanged; an animated png: read; a CMYK jpeg: its header", async () => {
    const huge = Buffer.concat([
      Buffer.from("89504e470d0a1a0a0000000d49484452", "hex"),
      Buffer.from([0, 0, 0xea, 0x60, 0, 0, 0xea, 0x60]),
      Buffer.alloc(20)
    ])
    expect(await outcome("a.png", huge)).toMatch(/^U .*image too large/)
    const jpeg = picture("hello").toBuffer("image/jpeg", 90)
    expect(await outcome("a.jpg", jpeg.subarray(0, jpeg.length >> 1))).toMatch(/^U .*damaged image/)
    const dot = createCanvas(1, 1).toBuffer("image/png")
    expect((await translatedBytes("a.png", dot)).equals(dot)).toBe(true)
    const plain = picture("").toBuffer("image/png")
    const chunk = Buffer.concat([Buffer.from("acTL"), Buffer.from([0, 0, 0, 1, 0, 0, 0, 0])])
    const sum = Buffer.alloc(4)
    sum.writeUInt32BE(crc32(chunk))
    expect(
      await outcome(
        "a.png",
        Buffer.concat([plain.subarray(0, 33), Buffer.from([0, 0, 0, 8]), chunk, sum, plain.subarray(33)])
      )
    ).toBe("OK")
    // One side alone, and none.
    for (const [width, height] of [
      [60_000, 1],
      [1, 60_000],
      [0, 10]
    ] as const) {
      const odd = Buffer.from(huge)
      odd.writeUInt32BE(width, 16)
      odd.writeUInt32BE(height, 20)
      expect(await outcome("a.png", odd)).toMatch(/^[US] .*(?:image too large|damaged image)/)
    }
    // Four components in the frame's header: the head is read like any other's.
    const cmyk = Buffer.from(
      "ffd8ffee000e41646f626500640000000002ffc0001408001000100401110002110003110004110000ffd9",
      "hex"
    )
    expect(headOf(cmyk)).toEqual({ kind: "jpeg", width: 16, height: 16 })
  }, 60_000)
  it("the words of a picture are translated in their place, the rest keeps its pixels, and nothing is billed", async () => {
    const source = picture("hello world again").toBuffer("image/png")
    const result = await world.translate("a.png", source)
    expect(result.at).toBe("OK")
    if (result.at !== "OK") return
    expect(result.billed).toBe(0)
    const before = await loadImage(source)
    const after = await loadImage(result.bytes)
    expect([after.width, after.height]).toEqual([before.width, before.height])
    const pixels = (image: typeof before): Buffer => {
      const canvas = createCanvas(image.width, image.height)
      const context = canvas.getContext("2d")
      context.drawImage(image, 0, 0)
      return Buffer.from(context.getImageData(0, 0, image.width, 20).data)
    }
    expect(pixels(after).equals(pixels(before))).toBe(true)
    const { segments } = await extracted("png", result.bytes)
    expect(segments.map(({ text }) => text).join(" ")).toContain("HELLO WORLD")
  }, 60_000)
})

describe("around an upload", () => {
  it("a client that hangs up leaves nothing", async () => {
    const { port } = new URL(world.url)
    const before = (await world.store.blobs.ids()).length
    await new Promise<void>((resolve) => {
      const wire = connect(Number(port), "127.0.0.1", () => {
        wire.write(
          `POST /v2/document HTTP/1.1\r\nHost: x\r\nAuthorization: DeepL-Auth-Key ${world.secret}\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 500000\r\n\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n${"x".repeat(100_000)}`,
          () =>
            setTimeout(() => {
              wire.destroy()
              resolve()
            }, 5)
        )
      })
    })
    await expect.poll(async () => (await world.store.blobs.ids()).length).toBe(before)
  })
  it("over the size limit while it arrives: 413, nothing kept", async () => {
    const before = (await world.store.blobs.ids()).length
    const answer = await world.upload("a.txt", "x".repeat(1_100_000)).then(
      ({ status }) => status,
      () => 413
    )
    expect(answer).toBe(413)
    expect(await world.store.blobs.ids()).toHaveLength(before)
  })
  it("a full disk: 500 at upload, nothing kept; in the job: error, no torn record", async () => {
    const store = openMemory()
    const full = { on: false }
    const blobs = {
      ...store.blobs,
      write: (id: string, bytes: AsyncIterable<Uint8Array>) =>
        full.on
          ? Promise.reject(Object.assign(new Error("ENOSPC"), { code: "ENOSPC" }))
          : store.blobs.write(id, bytes)
    }
    const crowded = await DocumentWorld.open(
      {
        change: (text) => {
          full.on = true
          return text.toUpperCase()
        }
      },
      {
        store: new Proxy(store, {
          get: (target, name) => {
            if (name === "blobs") return blobs
            const member = (target as any)[name]
            return typeof member === "function" ? member.bind(target) : member
          }
        })
      }
    )
    try {
      expect(await crowded.translate("a.txt", "hello")).toMatchObject({
        at: "S",
        message: expect.stringContaining("could not be stored")
      })
      expect((await crowded.upload("a.txt", "hello")).status).toBe(500)
      full.on = false
      await expect.poll(() => store.blobs.ids()).toEqual([])
    } finally {
      await crowded.close()
    }
  })
  it("source equals target: at upload when given, in the state when detected", async () => {
    expect(await outcome("a.txt", "hello", { source_lang: "DE" })).toMatch(
      /^U Source and target language are equal/
    )
    expect(await outcome("a.txt", "Guten Tag", { source_lang: "" })).toMatch(
      /^S Source and target language are equal/
    )
  })
  it("1,000,001 characters: S, before any engine is asked", async () => {
    const before = world.asked.length
    expect(await outcome("a.txt", "word ".repeat(200_001).slice(0, 1_000_001))).toMatch(
      /^S .*too many characters/
    )
    expect(world.asked.length).toBe(before)
  })
  it("wrong fields, each with its refusal; nothing kept", async () => {
    const before = (await world.store.blobs.ids()).length
    const id = "0f8fad5b-d9cb-469f-a165-70867728950e"
    for (const [fields, status, message] of [
      [{ target_lang: "" }, 400, /target_lang.*not specified/],
      [{ target_lang: "XX" }, 400, /target_lang/],
      [{ source_lang: "XX" }, 400, /source_lang/],
      [{ output_format: "pdf" }, 400, /output_format/],
      [{ formality: "tea" }, 400, /formality/],
      [{ glossary_id: "x" }, 400, /glossary_id/],
      [{ glossary_id: id, source_lang: "" }, 400, /source_lang/],
      [{ glossary_id: id }, 404, /Glossary not found/],
      [{ style_id: id }, 404, /Style/],
      [{ translation_memory_id: id }, 404, /memory/i],
      [{ translation_memory_threshold: "101" }, 400, /translation_memory_threshold/],
      [{ enable_watermark: "tea" }, 400, /enable_watermark/]
    ] as const) {
      const answer = await world.upload("a.txt", "hello", fields as Record<string, string>)
      expect([answer.status, ((await answer.json()) as any).message]).toEqual([
        status,
        expect.stringMatching(message)
      ])
    }
    expect((await world.post("/v2/document", { target_lang: "DE" })).status).toBe(415)
    const form = new FormData()
    form.append("target_lang", "DE")
    expect(await (await world.post("/v2/document", form)).json()).toMatchObject({
      message: "Invalid file data."
    })
    expect(await world.store.blobs.ids()).toHaveLength(before)
  })
  it("an unknown id, a wrong key, another account's document: the same 404; too early: 503 with Retry-After", async () => {
    const slow = await DocumentWorld.open({}, { deps: { translate: () => Effect.never } })
    const early = (await (await slow.upload("a.txt", "hello")).json()) as Handle
    const answer = await slow.download(early)
    expect([answer.status, await answer.json(), answer.headers.get("retry-after")]).toEqual([
      503,
      expect.objectContaining({ message: "Document translation is not done" }),
      "2"
    ])
    await expect
      .poll(() => slow.status(early))
      .toMatchObject({ status: "translating", seconds_remaining: expect.any(Number) })
    await slow.close()
    const handle = (await (await world.upload("a.txt", "hello")).json()) as Handle
    const answers = await Promise.all(
      [
        { ...handle, document_key: "0".repeat(64) },
        { ...handle, document_id: "A".repeat(32) },
        { ...handle, document_key: "x" }
      ].map((other) => world.post(`/v2/document/${other.document_id}`, { document_key: other.document_key }))
    )
    for (const answer of answers)
      expect([answer.status, ((await answer.json()) as any).message]).toEqual([404, "Document not found"])
    await world.ended(handle)
    const other = await DocumentWorld.open()
    expect(((await other.status(handle)) as any).message).toBe("Document not found")
    await other.close()
  })
  it("quota: reserved at upload, booked at the download, released on error", async () => {
    const small = await DocumentWorld.open({}, { account: { limits: { characters: 20, documents: 2 } } })
    try {
      expect(await small.translate("a.docx", sample("docx/sample.docx"))).toMatchObject({
        at: "U",
        status: 456
      })
      const done = await small.translate("a.txt", "twenty characters xx")
      expect(done).toMatchObject({ at: "OK", billed: 20 })
      await expect
        .poll(
          () =>
            small.usage.read({
              account: small.account,
              key: { keyId: "x", accountId: small.account.accountId }
            } as never).account.used.document
        )
        .toBe(20)
      expect(await small.translate("a.txt", "more")).toMatchObject({ at: "U", status: 456 })
    } finally {
      await small.close()
    }
  })
  it("a document lasts a day when nobody fetches it", async () => {
    const handle = (await (await world.upload("a.txt", "hello")).json()) as Handle
    expect(await world.ended(handle)).toMatchObject({ status: "done" })
    world.skewMs += 86_400_000 + 5_000
    await expect
      .poll(
        async () =>
          (await world.post(`/v2/document/${handle.document_id}`, { document_key: handle.document_key }))
            .status,
        { timeout: 5_000 }
      )
      .toBe(404)
    await expect
      .poll(async () => (await world.store.blobs.ids()).some((blob) => blob.includes(handle.document_id)))
      .toBe(false)
  })
})
