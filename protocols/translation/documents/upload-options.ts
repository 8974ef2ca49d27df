/** Reads and checks the fields of an upload; the first fault is the answer.
 *  Source: docs/spec/translation.md, sections 4.1, 4.6, 3.1. */
import type { TranslationOptions } from "../../../actors/documents/meta.ts"
import type { Translator } from "../../../actors/engines/ports.ts"
import { conversions, documentTypeOf, type DocumentType } from "../../formats/catalogue.ts"
import { Params, type RawParams } from "../../shared/params.ts"
import { pairFor, sourceOf, targetOf, type SupportedLanguage } from "../languages.ts"
import type { Refusal } from "../problems.ts"
import { formalityFor, glossariesMax, idOf, thresholdDefault } from "../text/text-options.ts"
import { isUuid } from "../../shared/uuid.ts"

export interface DocumentOptions {
  readonly type: DocumentType
  /** File name without path, control characters and extension. */
  readonly baseName: string
  readonly extension: string
  readonly outExtension: string
  readonly outType: DocumentType
  readonly source: SupportedLanguage | undefined
  readonly target: SupportedLanguage
  readonly steering: TranslationOptions
  readonly watermark: boolean
}

const baseNameBytesMax = 200
const unsupported: Refusal = { _tag: "Refused", message: "Invalid file: unsupported file extension" }

export const fileNameOf = (path: string): { readonly base: string; readonly extension: string } => {
  const name = path
    .slice(Math.max(path.lastIndexOf("/"), path.lastIndexOf("\\")) + 1)
    .replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, "")
    .trim()
  const dot = name.lastIndexOf(".")
  let base = dot < 0 ? name : name.slice(0, dot)
  while (Buffer.byteLength(base) > baseNameBytesMax) base = [...base].slice(0, -1).join("")
  return {
    base: base === "" ? "document" : base,
    extension: dot < 0 ? "" : name.slice(dot + 1).toLowerCase()
  }
}

export const readDocumentOptions = (
  bag: RawParams,
  fileName: string | undefined,
  translator: Translator
): DocumentOptions | Refusal => {
  const params = new Params(bag)
  const { base, extension } = fileNameOf(params.string("filename") || fileName || "")
  const type = documentTypeOf(extension)
  if (type === undefined) return unsupported

  const targetCode = params.string("target_lang")
  const sourceCode = params.string("source_lang")
  if (targetCode === undefined || targetCode === "") return { _tag: "Missing", name: "target_lang" }
  const target = targetOf(targetCode)
  if (target === undefined) return { _tag: "UnsupportedLanguage", name: "target_lang", pair: false }
  const detects = sourceCode === undefined || sourceCode === ""
  const source = detects ? undefined : sourceOf(sourceCode)
  if (!detects && source === undefined)
    return { _tag: "UnsupportedLanguage", name: "source_lang", pair: false }
  if (source?.base === target.base)
    return { _tag: "Refused", message: "Source and target language are equal." }

  const outExtension = (params.string("output_format") || extension).toLowerCase()
  const outType = documentTypeOf(outExtension)
  if (
    outType === undefined ||
    (outType.id !== type.id && conversions.get(type.id)?.includes(outType.id) !== true)
  )
    params.invalid("output_format")
  const formality = formalityFor(params, target, translator)
  const glossaryId = idOf(params, "glossary_id")
  const listed = params.names("glossary_ids")
  if (glossaryId !== undefined && listed.length > 0)
    params.invalid("glossary_ids", "Only one of glossary_id and glossary_ids can be given.")
  if (listed.length > glossariesMax)
    params.invalid("glossary_ids", `At most ${glossariesMax} glossaries can be used.`)
  for (const id of listed) if (!isUuid(id)) params.invalid("glossary_ids")
  if (detects && (glossaryId !== undefined || listed.length > 0)) params.missing("source_lang")
  const styleId = idOf(params, "style_id") ?? null
  const memoryId = idOf(params, "translation_memory_id") ?? null
  const memoryThreshold = params.integer("translation_memory_threshold", 0, 100) ?? thresholdDefault
  const watermark = params.boolean("enable_watermark") ?? false
  if (params.fault !== undefined) return params.fault
  if (source !== undefined && pairFor(translator, source.base, target) === undefined)
    return { _tag: "UnsupportedLanguage", name: "target_lang", pair: true }
  return {
    type,
    baseName: base,
    extension,
    outExtension,
    outType: outType!,
    source,
    target,
    steering: {
      formality,
      glossaryIds: glossaryId !== undefined ? [glossaryId] : listed.map((id) => id.toLowerCase()),
      styleId,
      memoryId,
      memoryThreshold
    },
    watermark: watermark && (outType!.id === "docx" || outType!.id === "pdf")
  }
}
