/** Strict readers for forms and JSON bodies. All functions are pure.
 *  Source: docs/spec/authorization.md, section 3.1. */
import { isUtf8 } from "node:buffer"
import { holdsTooManyValues } from "../shared/json-values.ts"

/** A fault is a class and not a plain object, because JSON from outside can contain any member but is never
 *  an instance. */
export class WireFault {
  readonly _tag = "WireFault"
  readonly detail: string

  constructor(detail: string) {
    this.detail = detail
  }
}

const fault = (detail: string): WireFault => new WireFault(detail)

export const isWireFault = (value: object): value is WireFault => value instanceof WireFault

export const fieldsMax = 1_000

/** Parameters that may appear more than once; each grant decides what several values mean. */
const repeatable = new Set(["resource", "audience"])

const nothing: ReadonlyArray<never> = []

/** Decoded values by name; parameters with an empty value count as absent. */
export class Form {
  private readonly values: ReadonlyMap<string, ReadonlyArray<string>>

  constructor(values: ReadonlyMap<string, ReadonlyArray<string>>) {
    this.values = values
  }

  get(name: string): string | undefined {
    return this.values.get(name)?.[0]
  }

  /** Returns the distinct values, in order. */
  all(name: string): ReadonlyArray<string> {
    const values = this.values.get(name) ?? nothing
    return values.length < 2 ? values : [...new Set(values)]
  }

  /** Names of the parameters that appear more than once although only `resource` and `audience` may. */
  get repeated(): ReadonlyArray<string> {
    let repeated: Array<string> | undefined
    for (const [name, values] of this.values)
      if (values.length > 1 && !repeatable.has(name)) (repeated ??= []).push(name)
    return repeated ?? nothing
  }

  has(name: string): boolean {
    return this.values.has(name)
  }

  get names(): ReadonlyArray<string> {
    return [...this.values.keys()]
  }
}

export const formDecoded = (part: string): string | undefined => {
  const spaced = part.includes("+") ? part.replaceAll("+", " ") : part
  if (!spaced.includes("%")) return spaced
  try {
    return decodeURIComponent(spaced)
  } catch {
    return undefined
  }
}

/** Reads a query, or the body of a form. Repeated names are retained, so that the endpoint can decide how to
 *  answer them. */
export const readPairs = (text: string): Form | WireFault => {
  const values = new Map<string, Array<string>>()
  let seen = 0
  for (const pair of text.split("&")) {
    if (pair === "") continue
    if (++seen > fieldsMax) return fault("too many parameters")
    const equals = pair.indexOf("=")
    const name = formDecoded(equals < 0 ? pair : pair.slice(0, equals))
    const value = equals < 0 ? "" : formDecoded(pair.slice(equals + 1))
    if (name === undefined || value === undefined) return fault("malformed percent encoding")
    if (name.includes("\0") || value.includes("\0")) return fault("a NUL byte")
    if (value === "") continue
    const existing = values.get(name)
    if (existing === undefined) values.set(name, [value])
    else existing.push(value)
  }
  return new Form(values)
}

const secretsInQuery = ["client_secret", "code", "refresh_token", "subject_token", "actor_token", "assertion"]

const textOf = (body: Uint8Array): string =>
  Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString("utf8")

const formType = "application/x-www-form-urlencoded"
const plainForm = { type: formType, charset: "utf-8" }

const mediaTypeOf = (
  contentType: string | undefined
): { readonly type: string; readonly charset: string } => {
  if (contentType === formType) return plainForm
  const [type = "", ...parameters] = (contentType ?? "").split(";").map((part) => part.trim().toLowerCase())
  return {
    type,
    charset:
      parameters
        .find((parameter) => parameter.startsWith("charset="))
        ?.slice(8)
        .replaceAll('"', "") ?? "utf-8"
  }
}

/** Reads the form of a POST endpoint. */
export const readForm = (
  contentType: string | undefined,
  query: string,
  body: Uint8Array
): Form | WireFault => {
  const { type, charset } = mediaTypeOf(contentType)
  if (type !== formType || charset !== "utf-8")
    return fault("the content type must be application/x-www-form-urlencoded")
  if (query !== "") {
    const inQuery = readPairs(query)
    if (isWireFault(inQuery)) return inQuery
    for (const name of secretsInQuery) if (inQuery.has(name)) return fault(`${name} must not be in the query`)
  }
  if (!isUtf8(body)) return fault("the body is not UTF-8")
  const form = readPairs(textOf(body))
  if (isWireFault(form)) return form
  const [twice] = form.repeated
  return twice === undefined
    ? form
    : fault(`${/^[\w.-]{1,64}$/.test(twice) ? twice : "a parameter"} appears twice`)
}

const depthMax = 16

/** Fewer than elsewhere, because each value is visited several times here. */
export const valuesMax = 20_000

/** Finds a repeated member name, which JSON.parse would accept. It walks the text once, after JSON.parse has
 *  accepted it. */
const repeatedMember = (text: string): string | undefined => {
  const stack: Array<Set<string> | undefined> = []
  for (const token of text.matchAll(/"((?:[^"\\]|\\.)*)"(\s*:)?|[{}[\]]/g)) {
    if (token[0] === "{") stack.push(new Set())
    else if (token[0] === "[") stack.push(undefined)
    else if (token[0] === "}" || token[0] === "]") stack.pop()
    else if (token[2] !== undefined) {
      const name = JSON.parse(`"${token[1]}"`) as string
      const members = stack.at(-1)
      if (members?.has(name)) return name
      members?.add(name)
    }
  }
  return undefined
}

const depthOf = (value: unknown): number => {
  let depth = 0
  for (let level: ReadonlyArray<unknown> = [value]; level.length > 0 && depth <= depthMax; depth++) {
    level = level.flatMap((item) =>
      typeof item === "object" && item !== null
        ? Object.values(item).filter((member) => typeof member === "object" && member !== null)
        : []
    )
  }
  return depth
}

const dangerous = new Set(["__proto__", "constructor", "prototype"])
export type Members = { readonly [name: string]: unknown }

/** Parses a JSON object from a request body or a fetched document. */
export const parseObject = (bytes: Uint8Array): Members | WireFault => {
  if (!isUtf8(bytes)) return fault("the body is not UTF-8")
  if (holdsTooManyValues(bytes, valuesMax)) return fault(`the JSON holds more than ${valuesMax} values`)
  const text = textOf(bytes)
  let value: unknown
  try {
    value = JSON.parse(text, (name, member) => (dangerous.has(name) ? undefined : member))
  } catch {
    return fault("the body is not JSON")
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return fault("the body is not a JSON object")
  if (depthOf(value) > depthMax) return fault("the JSON is nested too deep")
  if (repeatedMember(text) !== undefined) return fault("a JSON member appears twice")
  return value as Members
}

export const readJson = (contentType: string | undefined, body: Uint8Array): Members | WireFault =>
  mediaTypeOf(contentType).type === "application/json"
    ? parseObject(body)
    : fault("the content type must be application/json")
