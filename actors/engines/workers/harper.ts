/** Harper (WASM) in a thread: English spelling and grammar, in the dialect asked for. */
import { Dialect, LocalLinter, SuggestionKind } from "harper.js"
import { slimBinary } from "harper.js/slimBinary"
import { parentPort } from "node:worker_threads"
import type { FromCorrector, ToCorrector } from "../correction/thread-corrector.ts"
import type { Edit } from "../ports.ts"

const linters = new Map<Dialect, LocalLinter>()

const linterOf = (language: string): LocalLinter => {
  const dialect = language === "en-gb" ? Dialect.British : Dialect.American
  let linter = linters.get(dialect)
  if (linter === undefined) linters.set(dialect, (linter = new LocalLinter({ binary: slimBinary, dialect })))
  return linter
}

/** What changes wording rather than mends it. */
const style = /^(?:Style|Enhancement|Readability|Redundancy)$/

const kindOf = (kind: string): Edit["kind"] =>
  /^(?:Spelling|Typo|Capitalization)$/.test(kind)
    ? "spelling"
    : /^(?:Punctuation|Formatting)$/.test(kind)
      ? "punctuation"
      : style.test(kind)
        ? "style"
        : "grammar"

const answer = async ({ id, text, language }: ToCorrector): Promise<FromCorrector> => {
  const edits: Array<Edit> = []
  for (const lint of await linterOf(language).lint(text, { language: "plaintext" })) {
    const { start: from, end: to } = lint.span()
    const [first] = lint.suggestions()
    const kind = kindOf(lint.lint_kind())
    if (first === undefined || kind === "style") continue
    const put =
      first.kind() === SuggestionKind.Remove
        ? { from, to, text: "" }
        : first.kind() === SuggestionKind.InsertAfter
          ? { from: to, to, text: first.get_replacement_text() }
          : { from, to, text: first.get_replacement_text() }
    edits.push({ ...put, kind })
  }
  return { id, edits }
}

parentPort!.on("message", (asked: ToCorrector) => {
  answer(asked)
    .catch((cause: unknown): FromCorrector => ({ id: asked.id, failed: String(cause) }))
    .then((message) => parentPort!.postMessage(message))
})

linterOf("en-us")
  .setup()
  .then(
    () => parentPort!.postMessage({ is: "ready" }),
    (cause: unknown) => {
      throw cause
    }
  )
