/** Supervision decides how often an actor may crash, how long it waits before it restarts, which fault its
 *  callers get meanwhile, and when a whole kind counts as degraded. It is pure except for the jitter. Source:
 *  docs/architecture.md, "The kernel". */
import { Data } from "effect"

/** The actor cannot answer now. `defect`: this very command met a bug. `failed`: the actor crashed too often,
 *  or its record cannot be read, and it must be restarted by an operator. `storage`: the answer could not be
 *  made durable. `stopped`: the process is shutting down. `capacity`: every resident actor is at work, and
 *  the limit of residents is reached. */
export class Unavailable extends Data.TaggedError("Unavailable")<{
  readonly kind: string
  readonly id: string
  readonly reason: "defect" | "failed" | "storage" | "stopped" | "capacity"
}> {}

export class AskTimeout extends Data.TaggedError("AskTimeout")<{
  readonly kind: string
  readonly id: string
  readonly afterMs: number
}> {}

export class MailboxFull extends Data.TaggedError("MailboxFull")<{
  readonly kind: string
  readonly id: string
  readonly capacity: number
}> {}

export type AskFault = Unavailable | AskTimeout | MailboxFull

/** What supervision takes from its surroundings: monotonic time in ms, and a random number in 0 ≤ n < 1. */
interface Surroundings {
  monotonicMs(): number
  random(): number
}

/** Returns the rest in ms before attempt `attempt` (from 1): it doubles up to `maxMs`, with jitter. */
export const backoffOf = (
  attempt: number,
  { firstMs, maxMs }: { readonly firstMs: number; readonly maxMs: number },
  { random }: Pick<Surroundings, "random">
): number => Math.min(firstMs * 2 ** (attempt - 1), maxMs) * (0.75 + random() / 2)

export interface Intensity {
  readonly times: number
  readonly withinMs: number
  readonly backoffMs: number
}

const backoffMsMax = 30_000

/** Counts what happened within a window that slides. */
class Recent {
  private timesMs: Array<number> = []

  /** Adds one at `nowMs`, and returns how many there were within the last `withinMs`. */
  add(nowMs: number, withinMs: number): number {
    this.timesMs = this.timesMs.filter((at) => at > nowMs - withinMs)
    this.timesMs.push(nowMs)
    return this.timesMs.length
  }

  /** True when one of them lies within the last `withinMs`. */
  any(nowMs: number, withinMs: number): boolean {
    const newest = this.timesMs.at(-1)
    return newest !== undefined && newest > nowMs - withinMs
  }

  clear(): void {
    this.timesMs = []
  }
}

/** Records the crashes of one actor; it is created at the first one. */
export class CrashRecord {
  private readonly recent = new Recent()
  total = 0
  lastFault = ""

  /** Records a crash and returns how long to wait in ms before the activity starts again, or undefined when
   *  the restart intensity is exceeded. */
  record(fault: string, surroundings: Surroundings, intensity: Intensity): number | undefined {
    const { times, withinMs, backoffMs } = intensity
    this.total++
    this.lastFault = fault
    const recent = this.recent.add(surroundings.monotonicMs(), withinMs)
    if (recent > times) return undefined
    return backoffOf(recent, { firstMs: backoffMs, maxMs: backoffMsMax }, surroundings)
  }

  /** True while a further crash would be counted together with the last one. */
  counts(monotonicMs: number, { withinMs }: Intensity): boolean {
    return this.recent.any(monotonicMs, withinMs)
  }

  reset(): void {
    this.recent.clear()
  }
}

/** Failures of one kind's actors within `degradedWithinMs` that make the whole kind degraded. */
const degradedTimes = 5
const degradedWithinMs = 60_000

/** How a whole kind fares: its failures escalate to it. */
export class KindHealth {
  private readonly recent = new Recent()
  private degradedUntilMs = -Infinity

  /** Counts an actor that has failed. Returns true when the kind becomes degraded by it. */
  record(nowMs: number): boolean {
    if (this.recent.add(nowMs, degradedWithinMs) < degradedTimes) return false
    const wasDegraded = this.isDegraded(nowMs)
    this.degradedUntilMs = nowMs + degradedWithinMs
    return !wasDegraded
  }

  /** True until a minute has passed without so many failures. */
  isDegraded(nowMs: number): boolean {
    return nowMs < this.degradedUntilMs
  }
}

/** Says why a command reached nobody. */
export type DeadLetterReason = Unavailable["reason"] | "full" | "unread"

/** A command that nobody answered for and that was not handled, or an item that was left in a lane. */
export interface DeadLetter {
  readonly kind: string
  readonly id: string
  /** The command, or the lane. */
  readonly name: string
  readonly reason: DeadLetterReason
  /** Epoch ms. */
  readonly atMs: number
}

const samplesMax = 32
const logEveryMs = 10_000

/** Samples dead letters: the newest few can be looked at, and one line in ten seconds is logged. */
export class DeadLetters {
  private readonly newest: Array<DeadLetter> = []
  private loggedAtMs = -Infinity
  private sinceLogged = 0

  /** Takes a letter, and returns how many came since the last line of the log when it is time for another. */
  add(letter: DeadLetter, monotonicMs: number): number | undefined {
    if (this.newest.length === samplesMax) this.newest.shift()
    this.newest.push(letter)
    this.sinceLogged++
    if (monotonicMs - this.loggedAtMs < logEveryMs) return undefined
    const count = this.sinceLogged
    this.loggedAtMs = monotonicMs
    this.sinceLogged = 0
    return count
  }

  /** The newest, oldest first. */
  get samples(): ReadonlyArray<DeadLetter> {
    return [...this.newest]
  }
}
