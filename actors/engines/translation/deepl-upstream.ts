/** A DeepL-compatible service as translator: one call for up to 50 segments. It is guaranteed that opaque
 *  units go as XML elements which the service is told to ignore. Source: docs/spec/engines.md, section
 *  2.5. */
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

const escapeXml = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;")

const unescapeXml = (text: string): string =>
  text
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&quot;", '"')
    .replaceAll(/&(?:apos|#39|#x27);/gi, "'")
    .replaceAll("&amp;", "&")

const xmlOf = ({ units }: EngineSegment): string =>
  units.map((unit) => (unit._tag === "text" ? escapeXml(unit.text) : `<x id="${unit.id}"/>`)).join("")

const segmentOf = (xml: string): EngineSegment => ({
  units: xml
    .split(/<x id="(\d+)"\s*\/>|<x id="(\d+)"><\/x>/)
    .flatMap((part, i): ReadonlyArray<SegmentUnit> => {
      if (part === undefined || part === "") return []
      return i % 3 === 0
        ? [{ _tag: "text", text: unescapeXml(part) }]
        : [{ _tag: "opaque", id: Number(part) }]
    })
})

export interface DeeplUpstreamOptions {
  readonly url: string
  readonly key: string
  readonly nowMs?: () => number
}

export const deeplUpstream = ({ url, key, nowMs = Date.now }: DeeplUpstreamOptions): Translator => {
  const base = url.replace(/\/+$/, "")
  const headers = { Authorization: `DeepL-Auth-Key ${key}`, "Content-Type": "application/json" }
  let sources: ReadonlySet<Language> = new Set()
  let targets: ReadonlyMap<Language, boolean> = new Map()
  let reason = "its languages are not known yet"
  let nextListMs = 0
  /** Refreshes the list every hour in the background, and not at every request while the service is down. */
  const refreshList = (): void => {
    if (nowMs() < nextListMs) return
    nextListMs = nowMs() + listEveryMs
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
        nextListMs = nowMs() + listAgainMs
      })
  }
  refreshList()
  /** The code that the service takes for a target: a variant may be new to it, and the bases of variants
   *  are taken though they are not in its list. */
  const targetOf = (target: Language): Language | undefined => {
    if (targets.has(target)) return target
    const language = target.split("-")[0]!
    const isTaken =
      targets.has(language) || [...targets.keys()].some((code) => code.startsWith(`${language}-`))
    return isTaken ? language : undefined
  }
  const can = (source: Language, target: Language): boolean =>
    sources.has(source.split("-")[0]!) && targetOf(target) !== undefined
  return {
    info: { id, version: "v2", tier: "remote", licence: "service" },
    readiness: () => {
      refreshList()
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
      const code = targetOf(target) ?? ""
      return (
        targets.get(code) ??
        [...targets].some(([variant, formal]) => formal && variant.startsWith(`${code}-`))
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
                  context,
                  custom_instructions: instructions,
                  formality:
                    formality === undefined || formality === "default" ? undefined : `prefer_${formality}`
                })
              }),
              (answer) => {
                const translations = (
                  answer as { readonly translations?: ReadonlyArray<{ readonly text?: unknown }> }
                ).translations
                return Array.isArray(translations) &&
                  translations.length === part.length &&
                  translations.every(({ text }) => typeof text === "string")
                  ? Effect.succeed(translations.map(({ text }) => segmentOf(text as string)))
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
