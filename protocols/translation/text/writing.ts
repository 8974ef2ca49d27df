/** Rephrasing and correction, for paid accounts: one language per text, a style or a tone; billed as text
 *  improvement.
 *  Source: docs/spec/translation.md, section 5. */
import { Effect } from "effect"
import type { EngineFault, Engines } from "../../../actors/engines/ports.ts"
import { edited } from "../../../actors/engines/correction/worker-corrector.ts"
import type { Answer, Response, Route } from "../../../runtime/http.ts"
import { refusalOfEngineFault } from "./translator-call.ts"
import type { Guard, Guarded } from "../account/guard.ts"
import { answerBooked, answerReserved } from "../account/reserved-work.ts"
import { languageOf, writeLanguages, writeStyled, type SupportedLanguage } from "../languages.ts"
import { isRefusal, problem, type Refusal } from "../problems.ts"
import { bodyOf, buffered, faultOf, isResponse, ok } from "../endpoint.ts"
import { textsMax } from "./text-options.ts"
import type { Usage } from "../account/usage.ts"
import { codePoints } from "../../shared/code-points.ts"
import { readReportingTag } from "../reporting-tag.ts"

export const writeBytesMax = 10_240
const styles = ["academic", "business", "casual", "simple"]
const tones = ["confident", "diplomatic", "enthusiastic", "friendly"]

const withPreferred = (names: ReadonlyArray<string>): ReadonlyArray<string> => [
  "default",
  "prefer_default",
  ...names,
  ...names.map((name) => `prefer_${name}`)
]

const styleNames = withPreferred(styles)
const toneNames = withPreferred(tones)
const variants: Readonly<Record<string, string>> = { en: "en-US", pt: "pt-PT" }
const isDefault = (name: string | undefined): boolean => name === undefined || name.endsWith("default")

/** Resolves a code to a language, with the default variant where a bare code means one. */
const writeTarget = (code: string): SupportedLanguage | undefined => {
  const language = languageOf(code)
  const target = language === undefined ? undefined : languageOf(variants[language.code] ?? language.code)
  return target !== undefined && writeLanguages.has(target.code) ? target : undefined
}

type Operation = "rephrase" | "correct"

/** One text with its language, and with the style and tone that the language supports. */
interface WritingJob {
  readonly text: string
  readonly detected: string
  readonly target: SupportedLanguage
  readonly style: string | undefined
  readonly tone: string | undefined
}

export class Writing {
  private readonly engines: Engines
  private readonly usage: Usage

  constructor({ engines, usage }: { readonly engines: Engines; readonly usage: Usage }) {
    this.engines = engines
    this.usage = usage
  }

  routes(guard: Guard): ReadonlyArray<Route> {
    const body = buffered(writeBytesMax)
    return [
      {
        method: "POST",
        path: "/v2/write/rephrase",
        body,
        handle: guard("write:improve", this.improve("rephrase"))
      },
      {
        method: "POST",
        path: "/v2/write/correct",
        body,
        handle: guard("write:improve", this.improve("correct"))
      }
    ]
  }

  private improve(operation: Operation): Guarded {
    return (request, using) => {
      if (using.account.tier === "free") return problem({ _tag: "Forbidden" })
      const tag = readReportingTag(request.headers.get("x-deepl-reporting-tag"))
      if (isRefusal(tag)) return problem(tag)
      const params = bodyOf(request)
      if (isResponse(params)) return params
      const texts = params.strings("text") ?? []
      const code = params.string("target_lang")
      if (texts.length === 0) params.missing("text")
      else if (texts.length > textsMax) params.invalid("text", `At most ${textsMax} texts.`)
      const target = code === undefined || code === "" ? undefined : writeTarget(code)
      if (code !== undefined && code !== "" && target === undefined)
        return problem({ _tag: "UnsupportedLanguage", name: "target_lang", pair: false })
      const style = operation === "rephrase" ? params.choice("writing_style", styleNames) : undefined
      const tone = operation === "rephrase" ? params.choice("tone", toneNames) : undefined
      const fault = faultOf(params)
      if (fault !== undefined) return fault
      if (!isDefault(style) && !isDefault(tone))
        return problem({
          _tag: "Refused",
          message: "Both writing_style and tone defined. Only one of them can be set."
        })

      const jobs: Array<WritingJob> = []
      for (const text of texts) {
        const job = this.plan(operation, text, texts, target, style, tone)
        if (isRefusal(job)) return problem(job)
        jobs.push(job)
      }
      const characters = texts.reduce((sum, text) => sum + codePoints(text), 0)
      const reservation = this.usage.reserve(using, "write", characters)
      if (isRefusal(reservation)) return problem(reservation)
      const work = Effect.forEach(jobs, (job) => this.improved(operation, job), { concurrency: 4 })
      const finish = (improved: ReadonlyArray<string>): Answer => {
        const answer = (): Response =>
          ok({
            improvements: jobs.map(({ detected, target: { code: language } }, i) => ({
              text: improved[i]!,
              detected_source_language: detected,
              target_language: language
            }))
          })
        return answerBooked(reservation.book(characters, tag), answer)
      }
      return answerReserved({ reservation, work: Effect.mapError(work, refusalOfEngineFault), finish })
    }
  }

  /** Returns the engine's text. A rephrasing without style or tone becomes a correction where no engine
   *  rephrases. */
  private improved(
    operation: Operation,
    { text, target, style, tone }: WritingJob
  ): Effect.Effect<string, EngineFault> {
    if (text.trim() === "") return Effect.succeed(text)
    const { corrector, rephraser } = this.engines
    const language = target.code.toLowerCase()
    const corrects =
      operation === "correct" || (style === undefined && tone === undefined && rephraser === undefined)
    if (!corrects) return rephraser!.rephrase(text, { language, style, tone })
    return Effect.map(corrector!.correct(text, language), (edits) => edited(text, edits))
  }

  /** Determines the text's language, its target, and the style and tone that apply. */
  private plan(
    what: "rephrase" | "correct",
    text: string,
    texts: ReadonlyArray<string>,
    requestedTarget: SupportedLanguage | undefined,
    style: string | undefined,
    tone: string | undefined
  ) {
    const found = this.engines.detector.detect(text, texts)
    const detected = found.language?.split("-")[0]
    const target = requestedTarget ?? writeTarget(detected ?? "en")
    const unsupported: Refusal = { _tag: "UnsupportedLanguage", name: "target_lang", pair: false }
    if (target === undefined) return unsupported
    const { rephraser, corrector } = this.engines
    const takesStyles = writeStyled.has(target.code) && rephraser?.styles(target.code.toLowerCase()) === true
    const effective = (requested: string | undefined, words: string): string | undefined | Refusal => {
      if (requested === undefined || isDefault(requested)) return undefined
      if (takesStyles) return requested.replace("prefer_", "")
      return requested.startsWith("prefer_")
        ? undefined
        : { _tag: "Refused", message: `Language ${target.base} does not support setting a ${words}` }
    }
    const as = effective(style, "writing style")
    const in_ = effective(tone, "tone")
    if (typeof as === "object") return as
    if (typeof in_ === "object") return in_
    const improves = what === "correct" ? corrector : (rephraser ?? corrector)
    if (improves === undefined || !improves.languages().includes(target.base)) return unsupported
    if (
      requestedTarget !== undefined &&
      found.reliable &&
      detected !== undefined &&
      detected !== target.base
    ) {
      const wrong: Refusal = {
        _tag: "Invalid",
        name: "target_lang",
        detail: "The text is in another language."
      }
      return wrong
    }
    return { text, detected: detected ?? target.base, target, style: as, tone: in_ }
  }
}
