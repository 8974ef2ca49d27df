import { existsSync } from "node:fs"
import { Effect } from "effect"
import { afterEach, describe, expect, it } from "vitest"
import { apertium } from "../../../../actors/engines/translation/apertium.ts"
import { hosted, type Hosted } from "../hosted.ts"
import { chrf2 } from "./chrf.ts"
import { sentences, type Sentence } from "./sentences.ts"

describe("chrF2", () => {
  it("is 100 for the reference itself, 0 for nothing in common, and weighs what is missing more than what is too much", () => {
    expect(chrf2([["La casa es grande.", "La casa es grande."]])).toBeCloseTo(100)
    expect(chrf2([["xyz", "abc"]])).toBe(0)
    expect(chrf2([["", "abc"]])).toBe(0)
    expect(chrf2([["abcdefgh", "abcdefghijkl"]])).toBeLessThan(chrf2([["abcdefghijklmnop", "abcdefghijkl"]]))
  })
  it("is the published formula, counted by hand: ab against ac", () => {
    // 1-grams: 1 of 2 both ways; 2-grams: 0 of 1; longer ones: none in either, so left out.
    expect(chrf2([["ab", "ac"]])).toBeCloseTo(25)
  })
})

let host: Hosted | undefined
afterEach(() => host?.close())

const installed =
  existsSync("/usr/share/apertium/modes/eng-spa.mode") && existsSync("/usr/share/apertium/modes/es-fr.mode")

const score = async (source: keyof Sentence, target: keyof Sentence): Promise<number> => {
  host = hosted("real")
  const engine = apertium(host)
  const result = await Effect.runPromise(
    engine.translate({
      source,
      target,
      segments: sentences.map((one) => ({ units: [{ _tag: "text", text: one[source] }] }))
    })
  )
  return chrf2(
    result.segments.map(({ units }, i) => [
      units.map((unit) => (unit._tag === "text" ? unit.text : "")).join(""),
      sentences[i]![target]
    ])
  )
}

describe("Apertium on twenty everyday sentences", () => {
  for (const [source, target, least] of [
    ["en", "es", 70],
    ["es", "en", 75],
    ["en", "fr", 65],
    ["es", "fr", 72],
    ["fr", "es", 65]
  ] as const) {
    it.skipIf(!installed && !process.env["CI"])(
      `${source} → ${target}: chrF2 of ${least} at least, far above the source left as it is`,
      async () => {
        const is = await score(source, target)
        const copied = chrf2(sentences.map((one) => [one[source], one[target]]))
        expect(is).toBeGreaterThan(least)
        expect(is).toBeGreaterThan(copied + 20)
      }
    )
  }
})
