/** The event loop and the clocks of a simulated process: the kernel's scheduler, the store's, Effect's and
 *  Effect's clock, all under one hand. Nothing runs until a step says so, and always in the same order. A
 *  process that was killed runs nothing any more. */
import { Clock, Context, Duration, Effect, Scheduler as EffectScheduler } from "effect"
import type { Scheduler } from "../../runtime/run-queue.ts"

/** The world's time, which outlives a process. The monotonic clock only advances; the wall clock also
 *  jumps. */
export class Time {
  monotonicMs = 1_000
  private wallAheadMs = 1_700_000_000_000

  get wallMs(): number {
    return this.monotonicMs + this.wallAheadMs
  }

  advance(ms: number): void {
    this.monotonicMs += ms
  }

  jumpWall(ms: number): void {
    this.wallAheadMs += ms
  }
}

interface Timer {
  readonly atMs: number
  readonly fire: () => void
}

type Task = () => void

/** More tasks than any step needs: a loop that does not come to rest within so many never will. */
const tasksMax = 20_000

export class Loop {
  readonly time: Time
  private readonly onEscape: (where: string, fault: unknown) => void
  private soon: Array<Task> = []
  private later: Array<Task> = []
  private fibers: Array<Task> = []
  private timers: Array<Timer> = []
  private killed = false

  constructor(time: Time, onEscape: (where: string, fault: unknown) => void) {
    this.time = time
    this.onEscape = onEscape
  }

  readonly putOff = (task: Task): void => {
    if (!this.killed) this.later.push(task)
  }

  readonly scheduler: Scheduler = {
    soon: (task) => {
      if (!this.killed) this.soon.push(task)
    },
    later: this.putOff
  }

  /** True when nothing waits but timers. */
  get quiet(): boolean {
    return this.soon.length === 0 && this.later.length === 0
  }

  kill(): void {
    this.killed = true
    this.soon = []
    this.later = []
    this.timers = []
  }

  /** Calls into the program from outside, as the event loop would. */
  enter(where: string, call: () => void): void {
    try {
      call()
    } catch (fault) {
      this.onEscape(where, fault)
    }
  }

  /** Runs to the end of the present turn: what microtasks do. */
  runSoon(): void {
    for (let ran = 0; this.soon.length > 0; ran++) {
      if (ran > tasksMax) return this.onEscape("the end of the turn", new Error("it does not come to rest"))
      this.enter("the end of the turn", this.soon.shift()!)
    }
  }

  /** Runs one more turn: everything that was put off before it. */
  runTurn(): void {
    this.runSoon()
    const tasks = this.later
    this.later = []
    for (const task of tasks) {
      this.enter("a later turn", task)
      this.runSoon()
    }
  }

  /** Lets time pass. Timers that are due fire once each, in order, as after a stall of the loop. */
  advance(ms: number): void {
    this.time.advance(ms)
    const nowMs = this.time.monotonicMs
    const due = this.timers.filter(({ atMs }) => atMs <= nowMs).sort((a, b) => a.atMs - b.atMs)
    this.timers = this.timers.filter(({ atMs }) => atMs > nowMs)
    for (const { fire } of due) {
      this.enter("a timer", fire)
      this.runSoon()
    }
  }

  /** As Effect does: the fibers that wait for a turn run in it together, with no microtask in between. */
  private putOffFiber(task: Task): void {
    if (this.fibers.length === 0)
      this.putOff(() => {
        const tasks = this.fibers
        this.fibers = []
        for (const run of tasks) this.enter("a fiber", run)
      })
    this.fibers.push(task)
  }

  private sleep(ms: number): Effect.Effect<void> {
    return Effect.callback((resume) => {
      if (this.killed) return
      const timer = { atMs: this.time.monotonicMs + Math.max(0, ms), fire: () => resume(Effect.void) }
      this.timers.push(timer)
      return Effect.sync(() => {
        this.timers = this.timers.filter((waiting) => waiting !== timer)
      })
    })
  }

  /** What every fiber of the process runs under. */
  context(): Context.Context<never> {
    const { time } = this
    const nanos = (ms: number): bigint => BigInt(ms) * 1_000_000n
    const clock: Clock.Clock = {
      currentTimeMillisUnsafe: () => time.wallMs,
      currentTimeMillis: Effect.sync(() => time.wallMs),
      currentTimeNanosUnsafe: () => nanos(time.wallMs),
      currentTimeNanos: Effect.sync(() => nanos(time.wallMs)),
      monotonicTimeNanosUnsafe: () => nanos(time.monotonicMs),
      monotonicTimeNanos: Effect.sync(() => nanos(time.monotonicMs)),
      sleep: (duration) => this.sleep(Duration.toMillis(duration))
    }
    const dispatcher: EffectScheduler.SchedulerDispatcher = {
      scheduleTask: (task) => this.putOffFiber(task),
      flush: () => {}
    }
    const scheduler: EffectScheduler.Scheduler = {
      executionMode: "async",
      shouldYield: (fiber) => fiber.currentOpCount >= fiber.cache.maxOpsBeforeYield,
      makeDispatcher: () => dispatcher
    }
    return Context.add(
      Context.make(EffectScheduler.Scheduler, scheduler),
      Clock.Clock,
      clock
    ) as unknown as Context.Context<never>
  }
}

/** Lets everything finish that Node itself has put off: promises, and the few immediates of activities. */
export const nodeTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
