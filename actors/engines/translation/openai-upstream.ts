/** An OpenAI-compatible chat model as translator: a JSON array goes in and out, opaque units as ⟦n⟧. It is
 *  guaranteed that every answer is verified; a segment that comes back wrong is asked for once more on its
 *  own.
 *  Source: docs/spec/engines.md, section 2.5. */
import { Effect } from "effect"
import {
  EngineFault,
  type EngineSegment,
  type Language,
  type SegmentUnit,
  type TranslateRequest,
  type Translator
} from "../ports.ts"
import { callUpstream, translationTryMs, type OpenAiService } from "../upstream-call.ts"

const id = "openai-upstream"
const segmentsPerCall = 20
const againAtOnce = 4
const batchesAtOnce = 2
const wrongShape = "an answer of the wrong shape"

const languages =
  "ar bg cs da de el en es et fi fr he hu id it ja ko lt lv nb nl pl pt ro ru sk sl sv th tr uk vi zh".split(
    " "
  )

const textOf = ({ units }: EngineSegment): string =>
  units
    .map((unit) =>
      unit._tag === "text" ? unit.text.replaceAll("⟦", "[").replaceAll("⟧", "]") : `⟦${unit.id}⟧`
    )
    .join("")

const segmentOf = (text: string): EngineSegment => ({
  units: text.split(/⟦(\d+)⟧/).flatMap((part, i): ReadonlyArray<SegmentUnit> => {
    if (i % 2 === 1) return [{ _tag: "opaque", id: Number(part) }]
    return part === "" ? [] : [{ _tag: "text", text: part }]
  })
})

/** The figures of a segment, sorted: a translation may order them anew, but not change them. */
const figures = (segment: EngineSegment): string =>
  (textOf(segment).replace(/⟦\d+⟧/g, " ").match(/\d+/g) ?? []).join("").split("").sort().join("")

const marks = (segment: EngineSegment): string =>
  segment.units
    .flatMap((unit) => (unit._tag === "opaque" ? [unit.id] : []))
    .sort((a, b) => a - b)
    .join()

const isEmpty = (segment: EngineSegment): boolean => textOf(segment).trim() === ""

/** True for a translation with the marks and figures of its source, which is empty only if its source is. */
const isFaithful = (source: EngineSegment, translation: EngineSegment): boolean =>
  marks(translation) === marks(source) &&
  figures(translation) === figures(source) &&
  isEmpty(translation) === isEmpty(source)

const formalityOf = (formality: TranslateRequest["formality"]): ReadonlyArray<string> => {
  if (formality === "more") return ["Use the formal form of address."]
  return formality === "less" ? ["Use the informal form of address."] : []
}

const parseArray = (content: unknown): unknown => {
  try {
    return JSON.parse(
      String(content)
        .replace(/^```(?:json)?|```$/g, "")
        .trim()
    )
  } catch {
    return undefined
  }
}

/** The content of a chat completion. */
const contentOf = (answer: object): unknown =>
  (answer as { readonly choices?: ReadonlyArray<{ readonly message?: { readonly content?: unknown } }> })
    .choices?.[0]?.message?.content

const instructionsOf = ({ source, target, formality, context, instructions }: TranslateRequest): string =>
  [
    `Translate every string of the JSON array from ${source} to ${target}. Answer with a JSON array of as many strings and nothing else.`,
    "Keep each mark like ⟦1⟧ exactly once, at its place in the sentence.",
    ...formalityOf(formality),
    ...(instructions ?? []),
    ...(context === undefined ? [] : [`Context, not to be translated: ${context}`])
  ].join("\n")

const fail = (detail: string) => Effect.fail(new EngineFault({ reason: "upstream", engine: id, detail }))

const formalLanguages = new Set(["de", "es", "fr", "it", "ja", "nl", "pl", "pt", "ru"])
const baseOf = (language: Language): Language => language.split("-")[0]!

export const openaiUpstream = ({ url, key, model }: OpenAiService): Translator => {
  const ask = (request: TranslateRequest, segments: ReadonlyArray<EngineSegment>) =>
    Effect.flatMap(
      callUpstream({
        engine: id,
        tryMs: translationTryMs,
        url: `${url.replace(/\/+$/, "")}/chat/completions`,
        headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
        body: JSON.stringify({
          model,
          temperature: 0,
          messages: [
            { role: "system", content: instructionsOf(request) },
            { role: "user", content: JSON.stringify(segments.map(textOf)) }
          ]
        })
      }),
      (answer) => {
        const texts = parseArray(contentOf(answer))
        return Array.isArray(texts) &&
          texts.length === segments.length &&
          texts.every((text) => typeof text === "string")
          ? Effect.succeed(texts.map((text) => segmentOf(text as string)))
          : fail(wrongShape)
      }
    )

  /** Asks for a batch; undefined when the answer has the wrong shape, so that each is asked for on its
   *  own. */
  const askBatch = (
    request: TranslateRequest,
    batch: ReadonlyArray<EngineSegment>
  ): Effect.Effect<ReadonlyArray<EngineSegment> | undefined, EngineFault> =>
    Effect.catch(ask(request, batch), (fault: EngineFault) =>
      fault.detail === wrongShape ? Effect.succeed(undefined) : Effect.fail(fault)
    )

  /** Figures may rightly differ ("two" for "2"), so the second answer is believed about them; the router
   *  repairs marks. */
  const askAgain = (request: TranslateRequest, segment: EngineSegment) =>
    Effect.flatMap(ask(request, [segment]), ([again]) =>
      isEmpty(again!) && !isEmpty(segment) ? fail("an empty translation") : Effect.succeed(again!)
    )

  const translateBatch = (request: TranslateRequest, batch: ReadonlyArray<EngineSegment>) =>
    Effect.flatMap(askBatch(request, batch), (translations) =>
      Effect.forEach(
        batch,
        (segment, i) => {
          const first = translations?.[i]
          return first !== undefined && isFaithful(segment, first)
            ? Effect.succeed(first)
            : askAgain(request, segment)
        },
        { concurrency: againAtOnce }
      )
    )

  return {
    info: { id, version: model, tier: "remote", licence: "service" },
    readiness: () => ({ ready: true }),
    supports: (source, target) =>
      languages.includes(baseOf(source)) && languages.includes(baseOf(target)) ? "direct" : false,
    pairs: () =>
      languages.flatMap((source) =>
        languages.filter((target) => target !== source).map((target) => [source, target] as const)
      ),
    formality: (target) => formalLanguages.has(baseOf(target)),
    translate: (request) => {
      const batches = Array.from({ length: Math.ceil(request.segments.length / segmentsPerCall) }, (_, i) =>
        request.segments.slice(i * segmentsPerCall, (i + 1) * segmentsPerCall)
      )
      return Effect.map(
        Effect.forEach(batches, (batch) => translateBatch(request, batch), { concurrency: batchesAtOnce }),
        (parts) => ({ segments: parts.flat(), engine: id })
      )
    }
  }
}
