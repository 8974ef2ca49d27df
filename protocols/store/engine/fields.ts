/** The fields of a resource: their declaration, and how JSON becomes what is stored, and back. Every fault
 *  names its code; nothing is coerced but 0 and 1 to booleans. Money is an exact integer of 1/10000.
 *  Source: docs/spec/store.md, section 6.5. */
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

export type FieldKind =
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

/** Effect of deleting a record on the records that refer to it. */
export type OnDelete = "refuse" | "cascade" | "keep"

/** One field of a resource. `Value` is what is stored for it, so that a row's values have their types. */
export interface Field<Value extends Stored = Stored> {
  /** `text` and `html` are long: they are searched row by row. `list` and `object` are JSON as it came,
   *  bounded. */
  readonly kind: FieldKind
  /** The value of a record that has no other; rows leave it out. */
  readonly initial: Value
  readonly nullable?: boolean
  readonly required?: boolean
  /** The server sets it; what a body says of it is ignored. */
  readonly readOnly?: boolean
  readonly lengthMin?: number
  readonly lengthMax?: number
  readonly min?: number
  readonly max?: number
  readonly oneOf?: ReadonlyArray<string>
  /** The name space in which its values, case folded, are unique when not empty. Several fields may share
   *  one. */
  readonly unique?: string
  /** The resource whose record's id this field holds; 0 and null refer to none. */
  readonly references?: string
  readonly onDelete?: OnDelete
  /** It is encrypted at rest, and null in every ordinary answer. */
  readonly sealed?: boolean
  /** Its text is compared as a number where both sides are numbers. */
  readonly numeric?: boolean
  /** Says what is wrong with a text, or undefined when nothing is. */
  readonly check?: (value: string) => string | undefined
}

export type Fields = { readonly [name: string]: Field }

/** The stored value's type of a field. */
export type ValueOf<F extends Field> = F extends Field<infer Value> ? Value : Stored

export const moneyUnit = 10_000
const moneyMax = 999_999_999.9999
const listMax = 1_000
const listBytesMax = 65_536

type Options = Omit<Field, "kind" | "initial">

/** Declares a nullable kind of field: an initial value of null makes the field nullable. */
interface NumberField {
  (initial?: number, options?: Options): Field<number>
  (initial: null, options?: Options): Field<number | null>
}

interface StringField {
  (initial?: string, options?: Options): Field<string>
  (initial: null, options?: Options): Field<string | Uint8Array | null>
}

const numberField = (kind: "integer" | "number" | "money", defaults: Options = {}): NumberField =>
  ((initial: number | null = 0, options: Options = {}) => ({
    kind,
    initial,
    nullable: initial === null,
    ...defaults,
    ...options
  })) as NumberField

const string = ((initial: string | null = "", options: Options = {}) => ({
  kind: "string",
  initial,
  lengthMax: 255,
  ...options
})) as StringField

const boolean = (initial = false, options: Options = {}): Field<boolean> => ({
  kind: "boolean",
  initial,
  ...options
})

const flag = (initial: 0 | 1 = 0, options: Options = {}): Field<number> => ({
  kind: "flag",
  initial,
  ...options
})

/** Declares one field by its kind: `field.string()`, `field.integer(1, { min: 1 })`. */
export const field = {
  string,
  boolean,
  flag,
  integer: numberField("integer"),
  number: numberField("number"),
  money: numberField("money", { min: 0 }),
  text: (options: Options = {}): Field<string> => ({
    kind: "text",
    initial: "",
    lengthMax: 65_535,
    ...options
  }),
  html: (options: Options = {}): Field<string> => ({
    kind: "html",
    initial: "",
    lengthMax: 1_048_576,
    ...options
  }),
  datetime: (options: Options = {}): Field<number | null> => ({
    kind: "datetime",
    initial: null,
    nullable: true,
    ...options
  }),
  strings: (): Field<ReadonlyArray<unknown>> => ({ kind: "strings", initial: [] }),
  list: (): Field<ReadonlyArray<unknown>> => ({ kind: "list", initial: [] }),
  object: (): Field<{ readonly [name: string]: unknown } | null> => ({
    kind: "object",
    initial: null,
    nullable: true
  })
}

/** Declares a reference to a record of another resource. A required one must name a record. */
export const references = (resource: string, options: Options = {}): Field<number | null> => ({
  kind: "integer",
  initial: 0,
  nullable: options.required !== true,
  min: 0,
  references: resource,
  onDelete: "refuse",
  ...options
})

/** The words of a text, as a type. */
type Words<Text extends string> = Text extends `${infer Word} ${infer Rest}` ? Word | Words<Rest> : Text

/** Declares several fields alike, named by the words of one or more texts. */
export const fieldsOf = <F extends Field, Names extends string>(
  declaration: F,
  ...names: ReadonlyArray<Names>
): { readonly [Name in Words<Names>]: F } =>
  Object.fromEntries(names.flatMap((text) => text.split(" ")).map((name) => [name, declaration])) as {
    readonly [Name in Words<Names>]: F
  }

/** A fault of one value, before its field is named. */
export interface ValueFault {
  readonly code: FaultCode
  readonly message: string
}

export type Decoded = { readonly value: Stored } | ValueFault

const fault = (code: FaultCode, message: string): ValueFault => ({ code, message })

const typeFault = (wanted: string): ValueFault => fault("invalid_type", `must be ${wanted}`)

const inRange = (
  { min = -Number.MAX_SAFE_INTEGER, max = Number.MAX_SAFE_INTEGER }: Field,
  value: number
): Decoded => {
  if (value >= min && value <= max) return { value }
  const range = max === Number.MAX_SAFE_INTEGER ? `at least ${min}` : `from ${min} to ${max}`
  return fault("out_of_range", `must be ${range}`)
}

type Decode = (field: Field, input: unknown, zone: Zone) => Decoded

const decodeString: Decode = (field, input) => {
  if (typeof input !== "string") return typeFault("a string")
  if (input.length > field.lengthMax!)
    return fault("too_long", `must have at most ${field.lengthMax} characters`)
  if (input.length < (field.lengthMin ?? 0)) return fault("invalid_value", "must not be empty")
  if (input.includes("\0") || !input.isWellFormed())
    return fault("invalid_value", "must hold neither NUL nor half a character")
  if (field.oneOf !== undefined && !field.oneOf.includes(input))
    return fault("invalid_value", `must be one of ${field.oneOf.join(", ")}`)
  const wrong = field.check?.(input)
  return wrong === undefined ? { value: input } : fault("invalid_value", wrong)
}

const decodeInteger: Decode = (field, input) => {
  if (typeof input !== "number") return typeFault("an integer")
  return Number.isSafeInteger(input) ? inRange(field, input) : fault("invalid_value", "must be an integer")
}

const decodeNumber: Decode = (field, input) =>
  typeof input !== "number" || !Number.isFinite(input) ? typeFault("a number") : inRange(field, input)

const decodeMoney: Decode = (field, input) => {
  if (typeof input !== "number") return typeFault("an amount of money as a number")
  if (input < (field.min ?? 0) || input > moneyMax)
    return fault("out_of_range", `must be from 0 to ${moneyMax}`)
  const units = Math.round(input * moneyUnit)
  return units / moneyUnit === input
    ? { value: units }
    : fault("invalid_value", "must have at most 4 decimals")
}

const decodeBoolean: Decode = (_, input) => {
  if (input === true || input === 1) return { value: true }
  if (input === false || input === 0) return { value: false }
  return typeFault("true or false")
}

const decodeFlag: Decode = (_, input) => {
  if (input === true || input === 1) return { value: 1 }
  if (input === false || input === 0) return { value: 0 }
  return typeFault("0 or 1")
}

const decodeDatetime: Decode = (_, input, zone) => {
  if (typeof input !== "string") return typeFault("an ISO 8601 datetime")
  const ms = zone.parse(input)
  return ms === undefined ? fault("invalid_value", "must be an ISO 8601 datetime") : { value: ms }
}

const decodeStrings: Decode = (_, input) =>
  Array.isArray(input) &&
  input.length <= listMax &&
  input.every((part) => typeof part === "string" && part.length <= 255 && part.isWellFormed())
    ? { value: input as ReadonlyArray<string> }
    : typeFault("a list of strings")

const decodeList: Decode = (_, input) =>
  Array.isArray(input) && input.length <= listMax && JSON.stringify(input).length <= listBytesMax
    ? { value: input as ReadonlyArray<unknown> }
    : typeFault("a list")

const decodeObject: Decode = (_, input) =>
  typeof input === "object" && !Array.isArray(input) && JSON.stringify(input).length <= listBytesMax
    ? { value: input as Record<string, unknown> }
    : typeFault("an object")

const decoders: Readonly<Record<FieldKind, Decode>> = {
  string: decodeString,
  text: decodeString,
  html: decodeString,
  integer: decodeInteger,
  number: decodeNumber,
  money: decodeMoney,
  boolean: decodeBoolean,
  flag: decodeFlag,
  datetime: decodeDatetime,
  strings: decodeStrings,
  list: decodeList,
  object: decodeObject
}

/** Decodes what stood in the JSON, which is never undefined, to what is stored. */
export const decodeField = (field: Field, input: unknown, zone: Zone): Decoded => {
  if (input === null) return field.nullable === true ? { value: null } : typeFault("given, and not null")
  return decoders[field.kind](field, input, zone)
}

/** Encodes a stored value for an answer; a sealed one is opened elsewhere. */
export const encodeField = (field: Field, value: Stored, zone: Zone): unknown => {
  if (value === null || field.sealed === true) return null
  if (field.kind === "money") return (value as number) / moneyUnit
  if (field.kind === "datetime") return zone.format(value as number)
  return value
}

/** Folds case, for uniqueness and comparison. */
export const fold = (text: string): string => {
  const lower = text.toLowerCase()
  return lower.includes("ς") || lower.includes("ſ") ? lower.replaceAll("ς", "σ").replaceAll("ſ", "s") : lower
}

/** A stored value as queries see it: text folded, everything else a number; null is absent. */
export const comparable = (value: Stored): string | number | null => {
  switch (typeof value) {
    case "string":
      return fold(value)
    case "number":
      return value
    case "boolean":
      return Number(value)
    default:
      return null
  }
}

export const searchable = ({ kind, sealed }: Field): boolean =>
  sealed !== true && kind !== "strings" && kind !== "list" && kind !== "object"

export const isLong = ({ kind }: Field): boolean => kind === "text" || kind === "html"
