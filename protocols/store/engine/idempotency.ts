/** Creates with an Idempotency-Key: the first answer is stored with the write itself, a repeat gets it again,
 *  and one that comes meanwhile waits for it.
 *  Source: docs/spec/store.md, section 6.6. */
import { createHash } from "node:crypto"
import { Schema } from "effect"
import { table } from "../../../storage/store.ts"
import { conflict, problemBody, refusedProblem } from "../problems.ts"
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
  private readonly running = new Map<string, Promise<unknown>>()
  private readonly engine: Engine

  constructor(engine: Engine) {
    this.engine = engine
  }

  static readonly isWellFormed = (key: string): boolean => /^[\x21-\x7e]{1,255}$/.test(key)

  /** Runs `work`, which calls `store` inside its transaction, unless it was done before. */
  async once(
    request: RepeatableRequest,
    work: (store: StoreAnswer) => Promise<WriteAnswer>
  ): Promise<RepeatableAnswer> {
    const { appId, key } = request
    const name = `${appId}\0${key}`
    for (let other = this.running.get(name); other !== undefined; other = this.running.get(name))
      await other.catch(() => {})
    const bodyHash = hashOf(request)
    const earlier = Answers.get(this.engine.store, [appId, key])
    if (earlier !== undefined && earlier.atMs + lifeMs > this.engine.clock()) {
      if (earlier.bodyHash !== bodyHash) throw conflict("this Idempotency-Key came with another body before")
      return { status: earlier.status, body: earlier.body, replayed: true }
    }
    const run = this.run(request, bodyHash, work)
    this.running.set(name, run)
    try {
      return await run
    } finally {
      this.running.delete(name)
    }
  }

  private async run(
    { appId, key }: RepeatableRequest,
    bodyHash: string,
    work: (store: StoreAnswer) => Promise<WriteAnswer>
  ): Promise<RepeatableAnswer> {
    const store = (tx: Transaction, { status, body }: Pick<WriteAnswer, "status" | "body">): void => {
      tx.writes.push(
        Answers.put([appId, key], { bodyHash, status, body, atMs: tx.nowMs }),
        AnswerTimes.put([tx.nowMs, appId, key], null)
      )
      this.sweep(tx, appId, key)
    }
    try {
      return { ...(await work(store)), replayed: false }
    } catch (cause) {
      // A conflict is an answer too: the same request must get it again, whatever has changed since.
      const problem = refusedProblem(cause)
      if (problem._tag === "Conflict")
        await this.engine.write((tx) => store(tx, { status: 409, body: problemBody(problem) }))
      throw cause
    }
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
