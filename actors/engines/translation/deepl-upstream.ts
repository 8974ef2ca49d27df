/** Uses a DeepL-compatible service as translator: one call translates all segments, and opaque units travel
 *  as XML elements that the service is asked to ignore. Source: docs/spec/engines.md, section 2.5. */
import { Effect } from "effect"
import {
  EngineFault,
  type Language,
  type EngineSegment,
  type Translator,
  type SegmentUnit
} from "../ports.ts"
import { callUpstream, translationTryMs } from "../upstream-call.ts"

const id = "deepl-upstream"
const textsMax = 50
const listMs = 10_000
const listEveryMs = 3_600_000
const listAgainMs = 30_000

const escaped = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;")

const plain = (text: string): string =>
  text
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&quot;", '"')
    .replaceAll(/&(?:apos|#39|#x27);/gi, "'")
    .replaceAll("&amp;", "&")

const xmlOf = ({ units }: EngineSegment): string =>
  units.map((unit) => (unit._tag === "text" ? escaped(unit.text) : `<x id="${unit.id}"/>`)).join("")

const segmentOf = (xml: string): EngineSegment => ({
  units: xml
    .split(/<x id="(\d+)"\s*\/>|<x id="(\d+)"><\/x>/)
    .flatMap((part, i): ReadonlyArray<SegmentUnit> =>
      part === undefined || part === ""
        ? []
        : i % 3 === 0
          ? [{ _tag: "text", text: plain(part) }]
          : [{ _tag: "opaque", id: Number(part) }]
    )
})

export const deeplUpstream = ({
  url,
  key,
  nowMs = Date.now
}: {
  readonly url: string
  readonly key: string
  readonly nowMs?: () => number
}): Translator => {
  const base = url.replace(/\/+$/, "")
  const headers = { Authorization: `DeepL-Auth-Key ${key}`, "Content-Type": "application/json" }
  let sources: ReadonlySet<Language> = new Set()
  let targets: ReadonlyMap<Language, boolean> = new Map()
  let reason = "its languages are not known yet"
  let listAtMs = 0
  /** Refreshes the list of languages in the background. A list is valid for an hour, and a service that is
   *  down is not asked at every request. */
  const list = (): void => {
    if (nowMs() < listAtMs) return
    listAtMs = nowMs() + listEveryMs
    const get = async (type: string) => {
      const answer = await fetch(`${base}/v2/languages?type=${type}`, {
        headers,
        signal: AbortSignal.timeout(listMs)
      })
      if (!answer.ok) throw new Error(`HTTP ${answer.status}`)
      return (await answer.json()) as ReadonlyArray<{
        readonly language: string
        readonly supports_formality?: boolean
      }>
    }
    Promise.all([get("source"), get("target")])
      .then(([from, to]) => {
        if (!Array.isArray(from) || !Array.isArray(to)) throw new Error("no list of languages")
        sources = new Set(from.map(({ language }) => language.toLowerCase()))
        targets = new Map(
          to.map(({ language, supports_formality }) => [language.toLowerCase(), supports_formality === true])
        )
      })
      .catch((cause: Error) => {
        reason = cause.message
        listAtMs = nowMs() + listAgainMs
      })
  }
  list()
  /** Returns the service's code for a target: it may not know a variant, and its list omits the bases of
   *  variants although it accepts them. */
  const targetOf = (target: Language): Language | undefined => {
    const base = target.split("-")[0]!
    return targets.has(target)
      ? target
      : targets.has(base) || [...targets.keys()].some((known) => known.startsWith(`${base}-`))
        ? base
        : undefined
  }
  const can = (source: Language, target: Language): boolean =>
    sources.has(source.split("-")[0]!) && targetOf(target) !== undefined
  return {
    info: { id, version: "v2", tier: "remote", licence: "service" },
    readiness: () => {
      list()
      return targets.size > 0 ? { ready: true } : { ready: false, reason: `${base}: ${reason}` }
    },
    supports: (source, target) => (can(source, target) ? "direct" : false),
    pairs: () =>
      [...sources].flatMap((source) =>
        [...new Set([...targets.keys()].map((target) => target.split("-")[0]!))]
          .filter((target) => target !== source)
          .map((target) => [source, target] as const)
      ),
    formality: (target) => {
      const known = targetOf(target) ?? ""
      return (
        targets.get(known) ?? [...targets].some(([code, formal]) => formal && code.startsWith(`${known}-`))
      )
    },
    translate: ({ source, target, segments, context, formality, instructions }) =>
      Effect.map(
        Effect.forEach(
          Array.from({ length: Math.ceil(segments.length / textsMax) }, (_, i) =>
            segments.slice(i * textsMax, (i + 1) * textsMax)
          ),
          (part) =>
            Effect.flatMap(
              callUpstream({
                engine: id,
                tryMs: translationTryMs,
                url: `${base}/v2/translate`,
                headers,
                body: JSON.stringify({
                  text: part.map(xmlOf),
                  source_lang: source.split("-")[0]!.toUpperCase(),
                  target_lang: (targetOf(target) ?? target).toUpperCase(),
                  tag_handling: "xml",
                  ignore_tags: ["x"],
                  split_sentences: "0",
                  ...(context === undefined ? {} : { context }),
                  ...(instructions === undefined ? {} : { custom_instructions: instructions }),
                  ...(formality === undefined || formality === "default"
                    ? {}
                    : { formality: `prefer_${formality}` })
                })
              }),
              (answer) => {
                const made = (
                  answer as { readonly translations?: ReadonlyArray<{ readonly text?: unknown }> }
                ).translations
                return Array.isArray(made) &&
                  made.length === part.length &&
                  made.every(({ text }) => typeof text === "string")
                  ? Effect.succeed(made.map(({ text }) => segmentOf(text as string)))
                  : Effect.fail(
                      new EngineFault({
                        reason: "upstream",
                        engine: id,
                        detail: "an answer of the wrong shape"
                      })
                    )
              }
            ),
          { concurrency: 4 }
        ),
        (parts) => ({ segments: parts.flat(), engine: id })
      )
  }
}
