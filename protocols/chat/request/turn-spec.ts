/** The specification of a turn, independent of its endpoint, and the fields that both endpoints read alike.
 *  Source: docs/spec/chat.md, sections 7.1, 9.1 and 12. */
import type { Effort, Format, ModelRequest } from "../../../actors/engines/chat/model.ts"
import { defined } from "../../../runtime/defined.ts"
import { missing, notSupported } from "../problems.ts"
import type { Fields } from "./fields.ts"
import type { ToolChoiceSpec } from "./tools.ts"

export interface TurnSpec {
  /** The model's name as the client wrote it. */
  readonly model: string
  /** The request to the model; its `model` is filled in when the upstream is decided. */
  readonly request: ModelRequest
  /** The request has `tools`, maybe none: built-in tools are off. */
  readonly external: boolean
  readonly choice: ToolChoiceSpec
}

const efforts: Record<string, Effort> = {
  none: "none",
  minimal: "none",
  low: "low",
  medium: "medium",
  high: "high",
  xhigh: "high",
  max: "high"
}

export const readEffort = (fields: Fields, name: string): Effort | undefined => {
  const word = fields.string(name)
  if (word === undefined) return undefined
  if (!Object.hasOwn(efforts, word)) throw notSupported(fields.path(name), Object.keys(efforts))
  return efforts[word]
}

const formatName = /^[A-Za-z0-9_-]{1,64}$/

/** Reads the output format. `nested`: chat has name and schema in `json_schema`, responses beside the
 *  type. */
export const readFormat = (format: Fields | undefined, nested: boolean): Format | undefined => {
  if (format === undefined) return undefined
  const type = format.choice("type", ["text", "json_object", "json_schema"])
  if (type === undefined) throw missing(format.path("type"))
  if (type === "text") return undefined
  if (type === "json_object") return { type }
  const definition = nested ? format.requiredObject("json_schema") : format
  const name = definition.required("name", { pattern: formatName })
  const schema = definition.plain("schema")
  const strict = definition.boolean("strict")
  const description = definition.string("description")
  if (schema === undefined) throw missing(definition.path("schema"))
  return { type, name, schema, ...defined({ strict, description }) }
}

export const readModel = (fields: Fields): string => {
  const model = fields.raw("model")
  if (model === undefined) throw missing("model")
  return fields.required("model", { min: 1, max: 256 })
}
