/** The answers of recent refreshes, so that a client that lost one, or asked several times at once, gets the
 *  same answer again instead of losing its family. An answer is repeated to the same client and key only, for
 *  the same scope, a bounded number of times, while its successor token is unused. The answers are in memory only: after a
 *  restart a repetition is refused, and ends nothing. This is off by default.
 *  Source: docs/spec/authorization.md, section 8.5. */

type Body = Readonly<Record<string, unknown>>

const repetitionsMax = 20
const answersMax = 10_000

interface RefreshAnswer {
  /** The generation that this answer has spent. */
  readonly generation: number
  readonly clientId: string
  /** Thumbprint of the key to which the family is bound; "" when it is bound to none. */
  readonly jkt: string
  readonly body: Body
}

interface Entry {
  readonly answer: RefreshAnswer
  readonly untilMs: number
  repetitions: number
}

export interface Repetition {
  readonly generation: number
  readonly clientId: string
  /** Thumbprint of the key that the caller has proved to possess. */
  readonly jkt: string | undefined
  /** The scope that the request is good for; undefined when it is good for none. */
  readonly scope: string | undefined
}

/** `Forgotten` means that the answer is no longer in memory. `Refused` means that the caller is another one,
 *  or that the answer was repeated too often. `OtherScope` means that it is not an answer to this request. */
export type GraceAnswer =
  | { readonly _tag: "Repeated"; readonly body: Body }
  | { readonly _tag: "Forgotten" }
  | { readonly _tag: "Refused" }
  | { readonly _tag: "OtherScope" }

export class RefreshGrace {
  private readonly entries = new Map<string, Entry>()
  private readonly graceMs: number
  private readonly nowMs: () => number

  constructor(graceMs: number, nowMs: () => number) {
    this.graceMs = graceMs
    this.nowMs = nowMs
  }

  remember(familyId: string, answer: RefreshAnswer): void {
    if (this.graceMs === 0) return
    if (this.entries.size >= answersMax) this.entries.delete(this.entries.keys().next().value!)
    this.entries.set(familyId, { answer, untilMs: this.nowMs() + this.graceMs, repetitions: 0 })
  }

  repeat(familyId: string, { generation, clientId, jkt, scope }: Repetition): GraceAnswer {
    const entry = this.entries.get(familyId)
    if (entry === undefined) return { _tag: "Forgotten" }
    const { answer } = entry
    const isSameCaller = answer.clientId === clientId && (answer.jkt === "" || answer.jkt === jkt)
    const isRepeatable =
      answer.generation === generation &&
      this.nowMs() < entry.untilMs &&
      entry.repetitions < repetitionsMax &&
      isSameCaller
    if (!isRepeatable) return { _tag: "Refused" }
    if (answer.body["scope"] !== scope) return { _tag: "OtherScope" }
    entry.repetitions++
    return { _tag: "Repeated", body: answer.body }
  }

  forget(familyId: string): void {
    this.entries.delete(familyId)
  }
}
