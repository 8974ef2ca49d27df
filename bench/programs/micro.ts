/** One candidate of one in-process bench, in a process of its own: prints what an operation costs in ns of
 *  CPU, and a checksum of the work. node micro.js BENCH CANDIDATE OPERATIONS */
import { Context, Deferred, Effect, Queue, Schema } from "effect"
import { mkdtempSync, rmSync } from "node:fs"
import { createRequire } from "node:module"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { RateWindow } from "../../actors/rate-window.ts"
import { command, defineActor, persist } from "../../runtime/actor.ts"
import { ActorSystem } from "../../runtime/registry.ts"
import { openLmdb } from "../../storage/lmdb.ts"
import { openMemory } from "../../storage/memory.ts"

const require = createRequire(import.meta.url)
const [, , bench, candidate, sized] = process.argv
const operations = Number(sized)

const turn = (): Promise<void> =>
  new Promise((resolve) => {
    setImmediate(resolve)
  })

const counter = (keep: "memory" | "journal") =>
  defineActor("counter", {
    state: Schema.TaggedUnion({ On: { n: Schema.Int } }),
    event: Schema.TaggedUnion({ Added: { pad: Schema.String } }),
    commands: { Add: command({ pad: Schema.String }, { reply: Schema.Int }) },
    keep,
    snapshotEvery: 1_000,
    mailbox: { capacity: 10_000_000 },
    restart: { times: 3, within: "1 minute" },
    passivateAfter: "1 hour"
  }).behaves({
    initial: { _tag: "On", n: 0 },
    on: { On: { Add: ({ n }, { pad }) => persist({ _tag: "Added", pad }).reply(n + 1) } },
    evolve: { Added: ({ n }) => ({ _tag: "On", n: n + 1 }) }
  })

const Counter = counter("memory")

const system = (): ActorSystem => {
  const made = new ActorSystem({ store: openMemory(), nowMs: Date.now, residentMax: 1_000_000 })
  made.host(Counter, Context.empty())
  made.host(RateWindow, Context.empty())
  return made
}

/** The hand-written floor: a mailbox per actor, one run queue, an ask is a resolver in the message. */
class FloorSystem {
  private queue: Array<FloorActor> = []
  private on = false

  push(actor: FloorActor): void {
    this.queue.push(actor)
    if (!this.on) {
      this.on = true
      queueMicrotask(() => this.drain())
    }
  }

  private drain(): void {
    let budget = 4_096
    for (let i = 0; i < this.queue.length; i++) {
      const actor = this.queue[i]!
      let handled = 0
      while (actor.head < actor.box.length && handled++ < 64) {
        const message = actor.box[actor.head]!
        actor.box[actor.head++] = undefined
        actor.handle(message)
      }
      if (actor.head === actor.box.length) {
        actor.box.length = 0
        actor.head = 0
        actor.scheduled = false
      } else this.queue.push(actor)
      budget -= handled
      if (budget < 0) {
        this.queue = this.queue.slice(i + 1)
        if (this.queue.length > 0) setImmediate(() => this.drain())
        else this.on = false
        return
      }
    }
    this.queue.length = 0
    this.on = false
  }
}

interface FloorMessage {
  readonly answer?: (n: number) => void
}

class FloorActor {
  box: Array<FloorMessage | undefined> = []
  head = 0
  scheduled = false
  state = { n: 0 }
  private readonly floor: FloorSystem

  constructor(floor: FloorSystem) {
    this.floor = floor
  }

  handle(message: FloorMessage): void {
    this.state = { n: this.state.n + 1 }
    message.answer?.(this.state.n)
  }

  tell(message: FloorMessage): void {
    this.box.push(message)
    if (!this.scheduled) {
      this.scheduled = true
      this.floor.push(this)
    }
  }
}

const plain: FloorMessage = {}
const payload = { pad: "" }

type Work = (n: number) => Promise<number>

/** Sequential and many at once, from one asker function. */
const sequential =
  (ask: () => Promise<unknown>): Work =>
  async (n) => {
    for (let i = 0; i < n; i++) await ask()
    return n
  }

const thousand =
  (ask: () => Promise<unknown>): Work =>
  async (n) => {
    for (let i = 0; i < n; i += 1_000) await Promise.all(Array.from({ length: 1_000 }, ask))
    return n
  }

const atOnce =
  (width: number, ask: (i: number) => Promise<unknown>): Work =>
  async (n) => {
    let next = 0
    await Promise.all(
      Array.from({ length: width }, async () => {
        while (next < n) await ask(next++)
      })
    )
    return n
  }

const asks: Record<string, () => () => Promise<unknown>> = {
  floor: () => {
    const actor = new FloorActor(new FloorSystem())
    return () =>
      new Promise((answer) => {
        actor.tell({ answer })
      })
  },
  troupe: () => {
    const ref = system().ref(Counter, "a")
    return () =>
      new Promise((answer) => {
        ref.askNow("Add", payload, answer)
      })
  },
  xstate: () => {
    const { createActor, fromTransition } = require("xstate")
    const actor = createActor(
      fromTransition(
        (state: { n: number }, event: any) => {
          event.answer?.(state.n)
          return { n: state.n + 1 }
        },
        { n: 0 }
      )
    ).start()
    return () =>
      new Promise((answer) => {
        actor.send({ type: "add", answer })
      })
  },
  nact: () => {
    const { start, spawn, query, dispatch } = require("nact")
    const actor = spawn(
      start(),
      (n = 0, message: { sender: unknown }) => {
        dispatch(message.sender, n)
        return n + 1
      },
      "a"
    )
    return () => query(actor, (sender: unknown) => ({ sender }), 10_000)
  }
}

const effectAsk: Work = (n) =>
  Effect.runPromise(
    Effect.gen(function* () {
      const queue = yield* Queue.unbounded<Deferred.Deferred<number>>()
      yield* Effect.forkChild(
        Effect.gen(function* () {
          for (let state = 0; ; state++) yield* Deferred.succeed(yield* Queue.take(queue), state)
        })
      )
      for (let i = 0; i < n; i++) {
        const answer = yield* Deferred.make<number>()
        yield* Queue.offer(queue, answer)
        yield* Deferred.await(answer)
      }
      return n
    })
  )

const durable = async (): Promise<Work> => {
  const folder = mkdtempSync(join(tmpdir(), "troupe-bench-"))
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }))
  const width = Number(bench!.split("-").at(-1))
  const value = Buffer.alloc(100, 7)
  const pad = { pad: "x".repeat(80) }
  if (candidate === "floor") {
    const db = (require("lmdb") as typeof import("lmdb")).open<Buffer, any>({
      path: join(folder, "raw.lmdb"),
      encoding: "binary"
    })
    let seq = 0
    return atOnce(width, async (i) => {
      await db.put(["j", "counter", `a${i % width}`, seq++], value)
      await db.flushed
    })
  }
  const Durable = counter("journal")
  const made = new ActorSystem({ store: await openLmdb({ folder }), nowMs: Date.now })
  made.host(Durable, Context.empty())
  const refs = Array.from({ length: width }, (_, i) => made.ref(Durable, `a${i}`))
  return atOnce(
    width,
    (i) =>
      new Promise((answer) => {
        refs[i % width]!.askNow("Add", pad, answer)
      })
  )
}

const works: Record<string, () => Work | Promise<Work>> = {
  "tell floor": () => {
    const actor = new FloorActor(new FloorSystem())
    return async (n) => {
      const until = actor.state.n + n
      for (let i = 0; i < n; i++) actor.tell(plain)
      while (actor.state.n < until) await turn()
      return n
    }
  },
  "tell troupe": () => {
    const made = system()
    const ref = made.ref(Counter, "a")
    let told = 0
    return async (n) => {
      for (let i = 0; i < n; i++) ref.tell("Add", payload)
      told += n
      while ((made.inspect("counter", "a")!.state as { n: number }).n < told) await turn()
      return n
    }
  },
  "tell xstate": () => {
    const { createActor, fromTransition } = require("xstate")
    const actor = createActor(
      fromTransition((state: { n: number }) => ({ n: state.n + 1 }), { n: 0 })
    ).start()
    const event = { type: "add" }
    return async (n) => {
      for (let i = 0; i < n; i++) actor.send(event)
      return n
    }
  },
  "tell effect": () => (n) =>
    Effect.runPromise(
      Effect.gen(function* () {
        const queue = yield* Queue.unbounded<number>()
        const fiber = yield* Effect.forkChild(
          Effect.gen(function* () {
            let state = 0
            while (state < n) {
              yield* Queue.take(queue)
              state++
            }
            return state
          })
        )
        for (let i = 0; i < n; i++) Queue.offerUnsafe(queue, 1)
        return yield* Effect.flatten(
          Effect.map(Effect.succeed(fiber), (f) =>
            Effect.promise(
              () =>
                new Promise<number>((done) => {
                  f.addObserver(() => done(n))
                })
            )
          )
        )
      })
    ),
  "tell nact": () => {
    const { start, spawn, dispatch } = require("nact")
    let handled = 0
    const actor = spawn(
      start(),
      (n = 0) => {
        handled++
        return n + 1
      },
      "a"
    )
    return async (n) => {
      const until = handled + n
      for (let i = 0; i < n; i++) dispatch(actor, plain)
      while (handled < until) await turn()
      return n
    }
  },
  "tell-1000 floor": () => {
    const floor = new FloorSystem()
    const actors = Array.from({ length: 1_000 }, () => new FloorActor(floor))
    return async (n) => {
      for (let i = 0; i < n; i++) actors[i % 1_000]!.tell(plain)
      while (actors.at(-1)!.box.length > 0) await turn()
      return n
    }
  },
  "tell-1000 troupe": () => {
    const made = system()
    const refs = Array.from({ length: 1_000 }, (_, i) => made.ref(Counter, `a${i}`))
    return async (n) => {
      for (let i = 0; i < n; i++) refs[i % 1_000]!.tell("Add", payload)
      while (made.inspect("counter", "a999")!.mailbox > 0) await turn()
      return n
    }
  },
  "ask effect": () => effectAsk,
  "rate-window floor": () => {
    const windows = new Map<string, { from: number; count: number }>()
    const keys = Array.from({ length: 10_000 }, (_, i) => `key${i}`)
    return async (n) => {
      let allowed = 0
      for (let i = 0; i < n; i++) {
        const key = keys[i % 10_000]!
        const now = Date.now()
        let window = windows.get(key)
        if (window === undefined || now - window.from >= 10_000)
          windows.set(key, (window = { from: now, count: 0 }))
        if (++window.count <= 50) allowed++
      }
      return allowed
    }
  },
  "rate-window troupe": () => {
    const made = system()
    const refs = Array.from({ length: 10_000 }, (_, i) => made.ref(RateWindow, `key${i}`))
    const call = { cost: 1, limit: 50, windowMs: 10_000 }
    return async (n) => {
      let allowed = 0
      const count = (answer: object): void => {
        if ("reply" in answer) allowed++
      }
      for (let i = 0; i < n; i++) refs[i % 10_000]!.askNow("Take", call, count)
      return allowed
    }
  },
  "rate-window flexible": () => {
    const { RateLimiterMemory } = require("rate-limiter-flexible")
    const limiter = new RateLimiterMemory({ points: 50, duration: 10 })
    return async (n) => {
      let allowed = 0
      for (let i = 0; i < n; i++)
        await limiter.consume(`key${i % 10_000}`).then(
          () => {
            allowed++
          },
          () => {}
        )
      return allowed
    }
  }
}

const idle = async (): Promise<void> => {
  const gc = globalThis.gc!
  const made = system()
  const floor = new FloorSystem()
  const kept: Array<unknown> = []
  gc()
  gc()
  const before = process.memoryUsage()
  const started = performance.now()
  for (let i = 0; i < operations; i++) {
    if (candidate === "floor") kept.push(new FloorActor(floor))
    else if (candidate === "troupe") made.ref(Counter, `actor-${i}`).askNow("Add", payload, () => {})
    else if (candidate === "nact") {
      const { spawn, start } = require("nact")
      kept.push(spawn((kept[0] ??= start()), (n = 0) => n, `b${i}`))
    } else {
      const queue = Effect.runSync(Queue.unbounded<number>())
      kept.push(queue, Effect.runFork(Effect.forever(Queue.take(queue))))
    }
  }
  const spawnMs = performance.now() - started
  await turn()
  gc()
  gc()
  const after = process.memoryUsage()
  console.log(
    JSON.stringify({
      value: (after.heapUsed + after.external - before.heapUsed - before.external) / operations,
      extra: `${Math.round(operations / spawnMs)}k spawned a second`,
      kept: kept.length + made.residents
    })
  )
  process.exit(0)
}

if (bench === "idle") await idle()
const asker = bench === "ask" || bench === "ask-1000" ? asks[candidate!] : undefined

const work: Work = bench!.startsWith("durable-")
  ? await durable()
  : asker !== undefined
    ? (bench === "ask" ? sequential : thousand)(asker())
    : await works[`${bench} ${candidate}`]!()

await work(Math.max(1_000, Math.ceil(operations / 10)))
const best: Array<{ value: number; perSecond: number; checksum: number }> = []

for (let round = 0; round < 3; round++) {
  const cpu = process.cpuUsage()
  const started = performance.now()
  const checksum = await work(operations)
  const { user, system: kernel } = process.cpuUsage(cpu)
  best.push({
    value: ((user + kernel) * 1_000) / operations,
    perSecond: operations / ((performance.now() - started) / 1_000),
    checksum
  })
}

best.sort((a, b) => a.value - b.value)
const middle = best[1]!

// Durable work waits for the disk: there throughput is the figure; elsewhere CPU.
console.log(
  JSON.stringify(
    bench!.startsWith("durable-")
      ? { value: middle.perSecond, extra: `${(middle.value / 1_000).toFixed(1)} µs CPU each` }
      : { value: middle.value, extra: `${(1_000 / middle.value).toFixed(2)} M/s`, checksum: middle.checksum }
  )
)

process.exit(0)
