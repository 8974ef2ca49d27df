/** Fixtures that the vendor's client test-suites expect: an engine that knows one phrase in many languages,
 *  a style list, a memory.
 *  Source: docs/spec/translation.md, section 18.1, items 6 and 7. */
import { Effect, Stream } from "effect"
import {
  EngineFault,
  type Engines,
  type Language,
  type Translator,
  type SegmentUnit
} from "../../../actors/engines/ports.ts"
import { Memories, type Memory } from "../../../actors/memory-job.ts"
import { committed, type Store, type Write } from "../../../storage/store.ts"
import { languages } from "../languages.ts"
import { exactPrefix, exactTable, LastUsed, MemorySegments } from "../memories/records.ts"
import type { StyleList } from "../styles/records.ts"

const phrases: Readonly<Record<Language, string>> = {
  en: "proton beam",
  de: "Protonenstrahl",
  fr: "faisceau de protons",
  es: "haz de protones",
  it: "fascio di protoni",
  pt: "feixe de prótons",
  nl: "protonenbundel",
  pl: "wiązka protonów",
  ru: "протонный луч",
  ja: "陽子ビーム",
  ko: "양성자 빔",
  zh: "质子束",
  "zh-hant": "質子束",
  tr: "proton ışını",
  sv: "protonstråle",
  nb: "protonstråle",
  da: "protonstråle",
  cs: "protonový paprsek",
  el: "δέσμη πρωτονίων",
  fi: "protonisäde",
  hu: "protonnyaláb",
  uk: "протонний пучок"
}

/** Languages by length of their phrase, longest first, so that no phrase hides another. */
const phraseLanguages = [
  ...Object.entries(phrases).map(
    ([language, phrase]) => [phrase.toLowerCase(), language.split("-")[0]!] as const
  ),
  ["陽子線", "ja"] as const
].sort((a, b) => b[0].length - a[0].length)

const phraseIn = (target: Language): string =>
  phrases[target] ?? phrases[target.split("-")[0]!] ?? `proton beam (${target})`

const detect = (text: string): Language =>
  phraseLanguages.find(([phrase]) => text.trim().toLowerCase().startsWith(phrase))?.[1] ?? "en"

const info = { id: "fixture", version: "1", tier: "embedded", licence: "MIT" } as const
const ready = () => ({ ready: true }) as const
const missing = { ready: false, reason: "not part of test mode" } as const

const unsupported = Effect.fail(
  new EngineFault({ reason: "unsupported", engine: "fixture", detail: "not part of test mode" })
)

export const fixtureEngines = (): Engines => {
  const bases = [...new Set(languages.map(({ base }) => base))]
  const translator: Translator = {
    info,
    readiness: ready,
    supports: (source, target) =>
      bases.includes(source) && source !== target.split("-")[0] ? "direct" : false,
    pairs: () =>
      bases.flatMap((source) =>
        bases.filter((target) => target !== source).map((target) => [source, target] as const)
      ),
    formality: () => true,
    verbatim: true,
    translate: ({ target, segments }) =>
      Effect.succeed({
        engine: info.id,
        segments: segments.map(({ units }) => {
          const phrase = phraseIn(target)
          let phraseWritten = false
          return {
            units: units.flatMap((unit): ReadonlyArray<SegmentUnit> => {
              if (unit._tag === "opaque") return [unit]
              if (unit.text.trim() === "") return unit.text === "" ? [] : [unit]
              if (phraseWritten) return []
              phraseWritten = true
              const lines = unit.text.split("\n").map((line) => (line.trim() === "" ? line : phrase))
              return [{ _tag: "text", text: lines.join("\n") }]
            })
          }
        })
      })
  }
  const writes = ["de", "en", "es", "fr", "it", "ja", "ko", "pt", "zh"]
  return {
    translator,
    detector: {
      info,
      readiness: ready,
      detect: (text) => ({ language: detect(text), confidence: 1, reliable: false })
    },
    recognizer: {
      info,
      readiness: () => missing,
      languages: () => [],
      detects: false,
      capacity: () => ({ used: 0, max: 0 }),
      places: { reserve: () => undefined, lease: () => unsupported, held: () => undefined, waiting: () => 0 },
      recognize: () => Stream.empty
    },
    synthesizer: { info, readiness: () => missing, languages: () => [], speak: () => unsupported },
    corrector: { info, readiness: ready, languages: () => writes, correct: () => Effect.succeed([]) },
    rephraser: {
      info,
      readiness: ready,
      languages: () => writes,
      styles: () => true,
      rephrase: (_, { language }) => Effect.succeed(phraseIn(language))
    },
    all: () => [{ ...translator, port: "translator" }]
  }
}

const createdMs = Date.UTC(2025, 0, 1)

export const fixtureStyle: StyleList = {
  styleId: "dca2e053-8ae5-45e6-a0d2-881156e7f4e4",
  accountId: "",
  name: "Default Style Rule",
  language: "en",
  version: 1,
  createdMs,
  updatedMs: createdMs,
  rules: { dates_and_times: { calendar_era: "use_bce_and_ce" } },
  instructions: []
}

export const fixtureMemoryId = "a74d88fb-ed2a-4943-a664-a4512398b994"
const segments = 12

export const fixtureMemory = (accountId: string): Memory => ({
  memoryId: fixtureMemoryId,
  accountId,
  name: "Default Translation Memory",
  source: "de",
  targets: ["en", "es", "fr"],
  segments,
  createdMs,
  updatedMs: createdMs
})

/** Stores the segments, which all accounts share. */
export const putFixtures = (store: Store): Promise<void> =>
  committed(
    store,
    Array.from({ length: segments }, (_, i): ReadonlyArray<Write> => {
      const text = `Quelltext Nummer ${i}`
      return [
        MemorySegments.put([fixtureMemoryId, i], {
          text,
          targets: [
            ["en", `Target text number ${i}`],
            ["es", `Texto de destino número ${i}`],
            ["fr", `Texte cible numéro ${i}`]
          ]
        }),
        {
          _tag: "put",
          table: exactTable,
          key: [...exactPrefix(fixtureMemoryId, text), i],
          value: new Uint8Array(0)
        },
        ...(i % 3 === 0 ? [LastUsed.put([fixtureMemoryId, i], createdMs + i)] : [])
      ]
    }).flat()
  )

export const memoryRow = (accountId: string): Write =>
  Memories.put([accountId, fixtureMemoryId], fixtureMemory(accountId))
