/** Rephrase and correct: one language per text, a style or a tone, the bill under text improvement. Paid
 *  accounts.
 *  Source: translation section 5. */
import { Effect, Result } from "effect"
import type { EngineFault, Engines } from "../../../actors/engines/ports.ts"
import { edited } from "../../../actors/engines/correction/thread-corrector.ts"
import type { Response, Route } from "../../../runtime/http.ts"
import { refusalOfEngineFault } from "./translator-call.ts"
import type { Guard, Guarded } from "../account/guard.ts"
import { languageOf, writeLanguages, writeStyled, type SupportedLanguage } from "../languages.ts"
import { problem, type Refusal } from "../problems.ts"
import { bodyOf, buffered, faultOf, isResponse, ok } from "../endpoint.ts"
import { codePoints, readReportingTag, textsMax } from "./text-options.ts"
import type { Usage } from "../account/usage.ts"

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

/** BCP 47 with its variant where the bare code means one. */
const writeTarget = (code: string): SupportedLanguage | undefined => {
  const known = languageOf(code)
  const target = known === undefined ? undefined : languageOf(variants[known.code] ?? known.code)
  return target !== undefined && writeLanguages.has(target.code) ? target : undefined
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

  private improve(what: "rephrase" | "correct"): Guarded {
    return (request, using): Response | Promise<Response> => {
      if (using.account.tier === "free") return problem({ _tag: "Forbidden" })
      const tagged = readReportingTag(request.headers.get("x-deepl-reporting-tag"))
      if ("refusal" in tagged) return problem(tagged.refusal)
      const params = bodyOf(request)
      if (isResponse(params)) return params
      const texts = params.strings("text") ?? []
      const code = params.string("target_lang")
      if (texts.length === 0) params.missing("text")
      else if (texts.length > textsMax) params.invalid("text", `At most ${textsMax} texts.`)
      const target = code === undefined || code === "" ? undefined : writeTarget(code)
      if (code !== undefined && code !== "" && target === undefined)
        return problem({ _tag: "UnsupportedLanguage", name: "target_lang", pair: false })
      const style = what === "rephrase" ? params.choice("writing_style", styleNames) : undefined
      const tone = what === "rephrase" ? params.choice("tone", toneNames) : undefined
      const fault = faultOf(params)
      if (fault !== undefined) return fault
      if (!isDefault(style) && !isDefault(tone))
        return problem({
          _tag: "Refused",
          message: "Both writing_style and tone defined. Only one of them can be set."
        })

      const jobs: Array<{
        readonly text: string
        readonly detected: string
        readonly target: SupportedLanguage
        readonly style: string | undefined
        readonly tone: string | undefined
      }> = []
      for (const text of texts) {
        const job = this.plan(what, text, texts, target, style, tone)
        if ("_tag" in job) return problem(job)
        jobs.push(job)
      }
      const characters = texts.reduce((sum, text) => sum + codePoints(text), 0)
      const reservation = this.usage.reserve(using, "write", characters)
      if (typeof reservation === "string") return problem({ _tag: "QuotaExceeded", owner: reservation })
      const work = Effect.forEach(
        jobs,
        ({ text, target: { code: language }, style: as, tone: in_ }) =>
          text.trim() === ""
            ? Effect.succeed(text)
            : what === "correct" ||
                (as === undefined && in_ === undefined && this.engines.rephraser === undefined)
              ? Effect.map(this.engines.corrector!.correct(text, language.toLowerCase()), (edits) =>
                  edited(text, edits)
                )
              : this.engines.rephraser!.rephrase(text, {
                  language: language.toLowerCase(),
                  style: as,
                  tone: in_
                }),
        { concurrency: 4 }
      )
      return Effect.runPromise(Effect.result(work)).then(
        async (result) => {
          if (!Result.isSuccess(result)) {
            reservation.release()
            return problem(refusalOfEngineFault(result.failure as EngineFault))
          }
          const answer = (): Response =>
            ok({
              improvements: jobs.map(({ detected, target: { code: language } }, i) => ({
                text: result.success[i]!,
                detected_source_language: detected,
                target_language: language
              }))
            })
          const kept = reservation.book(characters, tagged.tag)
          return kept === undefined
            ? answer()
            : kept.then(answer, () => problem({ _tag: "Down", status: 504 }))
        },
        (defect: unknown) => {
          reservation.release()
          throw defect
        }
      )
    }
  }

  /** The text's language, its target, and what is left of style and tone. */
  private plan(
    what: "rephrase" | "correct",
    text: string,
    texts: ReadonlyArray<string>,
    given: SupportedLanguage | undefined,
    style: string | undefined,
    tone: string | undefined
  ) {
    const found = this.engines.detector.detect(text, texts)
    const detected = found.language?.split("-")[0]
    const target = given ?? writeTarget(detected ?? "en")
    const unsupported: Refusal = { _tag: "UnsupportedLanguage", name: "target_lang", pair: false }
    if (target === undefined) return unsupported
    const { rephraser, corrector } = this.engines
    const can = writeStyled.has(target.code) && rephraser?.styles(target.code.toLowerCase()) === true
    const left = (named: string | undefined, words: string): string | undefined | Refusal => {
      if (named === undefined || isDefault(named)) return undefined
      if (can) return named.replace("prefer_", "")
      return named.startsWith("prefer_")
        ? undefined
        : { _tag: "Refused", message: `Language ${target.base} does not support setting a ${words}` }
    }
    const as = left(style, "writing style")
    const in_ = left(tone, "tone")
    if (typeof as === "object") return as
    if (typeof in_ === "object") return in_
    const improves = what === "correct" ? corrector : (rephraser ?? corrector)
    if (improves === undefined || !improves.languages().includes(target.base)) return unsupported
    if (given !== undefined && found.reliable && detected !== undefined && detected !== target.base) {
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
