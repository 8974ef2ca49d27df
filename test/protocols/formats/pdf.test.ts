import { PDFDocument } from "@cantoo/pdf-lib"
import mammoth from "mammoth"
import { expect, it } from "vitest"
import { readContent, withoutOperators } from "../../../protocols/formats/pdf-content.ts"
import { changed, latin } from "./pseudo.ts"
import { pdfOf, pdfText } from "./build.ts"

const upper = (text: string): string => text.toUpperCase()

it("text is replaced in its place, the source is gone, numbers and pages stay", async () => {
  const bytes = await pdfOf([
    [{ text: "The first line of the page", colour: [1, 0, 0] }, { text: "12345" }],
    [{ text: "Second page here" }]
  ])
  const rebuilt = await changed("pdf", Buffer.from(bytes), upper)
  const [one, two] = await pdfText(rebuilt)
  expect(one).toContain("THE FIRST LINE OF THE PAGE")
  expect(one).toContain("12345")
  expect(two).toContain("SECOND PAGE HERE")
  expect(`${one} ${two}`).not.toMatch(/first line|Second page/)
  const doc = await PDFDocument.load(rebuilt)
  expect(doc.getPageCount()).toBe(2)
  expect(doc.getPage(0).getSize()).toEqual({ width: 595, height: 842 })
})

it("Greek and Cyrillic come back as Unicode", async () => {
  const rebuilt = await changed("pdf", await pdfOf([[{ text: "A line" }]]), () => "Μια γραμμή, одна строка")
  expect((await pdfText(rebuilt))[0]!.replace(/\s+/g, " ")).toContain("Μια γραμμή, одна строка")
})

it("a line that has grown is broken or set smaller, never lost", async () => {
  const words = Array.from({ length: 60 }, (_, i) => `word${i}x`).join(" ")
  const rebuilt = (
    await pdfText(await changed("pdf", await pdfOf([[{ text: "Short enough" }]]), () => words))
  )[0]!.replace(/\s+/g, " ")
  for (const word of words.split(" ")) expect(rebuilt).toContain(word)
})

it("pdf → docx: paragraphs and headings, readable by another program; watermark once however often", async () => {
  const bytes = await pdfOf([
    [
      { text: "A Big Title", size: 28 },
      { text: "Some body text that is long enough", y: 700 }
    ]
  ])
  const rebuilt = await changed("pdf", bytes, upper, { convertTo: "docx", watermark: "Translated by Troupe" })
  const { value } = await mammoth.extractRawText({ buffer: rebuilt })
  expect(value).toContain("A BIG TITLE")
  expect(value).toContain("SOME BODY TEXT")
  expect((await mammoth.convertToHtml({ buffer: rebuilt })).value).toContain("<h1>")
  expect(latin(value)).not.toContain("body")
})

it("watermark in a pdf: at the edge of each page, not twice", async () => {
  const once = await changed(
    "pdf",
    await pdfOf([[{ text: "Some words" }], [{ text: "More words" }]]),
    upper,
    { watermark: "Translated by Troupe" }
  )
  for (const page of await pdfText(once)) expect(page.match(/Translated by Troupe/g)).toHaveLength(1)
  const twice = await changed("pdf", once, upper, { watermark: "Translated by Troupe" })
  for (const page of await pdfText(twice))
    expect(page.match(/TRANSLATED BY TROUPE|Translated by Troupe/g)).toHaveLength(1)
})

it("content streams: strings, arrays, inline images and comments are not taken for operators", () => {
  const text =
    "q BT /F1 12 Tf 1 0 0 1 10 20 Tm (a\\)Tj) Tj [(b) -20 (c)] TJ T* (d) ' ET % (x) Tj\nBI /W 1 ID \u0001Tj(\u0002 EI\n1 0 0 rg BT 5 6 Td <00> Tj ET Q"
  const { textOperators: operators } = readContent(text)
  expect(operators.map(({ operator, x, y, colour }) => [operator, x, y, colour])).toEqual([
    ["Tj", 10, 20, "0 g"],
    ["TJ", 10, 20, "0 g"],
    ["'", 10, 20, "0 g"],
    ["Tj", 5, 6, "1 0 0 rg"]
  ])
  expect(withoutOperators(text, operators)).toBe(
    "q BT /F1 12 Tf 1 0 0 1 10 20 Tm     T* T* ET % (x) Tj\nBI /W 1 ID \u0001Tj(\u0002 EI\n1 0 0 rg BT 5 6 Td   ET Q".replace(
      "Tm     T*",
      "Tm     T*"
    )
  )
})
