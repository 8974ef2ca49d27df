/** Reply webhooks are asked before a write, outside its transaction, and may refuse it. Their answers are
 *  cached for the time that the subscription states.
 *  Source: docs/spec/store.md, section 9.3. */
import { createHash, randomUUID } from "node:crypto"
import { Cause, Effect } from "effect"
import { parseBounded } from "../../shared/json-values.ts"
import type { Engine } from "../engine/engine.ts"
import type { Row } from "../engine/resource.ts"
import type { Validation } from "../engine/writes.ts"
import { conflict, type Refusal } from "../problems.ts"
import type { WebhookSender } from "./webhook-request.ts"
import type { Subscriptions } from "./webhook-subscriptions.ts"

const timeoutMsDefault = 3_000
const fallbackMsMin = 1_000
const cachedMax = 1_000
const messagesMax = 50
const messageLengthMax = 1_000

/** Time in ms that an answer is cached, by the subscription's `cache_length`. */
const cacheMs: Readonly<Record<string, number>> = { NoCache: 0, Short: 300_000, Long: 1_800_000 }

/** A question to a reply webhook. */
interface Question {
  readonly event: string
  readonly body: string
}

interface CachedReply {
  readonly messages: ReadonlyArray<string>
  readonly untilMs: number
}

export interface ReplyWebhookParts {
  readonly engine: Engine
  readonly subscriptions: Subscriptions
  readonly sender: WebhookSender
  readonly timeoutMs?: number | undefined
}

export class ReplyWebhooks implements Validation {
  private readonly engine: Engine
  private readonly subscriptions: Subscriptions
  private readonly sender: WebhookSender
  private readonly timeoutMs: number
  private readonly cache = new Map<string, CachedReply>()

  constructor({ engine, subscriptions, sender, timeoutMs = timeoutMsDefault }: ReplyWebhookParts) {
    this.engine = engine
    this.subscriptions = subscriptions
    this.sender = sender
    this.timeoutMs = timeoutMs
  }

  isAsked(event: string): boolean {
    return this.subscriptions.to(event).length > 0
  }

  /** The questions are asked at once; when one fails, or the client goes, the others end. */
  ask(event: string, body: unknown): Effect.Effect<void, Refusal> {
    const question: Question = { event, body: JSON.stringify(body) }
    const answers = this.subscriptions.to(event).map((row) => this.messagesOf(row, question))
    return Effect.flatMap(Effect.all(answers, { concurrency: "unbounded" }), (lists) => {
      const messages = lists.flat()
      return messages.length > 0 ? Effect.fail(conflict(messages.join("\n"))) : Effect.void
    })
  }

  /** Returns a subscriber's objections to the write; none when it agrees. */
  private readonly messagesOf = Effect.fnUntraced({ self: this }, function* (row: Row, question: Question) {
    const nowMs = this.engine.clock()
    const lifeMs = cacheMs[this.subscriptions.setting(row, "cache_length")] ?? 0
    const key = createHash("sha256").update(`${row.id}\0${row.version}\0${question.body}`).digest("base64url")
    const cached = this.cache.get(key)
    if (lifeMs > 0 && cached !== undefined && cached.untilMs > nowMs) return cached.messages
    const messages = yield* this.replyOrFallback(row, question)
    if (messages === undefined) {
      if (this.subscriptions.setting(row, "failure_type") === "Ignore") return []
      return yield* Effect.fail(conflict(`the ${question.event} webhook did not answer`))
    }
    if (lifeMs > 0) {
      if (this.cache.size >= cachedMax) this.cache.clear()
      this.cache.set(key, { messages, untilMs: nowMs + lifeMs })
    }
    return messages
  })

  private replyOrFallback(row: Row, question: Question): Effect.Effect<ReadonlyArray<string> | undefined> {
    return Effect.suspend(() => {
      const { subscriptions, timeoutMs } = this
      const startedMs = performance.now()
      const url = subscriptions.setting(row, "url")
      return Effect.flatMap(this.reply(row, url, question, timeoutMs), (messages) => {
        if (messages !== undefined || subscriptions.setting(row, "failure_type") !== "Fallback")
          return Effect.succeed(messages)
        const leftMs = Math.ceil(timeoutMs - (performance.now() - startedMs))
        const fallbackUrl = subscriptions.setting(row, "fallback_url")
        return this.reply(row, fallbackUrl, question, Math.max(fallbackMsMin, leftMs))
      })
    })
  }

  /** Asks one webhook; answers undefined when it failed. */
  private reply(
    row: Row,
    url: string,
    { event, body }: Question,
    timeoutMs: number
  ): Effect.Effect<ReadonlyArray<string> | undefined> {
    return Effect.suspend(() =>
      this.sender.send({ url, subscription: row, event, delivery: randomUUID(), body, timeoutMs })
    ).pipe(
      Effect.map(({ status, text }) => (status >= 200 && status < 300 ? messagesIn(text) : undefined)),
      Effect.catchCause((cause) =>
        Cause.hasInterruptsOnly(cause) ? Effect.interrupt : Effect.succeed(undefined)
      )
    )
  }
}

const messagesIn = (text: string): ReadonlyArray<string> | undefined => {
  if (text.trim() === "") return []
  const answer = parseBounded(text) as { readonly validation_messages?: unknown } | null
  const messages = answer?.validation_messages ?? []
  return Array.isArray(messages) && messages.every((message) => typeof message === "string")
    ? messages.slice(0, messagesMax).map((message) => message.slice(0, messageLengthMax))
    : undefined
}
