/** Counts how often each kind of fault fell, and what else a run did, for the report. */

/** Every kind of fault. A run of many seeds in which one never falls proves less than it says. */
export const faultKinds = [
  "disk full",
  "disk error",
  "commit delayed",
  "crash, tail lost",
  "crash, tail landed",
  "clean stop",
  "record unreadable",
  "expiry index unreadable",
  "watcher threw",
  "callback threw",
  "client went away",
  "repeat from an answer",
  "repeat from a fault",
  "rule threw",
  "condition refused",
  "mailbox full",
  "activity died",
  "activity hung",
  "activity failed",
  "activity burst",
  "operator restarted",
  "wall clock back",
  "wall clock forward",
  "loop stalled"
] as const

export class Tally {
  readonly counts = new Map<string, number>(faultKinds.map((kind) => [kind, 0]))

  count(kind: string, by = 1): void {
    this.counts.set(kind, (this.counts.get(kind) ?? 0) + by)
  }

  add(other: Iterable<readonly [string, number]>): void {
    for (const [kind, count] of other) this.count(kind, count)
  }
}
