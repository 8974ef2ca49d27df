/** The ledger of one service: what its clients were promised, and how it is compared with what is there. */

export interface Book {
  readonly name: string
  /** Each is done again and again by a client of its own, until the program dies; whatever it is promised goes
   *  into the book. */
  readonly acts: ReadonlyArray<() => Promise<void>>
  /** Compares the book with a program that has just started; `isWhole` says that nothing may be left out. */
  check(isWhole: boolean): Promise<void>
  /** Promises in the book so far. */
  readonly promises: number
}

/** Collects what must not be. */
export class Violations {
  readonly texts: Array<string> = []
  /** The kill after which it was seen. */
  kill = 0

  unless(holds: boolean, text: () => string): void {
    if (!holds) this.texts.push(`after kill ${this.kill}: ${text()}`)
  }
}

export const random = (below: number): number => Math.floor(Math.random() * below)

export const oneOf = <A>(list: ReadonlyArray<A>): A | undefined => list[random(list.length)]

/** The newest, and some of the older ones. */
export const sampleOf = <A>(list: ReadonlyArray<A>, count: number, isWhole: boolean): ReadonlyArray<A> => {
  if (isWhole || list.length <= 2 * count) return list
  const older = list.slice(0, -count)
  return [...list.slice(-count), ...Array.from({ length: count }, () => oneOf(older)!)]
}
