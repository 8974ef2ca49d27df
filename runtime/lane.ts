/** A lane is a bounded pipe beside an actor's mailbox, for bulk data (audio, captions, tokens). It is plain
 *  synchronous code with no Effect in its inner loop (bench/voice-chunk). It lives as long as its actor is in
 *  memory, so that the items waiting in it survive a restart of the activity. Guarantee: order is preserved,
 *  and nothing is dropped silently. Source: docs/architecture.md, "The kernel". */
import { Cause, Effect, Stream } from "effect"

/** The producer's end. */
export interface LaneIn<A> {
  /** Returns false when the lane is full or has ended: the item was not taken. `weight` (default 1) is in the
   *  producer's own unit; `take` may wait for a sum of it. */
  offer(item: A, weight?: number): boolean
  /** Waits for room and puts the item. When the lane has ended it completes without putting anything. */
  put(item: A, weight?: number): Effect.Effect<void>
  /** Ends the lane: it accepts no more items, and the consumer gets the waiting ones, then the end. */
  end(): void
  readonly full: boolean
  /** Items waiting. */
  readonly depth: number
}

/** The consumer's end. There is at most one consumer at a time: a new one displaces the one that waits, which
 *  gets the end. */
export interface LaneOut<A> {
  /** Takes all waiting items, which may be none. */
  takeNow(): ReadonlyArray<A>
  /** Takes all waiting items once they weigh at least `atLeast` (default 1), or the lane is full or has
   *  ended. Answers undefined when the lane has ended and is empty. */
  take(atLeast?: number): Effect.Effect<ReadonlyArray<A> | undefined>
  /** Registers the one listener, which is called in the producer's turn when an empty lane gets an item or
   *  ends. It serves consumers that have no fiber. */
  onReadable(listen: (() => void) | undefined): void
  readonly stream: Stream.Stream<A>
  readonly ended: boolean
  readonly depth: number
}

/** Streams the items of `take`, batch by batch, until it answers undefined. Each batch costs one step,
 *  however many items it has. */
export const batches = <A, E, R>(
  take: Effect.Effect<ReadonlyArray<A> | undefined, E, R>
): Stream.Stream<A, E, R> => {
  const next: Effect.Effect<readonly [A, ...Array<A>], E | Cause.Done, R> = Effect.flatMap(take, (batch) => {
    if (batch === undefined) return Cause.done()
    if (batch.length === 0) return next
    return Effect.succeed(batch as unknown as readonly [A, ...Array<A>])
  })
  return Stream.fromPull(Effect.succeed(next))
}

/** Both ends of one lane. */
export class LanePipe<A> implements LaneIn<A>, LaneOut<A> {
  readonly capacity: number
  private items: Array<A> = []
  private weight = 0
  private isEnded = false
  private awaitedWeight = 0
  private consumer: (() => void) | undefined
  /** Tells the waiting consumer that another has come. */
  private displaced: (() => void) | undefined
  private listener: (() => void) | undefined
  private producers: Array<() => void> = []

  constructor(capacity: number) {
    this.capacity = capacity
  }

  get depth(): number {
    return this.items.length
  }

  get full(): boolean {
    return this.items.length >= this.capacity
  }

  get ended(): boolean {
    return this.isEnded
  }

  offer(item: A, weight = 1): boolean {
    if (this.isEnded || this.items.length >= this.capacity) return false
    this.items.push(item)
    this.weight += weight
    this.announce()
    return true
  }

  put(item: A, weight = 1): Effect.Effect<void> {
    return Effect.suspend(() =>
      this.offer(item, weight) || this.isEnded
        ? Effect.void
        : Effect.andThen(this.waitForRoom(), this.put(item, weight))
    )
  }

  end(): void {
    if (this.isEnded) return
    this.isEnded = true
    this.announce()
    this.release()
  }

  takeNow(): ReadonlyArray<A> {
    const taken = this.items
    this.items = []
    this.weight = 0
    this.release()
    return taken
  }

  take(atLeast = 1): Effect.Effect<ReadonlyArray<A> | undefined> {
    return Effect.callback((resume) => {
      if (this.enough(atLeast)) return resume(Effect.succeed(this.batch()))
      this.displaced?.()
      this.awaitedWeight = atLeast
      this.displaced = () => resume(Effect.succeed(undefined))
      const wake = () => {
        this.consumer = undefined
        this.displaced = undefined
        resume(Effect.succeed(this.batch()))
      }
      this.consumer = wake
      return Effect.sync(() => {
        if (this.consumer !== wake) return
        this.consumer = undefined
        this.displaced = undefined
      })
    })
  }

  onReadable(listen: (() => void) | undefined): void {
    this.listener = listen
  }

  get stream(): Stream.Stream<A> {
    return batches(this.take())
  }

  /** True when `take` need not wait any longer. A full lane counts as enough: otherwise producer and consumer
   *  would wait for each other when the weight can never be reached. */
  private enough(atLeast: number): boolean {
    return this.isEnded || this.full || (this.items.length > 0 && this.weight >= atLeast)
  }

  private batch(): ReadonlyArray<A> | undefined {
    return this.items.length === 0 && this.isEnded ? undefined : this.takeNow()
  }

  private announce(): void {
    if (this.consumer !== undefined) {
      if (this.enough(this.awaitedWeight)) this.consumer()
    } else if (this.listener !== undefined && (this.isEnded || this.items.length === 1)) this.listener()
  }

  private waitForRoom(): Effect.Effect<void> {
    return Effect.callback((resume) => {
      const wake = () => resume(Effect.void)
      this.producers.push(wake)
      return Effect.sync(() => {
        this.producers = this.producers.filter((waiting) => waiting !== wake)
      })
    })
  }

  private release(): void {
    if (this.producers.length === 0) return
    const waiting = this.producers
    this.producers = []
    for (const wake of waiting) wake()
  }
}
