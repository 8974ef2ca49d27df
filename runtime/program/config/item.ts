/** What a configuration key is: name in the environment, kind, default, limits, words. */

export type Kind = "string" | "integer" | "boolean" | "list" | "json" | "duration" | readonly string[]

export interface Item {
  readonly env: string
  readonly kind: Kind
  readonly initial: string | number | boolean | ReadonlyArray<string> | undefined
  readonly doc: string
  readonly secret?: true
  readonly min?: number
  readonly max?: number
}

export const item = <const I extends Item>(given: I): I => given
