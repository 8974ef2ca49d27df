/** The rate limit of the store: it decides 429, for calls of the API and for attempts to sign in. One actor
 *  per bucket counts a window; its last count is also held here, so that a crash of the actor gives no calls
 *  away, and is written behind, so that a restart of the process gives away at most those of a quarter of a
 *  second.
 *  Source: docs/spec/store.md, section 4. */
import { Schema } from "effect"
import { RateWindow } from "../../../actors/rate-window.ts"
import type { Header } from "../../../runtime/http.ts"
import type { ActorSystem, Ref } from "../../../runtime/registry.ts"
import { table, type Store } from "../../../storage/store.ts"
import type { Problem } from "../problems.ts"

/** Calls per window of the store's own apps, by its plan. */
export const plans = { steel: 5, bronze: 10, silver: 20, gold: 50, platinum: 50, diamond: 50 } as const

export type Plan = keyof typeof plans

export const windowMs = 10_000
const writeBehindMs = 250
const bucketsMax = 10_000
const callsMaxDefault = 50
const signInsMax = 50
const LastCounts = table("store-windows", Schema.Struct({ startMs: Schema.Finite, made: Schema.Finite }))

/** A call's place in its window. `Unknown`: the window's actor rests after a crash and could not be asked. */
export type Place =
  | { readonly _tag: "Taken"; readonly used: number; readonly limit: number }
  | { readonly _tag: "Limited"; readonly used: number; readonly limit: number; readonly retryAfterMs: number }
  | { readonly _tag: "Unknown"; readonly used: number; readonly limit: number }

export type NoPlace = Exclude<Place, { readonly _tag: "Taken" }>

interface Bucket {
  readonly ref: Ref<typeof RateWindow>
  startMs: number
  used: number
  dirty: boolean
}

export interface RateLimitOptions {
  readonly store: Store
  readonly actors: ActorSystem
  readonly clock: () => number
  readonly plan: () => Plan
  readonly headerPrefix: string
  readonly retryAfter: "date" | "seconds"
  /** Calls per window of the best plan; the published 50 but in benches. */
  readonly callsMax?: number | undefined
}

const customBucket = "custom"

/** The bucket of callers who are not signed in, by their address. */
const addressBucket = (client: string): string => `source:${client}`

/** An attempt to sign in that is being judged. */
export interface SignInAttempt {
  /** Reports the outcome, once; the attempt counts until then. */
  settle(isFailed: boolean): Promise<void>
}

export class RateLimiter {
  private readonly buckets = new Map<string, Bucket>()
  private readonly options: RateLimitOptions
  private readonly store: Store
  private readonly callsMax: number
  private readonly headerName: string
  /** How many attempts to sign in are being judged, by address. */
  private readonly signIns = new Map<string, number>()
  private writeTimer: ReturnType<typeof setTimeout> | undefined

  constructor(options: RateLimitOptions) {
    this.options = options
    this.store = options.store
    this.callsMax = options.callsMax ?? callsMaxDefault
    this.headerName = `${options.headerPrefix}-Call-Limit`
  }

  /** Takes a place for a caller who was recognised; `done` is called in this very turn unless the bucket's
   *  actor rests after a crash. */
  take(bucket: string, done: (place: Place) => void): void {
    this.takeOf(bucket, this.limitOf(bucket), done)
  }

  /** Takes a place for a caller without a valid token. */
  takeUnrecognised(client: string, done: (place: Place) => void): void {
    this.takeOf(addressBucket(client), this.callsMax, done)
  }

  /** Returns whether an address has used up its window by unrecognised calls. */
  isExhausted(client: string): boolean {
    return this.used(addressBucket(client)) >= this.callsMax
  }

  /** Reserves an attempt to sign in, before its password is hashed; undefined when the address has used up its
   *  attempts, those that are being judged included. Wrong attempts count with its other failed calls. */
  reserveSignIn(client: string): SignInAttempt | undefined {
    const judged = this.signIns.get(client) ?? 0
    if (this.used(addressBucket(client)) + judged >= signInsMax) return undefined
    this.signIns.set(client, judged + 1)
    return {
      settle: async (isFailed) => {
        if (isFailed)
          await new Promise<void>((resolve) =>
            this.takeOf(addressBucket(client), signInsMax, () => resolve())
          )
        const left = this.signIns.get(client)! - 1
        if (left === 0) this.signIns.delete(client)
        else this.signIns.set(client, left)
      }
    }
  }

  /** The header that tells a caller how much of the window is used. */
  header({ used, limit }: Pick<Place, "used" | "limit">): Header {
    return [this.headerName, `${used}/${limit}`]
  }

  /** The header of an answer that takes no place. */
  headerWithoutPlace(client: string): Header {
    return this.header({ used: this.used(addressBucket(client)), limit: this.callsMax })
  }

  /** The header of an answer of the transport, which knows no caller. */
  headerWithoutCaller(): Header {
    return this.header({ used: 0, limit: callsMaxDefault })
  }

  /** The refusal of a call that got no place. */
  problemOf(place: NoPlace): Problem {
    if (place._tag === "Unknown")
      return { _tag: "Unavailable", details: "the rate window is restarting", retryAfterS: 1 }
    const { retryAfterMs } = place
    const retryAfter =
      this.options.retryAfter === "seconds"
        ? String(Math.max(1, Math.ceil(retryAfterMs / 1_000)))
        : new Date(this.options.clock() + retryAfterMs).toUTCString()
    return { _tag: "RateLimited", retryAfter }
  }

  /** Resolves when everything counted so far is on disk. */
  async settled(): Promise<void> {
    clearTimeout(this.writeTimer)
    this.flush()
    await this.store.flushed()
  }

  private limitOf(bucket: string): number {
    return bucket === customBucket
      ? Math.max(plans[this.options.plan()], this.options.callsMax ?? 0)
      : this.callsMax
  }

  private takeOf(name: string, limit: number, done: (place: Place) => void): void {
    const bucket = this.bucket(name)
    bucket.ref.askNow(
      "Take",
      { cost: 1, limit, windowMs, lastSeen: { startMs: bucket.startMs, charged: bucket.used } },
      (answer) => {
        if ("reply" in answer) {
          const { charged: used, resetMs } = answer.reply
          bucket.used = used
          bucket.startMs = Math.max(bucket.startMs, this.startOf(resetMs))
          // The number of addresses is unlimited, so they do not get a row each.
          if (!name.startsWith("source:")) this.writeBehind(bucket)
          done({ _tag: "Taken", used, limit })
        } else if ("refuse" in answer)
          done({ _tag: "Limited", used: limit, limit, retryAfterMs: answer.refuse.retryAfterMs })
        else done({ _tag: "Unknown", used: 0, limit })
      }
    )
  }

  /** The count of a bucket in the current window. */
  private used(name: string): number {
    const bucket = this.buckets.get(name)
    return bucket === undefined || bucket.startMs + windowMs <= this.options.clock() ? 0 : bucket.used
  }

  private bucket(name: string): Bucket {
    const existing = this.buckets.get(name)
    if (existing !== undefined) return existing
    if (this.buckets.size >= bucketsMax) this.prune()
    const last = LastCounts.get(this.store, [name])
    const bucket: Bucket = {
      ref: this.options.actors.ref(RateWindow, `store/${name}`),
      startMs: last?.startMs ?? 0,
      used: last?.made ?? 0,
      dirty: false
    }
    this.buckets.set(name, bucket)
    return bucket
  }

  private prune(): void {
    const beforeMs = this.options.clock() - windowMs
    for (const [name, { startMs, dirty }] of this.buckets)
      if (startMs < beforeMs && !dirty) this.buckets.delete(name)
    for (const name of this.buckets.keys()) {
      if (this.buckets.size < bucketsMax) break
      this.buckets.delete(name)
    }
  }

  private startOf(resetMs: number): number {
    return Math.round((this.options.clock() + resetMs) / windowMs) * windowMs - windowMs
  }

  private writeBehind(bucket: Bucket): void {
    bucket.dirty = true
    if (this.writeTimer !== undefined) return
    this.writeTimer = setTimeout(() => this.flush(), writeBehindMs)
    this.writeTimer.unref()
  }

  private flush(): void {
    this.writeTimer = undefined
    const writes = [...this.buckets].flatMap(([name, bucket]) => {
      if (!bucket.dirty) return []
      bucket.dirty = false
      return [LastCounts.put([name], { startMs: bucket.startMs, made: bucket.used })]
    })
    if (writes.length > 0) this.store.commit(writes, () => {})
  }
}
