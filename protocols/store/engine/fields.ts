/** What a resource's fields are: how JSON becomes what is stored, and back. Every fault names its code;
 *  nothing is coerced but 0/1 to booleans. Money is an exact integer of 1/10000. Source: store section 6.5.
 *  */
import type { Zone } from "../wire.ts"

export type Stored =
  | string
  | number
  | boolean
  | null
  | Uint8Array
  | ReadonlyArray<unknown>
  | { readonly [name: string]: unknown }

export type Values = { readonly [field: string]: Stored }

export type FaultCode =
  | "required"
  | "invalid_type"
  | "invalid_value"
  | "too_long"
  | "out_of_range"
  | "not_found"
  | "not_unique"
  | "in_use"
  | "read_only"

export interface FieldFault {
  readonly field: string
  readonly code: FaultCode
  readonly message: string
}

export interface Field {
  /** `text` and `html` are long: they are searched row by row. `list`, `object`: JSON as it came, bounded. */
  readonly kind:
    | "string"
    | "text"
    | "html"
    | "integer"
    | "number"
    | "money"
    | "boolean"
    | "flag"
    | "datetime"
    | "strings"
    | "list"
    | "object"
  readonly initial: Stored
  readonly nullable?: boolean
  readonly required?: boolean
  /** Set by the server; given ones are ignored. */
  readonly readOnly?: boolean
  readonly lengthMin?: number
  readonly lengthMax?: number
  readonly min?: number
  readonly max?: number
  readonly oneOf?: ReadonlyArray<string>
  /** Unique, case folded, when not empty, over all fields of this name space. */
  readonly unique?: string
  /** The id of a record of that resource; 0 and null are none. `gone`: what its deletion means for this
   *  record. */
  readonly to?: string
  readonly gone?: "refuse" | "cascade" | "keep"
  /** Sealed at rest, null in every ordinary answer. */
  readonly sealed?: boolean
  /** Compared as a number where both sides are numbers. */
  readonly numeric?: boolean
  /** Of a string: what is wrong with it, if anything. */
  readonly wrong?: (value: string) => string | undefined
}

export type Fields = { readonly [name: string]: Field }

export const moneyUnit = 10_000
const moneyMax = 999_999_999.9999
const listMax = 1_000
const listBytesMax = 65_536

type Options = Omit<Field, "kind" | "initial">

export const s = (initial: string | null = "", options: Options = {}): Field => ({
  kind: "string",
  initial,
  lengthMax: 255,
  ...options
})

export const t = (options: Options = {}): Field => ({
  kind: "text",
  initial: "",
  lengthMax: 65_535,
  ...options
})

export const h = (options: Options = {}): Field => ({
  kind: "html",
  initial: "",
  lengthMax: 1_048_576,
  ...options
})

export const i = (initial: number | null = 0, options: Options = {}): Field => ({
  kind: "integer",
  initial,
  nullable: initial === null,
  ...options
})

export const n = (initial: number | null = 0, options: Options = {}): Field => ({
  kind: "number",
  initial,
  nullable: initial === null,
  ...options
})

export const m = (initial: number | null = 0, options: Options = {}): Field => ({
  kind: "money",
  initial,
  nullable: initial === null,
  min: 0,
  ...options
})

export const b = (initial = false, options: Options = {}): Field => ({ kind: "boolean", initial, ...options })
export const f = (initial: 0 | 1 = 0, options: Options = {}): Field => ({ kind: "flag", initial, ...options })

export const d = (options: Options = {}): Field => ({
  kind: "datetime",
  initial: null,
  nullable: true,
  ...options
})

/** A reference; `required`: must name a record. */
export const to = (resource: string, options: Options = {}): Field => ({
  kind: "integer",
  initial: 0,
  nullable: options.required !== true,
  min: 0,
  to: resource,
  gone: "refuse",
  ...options
})

export const named = (names: string, field: Field): Fields =>
  Object.fromEntries(names.split(/\s+/).map((name) => [name, field]))

const fault = (code: FaultCode, message: string): { readonly code: FaultCode; readonly message: string } => ({
  code,
  message
})

const typeFault = (wanted: string) => fault("invalid_type", `must be ${wanted}`)
export type Decoded = { readonly value: Stored } | { readonly code: FaultCode; readonly message: string }

const decodeString = (field: Field, given: unknown): Decoded => {
  if (typeof given !== "string") return typeFault("a string")
  if (given.length > field.lengthMax!)
    return fault("too_long", `must have at most ${field.lengthMax} characters`)
  if (given.length < (field.lengthMin ?? 0)) return fault("invalid_value", "must not be empty")
  if (given.includes("\0") || !given.isWellFormed())
    return fault("invalid_value", "must hold neither NUL nor half a character")
  if (field.oneOf !== undefined && !field.oneOf.includes(given))
    return fault("invalid_value", `must be one of ${field.oneOf.join(", ")}`)
  const wrong = field.wrong?.(given)
  return wrong === undefined ? { value: given } : fault("invalid_value", wrong)
}

const inRange = (
  { min = -Number.MAX_SAFE_INTEGER, max = Number.MAX_SAFE_INTEGER }: Field,
  value: number
): Decoded =>
  value < min || value > max
    ? fault(
        "out_of_range",
        max === Number.MAX_SAFE_INTEGER ? `must be at least ${min}` : `must be from ${min} to ${max}`
      )
    : { value }

/** `given` is what stood in the JSON, never undefined. */
export const decodeField = (field: Field, given: unknown, zone: Zone): Decoded => {
  if (given === null) return field.nullable === true ? { value: null } : typeFault("given, and not null")
  switch (field.kind) {
    case "string":
    case "text":
    case "html":
      return decodeString(field, given)
    case "integer":
      if (typeof given !== "number") return typeFault("an integer")
      return Number.isSafeInteger(given)
        ? inRange(field, given)
        : fault("invalid_value", "must be an integer")
    case "number":
      return typeof given !== "number" || !Number.isFinite(given)
        ? typeFault("a number")
        : inRange(field, given)
    case "money": {
      if (typeof given !== "number") return typeFault("an amount of money as a number")
      if (given < (field.min ?? 0) || given > moneyMax)
        return fault("out_of_range", `must be from 0 to ${moneyMax}`)
      const units = Math.round(given * moneyUnit)
      return units / moneyUnit === given
        ? { value: units }
        : fault("invalid_value", "must have at most 4 decimals")
    }
    case "boolean":
      return given === true || given === 1
        ? { value: true }
        : given === false || given === 0
          ? { value: false }
          : typeFault("true or false")
    case "flag":
      return given === true || given === 1
        ? { value: 1 }
        : given === false || given === 0
          ? { value: 0 }
          : typeFault("0 or 1")
    case "datetime": {
      if (typeof given !== "string") return typeFault("an ISO 8601 datetime")
      const ms = zone.parse(given)
      return ms === undefined ? fault("invalid_value", "must be an ISO 8601 datetime") : { value: ms }
    }
    case "strings":
      return Array.isArray(given) &&
        given.length <= listMax &&
        given.every((part) => typeof part === "string" && part.length <= 255 && part.isWellFormed())
        ? { value: given as ReadonlyArray<string> }
        : typeFault("a list of strings")
    case "list":
      return Array.isArray(given) && given.length <= listMax && JSON.stringify(given).length <= listBytesMax
        ? { value: given as ReadonlyArray<unknown> }
        : typeFault("a list")
    case "object":
      return typeof given === "object" &&
        !Array.isArray(given) &&
        JSON.stringify(given).length <= listBytesMax
        ? { value: given as Record<string, unknown> }
        : typeFault("an object")
  }
}

/** What goes out for a stored value; sealed ones are opened elsewhere. */
export const encodeField = (field: Field, value: Stored, zone: Zone): unknown =>
  value === null || field.sealed === true
    ? null
    : field.kind === "money"
      ? (value as number) / moneyUnit
      : field.kind === "datetime"
        ? zone.format(value as number)
        : value

/** Case folding, for uniqueness and comparison. */
export const fold = (text: string): string => {
  const lower = text.toLowerCase()
  return lower.includes("ς") || lower.includes("ſ") ? lower.replaceAll("ς", "σ").replaceAll("ſ", "s") : lower
}

/** A stored value as queries see it: text folded, everything else a number; null is absent. */
export const comparable = (field: Field, value: Stored): string | number | null =>
  value === null
    ? null
    : typeof value === "string"
      ? fold(value)
      : typeof value === "number"
        ? value
        : typeof value === "boolean"
          ? Number(value)
          : null

export const searchable = ({ kind, sealed }: Field): boolean =>
  sealed !== true && kind !== "strings" && kind !== "list" && kind !== "object"

export const isLong = ({ kind }: Field): boolean => kind === "text" || kind === "html"
