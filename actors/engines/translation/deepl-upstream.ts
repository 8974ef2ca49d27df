/** A DeepL-compatible service as translator: one call for up to 50 segments. It is guaranteed that opaque
 *  units go as XML elements which the service is told to ignore. Source: docs/spec/engines.md, section
 *  2.5. */
import { Effect } from "effect"
import {
  EngineFault,
  type EngineSegment,
  type Language,
  type Readiness,
  type SegmentUnit,
  type TranslateRequest,
  type Translator
} from "../ports.ts"
import { callUpstream, translationTryMs } from "../upstream-call.ts"

const id = "deepl-upstream"
const textsMax = 50
const batchesAtOnce = 4
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

interface ListedLanguage {
  readonly language: string
  readonly supports_formality?: boolean
}

/** The languages of the service: their list is refreshed every hour in the background, and not at every
 *  request while the service is down. */
class LanguageList {
  private sources: ReadonlySet<Language> = new Set()

  /** Whether a target knows formality, by its code. */
  private targets: ReadonlyMap<Language, boolean> = new Map()

  private reason = "its languages are not known yet"
  private nextRefreshMs = 0
  private readonly base: string
  private readonly headers: Readonly<Record<string, string>>
  private readonly nowMs: () => number

  constructor(base: string, headers: Readonly<Record<string, string>>, nowMs: () => number) {
    this.base = base
    this.headers = headers
    this.nowMs = nowMs
    this.refresh()
  }

  private async fetch(type: "source" | "target"): Promise<ReadonlyArray<ListedLanguage>> {
    const answer = await fetch(`${this.base}/v2/languages?type=${type}`, {
      headers: this.headers,
      signal: AbortSignal.timeout(listMs)
    })
    if (!answer.ok) throw new Error(`HTTP ${answer.status}`)
    const list: unknown = await answer.json()
    if (!Array.isArray(list)) throw new Error("no list of languages")
    return list
  }

  private refresh(): void {
    if (this.nowMs() < this.nextRefreshMs) return
    this.nextRefreshMs = this.nowMs() + listEveryMs
    Promise.all([this.fetch("source"), this.fetch("target")])
      .then(([sources, targets]) => {
        this.sources = new Set(sources.map(({ language }) => language.toLowerCase()))
        this.targets = new Map(
          targets.map(({ language, supports_formality: formal }) => [language.toLowerCase(), formal === true])
        )
      })
      .catch((cause: Error) => {
        this.reason = cause.message
        this.nextRefreshMs = this.nowMs() + listAgainMs
      })
  }

  readiness(): Readiness {
    this.refresh()
    return this.targets.size > 0 ? { ready: true } : { ready: false, reason: `${this.base}: ${this.reason}` }
  }

  /** The code that the service takes for a target: a variant may be new to it, and the bases of variants
   *  are taken though they are not in its list. */
  targetOf(target: Language): Language | undefined {
    if (this.targets.has(target)) return target
    const language = baseOf(target)
    const isTaken =
      this.targets.has(language) || [...this.targets.keys()].some((code) => code.startsWith(`${language}-`))
    return isTaken ? language : undefined
  }

  supports(source: Language, target: Language): boolean {
    return this.sources.has(baseOf(source)) && this.targetOf(target) !== undefined
  }

  pairs(): ReadonlyArray<readonly [Language, Language]> {
    const targets = [...new Set([...this.targets.keys()].map(baseOf))]
    return [...this.sources].flatMap((source) =>
      targets.filter((target) => target !== source).map((target) => [source, target] as const)
    )
  }

  formality(target: Language): boolean {
    const code = this.targetOf(target) ?? ""
    return (
      this.targets.get(code) ??
      [...this.targets].some(([variant, formal]) => formal && variant.startsWith(`${code}-`))
    )
  }
}

const baseOf = (language: Language): Language => language.split("-")[0]!

/** Writes the body of POST /v2/translate; undefined members are left out by JSON. */
const bodyOf = (
  { source, context, formality, instructions }: TranslateRequest,
  target: Language,
  segments: ReadonlyArray<EngineSegment>
): string =>
  JSON.stringify({
    text: segments.map(xmlOf),
    source_lang: baseOf(source).toUpperCase(),
    target_lang: target.toUpperCase(),
    tag_handling: "xml",
    ignore_tags: ["x"],
    split_sentences: "0",
    context,
    custom_instructions: instructions,
    formality: formality === undefined || formality === "default" ? undefined : `prefer_${formality}`
  })

/** Reads as many segments as were asked for out of an answer. */
const segmentsIn = (
  answer: object,
  count: number
): Effect.Effect<ReadonlyArray<EngineSegment>, EngineFault> => {
  const { translations } = answer as { readonly translations?: ReadonlyArray<{ readonly text?: unknown }> }
  return Array.isArray(translations) &&
    translations.length === count &&
    translations.every(({ text }) => typeof text === "string")
    ? Effect.succeed(translations.map(({ text }) => segmentOf(text)))
    : Effect.fail(new EngineFault({ reason: "upstream", engine: id, detail: "an answer of the wrong shape" }))
}

export const deeplUpstream = ({ url, key, nowMs = Date.now }: DeeplUpstreamOptions): Translator => {
  const base = url.replace(/\/+$/, "")
  const headers = { Authorization: `DeepL-Auth-Key ${key}`, "Content-Type": "application/json" }
  const languages = new LanguageList(base, headers, nowMs)

  const translateBatch = (request: TranslateRequest, batch: ReadonlyArray<EngineSegment>) =>
    Effect.flatMap(
      callUpstream({
        engine: id,
        tryMs: translationTryMs,
        url: `${base}/v2/translate`,
        headers,
        body: bodyOf(request, languages.targetOf(request.target) ?? request.target, batch)
      }),
      (answer) => segmentsIn(answer, batch.length)
    )

  return {
    info: { id, version: "v2", tier: "remote", licence: "service" },
    readiness: () => languages.readiness(),
    supports: (source, target) => (languages.supports(source, target) ? "direct" : false),
    pairs: () => languages.pairs(),
    formality: (target) => languages.formality(target),
    translate: (request) => {
      const { segments } = request
      const batches = Array.from({ length: Math.ceil(segments.length / textsMax) }, (_, i) =>
        segments.slice(i * textsMax, (i + 1) * textsMax)
      )
      return Effect.map(
        Effect.forEach(batches, (batch) => translateBatch(request, batch), { concurrency: batchesAtOnce }),
        (parts) => ({ segments: parts.flat(), engine: id })
      )
    }
  }
}
