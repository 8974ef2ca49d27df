/** What a correct store must hold, derived from the accepted commits alone, not from its code: rows, counters,
 *  and per actor its state, its sequence number and its expiry. */
import { mapKeyOf } from "../../storage/keys.ts"
import type { Condition, Write } from "../../storage/store.ts"
import type { AnyDefinition, Decision } from "../../runtime/actor.ts"

export interface Tagged {
  readonly _tag: string
  readonly [field: string]: unknown
}

export type AnyDecision = Decision<Tagged, unknown, unknown>

/** One commit that the store has accepted. */
export interface CommitRecord {
  readonly number: number
  readonly ledger: Ledger
  readonly writes: ReadonlyArray<Write>
  readonly after: Tagged
  readonly lastSeq: number
  readonly ends: boolean
  fate: "pending" | "durable" | "lost"
}

/** One run of an activity, and what it has told its actor so far. */
export interface Errand {
  readonly ledger: Ledger
  readonly phase: string
  readonly tokens: Array<Token>
}

/** One command of an activity. */
export interface Token {
  readonly errand: Errand
  readonly command: string
  readonly before: Token | undefined
  decisions: number
  /** The newest commit of the actor when it was decided last. */
  dependsOn: CommitRecord | undefined
}

/** What is known of one address. */
export interface Ledger {
  readonly kind: string
  readonly id: string
  readonly definition: AnyDefinition
  readonly durable: boolean
  /** The state on disk; for an actor that is not durable, its initial one. */
  stored: Tagged
  storedSeq: number
  /** The state after the newest accepted commit, which is what a live actor must hold. */
  accepted: Tagged
  acceptedSeq: number
  /** The phase after the newest commit that the kernel was told to be durable. */
  toldPhase: string
  newest: CommitRecord | undefined
  pending: number
  /** True while the activity of its phase has to start, unless that phase is at work. */
  owesActivity: boolean
  workingPhase: string | undefined
  /** How often it has ended durably, and crashed. */
  ends: number
  crashes: number
  /** Sweeps since its expiry was due and no command came of it. */
  overdueSweeps: number
}

export const newLedger = (definition: AnyDefinition, id: string): Ledger => ({
  kind: definition.kind,
  id,
  definition,
  durable: definition.keep !== "memory",
  stored: definition.initial,
  storedSeq: 0,
  accepted: definition.initial,
  acceptedSeq: 0,
  toldPhase: definition.initial._tag,
  newest: undefined,
  pending: 0,
  owesActivity: false,
  workingPhase: undefined,
  ends: 0,
  crashes: 0,
  overdueSweeps: 0
})

export const nameOf = ({ kind, id }: { readonly kind: string; readonly id: string }): string =>
  `${kind}/${id}`

export const hasActivity = ({ definition }: Ledger, phase: string): boolean =>
  definition.activity?.[phase] !== undefined

export const expiryOf = ({ definition, durable, stored, storedSeq }: Ledger): number | undefined =>
  durable && storedSeq > 0 ? definition.expiresAt?.(stored) : undefined

const holds = (bytes: Uint8Array | undefined, when: Condition): boolean => {
  if (when === "absent") return bytes === undefined
  if (when === "present") return bytes !== undefined
  return bytes !== undefined && Buffer.compare(bytes, when.equals) === 0
}

/** Rows and counters, as the durable commits have left them. */
export class Books {
  readonly rows = new Map<string, Uint8Array>()
  readonly counters = new Map<string, number>()

  /** Enters one write; returns what is wrong with it. */
  enter(write: Write): string | undefined {
    switch (write._tag) {
      case "put":
      case "delete":
      case "check": {
        const name = mapKeyOf(["t", write.table, ...write.key])
        if (write.when !== undefined && !holds(this.rows.get(name), write.when))
          return `the condition of ${write._tag} ${write.table} ${write.key.join("/")} does not hold`
        if (write._tag === "put") this.rows.set(name, write.value)
        if (write._tag === "delete") this.rows.delete(name)
        return undefined
      }
      case "add": {
        const name = mapKeyOf(["c", write.table, ...write.key])
        const sum = (this.counters.get(name) ?? 0) + write.amount
        if (sum < 0 || (write.max !== undefined && sum > write.max))
          return `the counter ${write.table} ${write.key.join("/")} leaves its limits: ${sum}`
        this.counters.set(name, sum)
        return undefined
      }
      default:
        return undefined
    }
  }
}
