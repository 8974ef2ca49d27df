/** The effect of a style list on a translation: every rule and instruction as words for engines that accept
 *  instructions, and the rules that concern characters only, applied here to the output of any engine. Pure.
 *  Source: docs/spec/translation.md, section 10; which rules are applied here is our choice. */
import type { StyleList } from "./records.ts"

type Finish = (text: string) => string

/** A quotation mark after a word boundary opens; any other closes. */
const quoted =
  (open: string, close: string): Finish =>
  (text) =>
    text
      .replace(/[«“„](\s|\u00A0|\u202F)?|(?<=^|[\s([{\u2014\u2013])"/gu, open)
      .replace(/(\s|\u00A0|\u202F)?»|”|"/gu, close)

const apostrophes =
  (mark: string): Finish =>
  (text) =>
    text.replace(/(?<=\p{L})['\u2019](?=\p{L})/gu, mark)

const swap =
  (pattern: RegExp, by: string): Finish =>
  (text) =>
    text.replace(pattern, by)

const ellipsis = (mark: string): Finish => swap(/\.{3}|(?:\. ){2}\.|\u2026/g, mark)

const thousands =
  (by: string): Finish =>
  (text) =>
    text.replace(
      /(?<![\d.,])\d{1,3}(?:([., \u00A0\u202F'])\d{3})(?:\1\d{3})*(?![\d])/g,
      (number, separator: string) => number.replaceAll(separator, by)
    )

const finishes: Readonly<Record<string, Finish>> = {
  "punctuation.ellipsis.use_ellipsis_character": ellipsis("…"),
  "punctuation.ellipsis.use_one_ellipsis_character": ellipsis("…"),
  "punctuation.ellipsis.use_two_ellipsis_characters": ellipsis("……"),
  "punctuation.ellipsis.use_three_ellipsis_characters": ellipsis("………"),
  "punctuation.ellipsis.use_three_periods": ellipsis("..."),
  "punctuation.ellipsis.use_three_periods_without_spaces": ellipsis("..."),
  "punctuation.ellipsis.use_three_spaced_periods": ellipsis(". . ."),
  "punctuation.apostrophe.use_curly_apostrophes": apostrophes("’"),
  "punctuation.apostrophe.use_straight_apostrophes": apostrophes("'"),
  "punctuation.quotation_mark.use_curly_quotation_marks": quoted("“", "”"),
  "punctuation.quotation_mark.use_double_curly_quotation_marks": quoted("“", "”"),
  "punctuation.quotation_mark.use_double_straight_quotation_marks": quoted('"', '"'),
  "punctuation.quotation_mark.use_straight_quotation_marks": quoted('"', '"'),
  "punctuation.quotation_mark.use_guillemets": quoted("«", "»"),
  "punctuation.dash.use_em_dash": swap(/ ?[\u2013\u2014] ?/g, "—"),
  "punctuation.dash.use_hyphen": swap(/[\u2013\u2014]/g, "-"),
  "punctuation.exclamation_marks.do_not_use": swap(/!+/g, "."),
  "punctuation.range_indicator.use_en_dash_without_spaces": swap(/(?<=\d)\s?[-\u2013]\s?(?=\d)/g, "–"),
  "punctuation.range_indicator.use_hyphen_without_spaces": swap(/(?<=\d)\s?[-\u2013]\s?(?=\d)/g, "-"),
  "punctuation.slash.do_not_use_spaces_before_and_after_slashes": swap(/ \/ /g, "/"),
  "spelling_and_grammar.eszett.replace_eszett_with_ss": (text) =>
    text.replaceAll("ß", "ss").replaceAll("ẞ", "SS"),
  "spelling_and_grammar.umlauts.replace_umlauts_with_ae_oe_ue": (text) =>
    text.replace(
      /[äöüÄÖÜ]/g,
      (letter) => ({ ä: "ae", ö: "oe", ü: "ue", Ä: "Ae", Ö: "Oe", Ü: "Ue" })[letter]!
    ),
  "numbers.thousands_separator.use_comma": thousands(","),
  "numbers.thousands_separator.use_period": thousands("."),
  "numbers.thousands_separator.use_space": thousands(" "),
  "numbers.thousands_separator.do_not_use": thousands(""),
  "numbers.thousands_separator.use_straight_apostrophe_as_thousands_separator": thousands("'"),
  "numbers.percentage_format.use_numerals_followed_by_percent_symbol": swap(/(?<=\d)[ \u00A0\u202F]%/g, "%")
}

/** Rules that are applied here; all others are passed to the engine as words. */
export const finished: ReadonlyArray<string> = Object.keys(finishes)

export interface StyleEffect {
  readonly instructions: ReadonlyArray<string>
  readonly finish: Finish | undefined
}

export const effectOf = ({ rules, instructions }: StyleList): StyleEffect => {
  const chosen = Object.entries(rules).flatMap(([category, of]) =>
    Object.entries(of).map(([rule, value]) => [category, rule, value] as const)
  )
  const steps = chosen.flatMap(([category, rule, value]) => finishes[`${category}.${rule}.${value}`] ?? [])
  return {
    instructions: [
      ...chosen.map(([, rule, value]) => `${words(rule)}: ${words(value)}.`),
      ...instructions.map(({ prompt }) => prompt)
    ],
    finish: steps.length === 0 ? undefined : (text) => steps.reduce((now, step) => step(now), text)
  }
}

const words = (name: string): string => name.replaceAll("_", " ")
