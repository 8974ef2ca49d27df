/** A JSON object read field by field: null is absent; the first wrong type or range ends the reading with a
 *  refusal that names the path. Pure.
 *  Source: docs/spec/chat.md, sections 5 and 7.1. */
import { missing, notSupported, Refusal, wrongType } from "../problems.ts"
import { isObject, type Json } from "./json-body.ts"

export interface StringRules {
  readonly min?: number
  readonly max?: number
  readonly pattern?: RegExp
}

export interface ArrayRules {
  readonly min?: number
  readonly max?: number
}

interface NumberRules {
  readonly kind: "decimal" | "integer"
  readonly min: number
  readonly max: number
}

/** One object of a request, and how it is reached: `name` in the object around it, `index` where that member
 *  is an array. */
export class Fields {
  private readonly members: Json
  private readonly parent: Fields | undefined
  private readonly name: string
  private readonly index: number

  /** Positional, because there is one for every object of every request. */
  constructor(members: Json, parent?: Fields, name = "", index = -1) {
    this.members = members
    this.parent = parent
    this.name = name
    this.index = index
  }

  /** The path is put together when something is wrong, not before. */
  private get ownPath(): string {
    if (this.parent === undefined) return ""
    const path = this.parent.path(this.name)
    return this.index < 0 ? path : `${path}[${this.index}]`
  }

  path(name: string): string {
    const { ownPath } = this
    return ownPath === "" ? name : `${ownPath}.${name}`
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

  string(name: string, { min = 0, max = Infinity, pattern }: StringRules = {}): string | undefined {
    const value = this.raw(name)
    if (value === undefined) return undefined
    if (typeof value !== "string") throw wrongType(this.path(name), "a string")
    if (value.length < min) throw new Refusal({ _tag: "TooShort", param: this.path(name), min })
    if (value.length > max)
      throw new Refusal({ _tag: "TooLong", param: this.path(name), kind: "string", max })
    if (pattern !== undefined && !pattern.test(value))
      throw new Refusal({ _tag: "PatternMismatch", param: this.path(name), pattern: pattern.source })
    return value
  }

  required(name: string, rules: StringRules = {}): string {
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
    return this.numeric(name, { kind: "decimal", min, max })
  }

  integer(name: string, min: number, max = Number.MAX_SAFE_INTEGER): number | undefined {
    return this.numeric(name, { kind: "integer", min, max })
  }

  private numeric(name: string, { kind, min, max }: NumberRules): number | undefined {
    const value = this.raw(name)
    if (value === undefined) return undefined
    if (typeof value !== "number" || (kind === "integer" && !Number.isInteger(value)))
      throw wrongType(this.path(name), kind === "integer" ? "an integer" : "a number")
    if (value < min)
      throw new Refusal({ _tag: "OutOfRange", param: this.path(name), kind, side: "below_min", limit: min })
    if (value > max)
      throw new Refusal({ _tag: "OutOfRange", param: this.path(name), kind, side: "above_max", limit: max })
    return value
  }

  choice<const Word extends string>(name: string, supported: ReadonlyArray<Word>): Word | undefined {
    const value = this.string(name)
    if (value === undefined) return undefined
    if (!supported.includes(value as Word)) throw notSupported(this.path(name), supported)
    return value as Word
  }

  /** The object of that name, to be read field by field. */
  object(name: string): Fields | undefined {
    const value = this.raw(name)
    if (value === undefined) return undefined
    if (!isObject(value)) throw wrongType(this.path(name), "an object")
    return new Fields(value, this, name)
  }

  requiredObject(name: string): Fields {
    const value = this.object(name)
    if (value === undefined) throw missing(this.path(name))
    return value
  }

  /** The object of that name, to be taken as it is. */
  plain(name: string): Json | undefined {
    const value = this.raw(name)
    if (value === undefined || isObject(value)) return value
    throw wrongType(this.path(name), "an object")
  }

  array(name: string, { min = 0, max = Infinity }: ArrayRules = {}): ReadonlyArray<unknown> | undefined {
    const value = this.raw(name)
    if (value === undefined) return undefined
    if (!Array.isArray(value)) throw wrongType(this.path(name), "an array")
    if (value.length < min) throw new Refusal({ _tag: "EmptyArray", param: this.path(name) })
    if (value.length > max) throw new Refusal({ _tag: "TooLong", param: this.path(name), kind: "array", max })
    return value
  }

  /** The objects of an array. */
  each(name: string, rules: ArrayRules = {}): ReadonlyArray<Fields> | undefined {
    return this.array(name, rules)?.map((item, i) => {
      if (!isObject(item)) throw wrongType(`${this.path(name)}[${i}]`, "an object")
      return new Fields(item, this, name, i)
    })
  }
}
