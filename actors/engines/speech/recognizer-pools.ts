/** What a recognizer lends: places for live speech, and others for jobs. It is guaranteed that jobs never hold a
 *  place of live speech, so that neither can starve the other. Source: docs/spec/engines.md, section 11.1. */
import { Effect, Stream } from "effect"
import { Pool, type Lease, type PoolClock } from "../pool.ts"
import {
  EngineFault,
  type RecognitionEvent,
  type RecognizerClaim,
  type RecognizerLease,
  type RecognizerPlaces
} from "../ports.ts"

/** Jobs that wait for a recognizer at once; those of one account are limited when they are created. */
const jobsWaitingMax = 1_024

export interface RecognizerPoolsOptions<Resource> {
  /** The engine's id, which faults name. */
  readonly id: string
  readonly live: ReadonlyArray<Resource>
  readonly jobs: ReadonlyArray<Resource>
  readonly clock: PoolClock
  /** Of several free resources one for which this holds is lent first. */
  readonly prefer?: (resource: Resource) => boolean
  /** False for a resource that is lost: it is not lent. */
  readonly usable?: (resource: Resource) => boolean
  readonly onLend?: (resource: Resource) => void
}

export class RecognizerPools<Resource> implements RecognizerPlaces {
  private readonly id: string
  private readonly live: Pool<Resource>
  private readonly jobs: Pool<Resource>

  constructor({ id, live, jobs, clock, prefer, usable, onLend }: RecognizerPoolsOptions<Resource>) {
    this.id = id
    const shared = { id, clock, prefer, usable, onLend }
    this.live = new Pool({ ...shared, resources: live })
    this.jobs = new Pool({ ...shared, resources: jobs, waitersMax: jobsWaitingMax })
  }

  private poolOf(use: RecognizerClaim["use"]): Pool<Resource> {
    return use === "live" ? this.live : this.jobs
  }

  readonly reserve = (claim: RecognizerClaim): Lease<Resource> | undefined =>
    this.poolOf(claim.use).tryTake(claim)

  readonly lease = (claim: RecognizerClaim): Effect.Effect<Lease<Resource>, EngineFault> =>
    this.poolOf(claim.use).take(claim)

  readonly held = (owner: string): Lease<Resource> | undefined =>
    this.live.held(owner) ?? this.jobs.held(owner)

  readonly waiting = (use: RecognizerClaim["use"]): number => this.poolOf(use).waiting

  readonly capacity = (): { readonly used: number; readonly max: number } => ({
    used: this.live.used,
    max: this.live.size
  })

  /** Recognizes with what a lease of these pools holds, or with a live place of its own. */
  recognizeWith(
    lease: RecognizerLease | undefined,
    recognize: (resource: Resource) => Stream.Stream<RecognitionEvent, EngineFault>
  ): Stream.Stream<RecognitionEvent, EngineFault> {
    if (lease?.ended === true) {
      const detail = "its lease has ended"
      return Stream.fail(new EngineFault({ reason: "overloaded", engine: this.id, detail }))
    }
    const used = Effect.acquireRelease(
      Effect.map(lease === undefined ? this.own : Effect.succeed(lease as Lease<Resource>), (held) => {
        held.enter()
        return held
      }),
      (held) =>
        Effect.sync(() => {
          if (lease === undefined) held.release()
          held.leave()
        })
    )
    return Stream.unwrap(Effect.map(used, ({ resource }) => recognize(resource)))
  }

  /** A live place for one recognition without a lease. */
  private readonly own = Effect.suspend(() => {
    const lease = this.live.tryTake({ account: "" })
    if (lease !== undefined) return Effect.succeed(lease)
    const detail = `${this.live.used} recognitions are under way`
    return Effect.fail(new EngineFault({ reason: "overloaded", engine: this.id, detail }))
  })
}
