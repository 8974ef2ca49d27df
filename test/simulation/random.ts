/** Seeded random numbers, and the fingerprint of a run. Everything that a simulation leaves to chance comes
 *  from here, so that a seed is a run. */

/** Mulberry32: 32 bits of state, which is enough to choose steps. */
export class Random {
  private state: number

  constructor(seed: number) {
    this.state = seed >>> 0
  }

  /** A number in 0 ≤ n < 1. */
  next(): number {
    this.state = (this.state + 0x6d2b79f5) >>> 0
    let mixed = this.state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }

  /** An integer in 0 ≤ n < `below`. */
  int(below: number): number {
    return Math.floor(this.next() * below)
  }

  chance(probability: number): boolean {
    return this.next() < probability
  }

  pick<A>(items: ReadonlyArray<A>): A {
    return items[this.int(items.length)]!
  }
}

/** FNV-1a over UTF-16 units, from `from` on. */
export const hashText = (text: string, from = 0x811c9dc5): number => {
  let hash = from
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  return hash >>> 0
}

/** Two independent FNV-1a sums over the lines of a trace. */
export class Fingerprint {
  private low = 0x811c9dc5
  private high = 0x1b873593

  add(line: string): void {
    this.low = hashText(line, this.low)
    this.high = hashText(line, this.high ^ line.length)
  }

  get text(): string {
    return this.high.toString(16).padStart(8, "0") + this.low.toString(16).padStart(8, "0")
  }
}
