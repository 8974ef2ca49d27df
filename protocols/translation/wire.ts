/** Encoders of the text and meta endpoints: the published shapes, snake_case, and each endpoint's casing of
 *  codes.
 *  Source: docs/spec/translation.md, sections 1.5, 3.2, 6. */

/** The answer to one text. */
export interface Translated {
  /** Detected language as an upper-case base code. */
  readonly detected: string
  readonly text: string
  /** Billed code points of the source. */
  readonly billed: number
}

export interface OptionalFields {
  readonly billed: boolean
  readonly model: string | undefined
  readonly tags: string | undefined
}

/** Writes the JSON by hand, because this is the most frequent answer and only the text needs escaping. */
export const translationsJson = (
  translations: ReadonlyArray<Translated>,
  optional: OptionalFields
): string => {
  let out = '{"translations":['
  for (let i = 0; i < translations.length; i++) {
    const { detected, text, billed } = translations[i]!
    if (i > 0) out += ","
    out += `{"detected_source_language":"${detected}","text":${JSON.stringify(text)}`
    if (optional.billed) out += `,"billed_characters":${billed}`
    if (optional.model !== undefined) out += `,"model_type_used":"${optional.model}"`
    if (optional.tags !== undefined) out += `,"tag_handling_version":"${optional.tags}"`
    out += "}"
  }
  return `${out}]}`
}

export const timeText = (atMs: number): string => new Date(atMs).toISOString()
const noLimit = 1_000_000_000_000
const orNoLimit = (limit: number | null): number => limit ?? noLimit
const minutes = (ms: number): number => Math.ceil(ms / 60_000)
const minutesOrNoLimit = (ms: number | null): number => (ms === null ? noLimit : minutes(ms))

interface Counted {
  readonly translate: number
  readonly document: number
  readonly write: number
  readonly speechToTextMs: number
  readonly speechToSpeechMs: number
}

interface Limits {
  readonly characters: number | null
  readonly speechToTextMs: number | null
  readonly speechToSpeechMs: number | null
}

export interface UsageReport {
  readonly tier: "free" | "paid"
  readonly account: Counted
  readonly key: Counted
  readonly accountLimits: Limits & {
    readonly documents: number | null
    readonly teamDocuments: number | null
  }
  readonly keyLimits: Limits
  /** Documents uploaded in this period. */
  readonly documents: number
  readonly startMs: number
  readonly endMs: number
}

const characters = (used: Counted): number => used.translate + used.document + used.write

const product = (type: string, key: number, account: number, unit: "characters" | "minutes") => ({
  product_type: type,
  billing_unit: unit,
  api_key_unit_count: key,
  account_unit_count: account,
  api_key_character_count: unit === "characters" ? key : 0,
  character_count: unit === "characters" ? account : 0
})

/** Writes the usage. Documents are counted for the account, which is its own team. */
export const usageJson = ({
  tier,
  account,
  key,
  accountLimits,
  keyLimits,
  documents,
  startMs,
  endMs
}: UsageReport): Readonly<Record<string, unknown>> => ({
  character_count: characters(account),
  character_limit: orNoLimit(accountLimits.characters),
  ...(accountLimits.documents === null
    ? {}
    : { document_count: documents, document_limit: accountLimits.documents }),
  ...(accountLimits.teamDocuments === null
    ? {}
    : { team_document_count: documents, team_document_limit: accountLimits.teamDocuments }),
  ...(tier === "free"
    ? {}
    : {
        products: [
          product(
            "translate",
            key.translate + key.document,
            account.translate + account.document,
            "characters"
          ),
          product("write", key.write, account.write, "characters"),
          product("speechToText", minutes(key.speechToTextMs), minutes(account.speechToTextMs), "minutes"),
          product(
            "speechToSpeech",
            minutes(key.speechToSpeechMs),
            minutes(account.speechToSpeechMs),
            "minutes"
          )
        ],
        api_key_character_count: characters(key),
        api_key_character_limit: orNoLimit(keyLimits.characters),
        speech_to_text_milliseconds_count: 0,
        speech_to_text_milliseconds_limit: 0,
        speech_to_text_minutes_count: minutes(account.speechToTextMs),
        speech_to_text_minutes_limit: minutesOrNoLimit(accountLimits.speechToTextMs),
        speech_to_speech_minutes_count: minutes(account.speechToSpeechMs),
        speech_to_speech_minutes_limit: minutesOrNoLimit(accountLimits.speechToSpeechMs),
        start_time: timeText(startMs),
        end_time: timeText(endMs)
      })
})

/** An entry of /v2/languages. */
export const listedLanguage = (code: string, name: string, formality: boolean | undefined) => ({
  language: code.toUpperCase(),
  name: formality !== undefined && code === "zh" ? "Chinese (simplified)" : name,
  ...(formality === undefined ? {} : { supports_formality: formality })
})

/** An entry of /v3/languages. */
export const offeredLanguage = (
  code: string,
  name: string,
  source: boolean,
  target: boolean,
  beta: boolean,
  features: ReadonlyArray<string>
) => ({
  lang: code,
  name,
  usable_as_source: source,
  usable_as_target: target,
  status: beta ? "beta" : "stable",
  features: Object.fromEntries(features.map((feature) => [feature, { status: "stable" }]))
})

/** An entry of /v3/languages/resources. */
export const offeredResource = (
  name: string,
  features: ReadonlyArray<{ readonly name: string; readonly needs: "source" | "target" | "both" }>
) => ({
  name,
  features: features.map(({ name, needs }) => ({
    name,
    ...(needs === "target" ? {} : { needs_source_support: true }),
    ...(needs === "source" ? {} : { needs_target_support: true })
  }))
})

/** Answer of POST /v2/document. */
export const documentHandle = (id: string, key: string) => ({ document_id: id, document_key: key })

/** Answer of POST /v2/document/{document_id}. */
export const documentStatus = (
  id: string,
  status: "queued" | "translating" | "done" | "error",
  more: { readonly secondsRemaining?: number; readonly billed?: number; readonly error?: string }
) => ({
  document_id: id,
  status,
  ...(more.secondsRemaining === undefined ? {} : { seconds_remaining: more.secondsRemaining }),
  ...(more.billed === undefined ? {} : { billed_characters: more.billed }),
  ...(more.error === undefined ? {} : { error_message: more.error, message: more.error })
})
