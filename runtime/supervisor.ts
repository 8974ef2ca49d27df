/** Restart intensity and backoff: how often an actor may crash, how long it rests, and what its callers hear
 *  meanwhile. Pure but for the jitter. Source: docs/architecture.md, "The kernel". */
import { Data } from "effect"

/** The actor cannot answer now. `defect`: this very command met a bug; `failed`: too many crashes, restart it
 *  by hand; `storage`: the answer could not be made durable; `stopped`: the process is going down. */
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

export interface Intensity {
  readonly times: number
  readonly withinMs: number
  readonly backoffMs: number
}

const backoffMsMax = 30_000

/** The crashes of one actor. Made at its first. */
export class CrashRecord {
  private recentMs: Array<number> = []
  total = 0
  lastFault = ""

  /** Notes a crash: how long to rest before the activity starts again, or undefined when the intensity is
   *  exceeded. */
  record(fault: string, nowMs: number, { times, withinMs, backoffMs }: Intensity): number | undefined {
    this.total++
    this.lastFault = fault
    this.recentMs = this.recentMs.filter((at) => at > nowMs - withinMs)
    this.recentMs.push(nowMs)
    const recent = this.recentMs.length
    if (recent > times) return undefined
    return Math.min(backoffMs * 2 ** (recent - 1), backoffMsMax) * (0.75 + Math.random() / 2)
  }

  reset(): void {
    this.recentMs = []
  }
}
