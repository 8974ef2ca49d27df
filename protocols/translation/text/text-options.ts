/** Reads and checks the parameters of POST /v2/translate. The first fault is the answer.
 *  Source: docs/spec/translation.md, section 3.1. */
import type { Formality, Translator } from "../../../actors/engines/ports.ts"
import type { RawParams } from "../../shared/params.ts"
import { Params } from "../../shared/params.ts"
import {
  formalityOf,
  instructionLanguages,
  sourceOf,
  targetOf,
  type SupportedLanguage
} from "../languages.ts"
import type { Markup } from "./markup.ts"
import type { Refusal } from "../problems.ts"
import type { Split } from "./segments.ts"
import { codePoints } from "../../shared/code-points.ts"
import { isUuid } from "../../shared/uuid.ts"

export const textsMax = 50
export const glossariesMax = 5
const instructionsMax = 10
const instructionCharsMax = 300
export const thresholdDefault = 75

export interface TextOptions {
  readonly texts: ReadonlyArray<string>
  /** Source language; undefined means that it is detected. */
  readonly source: SupportedLanguage | undefined
  readonly target: SupportedLanguage
  readonly context: string | undefined
  readonly showBilled: boolean
  readonly split: Split
  readonly preserveFormatting: boolean
  readonly formality: Formality
  /** Value of `model_type_used`; undefined when the request did not ask for it. */
  readonly model: "quality_optimized" | "latency_optimized" | undefined
  readonly glossaryIds: ReadonlyArray<string>
  readonly styleId: string | undefined
  readonly memoryId: string | undefined
  readonly memoryThreshold: number
  readonly instructions: ReadonlyArray<string>
  readonly markup: (Markup & { readonly version: "v1" | "v2" }) | undefined
}

/** Reads an id; "" counts as absent. */
export const idOf = (params: Params, name: string): string | undefined => {
  const id = params.string(name)
  if (id === undefined || id === "") return undefined
  if (!isUuid(id)) params.invalid(name)
  return id.toLowerCase()
}

const none: ReadonlyArray<never> = []
const modelTypes = ["quality_optimized", "prefer_quality_optimized", "latency_optimized"] as const
const formalities = ["default", "more", "less", "prefer_more", "prefer_less"] as const
const splits = ["0", "1", "nonewlines"] as const

/** Returns the options, or the refusal for the first fault. */
export const readTextOptions = (bag: RawParams, translator: Translator): TextOptions | Refusal => {
  const params = new Params(bag)
  const texts = params.strings("text") ?? none
  if (texts.length === 0) params.missing("text")
  else if (texts.length > textsMax)
    params.invalid("text", `At most ${textsMax} texts can be translated in one request.`)

  const targetCode = params.string("target_lang")
  const sourceCode = params.string("source_lang")
  if (targetCode === undefined || targetCode === "") params.missing("target_lang")
  if (params.fault !== undefined) return params.fault
  const target = targetOf(targetCode!)
  if (target === undefined) return { _tag: "UnsupportedLanguage", name: "target_lang", pair: false }
  const detects = sourceCode === undefined || sourceCode === ""
  const source = detects ? undefined : sourceOf(sourceCode)
  if (!detects && source === undefined)
    return { _tag: "UnsupportedLanguage", name: "source_lang", pair: false }

  const context = params.string("context")
  const showBilled = params.boolean("show_billed_characters") ?? false
  const split = params.choice("split_sentences", splits)
  const preserveFormatting = params.boolean("preserve_formatting") ?? false
  const formality = formalityFor(params, target, translator)
  const modelType = params.choice("model_type", modelTypes)
  const markup = readMarkup(params)

  const glossaryId = idOf(params, "glossary_id")
  const listed = params.names("glossary_ids")
  if (glossaryId !== undefined && listed.length > 0)
    params.invalid("glossary_ids", "Only one of glossary_id and glossary_ids can be given.")
  if (listed.length > glossariesMax)
    params.invalid("glossary_ids", `At most ${glossariesMax} glossaries can be used.`)
  for (const id of listed) if (!isUuid(id)) params.invalid("glossary_ids")
  if (detects && (glossaryId !== undefined || listed.length > 0)) params.missing("source_lang")
  const styleId = idOf(params, "style_id")
  const memoryId = idOf(params, "translation_memory_id")
  const memoryThreshold = params.integer("translation_memory_threshold", 0, 100) ?? thresholdDefault
  const instructions = params.strings("custom_instructions") ?? none
  if (instructions.length > instructionsMax)
    params.invalid("custom_instructions", `At most ${instructionsMax} instructions can be given.`)
  for (const text of instructions)
    if (text.length > instructionCharsMax && codePoints(text) > instructionCharsMax)
      params.invalid("custom_instructions", `An instruction has at most ${instructionCharsMax} characters.`)
  if (instructions.length > 0 && !instructionLanguages.has(target.base))
    params.invalid("custom_instructions", "Custom instructions are not available for this target_lang.")

  if (params.fault !== undefined) return params.fault
  return {
    texts,
    source,
    target,
    context,
    showBilled,
    split: split ?? (markup?.kind === "html" ? "nonewlines" : "1"),
    preserveFormatting,
    formality,
    model: modelUsedFor(modelType),
    glossaryIds: glossaryId !== undefined ? [glossaryId] : listed,
    styleId,
    memoryId,
    memoryThreshold,
    instructions,
    markup
  }
}

/** Value of `model_type_used`: every model but the fast one counts as quality-optimized. */
const modelUsedFor = (requested: (typeof modelTypes)[number] | undefined): TextOptions["model"] => {
  if (requested === undefined) return undefined
  return requested === "latency_optimized" ? "latency_optimized" : "quality_optimized"
}

/** Resolves formality. Where the language has none, `more` and `less` are refused and `prefer_…` falls back
 *  to the default. */
export const formalityFor = (
  params: Params,
  target: SupportedLanguage,
  translator: Translator
): Formality => {
  const wanted = params.choice("formality", formalities)
  if (wanted === undefined || wanted === "default") return "default"
  const can = formalityOf(translator, target)
  if (!can && !wanted.startsWith("prefer_"))
    params.invalid("formality", "Formality is not available for this target_lang.")
  if (!can) return "default"
  return wanted.endsWith("more") ? "more" : "less"
}

const readMarkup = (params: Params): TextOptions["markup"] => {
  const kind = params.choice("tag_handling", ["xml", "html"])
  if (kind === undefined) return undefined
  const version = params.choice("tag_handling_version", ["v1", "v2"]) ?? "v2"
  const folded = (name: string): ReadonlySet<string> =>
    new Set(kind === "html" ? params.names(name).map((tag) => tag.toLowerCase()) : params.names(name))
  return {
    kind,
    version,
    strict: kind === "xml" && version === "v2",
    outline: kind === "xml" && (params.boolean("outline_detection") ?? true),
    splitting: folded("splitting_tags"),
    nonSplitting: folded("non_splitting_tags"),
    ignored: folded("ignore_tags")
  }
}
