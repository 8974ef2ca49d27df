/** Creates with an Idempotency-Key: the first answer is stored with the write itself, a repeat gets it again,
 *  and one that comes meanwhile waits for it.
 *  Source: docs/spec/store.md, section 6.6. */
import { createHash } from "node:crypto"
import { Effect, Fiber, Schema } from "effect"
import { table } from "../../../storage/store.ts"
import { toItsEnd } from "../later.ts"
import { conflict, problemBody, type Refusal } from "../problems.ts"
import type { Engine } from "./engine.ts"
import type { Transaction } from "./resource.ts"
import type { StoreAnswer, WriteAnswer } from "./writes.ts"

interface StoredAnswer {
  readonly bodyHash: string
  readonly status: number
  readonly body: string
  readonly atMs: number
}

/** Answers by [app, key]. */
const Answers = table("store-idempotency", Schema.Any as Schema.Codec<StoredAnswer, any>)

/** Index by [time, app, key], which finds expired answers. */
const AnswerTimes = table("store-idempotency-times", Schema.Any as Schema.Codec<null, any>)

const lifeMs = 86_400_000
const sweptPerWrite = 2

/** A request that may come again. */
export interface RepeatableRequest {
  readonly appId: string
  readonly key: string
  readonly path: string
  readonly bytes: Uint8Array
}

export interface RepeatableAnswer extends WriteAnswer {
  readonly replayed: boolean
}

const hashOf = ({ path, bytes }: RepeatableRequest): string =>
  createHash("sha256").update(path).update("\0").update(bytes).digest("base64url")

export class Idempotency {
  private readonly running = new Map<string, Fiber.Fiber<RepeatableAnswer, Refusal>>()
  private readonly engine: Engine

  constructor(engine: Engine) {
    this.engine = engine
  }

  static readonly isWellFormed = (key: string): boolean => /^[\x21-\x7e]{1,255}$/.test(key)

  /** Runs `work`, which calls `store` inside its transaction, unless it was done before. It is not interrupted
   *  when its client goes: that client comes again, and asks for the answer by its key. */
  once(
    request: RepeatableRequest,
    work: (store: StoreAnswer) => Effect.Effect<WriteAnswer, Refusal>
  ): Effect.Effect<RepeatableAnswer, Refusal> {
    return Effect.suspend(() => {
      const { appId, key } = request
      const name = `${appId}\0${key}`
      const other = this.running.get(name)
      if (other !== undefined) return Effect.flatMap(Fiber.await(other), () => this.once(request, work))
      const bodyHash = hashOf(request)
      const earlier = Answers.get(this.engine.store, [appId, key])
      if (earlier !== undefined && earlier.atMs + lifeMs > this.engine.clock())
        return earlier.bodyHash === bodyHash
          ? Effect.succeed({ status: earlier.status, body: earlier.body, replayed: true })
          : Effect.fail(conflict("this Idempotency-Key came with another body before"))
      return toItsEnd(this.run(request, bodyHash, work), (fiber) => {
        this.running.set(name, fiber)
        fiber.addObserver(() => this.running.delete(name))
      })
    })
  }

  private run(
    { appId, key }: RepeatableRequest,
    bodyHash: string,
    work: (store: StoreAnswer) => Effect.Effect<WriteAnswer, Refusal>
  ): Effect.Effect<RepeatableAnswer, Refusal> {
    const store = (tx: Transaction, { status, body }: Pick<WriteAnswer, "status" | "body">): void => {
      tx.writes.push(
        Answers.put([appId, key], { bodyHash, status, body, atMs: tx.nowMs }),
        AnswerTimes.put([tx.nowMs, appId, key], null)
      )
      this.sweep(tx, appId, key)
    }
    return Effect.matchEffect(work(store), {
      onSuccess: (answer) => Effect.succeed({ ...answer, replayed: false }),
      onFailure: (refusal) => {
        const { problem } = refusal
        // A conflict is an answer too: the same request must get it again, whatever has changed since.
        const stored =
          problem._tag === "Conflict"
            ? this.engine.write((tx) => store(tx, { status: 409, body: problemBody(problem) }))
            : Effect.void
        return Effect.andThen(stored, Effect.fail(refusal))
      }
    })
  }

  /** Deletes a few answers that are too old, but not one that was renewed since. */
  private sweep(tx: Transaction, appId: string, key: string): void {
    for (const { key: timeKey } of AnswerTimes.range(this.engine.store, { limit: sweptPerWrite })) {
      const [atMs, ...old] = timeKey as readonly [number, ...ReadonlyArray<string>]
      if (atMs + lifeMs > tx.nowMs) break
      tx.writes.push(AnswerTimes.delete(timeKey))
      const isRenewed =
        (old[0] === appId && old[1] === key) || Answers.get(this.engine.store, old)?.atMs !== atMs
      if (!isRenewed) tx.writes.push(Answers.delete(old))
    }
  }
}
