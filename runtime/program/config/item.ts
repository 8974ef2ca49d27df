/** A configuration item declares one key: its names, kind, default, limits and description. */

export type Kind = "string" | "integer" | "boolean" | "list" | "json" | "duration" | readonly string[]

export interface Item {
  /** The key in the YAML file, if it differs from the member of `Config`: sections in snake_case. */
  readonly name?: string
  /** The name of the environment variable. */
  readonly env: string
  readonly kind: Kind
  readonly initial: string | number | boolean | ReadonlyArray<string> | undefined
  readonly doc: string
  readonly secret?: true
  readonly min?: number
  readonly max?: number
}

/** Returns the definition unchanged, but makes TypeScript preserve its literal types. */
export const item = <const I extends Item>(definition: I): I => definition
