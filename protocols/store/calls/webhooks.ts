/** Webhooks: the outbox that is written with the change itself, signed deliveries out of it, what was put
 *  aside, and the reply webhooks that may refuse a write. Source: store section 9. */
import { createHash, createHmac, randomUUID } from "node:crypto"
import { request as httpRequest } from "node:http"
import { request as httpsRequest } from "node:https"
import { isIP } from "node:net"
import { Effect, Schema } from "effect"
import type { Attempt, DeliveryPort } from "../../../actors/webhook-delivery.ts"
import { table } from "../../../storage/store.ts"
import { isPublicAddress, PrivateTarget, publicLookup } from "../access/addresses.ts"
import type { Engine } from "../engine/engine.ts"
import type { Outbox } from "../engine/resource.ts"
import { Refused } from "../problems.ts"
import { valueOf, type Row } from "../engine/resource.ts"
import type { Transaction } from "../engine/resource.ts"
import type { Validation } from "../engine/writing.ts"

const Entry = Schema.Struct({
  event: Schema.String,
  delivery: Schema.String,
  body: Schema.String,
  atMs: Schema.Finite
})

/** [subscription, number] */
const Entries = table("store-outbox", Entry)

/** [subscription, number]: what could not be delivered. */
const Aside = table(
  "store-outbox-aside",
  Schema.Struct({ ...Entry.fields, why: Schema.String, asideMs: Schema.Finite })
)

const outboxMax = 10_000
const asideShownMax = 1_000
const timeoutMs = 10_000
const replyMs = 3_000
const fallbackMsLeast = 1_000
const answerBytesMax = 65_536
export const waitsMs: ReadonlyArray<number> = [30_000, 300_000, 1_800_000, 7_200_000, 28_800_000]
const cacheMs: Record<string, number> = { NoCache: 0, Short: 300_000, Long: 1_800_000 }
const cachedMax = 1_000

export interface WebhookOptions {
  readonly headerPrefix: string
  readonly privateTargets: boolean
  readonly waitsMs?: ReadonlyArray<number>
  /** Tells the subscription's actor that its outbox holds something. */
  readonly wake: (subscription: string) => void
  readonly lookup?: Parameters<typeof publicLookup>[0]
  readonly log?: (line: string) => void
  readonly replyMs?: number
}

interface Posted {
  readonly status: number
  readonly text: string
}

export class Webhooks implements Outbox, Validation, DeliveryPort {
  readonly waitsMs: ReadonlyArray<number>
  private readonly engine: Engine
  private readonly options: WebhookOptions

  private subscribers:
    | { readonly version: number; readonly byEvent: Map<string, ReadonlyArray<Row>> }
    | undefined

  private readonly replies = new Map<
    string,
    { readonly messages: ReadonlyArray<string>; readonly untilMs: number }
  >()

  constructor(engine: Engine, options: WebhookOptions) {
    this.engine = engine
    this.options = options
    this.waitsMs = options.waitsMs ?? waitsMs
  }

  private value(row: Row, field: string): string {
    return String(valueOf(this.engine.resource("webhooks"), row, field) ?? "")
  }

  private subscribed(event: string): ReadonlyArray<Row> {
    const version = this.engine.version("webhooks")
    if (this.subscribers?.version !== version) {
      const byEvent = new Map<string, Array<Row>>()
      for (const row of this.engine.all("webhooks"))
        byEvent.set(this.value(row, "event_type"), [
          ...(byEvent.get(this.value(row, "event_type")) ?? []),
          row
        ])
      this.subscribers = { version, byEvent }
    }
    return this.subscribers.byEvent.get(event) ?? []
  }

  // The outbox, inside a transaction.

  wants(event: string): boolean {
    return this.subscribed(event).length > 0
  }

  put(tx: Transaction, event: string, body: unknown): void {
    const text = JSON.stringify(body)
    for (const { id } of this.subscribed(event)) {
      const subscription = String(id)
      const seq = tx.next("store-outbox-seq", [subscription])
      const oldest = Entries.range(this.engine.store, { prefix: [subscription], limit: 1 })[0]?.key[1] as
        | number
        | undefined
      if (oldest !== undefined && seq - oldest >= outboxMax) {
        tx.writes.push(Entries.delete([subscription, oldest]))
        tx.add("store-outbox-dropped", [subscription], 1)
      }
      tx.writes.push(
        Entries.put([subscription, seq], { event, delivery: randomUUID(), body: text, atMs: tx.nowMs })
      )
      tx.afterwards.push(() => this.options.wake(subscription))
    }
  }

  /** After a start: what was committed, and its actor not yet told. */
  wakeAll(): void {
    for (const { id } of this.engine.all("webhooks"))
      if (this.next(String(id), 0) !== undefined) this.options.wake(String(id))
  }

  // What the delivery actor asks for.

  next(subscription: string, after: number): number | undefined {
    return Entries.range(this.engine.store, {
      prefix: [subscription],
      ...(after === 0 ? {} : { after: [subscription, after] }),
      limit: 1
    })[0]?.key[1] as number | undefined
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
    return Effect.promise(async (signal): Promise<Attempt> => {
      const entry = Entries.get(this.engine.store, [subscription, seq])
      const row = this.engine.get("webhooks", Number(subscription))
      if (entry === undefined || row === undefined) return { delivered: true } // nobody wants it any more
      const first = await this.tried(this.value(row, "url"), row, entry, signal)
      if (first.delivered || !last || this.value(row, "failure_type") !== "Fallback") return first
      return this.tried(this.value(row, "fallback_url"), row, entry, signal)
    })
  }

  private async tried(
    url: string,
    row: Row,
    { event, delivery, body }: typeof Entry.Type,
    signal: AbortSignal
  ): Promise<Attempt> {
    try {
      const { status } = await this.post(url, row, event, delivery, body, timeoutMs, signal)
      return status >= 200 && status < 300
        ? { delivered: true }
        : { delivered: false, why: `answered ${status}` }
    } catch (cause) {
      return {
        delivered: false,
        why:
          cause instanceof Error
            ? cause.name === "Error"
              ? ((cause as NodeJS.ErrnoException).code ?? "not reached")
              : cause.name
            : "not reached"
      }
    }
  }

  /** Follows no redirect; connects only to what is public, unless private targets are allowed. */
  private post(
    url: string,
    row: Row,
    event: string,
    delivery: string,
    body: string,
    withinMs: number,
    signal?: AbortSignal
  ): Promise<Posted> {
    const { headerPrefix: prefix, privateTargets, lookup } = this.options
    const timestamp = String(Math.floor(this.engine.clock() / 1_000))
    const key = this.engine.vault.open(row.values["secret"] as Uint8Array, `webhooks/${row.id}/secret`)
    const signature = createHmac("sha256", key).update(`${timestamp}.${body}`).digest("hex")
    const host = new URL(url).hostname.replace(/^\[|\]$/g, "")
    if (!privateTargets && isIP(host) !== 0 && !isPublicAddress(host))
      return Promise.reject(new PrivateTarget())
    const limit = AbortSignal.timeout(withinMs)
    return new Promise((resolve, reject) => {
      const call = (url.startsWith("https:") ? httpsRequest : httpRequest)(
        url,
        {
          method: "POST",
          signal: signal === undefined ? limit : AbortSignal.any([signal, limit]),
          ...(privateTargets ? {} : { lookup: publicLookup(lookup) }),
          headers: {
            "Content-Type": "application/json; charset=utf-8",
            "Content-Length": Buffer.byteLength(body),
            [`${prefix}-Event`]: event,
            [`${prefix}-Delivery`]: delivery,
            [`${prefix}-Timestamp`]: timestamp,
            [`${prefix}-Signature`]: `sha256=${signature}`
          }
        },
        (answer) => {
          let text = ""
          answer.setEncoding("utf8")
          answer.on("data", (part: string) => {
            text += part
            if (text.length > answerBytesMax) call.destroy(new Error("too much"))
          })
          answer.on("end", () => resolve({ status: answer.statusCode ?? 0, text }))
          answer.on("error", reject)
        }
      )
      call.on("error", reject)
      call.end(body)
    })
  }

  // Reply webhooks: inside the write, before its transaction.

  wanted(event: string): boolean {
    return this.wants(event)
  }

  async ask(event: string, body: unknown): Promise<void> {
    const text = JSON.stringify(body)
    const messages = (
      await Promise.all(this.subscribed(event).map((row) => this.messagesOf(row, event, text)))
    ).flat()
    if (messages.length > 0) throw new Refused(409, messages.join("\n"))
  }

  private async messagesOf(row: Row, event: string, body: string): Promise<ReadonlyArray<string>> {
    const nowMs = this.engine.clock()
    const keptMs = cacheMs[this.value(row, "cache_length")] ?? 0
    const key = createHash("sha256").update(`${row.id}\0${row.version}\0${body}`).digest("base64url")
    const known = this.replies.get(key)
    if (keptMs > 0 && known !== undefined && known.untilMs > nowMs) return known.messages
    const began = performance.now()
    const limitMs = this.options.replyMs ?? replyMs
    let messages = await this.reply(this.value(row, "url"), row, event, body, limitMs)
    if (messages === undefined && this.value(row, "failure_type") === "Fallback")
      messages = await this.reply(
        this.value(row, "fallback_url"),
        row,
        event,
        body,
        Math.max(fallbackMsLeast, Math.ceil(limitMs - (performance.now() - began)))
      )
    if (messages === undefined) {
      if (this.value(row, "failure_type") === "Ignore") return []
      throw new Refused(409, `the ${event} webhook did not answer`)
    }
    if (keptMs > 0) {
      if (this.replies.size >= cachedMax) this.replies.clear()
      this.replies.set(key, { messages, untilMs: nowMs + keptMs })
    }
    return messages
  }

  /** undefined: it failed. */
  private async reply(
    url: string,
    row: Row,
    event: string,
    body: string,
    withinMs: number
  ): Promise<ReadonlyArray<string> | undefined> {
    try {
      const { status, text } = await this.post(url, row, event, randomUUID(), body, withinMs)
      if (status < 200 || status >= 300) return undefined
      const messages =
        text.trim() === ""
          ? []
          : ((JSON.parse(text) as { readonly validation_messages?: unknown } | null)?.validation_messages ??
            [])
      return Array.isArray(messages) && messages.every((message) => typeof message === "string")
        ? messages.slice(0, 50).map((message) => message.slice(0, 1_000))
        : undefined
    } catch {
      return undefined
    }
  }

  // What the console shows.

  waiting(subscription: string): number {
    return Entries.range(this.engine.store, { prefix: [subscription], limit: outboxMax }).length
  }

  dropped(subscription: string): number {
    return this.engine.store.counter("store-outbox-dropped", [subscription])
  }

  putAside(
    subscription: string
  ): ReadonlyArray<{
    readonly seq: number
    readonly event: string
    readonly delivery: string
    readonly why: string
    readonly atMs: number
  }> {
    return Aside.range(this.engine.store, {
      prefix: [subscription],
      limit: asideShownMax,
      reverse: true
    }).map(({ key, value: { event, delivery, why, atMs } }) => ({
      seq: key[1] as number,
      event,
      delivery,
      why,
      atMs
    }))
  }

  /** Back into the outbox, as a new last entry. */
  async again(subscription: string, seq: number): Promise<void> {
    const entry = Aside.get(this.engine.store, [subscription, seq])
    if (entry === undefined) throw new Refused(404, "there is no such delivery")
    await this.engine.write((tx) => {
      const { why: _, asideMs: __, ...kept } = entry
      tx.writes.push(
        Aside.delete([subscription, seq]),
        Entries.put([subscription, tx.next("store-outbox-seq", [subscription])], kept)
      )
      tx.afterwards.push(() => this.options.wake(subscription))
    })
  }
}
