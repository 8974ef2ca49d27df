/** What a configuration key is: its names, kind, default, limits and documentation. */

export type Kind = "string" | "integer" | "boolean" | "list" | "json" | "duration" | readonly string[]

export interface Item {
  /** The key in the YAML file, where it differs from the member of `Config`: sections in snake_case. */
  readonly name?: string
  /** The environment variable. */
  readonly env: string
  readonly kind: Kind
  readonly initial: string | number | boolean | ReadonlyArray<string> | undefined
  readonly doc: string
  readonly secret?: true
  readonly min?: number
  readonly max?: number
}

/** Keeps the literal types of a definition. */
export const item = <const I extends Item>(definition: I): I => definition
