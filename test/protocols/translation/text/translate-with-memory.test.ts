import { Effect } from "effect"
import { expect, it } from "vitest"
import { Customizations } from "../../../../protocols/translation/text/customizations.ts"
import { translateWithMemory } from "../../../../protocols/translation/text/translate-with-memory.ts"
import { languageOf } from "../../../../protocols/translation/languages.ts"
import { MemorySearch } from "../../../../protocols/translation/memories/search.ts"
import { scripted, TranslationHarness } from "../harness.ts"

it("texts that others bring: whole lines and terms from the glossary, the style's characters, the rest from the engine in one call", async () => {
  const world = await TranslationHarness.open()
  const { engines, asked } = scripted({ change: (text) => text.toUpperCase() })
  const glossary = (
    await world.call({
      path: "/v3/glossaries",
      body: {
        name: "g",
        dictionaries: [
          { source_lang: "en", target_lang: "de", entries: "cat\tKatze\nFirst. Second.\tbeides" }
        ]
      }
    })
  ).body.glossary_id
  const style = (
    await world.call({
      path: "/v3/style_rules",
      body: {
        name: "s",
        language: "de",
        configured_rules: { punctuation: { ellipsis: "use_ellipsis_character" } }
      }
    })
  ).body
  const memories = new MemorySearch(world.store)
  const source = languageOf("en")!
  const target = languageOf("de")!
  const aids = new Customizations({
    store: world.store,
    memories,
    styles: {
      find: (_, styleId) =>
        styleId === style.style_id
          ? ({ rules: style.configured_rules, instructions: [], language: "de", styleId, version: 1 } as any)
          : undefined
    }
  })
  const aid = aids.of(world.account.accountId, {
    source,
    target,
    glossaryIds: [glossary],
    styleId: style.style_id,
    memoryId: undefined,
    memoryThreshold: 75
  })
  if ("_tag" in aid) throw new Error(aid._tag)
  const result = await Effect.runPromise(
    translateWithMemory({ translator: engines.translator, memories }, aid, {
      account: world.account.accountId,
      texts: ["First. Second.", "a cat... {x}", "", "cat"],
      source,
      target,
      pair: "de"
    })
  )
  expect(result).toEqual({ texts: ["beides", "A Katze… {x}", "", "Katze"], places: [], engine: "fake" })
  expect([asked.length, asked[0]!.segments.length]).toEqual([1, 1])
})
