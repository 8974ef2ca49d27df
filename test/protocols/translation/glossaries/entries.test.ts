import { describe, expect, it } from "vitest"
import {
  fromTsv,
  parseEntries,
  toTsv,
  type Entry
} from "../../../../protocols/translation/glossaries/entries.ts"
import { fold, termsOf } from "../../../../protocols/translation/glossaries/terms.ts"

const pair = { source: "en", target: "de" }

const detail = (text: string, format: "tsv" | "csv" = "tsv") => {
  const read = parseEntries(text, format, pair)
  return "detail" in read ? read.detail : read
}

describe("entries (translation 7.3)", () => {
  it("TSV: \\n, \\r\\n and \\r end a line, blank lines are skipped, phrases trimmed", () => {
    expect(detail(" a \tb\r\n\r\nc\td \re\tf\n")).toEqual([
      ["a", "b"],
      ["c", "d"],
      ["e", "f"]
    ])
  })
  it("CSV: quotes, doubled quotes, line ends inside quotes are refused as control characters", () => {
    expect(detail('a,b\n"c, d","e ""f"""\n"g",h\n', "csv")).toEqual([
      ["a", "b"],
      ["c, d", 'e "f"'],
      ["g", "h"]
    ])
    expect(detail('a,"b\nc"', "csv")).toBe(
      "Value with the index 0 (starting at position 0) contains control characters"
    )
  })
  it("CSV: a row of four columns for another pair is skipped", () => {
    expect(detail("a,b,en,de\nc,d,en,fr\ne,f,EN-us,DE", "csv")).toEqual([
      ["a", "b"],
      ["e", "f"]
    ])
  })
  it.each<[string, string, "tsv" | "csv", string]>([
    [
      "duplicate source",
      "a\tb\nc\td\na\te",
      "tsv",
      "Key with the index 2 (starting at position 8) duplicates key with the index 0 (starting at position 0)"
    ],
    [
      "positions count characters",
      "💜\tb\n💜\te",
      "tsv",
      "Key with the index 1 (starting at position 4) duplicates key with the index 0 (starting at position 0)"
    ],
    ["no tab", "a b", "tsv", "Key with the index 0 (starting at position 0) misses tab separator"],
    [
      "two tabs",
      "a\tb\tc",
      "tsv",
      "Key with the index 0 (starting at position 0) has a wrong number of columns"
    ],
    [
      "three columns",
      "a,b,c",
      "csv",
      "Key with the index 0 (starting at position 0) has a wrong number of columns"
    ],
    [
      "an unended quote",
      'a,"b',
      "csv",
      "Key with the index 0 (starting at position 0) has a wrong number of columns"
    ],
    ["empty source", "a\tb\n \tb", "tsv", "Key with the index 1 (starting at position 4) is empty"],
    ["empty target", "a\t ", "tsv", "Value with the index 0 (starting at position 0) is empty"],
    [
      "1025 bytes",
      `${"é".repeat(513)}\tb`,
      "tsv",
      "Key with the index 0 (starting at position 0) is too long"
    ],
    [
      "a control character",
      "a\u0085x\tb",
      "tsv",
      "Key with the index 0 (starting at position 0) contains control characters"
    ],
    [
      "a line separator",
      "a\tb\u2028c",
      "tsv",
      "Value with the index 0 (starting at position 0) contains control characters"
    ],
    ["nothing usable", "\n \r\n", "tsv", "No entries were given"]
  ])("refused: %s", (_, text, format, wanted) => expect(detail(text, format)).toBe(wanted))
  it("1024 bytes are allowed; sources differ by case", () => {
    expect(detail(`${"é".repeat(512)}\tb\nA\tx\na\ty`)).toHaveLength(3)
  })
  it("written and read again is the same (any phrases without control characters)", () => {
    let seed = 7
    const next = (max: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff
      return seed % max
    }
    const letters = ["a", "B", '"', ",", "'", " x", "ß", "日", "💜", "\\", "="]
    for (let round = 0; round < 300; round++) {
      const phrase = (i: number): string =>
        `${i}${Array.from({ length: 1 + next(6) }, () => letters[next(letters.length)]).join("")}`.trim()
      const entries: Array<Entry> = Array.from(
        { length: 1 + next(8) },
        (_, i) => [phrase(i), phrase(i)] as const
      )
      expect(fromTsv(toTsv(entries))).toEqual(entries)
      expect(parseEntries(toTsv(entries), "tsv", pair)).toEqual(entries)
      const csv = entries
        .map((row) => row.map((cell) => `"${cell.replaceAll('"', '""')}"`).join(","))
        .join("\r\n")
      expect(parseEntries(csv, "csv", pair)).toEqual(entries)
    }
  })
  it("any text is read or refused, in time that grows with its length", () => {
    let seed = 3
    const next = (max: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff
      return (seed >> 8) % max
    }
    const alphabet = ['"', ",", "\t", "\n", "\r", "a", " ", "\u0000", "é", "en", "de"]
    for (let round = 0; round < 2_000; round++) {
      const text = Array.from({ length: next(40) }, () => alphabet[next(alphabet.length)]).join("")
      for (const format of ["tsv", "csv"] as const) {
        const read = parseEntries(text, format, pair)
        if (!("detail" in read))
          for (const entry of read)
            for (const phrase of entry) expect(phrase).toMatch(/^[^\s\0]([^\t\n\r\0]*[^\s\0])?$/)
      }
    }
  })
})

describe("terms (translation 3.3.4)", () => {
  it("fold keeps places", () => {
    for (const text of ["İstanbul", "ΑΣ", "ẞ", "Ünï", "💜A"]) expect(fold(text)).toHaveLength(text.length)
  })
  it("two spellings of one term: the exact one wins, else the lower-case one", () => {
    const terms = termsOf([
      [
        ["Polish", "polnisch"],
        ["polish", "polieren"]
      ]
    ])
    expect(terms.find("Polish polish POLISH").map(({ target }) => target)).toEqual([
      "polnisch",
      "polieren",
      "POLIEREN"
    ])
  })
  it("terms with marks at their edges", () => {
    const terms = termsOf([
      [
        ["C++", "Zeh"],
        [".NET", "Netz"],
        ["e-mail", "Post"]
      ]
    ])
    expect(terms.find("C++, .NET and e-mail").map(({ target }) => target)).toEqual(["Zeh", "Netz", "Post"])
  })
})
