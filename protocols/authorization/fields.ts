/** Reads members of a JSON body strictly: nothing is coerced, null is a wrong type, and unknown members can
 *  be refused by name. Only the first fault is recorded; reading can continue after it.
 *  Source: docs/spec/authorization.md, sections 2.1 (texts), 10 (wrong types) and 16 (unknown members). */
import { type PlainCode, type Problem, problemOf, quoted } from "./problems.ts"
import type { Members } from "./wire.ts"

const stringLengthMax = 4_096

/** Matches C0 and C1 controls and the characters that override or isolate text direction, so that a name
 *  cannot disguise itself. */
const unsafe = /[\p{Cc}\u202a-\u202e\u2066-\u2069]/u

const printable = /^[\x21-\x7e]*$/

export const codePointsOf = (text: string): number => {
  let count = 0
  for (const _ of text) count++
  return count
}

/** Longest id that fits into a store key beside a user and a resource; the specification would allow client ids of
 *  2,048 characters. */
const keyBytesMax = 1_800

/** False for a text that cannot be a store key, so that it names no row: the store refuses a NUL and a lone
 *  surrogate. */
export const canBeKey = (text: string): boolean =>
  text !== "" && !text.includes("\0") && text.isWellFormed() && Buffer.byteLength(text) <= keyBytesMax

export interface Strings {
  readonly itemsMax: number
  readonly lengthMax?: number
}

export class Fields {
  readonly members: Members
  private readonly error: PlainCode
  private readonly at: string
  private readonly held: { fault: string | undefined }

  /** When `allowedNames` is present, every other member is refused. */
  constructor(
    members: Members,
    error: PlainCode,
    allowedNames?: ReadonlyArray<string>,
    at = "",
    held: { fault: string | undefined } = { fault: undefined }
  ) {
    this.members = members
    this.error = error
    this.at = at
    this.held = held
    if (allowedNames !== undefined)
      for (const name of Object.keys(members))
        if (!allowedNames.includes(name)) this.refuse(quoted(name), "is not a member that can be set here")
  }

  refuse(name: string, why: string): undefined {
    this.held.fault ??= `${this.at}${name} ${why}`
  }

  get problem(): Problem | undefined {
    return this.held.fault === undefined ? undefined : problemOf(this.error, this.held.fault)
  }

  has(name: string): boolean {
    return Object.hasOwn(this.members, name)
  }

  required(...names: ReadonlyArray<string>): this {
    for (const name of names) if (!this.has(name)) this.refuse(name, "is required")
    return this
  }

  string(name: string, lengthMax = stringLengthMax): string | undefined {
    if (!this.has(name)) return undefined
    const value = this.members[name]
    if (typeof value !== "string") return this.refuse(name, "must be a string")
    if (!value.isWellFormed()) return this.refuse(name, "is not well-formed text")
    if (value.length > lengthMax * 2 || codePointsOf(value) > lengthMax)
      return this.refuse(name, `is longer than ${lengthMax} characters`)
    return value
  }

  /** Reads text for people: trimmed, `min` to `max` code points, without control or direction characters. */
  text(name: string, max: number, min = 1): string | undefined {
    const value = this.string(name)?.trim()
    if (value === undefined) return undefined
    if (codePointsOf(value) < min || codePointsOf(value) > max)
      return this.refuse(
        name,
        min === 0 ? `must be at most ${max} characters` : `must be ${min} to ${max} characters`
      )
    return unsafe.test(value) ? this.refuse(name, "holds control or direction characters") : value
  }

  /** Reads printable ASCII without spaces, such as an id, URL or token. It may be empty only when `min` is
   *  0. */
  token(name: string, lengthMax = 2_048, min = 1): string | undefined {
    const value = this.string(name, lengthMax)
    if (value === undefined) return undefined
    return value.length >= min && printable.test(value)
      ? value
      : this.refuse(name, value === "" ? "must not be empty" : `is not acceptable: ${quoted(value)}`)
  }

  boolean(name: string): boolean | undefined {
    if (!this.has(name)) return undefined
    const value = this.members[name]
    return typeof value === "boolean" ? value : this.refuse(name, "must be true or false")
  }

  integer(name: string, min: number, max: number): number | undefined {
    if (!this.has(name)) return undefined
    const value = this.members[name]
    return typeof value === "number" && Number.isInteger(value) && value >= min && value <= max
      ? value
      : this.refuse(name, `must be an integer from ${min} to ${max}`)
  }

  choice<const A extends string>(name: string, allowed: ReadonlyArray<A>): A | undefined {
    const value = this.string(name)
    return value === undefined
      ? undefined
      : (allowed.find((option) => option === value) ??
          this.refuse(name, `must be one of ${allowed.join(", ")}, not ${quoted(value)}`))
  }

  /** Reads an array of strings, in order and without duplicates. */
  strings(name: string, { itemsMax, lengthMax = 2_048 }: Strings): ReadonlyArray<string> | undefined {
    if (!this.has(name)) return undefined
    const value = this.members[name]
    if (!Array.isArray(value) || !value.every((item) => typeof item === "string"))
      return this.refuse(name, "must be an array of strings")
    if (value.length > itemsMax) return this.refuse(name, `holds more than ${itemsMax} entries`)
    const wrong = value.find(
      (item) => item === "" || item.length > lengthMax || !item.isWellFormed() || unsafe.test(item)
    )
    return wrong === undefined
      ? [...new Set(value)]
      : this.refuse(name, `holds an entry that is not acceptable: ${quoted(wrong)}`)
  }

  object(name: string, allowedNames?: ReadonlyArray<string>): Fields | undefined {
    if (!this.has(name)) return undefined
    return this.child(this.members[name], name, allowedNames)
  }

  objects(
    name: string,
    itemsMax: number,
    allowedNames?: ReadonlyArray<string>
  ): ReadonlyArray<Fields> | undefined {
    if (!this.has(name)) return undefined
    const value = this.members[name]
    if (!Array.isArray(value)) return this.refuse(name, "must be an array of objects")
    if (value.length > itemsMax) return this.refuse(name, `holds more than ${itemsMax} entries`)
    return value
      .map((item, at) => this.child(item, `${name}[${at}]`, allowedNames))
      .filter((item) => item !== undefined)
  }

  private child(value: unknown, name: string, allowedNames?: ReadonlyArray<string>): Fields | undefined {
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? new Fields(value as Members, this.error, allowedNames, `${this.at}${name}.`, this.held)
      : this.refuse(name, "must be an object")
  }
}
