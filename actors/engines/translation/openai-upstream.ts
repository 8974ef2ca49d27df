/** Uses an OpenAI-compatible chat model as translator: a JSON array goes in and out, opaque units travel as
 *  ⟦n⟧, and every answer is verified; a segment that comes back wrong is requested once more on its own.
 *  Source: docs/spec/engines.md, section 2.5. */
import { Effect } from "effect"
import {
  EngineFault,
  type EngineSegment,
  type TranslateRequest,
  type Translator,
  type SegmentUnit
} from "../ports.ts"
import { callUpstream, translationTryMs } from "../upstream-call.ts"

const id = "openai-upstream"
const segmentsPerCall = 20
const againAtOnce = 4
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
  units: text
    .split(/⟦(\d+)⟧/)
    .flatMap((part, i): ReadonlyArray<SegmentUnit> =>
      i % 2 === 1 ? [{ _tag: "opaque", id: Number(part) }] : part === "" ? [] : [{ _tag: "text", text: part }]
    )
})

/** The features that a translation must not change: the markers, each exactly once; the figures, whatever
 *  separates their digits; and that the text is not empty. */
const figures = (segment: EngineSegment): string =>
  (textOf(segment).replace(/⟦\d+⟧/g, " ").match(/\d+/g) ?? []).join("").split("").sort().join("")

const marks = (segment: EngineSegment): string =>
  segment.units
    .flatMap((unit) => (unit._tag === "opaque" ? [unit.id] : []))
    .sort((a, b) => a - b)
    .join()

const empty = (segment: EngineSegment): boolean => textOf(segment).trim() === ""

const faithful = (segment: EngineSegment, made: EngineSegment): boolean =>
  marks(made) === marks(segment) && figures(made) === figures(segment) && empty(made) === empty(segment)

export const openaiUpstream = ({
  url,
  key,
  model
}: {
  readonly url: string
  readonly key: string
  readonly model: string
}): Translator => {
  const ask = (
    { source, target, formality, context, instructions }: TranslateRequest,
    segments: ReadonlyArray<EngineSegment>
  ) => {
    const system = [
      `Translate every string of the JSON array from ${source} to ${target}. Answer with a JSON array of as many strings and nothing else.`,
      "Keep each mark like ⟦1⟧ exactly once, at its place in the sentence.",
      ...(formality === "more"
        ? ["Use the formal form of address."]
        : formality === "less"
          ? ["Use the informal form of address."]
          : []),
      ...(instructions ?? []),
      ...(context === undefined ? [] : [`Context, not to be translated: ${context}`])
    ].join("\n")
    return Effect.flatMap(
      callUpstream({
        engine: id,
        tryMs: translationTryMs,
        url: `${url.replace(/\/+$/, "")}/chat/completions`,
        headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
        body: JSON.stringify({
          model,
          temperature: 0,
          messages: [
            { role: "system", content: system },
            { role: "user", content: JSON.stringify(segments.map(textOf)) }
          ]
        })
      }),
      (answer) => {
        const content = (
          answer as {
            readonly choices?: ReadonlyArray<{ readonly message?: { readonly content?: unknown } }>
          }
        ).choices?.[0]?.message?.content
        let made: unknown
        try {
          made = JSON.parse(
            String(content)
              .replace(/^```(?:json)?|```$/g, "")
              .trim()
          )
        } catch {
          made = undefined
        }
        return Array.isArray(made) &&
          made.length === segments.length &&
          made.every((text) => typeof text === "string")
          ? Effect.succeed(made.map((text) => segmentOf(text as string)))
          : Effect.fail(new EngineFault({ reason: "upstream", engine: id, detail: wrongShape }))
      }
    )
  }
  /** Translates all segments in one call; undefined means that the answer has the wrong shape, so that each
   *  segment is requested on its own. */
  const whole = (
    request: TranslateRequest,
    batch: ReadonlyArray<EngineSegment>
  ): Effect.Effect<ReadonlyArray<EngineSegment> | undefined, EngineFault> =>
    Effect.catch(ask(request, batch), (fault: EngineFault) =>
      fault.detail === wrongShape ? Effect.succeed(undefined) : Effect.fail(fault)
    )
  return {
    info: { id, version: model, tier: "remote", licence: "service" },
    readiness: () => ({ ready: true }),
    supports: (source, target) =>
      languages.includes(source.split("-")[0]!) && languages.includes(target.split("-")[0]!)
        ? "direct"
        : false,
    pairs: () =>
      languages.flatMap((source) =>
        languages.filter((target) => target !== source).map((target) => [source, target] as const)
      ),
    formality: (target) =>
      ["de", "es", "fr", "it", "ja", "nl", "pl", "pt", "ru"].includes(target.split("-")[0]!),
    translate: (request) => {
      const batches = Array.from({ length: Math.ceil(request.segments.length / segmentsPerCall) }, (_, i) =>
        request.segments.slice(i * segmentsPerCall, (i + 1) * segmentsPerCall)
      )
      return Effect.map(
        Effect.forEach(
          batches,
          (batch) =>
            Effect.flatMap(whole(request, batch), (made) =>
              Effect.forEach(
                batch,
                (segment, i) => {
                  const first = made?.[i]
                  if (first !== undefined && faithful(segment, first)) return Effect.succeed(first)
                  // Figures may legitimately differ ("two" for "2"), so the second answer's figures are
                  // accepted; the router repairs markers.
                  return Effect.flatMap(ask(request, [segment]), ([again]) =>
                    empty(again!) && !empty(segment)
                      ? Effect.fail(
                          new EngineFault({ reason: "upstream", engine: id, detail: "an empty translation" })
                        )
                      : Effect.succeed(again!)
                  )
                },
                { concurrency: againAtOnce }
              )
            ),
          { concurrency: 2 }
        ),
        (parts) => ({ segments: parts.flat(), engine: id })
      )
    }
  }
}
