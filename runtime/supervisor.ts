/** Supervision decides how often an actor may crash, how long it waits before it restarts, and which fault
 *  its callers get meanwhile. It is pure except for the jitter. Source: docs/architecture.md, "The
 *  kernel". */
import { Data } from "effect"

/** The actor cannot answer now. `defect`: this very command met a bug. `failed`: the actor crashed too often
 *  and must be restarted by an operator. `storage`: the answer could not be made durable. `stopped`: the
 *  actor has ended or the process is shutting down. */
export class Unavailable extends Data.TaggedError("Unavailable")<{
  readonly kind: string
  readonly id: string
  readonly reason: "defect" | "failed" | "storage" | "stopped"
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

/** What a crash record takes from its surroundings. */
interface Surroundings {
  nowMs(): number
  random(): number
}

export interface Intensity {
  readonly times: number
  readonly withinMs: number
  readonly backoffMs: number
}

const backoffMsMax = 30_000

/** Records the crashes of one actor; it is created at the first one. */
export class CrashRecord {
  private recentMs: Array<number> = []
  total = 0
  lastFault = ""

  /** Records a crash and returns how long to wait in ms before the activity starts again, or undefined when
   *  the restart intensity is exceeded. */
  record(fault: string, host: Surroundings, intensity: Intensity): number | undefined {
    const nowMs = host.nowMs()
    const { times, withinMs, backoffMs } = intensity
    this.total++
    this.lastFault = fault
    this.recentMs = this.recentMs.filter((at) => at > nowMs - withinMs)
    this.recentMs.push(nowMs)
    const recent = this.recentMs.length
    if (recent > times) return undefined
    return Math.min(backoffMs * 2 ** (recent - 1), backoffMsMax) * (0.75 + host.random() / 2)
  }

  reset(): void {
    this.recentMs = []
  }
}
