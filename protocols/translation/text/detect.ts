/** POST /v3/detect/language: the detected language of each text, with its confidence.
 *  Source: docs/spec/translation.md, section 16. */
import type { Engines } from "../../../actors/engines/ports.ts"
import type { Guarded } from "../account/guard.ts"
import { languageOf } from "../languages.ts"
import { problem } from "../problems.ts"
import { bodyOf, faultOf, isResponse, ok } from "../endpoint.ts"
import { textsMax } from "./text-options.ts"

export const detectBytesMax = 131_072

export const detectLanguage =
  ({ detector }: Engines): Guarded =>
  (request) => {
    const params = bodyOf(request)
    if (isResponse(params)) return params
    const texts = params.strings("text") ?? []
    if (params.fault === undefined && texts.length === 0)
      return problem({ _tag: "Refused", message: "Missing parameter text.", code: "missing_parameter" })
    if (texts.length > textsMax) params.invalid("text", `At most ${textsMax} texts.`)
    return (
      faultOf(params) ??
      ok({
        results: texts.map((text) => {
          const { language, reliable } = detector.detect(text)
          if (language === undefined || !/\p{L}/u.test(text))
            return { detection_status: "no_language_detected" }
          const supported = languageOf(language.split("-")[0]!)
          if (supported === undefined || !supported.source)
            return { detection_status: "unsupported_language" }
          return reliable
            ? { detected_language: supported.code, detection_status: "success" }
            : { detection_status: "insufficient_confidence" }
        })
      })
    )
  }
