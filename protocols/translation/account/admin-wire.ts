/** Encoders of the administration endpoints: keys, usage by key and day, usage by tag.
 *  Source: docs/spec/translation.md, sections 15.1, 15.6, 15.7. */
interface Limits {
  readonly characters: number | null
  readonly speechToTextMs: number | null
  readonly speechToSpeechMs: number | null
}

interface Key {
  readonly accountId: string
  readonly keyId: string
  readonly label: string
  readonly createdMs: number
  readonly deactivatedMs: number | null
  readonly limits: Limits
}

export const keyJson = (
  { accountId, keyId, label, createdMs, deactivatedMs, limits }: Key,
  secret?: string
) => ({
  key_id: `${accountId}:${keyId}`,
  ...(secret === undefined ? {} : { key: secret }),
  label,
  creation_time: new Date(createdMs).toISOString(),
  deactivated_time: deactivatedMs === null ? null : new Date(deactivatedMs).toISOString(),
  is_deactivated: deactivatedMs !== null,
  usage_limits: {
    characters: limits.characters,
    speech_to_text_milliseconds: limits.speechToTextMs,
    speech_to_speech_milliseconds: limits.speechToSpeechMs
  }
})

export interface Amounts {
  readonly translate: number
  readonly document: number
  readonly write: number
  readonly speechToTextMs: number
  readonly speechToSpeechMs: number
}

/** Converts milliseconds to minutes with two decimals. */
const minutes = (ms: number): number => Math.round(ms / 600) / 100

const breakdown = ({ translate, document, write, speechToTextMs, speechToSpeechMs }: Amounts) => ({
  total_characters: translate + document + write,
  text_translation_characters: translate,
  document_translation_characters: document,
  text_improvement_characters: write,
  speech_to_text_minutes: minutes(speechToTextMs),
  speech_to_speech_minutes: minutes(speechToSpeechMs)
})

const dateText = (day: number): string => new Date(day * 86_400_000).toISOString().slice(0, 19)

export interface Period {
  readonly fromDay: number
  readonly toDay: number
}

export interface KeyUsage {
  readonly masked: string
  readonly label: string
  readonly day: number | undefined
  readonly amounts: Amounts
}

export const usageReportJson = (
  { fromDay, toDay }: Period,
  total: Amounts,
  groupBy: "" | "key" | "key_and_day",
  rows: ReadonlyArray<KeyUsage>
) => ({
  usage_report: {
    total_usage: breakdown(total),
    ...(groupBy === "" ? {} : { group_by: groupBy }),
    start_date: dateText(fromDay),
    end_date: dateText(toDay),
    ...(groupBy === ""
      ? {}
      : {
          [groupBy === "key" ? "key_usages" : "key_and_day_usages"]: rows.map(
            ({ masked, label, day, amounts }) => ({
              api_key: masked,
              api_key_label: label,
              ...(day === undefined ? {} : { usage_date: `${dateText(day)}Z` }),
              usage: breakdown(amounts)
            })
          )
        })
  }
})

export interface TagUsage {
  readonly tag: string
  readonly day: number | undefined
  readonly amounts: Amounts
}

export const tagReportJson = (
  { fromDay, toDay }: Period,
  aggregateBy: "period" | "day",
  rows: ReadonlyArray<TagUsage>,
  nextPage: number | null
) => ({
  custom_tag_usage_report: {
    aggregate_by: aggregateBy,
    start_date: dateText(fromDay),
    end_date: dateText(toDay),
    next_page: nextPage,
    usage: rows.map(({ tag, day, amounts }) => {
      const { document_translation_characters: _, ...own } = breakdown(amounts)
      return {
        custom_tag: tag,
        ...(day === undefined ? {} : { usage_date: `${dateText(day)}Z` }),
        breakdown: own
      }
    })
  }
})
