import { Effect } from "effect"
import { beforeAll, describe, expect, it } from "vitest"
import {
  correctorRouter,
  harper,
  hunspell,
  hunspellDictionaries
} from "../../../../actors/engines/correction/correctors.ts"
import { plainRephraser } from "../../../../actors/engines/correction/rephrasers.ts"
import { edited, inOrder } from "../../../../actors/engines/correction/worker-corrector.ts"
import { hosted } from "../hosted.ts"

describe("correctors, the real ones", () => {
  const { system, starts } = hosted("real")
  const corrector = correctorRouter([harper(system, starts), hunspell(system, starts)])
  const correct = async (text: string, language: string) =>
    edited(text, await Effect.runPromise(corrector.correct(text, language)))
  // A start on a busy machine may take longer than a request's deadline.
  beforeAll(async () => {
    for (const language of ["en-us", "es"])
      await Effect.runPromise(Effect.retry(corrector.correct("a", language), { times: 50 }))
  }, 120_000)
  it.each([
    ["en-us", "He go to school every day.", "He goes to school every day."],
    ["en-us", "I has a apple and an banana.", "I have an apple and a banana."],
    ["en-us", "💜 The colour is nice.", "💜 The color is nice."],
    ["en-gb", "The color is nice.", "The colour is nice."],
    ["es", "La accion fue buena.", "La acción fue buena."],
    ["fr", "Le langgage est beau, dit Xavérine.", "Le langage est beau, dit Xavérine."],
    ["pt", "Meu coracao bate.", "Meu coração bate."]
  ])("%s: %s", async (language, text, wanted) => expect(await correct(text, language)).toBe(wanted), 30_000)
  it("languages are those that have an engine or a dictionary here", () => {
    expect(corrector.languages()).toEqual(expect.arrayContaining(["en", "es", "fr", "pt"]))
    expect(Object.keys(hunspellDictionaries("/nowhere"))).not.toContain("de")
    expect(corrector.languages()).not.toContain("ja")
  })
  it.each([
    ["casual", undefined, "It is late and we do not know.", "It's late and we don't know."],
    ["business", undefined, "Thanks, we don't know.", "Thank you, we do not know."],
    ["simple", undefined, "We utilize it in order to win.", "We use it to win."],
    [undefined, "confident", "I think this works.", "This works."],
    [undefined, "enthusiastic", "This works.", "This works!"]
  ])(
    "rephrased by tables, style %s, tone %s",
    async (style, tone, text, wanted) => {
      expect(
        await Effect.runPromise(plainRephraser(corrector).rephrase(text, { language: "en-us", style, tone }))
      ).toBe(wanted)
    },
    30_000
  )
})

it("edits that overlap: the first counts", () => {
  expect(
    edited(
      "abcdef",
      inOrder([
        { from: 2, to: 4, text: "X", kind: "spelling" },
        { from: 0, to: 3, text: "Y", kind: "spelling" },
        { from: 4, to: 5, text: "Z", kind: "grammar" }
      ])
    )
  ).toBe("YdZf")
})
