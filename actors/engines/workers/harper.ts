/** The worker of Harper (WASM): English spelling and grammar in the requested dialect. It is
 *  guaranteed that each text is answered once. Source: docs/spec/engines.md, section 8.1. */
import { Dialect, LocalLinter, SuggestionKind, type Lint } from "harper.js"
import { slimBinary } from "harper.js/slimBinary"
import type { FromCorrector, ToCorrector } from "../correction/worker-corrector.ts"
import type { Edit } from "../ports.ts"
import { onMessage, post } from "../worker-port.ts"

const linters = new Map<Dialect, LocalLinter>()

const linterOf = (language: string): LocalLinter => {
  const dialect = language === "en-gb" ? Dialect.British : Dialect.American
  let linter = linters.get(dialect)
  if (linter === undefined) linters.set(dialect, (linter = new LocalLinter({ binary: slimBinary, dialect })))
  return linter
}

/** Kinds of lints that change the wording rather than correct it. */
const style = /^(?:Style|Enhancement|Readability|Redundancy)$/

const kindOf = (kind: string): Edit["kind"] => {
  if (/^(?:Spelling|Typo|Capitalization)$/.test(kind)) return "spelling"
  if (/^(?:Punctuation|Formatting)$/.test(kind)) return "punctuation"
  return style.test(kind) ? "style" : "grammar"
}

/** Makes an edit of a lint's first suggestion; returns undefined when it has none or is a matter of style. */
const editOf = (lint: Lint): Edit | undefined => {
  const { start: from, end: to } = lint.span()
  const [suggestion] = lint.suggestions()
  const kind = kindOf(lint.lint_kind())
  if (suggestion === undefined || kind === "style") return undefined
  switch (suggestion.kind()) {
    case SuggestionKind.Remove:
      return { from, to, text: "", kind }
    case SuggestionKind.InsertAfter:
      return { from: to, to, text: suggestion.get_replacement_text(), kind }
    default:
      return { from, to, text: suggestion.get_replacement_text(), kind }
  }
}

const answer = async ({ id, text, language }: ToCorrector): Promise<FromCorrector> => {
  const lints = await linterOf(language).lint(text, { language: "plaintext" })
  return { _tag: "Corrected", id, edits: lints.map(editOf).filter((edit) => edit !== undefined) }
}

onMessage((request: ToCorrector) => {
  answer(request)
    .catch((cause: unknown): FromCorrector => ({ _tag: "Failed", id: request.id, detail: String(cause) }))
    .then(post)
})

linterOf("en-us")
  .setup()
  .then(
    () => post<FromCorrector>({ _tag: "Ready" }),
    (cause: unknown) => {
      throw cause
    }
  )
