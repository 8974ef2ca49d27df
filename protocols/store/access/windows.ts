/** Rate windows: one actor per bucket counts; what it last said is held here, so that its crash gives no
 *  calls away, and written behind so that a restart of the process gives at most a quarter of a second's.
 *  Source: store section 4. */
import { Schema } from "effect"
import { RateWindow } from "../../../actors/rate-window.ts"
import type { ActorSystem, Ref } from "../../../runtime/registry.ts"
import { table, type Store } from "../../../storage/store.ts"

export const windowMs = 10_000
const behindMs = 250
const bucketsMax = 10_000
const LastCounts = table("store-windows", Schema.Struct({ startMs: Schema.Finite, made: Schema.Finite }))

export type Place =
  | { readonly made: number; readonly allowed: number; readonly limited?: undefined }
  | { readonly made: number; readonly allowed: number; readonly limited: { readonly retryAfterMs: number } }
  | undefined

interface Bucket {
  readonly ref: Ref<typeof RateWindow>
  startMs: number
  made: number
  dirty: boolean
}

export class Windows {
  private readonly buckets = new Map<string, Bucket>()
  private readonly store: Store
  private readonly actors: ActorSystem
  private readonly clock: () => number
  private behind: ReturnType<typeof setTimeout> | undefined

  constructor(store: Store, actors: ActorSystem, clock: () => number) {
    this.store = store
    this.actors = actors
    this.clock = clock
  }

  private bucket(name: string): Bucket {
    const known = this.buckets.get(name)
    if (known !== undefined) return known
    if (this.buckets.size >= bucketsMax) this.prune()
    const last = LastCounts.get(this.store, [name])
    const made: Bucket = {
      ref: this.actors.ref(RateWindow, `store/${name}`),
      startMs: last?.startMs ?? 0,
      made: last?.made ?? 0,
      dirty: false
    }
    this.buckets.set(name, made)
    return made
  }

  private prune(): void {
    const beforeMs = this.clock() - windowMs
    for (const [name, { startMs, dirty }] of this.buckets)
      if (startMs < beforeMs && !dirty) this.buckets.delete(name)
    for (const name of this.buckets.keys()) {
      if (this.buckets.size < bucketsMax) break
      this.buckets.delete(name)
    }
  }

  /** Takes a place; undefined when the window cannot be asked. In this very turn unless its actor rests after
   *  a crash. */
  take(name: string, allowed: number, done: (place: Place) => void): void {
    const bucket = this.bucket(name)
    bucket.ref.askNow(
      "Take",
      { cost: 1, limit: allowed, windowMs, lastSeen: { startMs: bucket.startMs, charged: bucket.made } },
      (answer) => {
        if ("reply" in answer) {
          bucket.made = answer.reply.charged
          bucket.startMs = Math.max(bucket.startMs, this.startOf(answer.reply.resetMs))
          // those of strangers are without number, and not worth a row
          if (!name.startsWith("source:")) this.writeBehind(bucket)
          done({ made: answer.reply.charged, allowed })
        } else if ("refuse" in answer) done({ made: allowed, allowed, limited: answer.refuse })
        else done(undefined)
      }
    )
  }

  private startOf(resetMs: number): number {
    return Math.round((this.clock() + resetMs) / windowMs) * windowMs - windowMs
  }

  /** What is known of a bucket without taking a place. */
  seen(name: string): number {
    const bucket = this.buckets.get(name)
    return bucket === undefined || bucket.startMs + windowMs <= this.clock() ? 0 : bucket.made
  }

  private writeBehind(bucket: Bucket): void {
    bucket.dirty = true
    if (this.behind !== undefined) return
    this.behind = setTimeout(() => this.flush(), behindMs)
    this.behind.unref()
  }

  private flush(): void {
    this.behind = undefined
    const writes = [...this.buckets].flatMap(([name, bucket]) => {
      if (!bucket.dirty) return []
      bucket.dirty = false
      return [LastCounts.put([name], { startMs: bucket.startMs, made: bucket.made })]
    })
    if (writes.length > 0) this.store.commit(writes, () => {})
  }

  /** Everything counted so far is on disk. */
  async settled(): Promise<void> {
    clearTimeout(this.behind)
    this.flush()
    await this.store.flushed()
  }
}
