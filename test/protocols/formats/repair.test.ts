import { expect, it } from "vitest"
import type { Code } from "../../../protocols/formats/document.ts"
import { piecesOf, repaired, textOf, type Piece } from "../../../protocols/formats/marks.ts"
import { splice } from "../../../protocols/formats/splice.ts"
import { changed, identity, refusal, sample, sampleFiles } from "./pseudo.ts"

let seed = 42

const random = (below: number): number => {
  seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff
  return (seed >> 8) % below
}

const tree = (depth: number, codes: Map<number, Code>): Array<Piece> => {
  const pieces: Array<Piece> = []
  for (let i = random(4); i >= 0; i--) {
    const id = codes.size + 1
    const kind = random(4)
    if (kind === 0 && depth > 0) {
      codes.set(id, { id, kind: "pair", needed: random(2) === 0 })
      pieces.push({ code: id, edge: "open" }, ...tree(depth - 1, codes), { code: id, edge: "close" })
    } else if (kind === 1) {
      codes.set(id, { id, kind: random(2) === 0 ? "point" : "lock" })
      pieces.push({ code: id, edge: "whole" })
    } else pieces.push(`word${random(9)} `)
  }
  return pieces
}

const damaged = (pieces: ReadonlyArray<Piece>): ReadonlyArray<Piece> => {
  const out = [...pieces]
  for (let i = random(5); i > 0; i--) {
    const at = random(out.length + 1)
    const other = random(out.length + 1)
    switch (random(5)) {
      case 0:
        out.splice(at, 1)
        break
      case 1:
        if (out[at] !== undefined) out.splice(other, 0, out[at]!)
        break
      case 2:
        if (out[at] !== undefined && out[other] !== undefined) [out[at], out[other]] = [out[other]!, out[at]!]
        break
      case 3:
        out.splice(at, 0, { code: 900 + random(9), edge: "open" })
        break
      default:
        out.splice(at, 0, "stranger ")
    }
  }
  return out
}

it("repair is total: 20,000 random trees with random damage come back well nested, nothing that must be there missing", () => {
  for (let round = 0; round < 20_000; round++) {
    const codes = new Map<number, Code>()
    const source = tree(3, codes)
    const mended = repaired(source, damaged(source), codes)
    const open: Array<number> = []
    const seen = new Set<string>()
    for (const piece of mended) {
      if (typeof piece === "string") continue
      const key = `${piece.code} ${piece.edge}`
      if (seen.has(key)) throw new Error(`${key} twice in round ${round}`)
      seen.add(key)
      if (piece.edge === "open") open.push(piece.code)
      if (piece.edge === "close" && open.pop() !== piece.code) throw new Error(`crossing in round ${round}`)
    }
    if (open.length > 0) throw new Error(`open in round ${round}`)
    for (const { id, kind, needed } of codes.values())
      if ((kind !== "pair" || needed === true) && !seen.has(`${id} ${kind === "pair" ? "open" : "whole"}`))
        throw new Error(`${id} is lost in round ${round}`)
    expect(textOf(repaired(source, source, codes))).toBe(textOf(piecesOf(textOf(source))))
  }
})

it("splice: what an edit keeps holds the edits inside it", () => {
  expect(
    splice("0123456789", [
      { from: 2, to: 8, parts: ["<", { from: 3, to: 5 }, "|", { from: 6, to: 7 }, ">"] },
      { from: 4, to: 5, parts: ["x"] },
      { from: 5, to: 6, parts: ["gone"] },
      { from: 9, to: 10, parts: ["!"] }
    ])
  ).toBe("01<3x|6>8!")
})

const rounds = Number(process.env["TROUPE_FUZZ_ROUNDS"] ?? 300)

it.each([
  "docx/sample.docx",
  "pptx/txt-text.pptx",
  "xlsx/sample.xlsx",
  "idml/4-pages.idml",
  "html/form.html",
  "srt/srttest.srt",
  "xliff/example12.xliff",
  "xliff/example.xliff",
  "dita/creating-docker-images.dita"
])(
  "fuzz %s: cut or with bytes changed it is refused or comes back as it is; never another fault",
  async (path) => {
    const folder = path.slice(0, path.indexOf("/"))
    const extension = folder === "xliff" ? "xlf" : folder
    const bytes = sample(path)
    for (let round = 0; round < rounds; round++) {
      let input = Buffer.from(bytes)
      if (random(3) === 0) input = input.subarray(0, random(input.length))
      else for (let i = random(3); i >= 0; i--) input[random(input.length)] = random(256)
      const before = Buffer.from(input)
      let after: Buffer | undefined
      const said = await refusal(async () => {
        after = await changed(extension, input, identity)
      })
      if (said === "accepted" && extension !== "xlf") expect(after!.equals(before)).toBe(true)
    }
  },
  60_000
)

it("fuzz random bytes: every format refuses or keeps them", async () => {
  for (const extension of ["txt", "srt", "json", "xml", "dita", "html", "xlf", "mif", "docx", "idml"])
    for (let round = 0; round < rounds / 3; round++) {
      const input = Buffer.from(
        Array.from({ length: random(400) }, () =>
          random(4) === 0 ? random(256) : "<>/=\"'{}[]:,a1 \n&;".charCodeAt(random(19))
        )
      )
      const before = Buffer.from(input)
      let after: Buffer | undefined
      if (
        (await refusal(async () => {
          after = await changed(extension, input, identity)
        })) === "accepted" &&
        extension !== "xlf"
      )
        expect(after!.equals(before)).toBe(true)
    }
}, 60_000)

it("there are samples of every text format", () => {
  for (const folder of ["docx", "pptx", "xlsx", "idml", "html", "srt", "xliff", "dita", "mif"])
    expect(sampleFiles(folder).length).toBeGreaterThan(0)
})
