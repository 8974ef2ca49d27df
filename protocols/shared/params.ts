/** Reads parameters, whether they came as JSON, form or query: null is absent, the first of several scalars
 *  counts, booleans and integers have their usual spellings. The first fault is stored in `fault`, and later
 *  reads have no effect on it.
 *  Source: docs/spec/translation.md, section 1.2. */

export type ParamFault =
  | { readonly _tag: "Missing"; readonly name: string }
  | { readonly _tag: "Invalid"; readonly name: string; readonly detail?: string }

/** Parameters before they are read. JSON, form and query have the same shapes; the objects of a form have no
 *  prototype. */
export type RawParams = { readonly [name: string]: unknown }

const listMax = 10_000

export class Params {
  readonly raw: RawParams
  fault: ParamFault | undefined = undefined

  constructor(bag: RawParams) {
    this.raw = bag
  }

  invalid(name: string, detail?: string): void {
    this.fault ??= detail === undefined ? { _tag: "Invalid", name } : { _tag: "Invalid", name, detail }
  }

  missing(name: string): void {
    this.fault ??= { _tag: "Missing", name }
  }

  private own(name: string): unknown {
    return Object.hasOwn(this.raw, name) ? (this.raw[name] ?? undefined) : undefined
  }

  /** Returns the first scalar: of an array its first element, of an empty one nothing. */
  private scalar(name: string): string | number | boolean | undefined {
    let value = this.own(name)
    if (Array.isArray(value)) value = value[0] ?? undefined
    if (
      value === undefined ||
      typeof value === "string" ||
      typeof value === "number" ||
      typeof value === "boolean"
    )
      return value
    this.invalid(name)
    return undefined
  }

  has(name: string): boolean {
    return this.own(name) !== undefined
  }

  /** Reads a text; numbers and booleans count as their JSON text. */
  string(name: string): string | undefined {
    const value = this.scalar(name)
    return value === undefined || typeof value === "string" ? value : String(value)
  }

  boolean(name: string): boolean | undefined {
    const value = this.scalar(name)
    if (value === undefined || typeof value === "boolean") return value
    if (value === 1 || value === "1") return true
    if (value === 0 || value === "0") return false
    const word = typeof value === "string" ? value.toLowerCase() : ""
    if (word === "true") return true
    if (word === "false") return false
    this.invalid(name)
    return undefined
  }

  integer(name: string, min: number, max: number): number | undefined {
    const value = this.scalar(name)
    if (value === undefined) return undefined
    const spelled = typeof value === "string" && /^[+-]?\d{1,15}$/.test(value.trim())
    const number = typeof value === "number" || spelled ? Number(value) : Number.NaN
    if (Number.isInteger(number) && number >= min && number <= max) return number
    this.invalid(name)
    return undefined
  }

  /** Reads one of `allowed`, compared without case; returns it as spelled in `allowed`. */
  choice<const A extends string>(name: string, allowed: ReadonlyArray<A>): A | undefined {
    const value = this.string(name)
    if (value === undefined) return undefined
    const found =
      allowed.find((option) => option === value) ?? allowed.find((option) => option === value.toLowerCase())
    if (found === undefined) this.invalid(name)
    return found
  }

  /** Reads a list of strings; a single string counts as a list of one. */
  strings(name: string): ReadonlyArray<string> | undefined {
    const value = this.own(name)
    if (value === undefined) return undefined
    if (typeof value === "string") return [value]
    if (Array.isArray(value) && value.length <= listMax && value.every((item) => typeof item === "string"))
      return value
    this.invalid(name)
    return undefined
  }

  /** Reads a list of names: an array, repeated or comma-separated, also mixed. Names are trimmed, empty ones
   *  dropped. */
  names(name: string): ReadonlyArray<string> {
    const items = this.strings(name)
    if (items === undefined || items.length === 0) return []
    const names: Array<string> = []
    for (const item of items)
      for (const part of item.split(",")) {
        const trimmed = part.trim()
        if (trimmed !== "") names.push(trimmed)
      }
    return names
  }
}
