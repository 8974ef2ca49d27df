/** Reading a JSON object field by field: null is absent, a wrong type or range is the first thing wrong and
 *  ends the reading. Pure.
 *  Source: chat sections 3.5, 5, 7.1. */
import { isUtf8 } from "node:buffer"
import { badValue, emptyArray, invalidJson, missing, outOfRange, tooLong, wrongType } from "../problems.ts"

export type Json = { readonly [name: string]: unknown }

export const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const depthMax = 64

/** No more brackets than levels allowed, wherever they stand: then there is no need to look closer. */
const opensAtMost = (body: Buffer, max: number): boolean => {
  let opens = 0
  for (const bracket of [123, 91])
    for (let at = body.indexOf(bracket); at >= 0; at = body.indexOf(bracket, at + 1))
      if (++opens > max) return false
  return true
}

/** Over the raw bytes, because a parsed value of such depth would already have cost its parse. */
const tooDeep = (body: Buffer): boolean => {
  if (opensAtMost(body, depthMax)) return false
  let depth = 0
  let text = false
  for (let i = 0; i < body.length; i++) {
    const byte = body[i]!
    if (text) {
      if (byte === 92) i++
      else if (byte === 34) text = false
      continue
    }
    if (byte === 34) text = true
    else if (byte === 123 || byte === 91) {
      if (++depth > depthMax) return true
    } else if (byte === 125 || byte === 93) depth--
  }
  return false
}

export const readBody = (given: Uint8Array): { readonly object: Json; readonly text: string } => {
  const body = Buffer.from(given.buffer, given.byteOffset, given.byteLength)
  if (body.length === 0) throw invalidJson("The body is empty.")
  if (!isUtf8(body)) throw invalidJson("The body is not UTF-8.")
  if (tooDeep(body)) throw invalidJson(`The body is nested deeper than ${depthMax} levels.`)
  const text = body.toString("utf8")
  let object: unknown
  try {
    object = JSON.parse(text)
  } catch {
    throw invalidJson("The body is not valid JSON.")
  }
  if (!isObject(object)) throw invalidJson()
  return { object, text }
}

const quote = 34
const backslash = 92

/** Where the string ends that begins at `at`. */
const stringEnd = (text: string, at: number): number => {
  for (let end = text.indexOf('"', at + 1); ; end = text.indexOf('"', end + 1)) {
    let before = end - 1
    while (text.charCodeAt(before) === backslash) before--
    if ((end - before) % 2 === 1) return end
  }
}

/** A member of an object's valid JSON text, as it is written; undefined where a name is escaped, and so might
 *  be its, or where it holds more or fewer `strings` than that, names included: one that stands twice would
 *  be read here as the last, elsewhere maybe not. The last member counts. */
export const memberText = (text: string, name: string, strings?: number): string | undefined => {
  let depth = 0
  let names = false
  let from = -1
  let held = 0
  let found: string | undefined
  const part = (to: number): string | undefined =>
    strings === undefined || held === strings ? text.slice(from, to) : undefined
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case quote: {
        const end = stringEnd(text, at)
        if (depth === 1 && names) {
          names = false
          const written = text.slice(at + 1, end)
          if (written.includes("\\")) return undefined
          if (written === name) {
            from = text.indexOf(":", end) + 1
            held = 0
          }
        } else held++
        at = end
        break
      }
      case 123:
      case 91:
        if (++depth === 1) names = true
        break
      case 44:
        if (depth === 1) {
          names = true
          if (from >= 0) {
            found = part(at)
            from = -1
          }
        }
        break
      case 125:
      case 93:
        if (--depth === 0 && from >= 0) return part(at)
    }
  }
  return found
}

/** One object of a request, and how it is reached: `name` of the object around it, `index` where that is an
 *  array. */
export class Fields {
  private readonly members: Json
  private readonly around: Fields | undefined
  private readonly name: string
  private readonly index: number

  constructor(members: Json, around?: Fields, name = "", index = -1) {
    this.members = members
    this.around = around
    this.name = name
    this.index = index
  }

  /** Put together when something is wrong, not before. */
  private get at(): string {
    return this.around === undefined
      ? ""
      : `${this.around.path(this.name)}${this.index < 0 ? "" : `[${this.index}]`}`
  }

  path(name: string): string {
    const { at } = this
    return at === "" ? name : `${at}.${name}`
  }

  raw(name: string): unknown {
    return Object.hasOwn(this.members, name) ? (this.members[name] ?? undefined) : undefined
  }

  get size(): number {
    return Object.keys(this.members).length
  }

  has(name: string): boolean {
    return this.raw(name) !== undefined
  }

  string(
    name: string,
    {
      min = 0,
      max = Infinity,
      pattern
    }: { readonly min?: number; readonly max?: number; readonly pattern?: RegExp } = {}
  ): string | undefined {
    const value = this.raw(name)
    if (value === undefined) return undefined
    if (typeof value !== "string") throw wrongType(this.path(name), "a string")
    if (value.length < min)
      throw badValue(this.path(name), `Invalid '${this.path(name)}': at least ${min} characters.`)
    if (value.length > max) throw tooLong("string", this.path(name), max)
    if (pattern !== undefined && !pattern.test(value))
      throw badValue(this.path(name), `Invalid '${this.path(name)}': must match ${pattern.source}.`)
    return value
  }

  required(
    name: string,
    rules: { readonly min?: number; readonly max?: number; readonly pattern?: RegExp } = {}
  ): string {
    const value = this.string(name, rules)
    if (value === undefined) throw missing(this.path(name))
    return value
  }

  boolean(name: string): boolean | undefined {
    const value = this.raw(name)
    if (value === undefined || typeof value === "boolean") return value
    throw wrongType(this.path(name), "a boolean")
  }

  number(name: string, min: number, max: number): number | undefined {
    return this.figure(name, min, max, "decimal")
  }

  integer(name: string, min: number, max = Number.MAX_SAFE_INTEGER): number | undefined {
    return this.figure(name, min, max, "integer")
  }

  private figure(name: string, min: number, max: number, kind: "decimal" | "integer"): number | undefined {
    const value = this.raw(name)
    if (value === undefined) return undefined
    if (typeof value !== "number" || (kind === "integer" && !Number.isInteger(value)))
      throw wrongType(this.path(name), kind === "integer" ? "an integer" : "a number")
    if (value < min) throw outOfRange(kind, "below_min", this.path(name), min)
    if (value > max) throw outOfRange(kind, "above_max", this.path(name), max)
    return value
  }

  choice<const A extends string>(name: string, allowed: ReadonlyArray<A>): A | undefined {
    const value = this.string(name)
    if (value === undefined) return undefined
    if (!allowed.includes(value as A))
      throw badValue(
        this.path(name),
        `Invalid value for '${this.path(name)}': supported are ${allowed.map((word) => `'${word}'`).join(", ")}.`
      )
    return value as A
  }

  object(name: string): Fields | undefined {
    const value = this.raw(name)
    if (value === undefined) return undefined
    if (!isObject(value)) throw wrongType(this.path(name), "an object")
    return new Fields(value, this, name)
  }

  plain(name: string): Json | undefined {
    const value = this.raw(name)
    if (value === undefined || isObject(value)) return value
    throw wrongType(this.path(name), "an object")
  }

  array(
    name: string,
    { min = 0, max = Infinity }: { readonly min?: number; readonly max?: number } = {}
  ): ReadonlyArray<unknown> | undefined {
    const value = this.raw(name)
    if (value === undefined) return undefined
    if (!Array.isArray(value)) throw wrongType(this.path(name), "an array")
    if (value.length < min) throw emptyArray(this.path(name))
    if (value.length > max) throw tooLong("array", this.path(name), max)
    return value
  }

  /** The objects of an array. */
  each(
    name: string,
    limits: { readonly min?: number; readonly max?: number } = {}
  ): ReadonlyArray<Fields> | undefined {
    return this.array(name, limits)?.map((item, i) => {
      if (!isObject(item)) throw wrongType(`${this.path(name)}[${i}]`, "an object")
      return new Fields(item, this, name, i)
    })
  }
}
