/** A lane: a bounded pipe beside an actor's mailbox, for bulk data (audio, captions, tokens).
 *  Plain synchronous code, no Effect in the inner loop: bench/voice-chunk is where it shows. It lives as long as its actor
 *  is in memory, so that what waits in it survives a restart of the activity. Order is kept, nothing is dropped silently. */
import { Effect, Stream } from "effect"

/** The producer's end. */
export interface LaneIn<A> {
  /** False when full or ended: the item was not taken. `weight` (default 1) is what `take` may wait for, in the producer's unit. */
  offer(item: A, weight?: number): boolean
  /** Waits for room. Ends silently when the lane has ended. */
  put(item: A, weight?: number): Effect.Effect<void>
  /** No more items; the consumer gets what is there, then the end. */
  end(): void
  readonly full: boolean
  /** Items waiting. */ readonly depth: number
}
/** The consumer's end. At most one consumer at a time. */
export interface LaneOut<A> {
  /** All that waits, now (maybe nothing). */
  takeNow(): ReadonlyArray<A>
  /** All that waits, once it weighs at least `atLeast` (default 1) or the lane has ended; undefined: ended and empty. */
  take(atLeast?: number): Effect.Effect<ReadonlyArray<A> | undefined>
  /** Called when an empty lane gets an item or ends, in the producer's turn; one listener. For edges without a fiber. */
  onReadable(listen: (() => void) | undefined): void
  readonly stream: Stream.Stream<A>
  readonly ended: boolean
  readonly depth: number
}
