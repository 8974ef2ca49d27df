/** Reads a request body as a bag of parameters: JSON or form by content type, or by its first byte when
 *  there is none.
 *  Source: docs/spec/translation.md, section 1.2. */
import { isUtf8 } from "node:buffer"
import { isFormFault, parseForm } from "./form.ts"
import { holdsTooManyValues, valuesMax } from "./json-values.ts"
import type { RawParams } from "./params.ts"

/** Refusal of a body: `content-type` is neither JSON nor form (415), `syntax` means that the body is not of
 *  its declared type (400), `values` that it holds too many of them (413). */
export interface BodyRefusal {
  readonly _tag: "BodyRefusal"
  readonly reason: "content-type" | "syntax" | "values"
  readonly detail: string
}

const refusal = (reason: BodyRefusal["reason"], detail: string): BodyRefusal => ({
  _tag: "BodyRefusal",
  reason,
  detail
})

const empty: RawParams = Object.create(null)
const braceCode = 0x7b

const looksLikeJson = (body: Uint8Array): boolean => {
  for (const byte of body)
    if (byte !== 32 && byte !== 9 && byte !== 10 && byte !== 13) return byte === braceCode
  return false
}

const mediaType = (header: string): string => {
  const end = header.indexOf(";")
  return (end < 0 ? header : header.slice(0, end)).trim().toLowerCase()
}

const textOf = (body: Uint8Array): string =>
  Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString("utf8")

export const readBody = (
  contentType: string | undefined,
  body: Uint8Array
): { readonly bag: RawParams } | BodyRefusal => {
  if (contentType === undefined || contentType === "")
    return looksLikeJson(body) ? readJson(body) : readForm(textOf(body))
  if (contentType === "application/json") return readJson(body)
  switch (mediaType(contentType)) {
    case "application/json":
      return readJson(body)
    case "application/x-www-form-urlencoded":
      return readForm(textOf(body))
    default:
      return refusal(
        "content-type",
        "Content type must be application/json or application/x-www-form-urlencoded."
      )
  }
}

const readJson = (body: Uint8Array): { readonly bag: RawParams } | BodyRefusal => {
  if (body.length === 0) return { bag: empty }
  if (!isUtf8(body)) return refusal("syntax", "The body is not UTF-8.")
  if (holdsTooManyValues(body)) return refusal("values", `The body holds more than ${valuesMax} JSON values.`)
  let value: unknown
  try {
    value = JSON.parse(textOf(body))
  } catch {
    return refusal("syntax", "The body is not valid JSON.")
  }
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? { bag: value as RawParams }
    : refusal("syntax", "The body is not a JSON object.")
}

/** Reads form parameters; queries have the same syntax. */
export const readForm = (text: string): { readonly bag: RawParams } | BodyRefusal => {
  if (text === "") return { bag: empty }
  const form = parseForm(text)
  return isFormFault(form) ? refusal("syntax", `The form is not acceptable (${form.reason}).`) : { bag: form }
}
