/** Brings what a handler returned to its exchange, for both adapters. An Effect runs as one fiber, which is
 *  interrupted when the client goes or the drain is over. Guarantee: an Effect that a handler returned is
 *  always begun, so that what it ensures happens. Source: docs/architecture.md, "Transport". */
import { Cause, Context, Effect, Exit, Fiber, References } from "effect"
import { type Answer, BodyFault, type Response, type Sink, type Streaming } from "../http.ts"

/** An exchange, as far as its fiber goes. */
export interface Interruptible {
  readonly traceId: string
  readonly aborted: boolean
  fiber: Fiber.Fiber<unknown> | undefined
}

/** How long a drain waits for interrupted requests to let go of what they hold. */
const interruptMsMax = 1_000

/** The fibers carry their trace id as an annotation of their log lines. */
export class Answering<E extends Interruptible> {
  private readonly running = new Set<Fiber.Fiber<unknown>>()
  private readonly context: Context.Context<never>
  private readonly answer: (exchange: E, response: Response) => void
  private readonly refuse: (exchange: E, status: 408 | 413 | 500 | 503) => void

  constructor(
    context: Context.Context<never> | undefined,
    answer: (exchange: E, response: Response) => void,
    refuse: (exchange: E, status: 408 | 413 | 500 | 503) => void
  ) {
    this.context = context ?? Context.empty()
    this.answer = answer
    this.refuse = refuse
  }

  settle(exchange: E, answer: Answer): void {
    if ("status" in answer) return this.answer(exchange, answer)
    if (!(answer instanceof Promise)) return this.run(exchange, answer)
    answer.then(
      (response) => this.answer(exchange, response),
      (defect: unknown) => this.failed(exchange, defect)
    )
  }

  failed(exchange: E, defect: unknown): void {
    if (defect instanceof BodyFault) this.refuse(exchange, defect.reason === "too-large" ? 413 : 408)
    else this.refuse(exchange, 500)
  }

  private run(exchange: E, effect: Effect.Effect<Response>): void {
    this.fork(exchange, effect, (exit) => this.exited(exchange, exit))
  }

  /** Lets `body` write into `sink`, in a turn of its own. `cut` is called when it fails. */
  stream(exchange: E, body: Streaming, sink: Sink, cut: () => void): void {
    const streamed = (): Promise<void> | void => {
      const writing = body(sink)
      return Effect.isEffect(writing) ? this.written(exchange, writing as Effect.Effect<void>) : writing
    }
    Promise.resolve()
      .then(streamed)
      .then(() => sink.end(), cut)
  }

  private written(exchange: E, writing: Effect.Effect<void>): Promise<void> {
    return new Promise((resolve, reject) => {
      this.fork(exchange, writing, (exit) => {
        if (Exit.isSuccess(exit)) resolve()
        else reject(new Error("the body was cut", { cause: Cause.squash(exit.cause) }))
      })
    })
  }

  private fork<A>(exchange: E, effect: Effect.Effect<A>, exited: (exit: Exit.Exit<A>) => void): void {
    const annotations = { traceId: exchange.traceId }
    const context = Context.add(this.context, References.CurrentLogAnnotations, annotations)
    const fiber = Effect.runForkWith(context)(effect)
    const exit = fiber.pollUnsafe()
    if (exit !== undefined) return exited(exit)
    exchange.fiber = fiber
    this.running.add(fiber)
    fiber.addObserver((later) => {
      exchange.fiber = undefined
      this.running.delete(fiber)
      exited(later)
    })
    if (exchange.aborted) fiber.interruptUnsafe()
  }

  private exited(exchange: E, exit: Exit.Exit<Response>): void {
    if (Exit.isSuccess(exit)) this.answer(exchange, exit.value)
    else if (Cause.hasInterruptsOnly(exit.cause)) this.refuse(exchange, 503)
    else this.failed(exchange, Cause.squash(exit.cause))
  }

  /** Interrupts the requests that still run, and waits until they have let go of what they hold. */
  async interrupt(): Promise<void> {
    if (this.running.size === 0) return
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, interruptMsMax)
    })
    await Promise.race([Effect.runPromise(Fiber.interruptAll([...this.running])), late])
    clearTimeout(timer)
  }
}
