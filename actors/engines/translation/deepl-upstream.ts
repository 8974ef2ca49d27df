/** A DeepL-compatible service behind us: one call for all segments; opaque units travel as XML elements it is told to ignore. */
import { Effect } from "effect"
import { EngineFault, type Language, type Segment, type Translator, type Unit } from "../ports.ts"
import { callUpstream } from "../upstream.ts"

const id = "deepl-upstream"
const textsMax = 50
const listMs = 10_000
const listEveryMs = 3_600_000
const escaped = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;")
const plain = (text: string): string => text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&quot;", '"').replaceAll("&apos;", "'").replaceAll("&amp;", "&")
const xmlOf = ({ units }: Segment): string => units.map((unit) => unit.kind === "text" ? escaped(unit.text) : `<x id="${unit.id}"/>`).join("")
const segmentOf = (xml: string): Segment => ({
  units: xml.split(/<x id="(\d+)"\s*\/>|<x id="(\d+)"><\/x>/).flatMap((part, i): ReadonlyArray<Unit> =>
    part === undefined || part === "" ? [] : i % 3 === 0 ? [{ kind: "text", text: plain(part) }] : [{ kind: "opaque", id: Number(part) }])
})

export const deeplUpstream = ({ url, key }: { readonly url: string; readonly key: string }): Translator => {
  const base = url.replace(/\/+$/, ""), headers = { Authorization: `DeepL-Auth-Key ${key}`, "Content-Type": "application/json" }
  let sources: ReadonlySet<Language> = new Set(), targets: ReadonlyMap<Language, boolean> = new Map()
  let reason = "its languages are not known yet", listedMs = 0
  /** Kept an hour; asked for in the background. */
  const list = (): void => {
    if (Date.now() - listedMs < listEveryMs) return
    listedMs = Date.now()
    const get = async (type: string) => {
      const answer = await fetch(`${base}/v2/languages?type=${type}`, { headers, signal: AbortSignal.timeout(listMs) })
      if (!answer.ok) throw new Error(`HTTP ${answer.status}`)
      return await answer.json() as ReadonlyArray<{ readonly language: string; readonly supports_formality?: boolean }>
    }
    Promise.all([get("source"), get("target")]).then(([from, to]) => {
      sources = new Set(from.map(({ language }) => language.toLowerCase()))
      targets = new Map(to.map(({ language, supports_formality }) => [language.toLowerCase(), supports_formality === true]))
    }, (cause: Error) => { reason = cause.message; listedMs = 0 })
  }
  list()
  const can = (source: Language, target: Language): boolean => sources.has(source.split("-")[0]!) && targets.has(target)
  return {
    info: { id, version: "v2", tier: "remote", licence: "service" },
    readiness: () => { list(); return targets.size > 0 ? { ready: true } : { ready: false, reason: `${base}: ${reason}` } },
    supports: (source, target) => can(source, target) ? "direct" : false,
    pairs: () => [...sources].flatMap((source) => [...new Set([...targets.keys()].map((target) => target.split("-")[0]!))].filter((target) => target !== source).map((target) => [source, target] as const)),
    formality: (target) => targets.get(target) === true,
    translate: ({ source, target, segments, context, formality, instructions }) => Effect.map(
      Effect.forEach(Array.from({ length: Math.ceil(segments.length / textsMax) }, (_, i) => segments.slice(i * textsMax, (i + 1) * textsMax)), (part) =>
        Effect.flatMap(callUpstream({ engine: id, url: `${base}/v2/translate`, headers, body: JSON.stringify({
          text: part.map(xmlOf), source_lang: source.split("-")[0]!.toUpperCase(), target_lang: target.toUpperCase(), tag_handling: "xml", ignore_tags: ["x"], split_sentences: "0",
          ...(context === undefined ? {} : { context }), ...(instructions === undefined ? {} : { custom_instructions: instructions }),
          ...(formality === undefined || formality === "default" ? {} : { formality: `prefer_${formality}` })
        }) }), (answer) => {
          const made = (answer as { readonly translations?: ReadonlyArray<{ readonly text?: unknown }> }).translations
          return Array.isArray(made) && made.length === part.length && made.every(({ text }) => typeof text === "string")
            ? Effect.succeed(made.map(({ text }) => segmentOf(text as string)))
            : Effect.fail(new EngineFault({ reason: "upstream", engine: id, detail: "an answer of the wrong shape" }))
        }), { concurrency: 4 }),
      (parts) => ({ segments: parts.flat(), engine: id }))
  }
}
