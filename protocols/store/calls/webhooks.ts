/** Webhooks: the outbox, which is written in the commit of the change itself, signed deliveries from it, and
 *  entries that could not be delivered.
 *  Source: docs/spec/store.md, section 9. */
import { randomUUID } from "node:crypto"
import { Cause, Effect, Schema } from "effect"
import type { Attempt, DeliveryPort } from "../../../actors/webhook-delivery.ts"
import { table } from "../../../storage/store.ts"
import type { Engine } from "../engine/engine.ts"
import type { Outbox, Row, Transaction } from "../engine/resource.ts"
import { notFound, type Refusal } from "../problems.ts"
import { ReplyWebhooks } from "./reply-webhooks.ts"
import { WebhookSender, type SenderOptions } from "./webhook-request.ts"
import { Subscriptions } from "./webhook-subscriptions.ts"

const Entry = Schema.Struct({
  event: Schema.String,
  delivery: Schema.String,
  body: Schema.String,
  atMs: Schema.Finite
})

type Entry = typeof Entry.Type

/** Outbox entries by [subscription, number]. */
const Entries = table("store-outbox", Entry)

/** Undelivered entries with their reason, by [subscription, number]. */
const Aside = table(
  "store-outbox-aside",
  Schema.Struct({ ...Entry.fields, why: Schema.String, asideMs: Schema.Finite })
)

const outboxMax = 10_000
const undeliveredMax = 1_000
const timeoutMs = 10_000
const retryWaitsMs: ReadonlyArray<number> = [30_000, 300_000, 1_800_000, 7_200_000, 28_800_000]

export interface WebhookOptions extends SenderOptions {
  /** The waits between the attempts of a delivery. */
  readonly waitsMs?: ReadonlyArray<number>
  readonly replyMs?: number | undefined
  /** Notifies the subscription's actor that its outbox has an entry. */
  readonly wake: (subscription: string) => void
}

/** A delivery that failed for good, as the console lists it. */
export interface Undelivered {
  readonly seq: number
  readonly event: string
  readonly delivery: string
  readonly why: string
  readonly atMs: number
}

export class Webhooks implements Outbox, DeliveryPort {
  readonly waitsMs: ReadonlyArray<number>
  readonly replies: ReplyWebhooks
  private readonly engine: Engine
  private readonly subscriptions: Subscriptions
  private readonly sender: WebhookSender
  private readonly wake: (subscription: string) => void

  constructor(engine: Engine, options: WebhookOptions) {
    this.engine = engine
    this.waitsMs = options.waitsMs ?? retryWaitsMs
    this.wake = options.wake
    this.subscriptions = new Subscriptions(engine)
    this.sender = new WebhookSender(engine, options)
    this.replies = new ReplyWebhooks({
      engine,
      subscriptions: this.subscriptions,
      sender: this.sender,
      timeoutMs: options.replyMs
    })
  }

  // The outbox, inside a transaction.

  wants(event: string): boolean {
    return this.subscriptions.to(event).length > 0
  }

  put(tx: Transaction, event: string, body: unknown): void {
    const text = JSON.stringify(body)
    for (const { id } of this.subscriptions.to(event)) {
      const subscription = String(id)
      const seq = tx.next("store-outbox-seq", [subscription])
      const oldest = this.next(subscription, 0)
      if (oldest !== undefined && seq - oldest >= outboxMax) {
        tx.writes.push(Entries.delete([subscription, oldest]))
        tx.add("store-outbox-dropped", [subscription], 1)
      }
      const entry: Entry = { event, delivery: randomUUID(), body: text, atMs: tx.nowMs }
      tx.writes.push(Entries.put([subscription, seq], entry))
      tx.afterwards.push(() => this.wake(subscription))
    }
  }

  /** Wakes the actors of what was committed before the start of this process. */
  wakeAll(): void {
    for (const { id } of this.subscriptions.all())
      if (this.next(String(id), 0) !== undefined) this.wake(String(id))
  }

  // The port of the delivery actor.

  next(subscription: string, after: number): number | undefined {
    const [first] = Entries.range(this.engine.store, {
      prefix: [subscription],
      ...(after === 0 ? {} : { after: [subscription, after] }),
      limit: 1
    })
    return first?.key[1] as number | undefined
  }

  nowMs = (): number => this.engine.clock()

  done(subscription: string, seq: number) {
    return [Entries.delete([subscription, seq])]
  }

  aside(subscription: string, seq: number, why: string, asideMs: number) {
    const entry = Entries.get(this.engine.store, [subscription, seq])
    return entry === undefined
      ? []
      : [
          Entries.delete([subscription, seq]),
          Aside.put([subscription, seq], { ...entry, why, asideMs }),
          { _tag: "add", table: "store-outbox-dropped", key: [subscription], amount: 1 } as const
        ]
  }

  attempt(subscription: string, seq: number, last: boolean): Effect.Effect<Attempt> {
    return Effect.suspend(() => {
      const entry = Entries.get(this.engine.store, [subscription, seq])
      const row = this.engine.get("webhooks", Number(subscription))
      // The entry or its subscription has been deleted.
      if (entry === undefined || row === undefined) return Effect.succeed<Attempt>({ delivered: true })
      const hasFallback = this.subscriptions.setting(row, "failure_type") === "Fallback"
      return Effect.flatMap(this.post(row, "url", entry), (first) =>
        first.delivered || !last || !hasFallback
          ? Effect.succeed(first)
          : this.post(row, "fallback_url", entry)
      )
    })
  }

  private post(
    row: Row,
    target: "url" | "fallback_url",
    { event, delivery, body }: Entry
  ): Effect.Effect<Attempt> {
    return Effect.suspend(() => {
      const url = this.subscriptions.setting(row, target)
      return this.sender.send({ url, subscription: row, event, delivery, body, timeoutMs })
    }).pipe(
      Effect.map(({ status }): Attempt =>
        status >= 200 && status < 300 ? { delivered: true } : { delivered: false, why: `answered ${status}` }
      ),
      Effect.catchCause((cause) =>
        Cause.hasInterruptsOnly(cause)
          ? Effect.interrupt
          : Effect.succeed<Attempt>({ delivered: false, why: reasonOf(Cause.squash(cause)) })
      )
    )
  }

  // The console's view.

  waiting(subscription: string): number {
    return Entries.range(this.engine.store, { prefix: [subscription], limit: outboxMax }).length
  }

  dropped(subscription: string): number {
    return this.engine.store.counter("store-outbox-dropped", [subscription])
  }

  undelivered(subscription: string): ReadonlyArray<Undelivered> {
    return Aside.range(this.engine.store, {
      prefix: [subscription],
      limit: undeliveredMax,
      reverse: true
    }).map(({ key, value: { event, delivery, why, atMs } }) => ({
      seq: key[1] as number,
      event,
      delivery,
      why,
      atMs
    }))
  }

  /** Puts an undelivered entry back into the outbox, as a new last one. */
  resend(subscription: string, seq: number): Effect.Effect<void, Refusal> {
    return this.engine.write((tx) => {
      const undelivered = Aside.get(this.engine.store, [subscription, seq])
      if (undelivered === undefined) throw notFound("there is no such delivery")
      const { why: _, asideMs: __, ...entry } = undelivered
      tx.writes.push(
        Aside.delete([subscription, seq]),
        Entries.put([subscription, tx.next("store-outbox-seq", [subscription])], entry)
      )
      tx.afterwards.push(() => this.wake(subscription))
    })
  }
}

/** Reason for which a target was not reached: an error code of the network, or the name of the error. */
const reasonOf = (cause: unknown): string => {
  if (!(cause instanceof Error)) return "not reached"
  if (cause.name !== "Error") return cause.name
  return (cause as NodeJS.ErrnoException).code ?? "not reached"
}
