/** A lane: a bounded pipe beside an actor's mailbox, for bulk data (audio, captions, tokens). Plain
 *  synchronous code, no Effect in the inner loop: bench/voice-chunk is where it shows. It lives as long as
 *  its actor is in memory, so that what waits in it survives a restart of the activity. Order is kept,
 *  nothing is dropped silently. */
import { Cause, Effect, Stream } from "effect"

/** The producer's end. */
export interface LaneIn<A> {
  /** False when full or ended: the item was not taken. `weight` (default 1) is what `take` may wait for, in
   *  the producer's unit. */
  offer(item: A, weight?: number): boolean
  /** Waits for room. Ends silently when the lane has ended. */
  put(item: A, weight?: number): Effect.Effect<void>
  /** No more items; the consumer gets what is there, then the end. */
  end(): void
  readonly full: boolean
  /** Items waiting. */
  readonly depth: number
}

/** The consumer's end. At most one consumer at a time. */
export interface LaneOut<A> {
  /** Takes all that waits now, maybe nothing. */
  takeNow(): ReadonlyArray<A>
  /** Takes all that waits, once it weighs at least `atLeast` (default 1) or the lane has ended; undefined when
   *  the lane has ended and is empty. */
  take(atLeast?: number): Effect.Effect<ReadonlyArray<A> | undefined>
  /** Called when an empty lane gets an item or ends, in the producer's turn; one listener. For edges without
   *  a fiber. */
  onReadable(listen: (() => void) | undefined): void
  readonly stream: Stream.Stream<A>
  readonly ended: boolean
  readonly depth: number
}

/** A stream of what `take` gives, batch by batch, until it gives nothing. One step per batch, however many
 *  items. */
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
      this.awaitedWeight = atLeast
      const wake = () => {
        this.consumer = undefined
        resume(Effect.succeed(this.batch()))
      }
      this.consumer = wake
      return Effect.sync(() => {
        if (this.consumer === wake) this.consumer = undefined
      })
    })
  }

  onReadable(listen: (() => void) | undefined): void {
    this.listener = listen
  }

  get stream(): Stream.Stream<A> {
    return batches(this.take())
  }

  /** A full lane counts as enough: otherwise a weight that can never gather would stop both ends. */
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
