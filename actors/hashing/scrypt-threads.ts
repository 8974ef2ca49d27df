/** scrypt on threads of its own. Node's own asynchronous scrypt runs on the pool of libuv, which signatures by
 *  WebCrypto, name look-ups and files share: a flood of sign-ins would hold them all up. Guarantee: so many
 *  hashes run at once and so many wait, the next is refused; a waiting one whose request is interrupted leaves
 *  the queue. A thread starts at its first hash and ends when it has been idle.
 *  Source: docs/spec/authorization.md, section 7.5. */
import { Data, Effect, Exit, Semaphore } from "effect"
import { Worker } from "node:worker_threads"
import { workerFile } from "../engines/worker.ts"
import type { ScryptAnswer, ScryptJob } from "./workers/scrypt.ts"

/** Too many passwords are waiting to be hashed. */
export class HashQueueFull extends Data.TaggedError("HashQueueFull")<{}> {}

const idleMs = 30_000

class HashThread {
  private readonly worker = new Worker(workerFile("scrypt"))
  private settle: ((answer: ScryptAnswer) => void) | undefined
  private idleTimer: NodeJS.Timeout | undefined
  isDead = false

  constructor() {
    this.worker.on("message", (answer: ScryptAnswer) => this.answered(answer))
    this.worker.on("error", (cause) => this.died(cause.message))
    this.worker.on("exit", (code) => this.died(`the hashing thread ended with code ${code}`))
  }

  hash(job: ScryptJob): Promise<Buffer> {
    clearTimeout(this.idleTimer)
    // A hash that somebody waits for keeps the process alive, an idle thread does not.
    this.worker.ref()
    return new Promise((resolve, reject) => {
      this.settle = (answer) => {
        if ("hash" in answer)
          resolve(Buffer.from(answer.hash.buffer, answer.hash.byteOffset, answer.hash.length))
        else reject(new Error(answer.fault))
      }
      this.worker.postMessage(job)
    })
  }

  end(): void {
    this.isDead = true
    clearTimeout(this.idleTimer)
    void this.worker.terminate()
  }

  private answered(answer: ScryptAnswer): void {
    this.worker.unref()
    this.idleTimer = setTimeout(() => this.end(), idleMs).unref()
    const { settle } = this
    this.settle = undefined
    settle?.(answer)
  }

  private died(reason: string): void {
    this.isDead = true
    clearTimeout(this.idleTimer)
    const { settle } = this
    this.settle = undefined
    settle?.({ fault: reason })
  }
}

export interface ScryptThreadsOptions {
  readonly threadsMax: number
  readonly waitingMax: number
}

export class ScryptThreads {
  private readonly placesMax: number
  private readonly places: Semaphore.Semaphore
  private readonly idle: Array<HashThread> = []
  private taken = 0
  private closed = false

  constructor({ threadsMax, waitingMax }: ScryptThreadsOptions) {
    this.placesMax = threadsMax + waitingMax
    this.places = Semaphore.makeUnsafe(threadsMax)
  }

  /** An interruption leaves the queue; a hash that has begun goes on to its result. */
  hash(job: ScryptJob): Effect.Effect<Buffer, HashQueueFull> {
    return Effect.suspend(() => {
      if (this.taken >= this.placesMax) return Effect.fail(new HashQueueFull())
      this.taken++
      let hash: Buffer | undefined
      const begun = Effect.promise(async () => {
        hash = await this.hashNow(job)
      })
      const waiting = Effect.interruptible(this.places.withPermit(Effect.uninterruptible(begun)))
      return Effect.exit(waiting).pipe(
        Effect.ensuring(Effect.sync(() => void this.taken--)),
        Effect.flatMap((exit) =>
          Exit.isFailure(exit) && hash === undefined ? Effect.failCause(exit.cause) : Effect.succeed(hash!)
        )
      )
    }).pipe(Effect.uninterruptible)
  }

  /** Ends the idle threads; one that is busy ends with its hash. */
  close(): void {
    this.closed = true
    for (const thread of this.idle.splice(0)) thread.end()
  }

  private async hashNow(job: ScryptJob): Promise<Buffer> {
    let thread = this.idle.pop()
    while (thread?.isDead === true) thread = this.idle.pop()
    thread ??= new HashThread()
    try {
      return await thread.hash(job)
    } finally {
      if (this.closed) thread.end()
      else if (!thread.isDead) this.idle.push(thread)
    }
  }
}
