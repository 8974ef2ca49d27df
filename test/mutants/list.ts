/** Every mutant by class. What is listed here is run by run.mjs and checked by list.test.ts. */
import { aad } from "./aad.ts"
import { abort } from "./abort.ts"
import { capacity } from "./capacity.ts"
import { condition } from "./condition.ts"
import { csrf } from "./csrf.ts"
import { expiry } from "./expiry.ts"
import { fence } from "./fence.ts"
import { flush } from "./flush.ts"
import { fsync } from "./fsync.ts"
import { generation } from "./generation.ts"
import type { Mutant } from "./mutant.ts"
import { scope } from "./scope.ts"
import { window } from "./window.ts"

export const classes: Readonly<Record<string, ReadonlyArray<Mutant>>> = {
  flush,
  fence,
  generation,
  scope,
  condition,
  capacity,
  abort,
  window,
  csrf,
  aad,
  fsync,
  expiry
}

/** A mutant with its address, `class/id`. */
export interface Listed {
  readonly address: string
  readonly mutant: Mutant
}

export const mutants: ReadonlyArray<Listed> = Object.entries(classes).flatMap(([name, list]) =>
  list.map((mutant) => ({ address: `${name}/${mutant.id}`, mutant }))
)
