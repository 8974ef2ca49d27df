import { describe, expect, it } from "vitest"
import { expectLinear } from "../../../linear.ts"
import type { EngineSegment } from "../../../../actors/engines/ports.ts"
import {
  asciiBreaks,
  splitIntoSentences,
  Draft,
  render,
  withPlaceholders,
  type Split
} from "../../../../protocols/translation/text/segments.ts"

const draftOf = (text: string, split: Split = "1", language = "en"): Draft => {
  const draft = new Draft()
  splitIntoSentences(withPlaceholders(text), split, language, draft)
  return draft
}

/** Sentences as the engine sees them, opaque units as ‹n›. */
const unitTexts = (draft: Draft): ReadonlyArray<string> =>
  draft.segments.map(({ units }) =>
    units.map((unit) => (unit._tag === "text" ? unit.text : `‹${unit.id}›`)).join("")
  )

const sentences = (text: string, split: Split = "1", language = "en"): ReadonlyArray<string> =>
  unitTexts(draftOf(text, split, language))

const plainly = { repair: false, escape: false, target: "de" }

const mapped = (draft: Draft, change: (text: string) => string): ReadonlyArray<EngineSegment> =>
  draft.segments.map(({ units }) => ({
    units: units.map((unit) =>
      unit._tag === "text" ? { _tag: "text" as const, text: change(unit.text) } : unit
    )
  }))

const turned = (text: string, change: (text: string) => string, split: Split = "1"): string => {
  const draft = draftOf(text, split)
  return render(draft, mapped(draft, change), plainly)
}

describe("translate 3.1 split_sentences", () => {
  const text = "One. Two!\nThree\nfour? Five"
  it("`1`: split at punctuation and newlines", () =>
    expect(sentences(text, "1")).toEqual(["One.", "Two!", "Three", "four?", "Five"]))
  it("`nonewlines`: punctuation only", () =>
    expect(sentences(text, "nonewlines")).toEqual(["One.", "Two!", "Three\nfour?", "Five"]))
  it("`0`: one sentence", () => expect(sentences(text, "0")).toEqual([text]))
  it.each<[string, string, ReadonlyArray<string>]>([
    [
      "en",
      "Dr. Smith met J. Doe, e.g. Monday. Then left.",
      ["Dr. Smith met J. Doe, e.g. Monday.", "Then left."]
    ],
    [
      "de",
      "Am 3. Mai kam er. Dann ging er z.B. Nach Hause.",
      ["Am 3. Mai kam er.", "Dann ging er z.B. Nach Hause."]
    ],
    ["ja", "今日は。元気？", ["今日は。", "元気？"]],
    ["en", "Version 1.2.3 is out. Buy it.", ["Version 1.2.3 is out.", "Buy it."]],
    ["en", "See https://a.b/c?d=e. {name} is here.", ["See ‹0›.", "‹0› is here."]]
  ])("%s: %s", (language, text, expected) => expect(sentences(text, "1", language)).toEqual(expected))
})

describe("placeholders are opaque units", () => {
  it.each([
    "https://example.org/a?b=c#d",
    "mail.me+x@example.co.uk",
    "{name}",
    "{0}",
    "{{ user.name }}",
    "${x}",
    "%s",
    "%1$s",
    "%(count)d",
    "%.2f",
    "%{n}",
    "#{y}",
    "%%"
  ])("%s", (unit) => {
    expect(sentences(`Please look at ${unit} now`)).toEqual(["Please look at ‹0› now"])
    expect(turned(`Please look at ${unit} now`, (text) => text.toUpperCase())).toBe(
      `PLEASE LOOK AT ${unit} NOW`
    )
  })
  it.each(["50% of all", "a {", "x @ y", "one hundred %", "100% sure", "f(x) { return }".slice(0, 7)])(
    "no placeholder: %s",
    (text) => expect(sentences(text)).toEqual([text.trim()])
  )
  it("a full stop after an address ends the sentence, and is not part of it", () =>
    expect(sentences("Go to http://a.b/c. Come back.")).toEqual(["Go to ‹0›.", "Come back."]))
})

describe("what surrounds sentences", () => {
  it("white space stays as it is", () =>
    expect(turned("  One. \n\n\t Two.  \r\n", (text) => text.toUpperCase())).toBe("  ONE. \n\n\t TWO.  \r\n"))
  it.each(["", "   ", "123", "12:30 – 13:00", "😀😀", "{a} {b}", "—"])(
    "nothing to translate in %j: no segment",
    (text) => {
      const draft = draftOf(text)
      expect(draft.segments).toEqual([])
      expect(render(draft, [], plainly)).toBe(text)
    }
  )
})

describe("preserve_formatting false: first-letter case and end punctuation are repaired", () => {
  const repaired = (source: string, answer: string, target = "de"): string => {
    const draft = draftOf(source)
    return render(draft, [{ units: [{ _tag: "text", text: answer }] }], {
      repair: true,
      escape: false,
      target
    })
  }
  it.each([
    ["Hello there.", "hallo da.", "de", "Hallo da."],
    ["Hello there.", "Hallo da", "de", "Hallo da."],
    ["Why?", "warum", "de", "Warum?"],
    ["Hello.", "你好", "zh-hans", "你好。"],
    ["hello", "Hallo", "de", "Hallo"],
    ["Hello.", "Hallo!", "de", "Hallo!"],
    ["He said.", "Er sagte.“", "de", "Er sagte.“"],
    ["Hello", "", "de", ""]
  ])("%s answered %s (%s) → %s", (source, answer, target, expected) =>
    expect(repaired(source, answer, target)).toBe(expected)
  )
})

describe("laws", () => {
  it("an opaque unit which the engine loses, repeats or moves stands in the answer exactly once", () => {
    const draft = draftOf("Give {a} to {b} now")
    const answers = (units: EngineSegment["units"]) => render(draft, [{ units }], plainly)
    const text = (text: string) => ({ _tag: "text", text }) as const
    const opaque = (id: number) => ({ _tag: "opaque", id }) as const
    expect(answers([opaque(1), text(" bekommt "), opaque(0)])).toBe("{b} bekommt {a}")
    expect(answers([text("gib "), opaque(0), opaque(0), opaque(7)])).toBe("gib {a}{b}")
  })
  it("with an engine that changes nothing, text comes back byte for byte", () => {
    let seed = 11
    const next = (below: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff
      return (seed >> 8) % below
    }
    const alphabet = [
      "a",
      "B",
      "Wort",
      " ",
      "  ",
      ".",
      ". ",
      "! ",
      "?",
      "\n",
      "\r\n",
      "{x}",
      "%s",
      "%",
      "{",
      "}",
      "@",
      "a@b.cd",
      "https://x.y/",
      "ä",
      "日本。",
      "😀",
      "\u0301",
      "Dr. ",
      "3. ",
      "\uD800",
      "Ѫ",
      "…",
      "\u2028",
      '"'
    ]
    for (let round = 0; round < 2_000; round++) {
      let text = ""
      for (let i = next(25); i >= 0; i--) text += alphabet[next(alphabet.length)]
      for (const split of ["0", "1", "nonewlines"] as const) {
        const draft = draftOf(text, split, ["en", "de", "ja"][round % 3])
        expect(render(draft, draft.segments, plainly)).toBe(text)
        for (const { units } of draft.segments)
          for (const [i, unit] of units.entries())
            if (i > 0 && unit._tag === "text") expect(units[i - 1]!._tag).toBe("opaque")
      }
    }
  })
  it("the rules for plain ASCII say what the platform's segmenter says", () => {
    const segmenter = new Intl.Segmenter("en", { granularity: "sentence" })
    let seed = 3
    const next = (below: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff
      return (seed >> 8) % below
    }
    const alphabet = [
      ".",
      ". ",
      "!",
      "? ",
      " ",
      "  ",
      "a",
      "B",
      "1",
      ",",
      "-",
      ":",
      "'",
      '"',
      "(",
      ")",
      "[",
      "}",
      "Dr",
      "x y",
      "$",
      "@",
      "/",
      "<",
      "&",
      "_",
      "*",
      "~"
    ]
    for (let round = 0; round < 30_000; round++) {
      let text = "x"
      for (let i = next(14); i >= 0; i--) text += alphabet[next(alphabet.length)]
      expect([text, ...asciiBreaks(text)]).toEqual([
        text,
        ...[...segmenter.segment(text)].map(({ index, segment }) => index + segment.length)
      ])
    }
  })
  it("hostile text takes no more than its share: four times the text, about four times the work", () => {
    for (const piece of ["a", "a.", "@", "{", "%", "http://", ".", "a@", "a@b.", "Dr. ", " ", "\n"])
      expectLinear(
        (length) => {
          const text = `${piece === "." ? "http://" : ""}${piece.repeat(Math.floor(length / piece.length))}`
          const draft = draftOf(text)
          expect(render(draft, draft.segments, plainly) === text).toBe(true)
        },
        32_768,
        JSON.stringify(piece)
      )
  }, 120_000)
})
