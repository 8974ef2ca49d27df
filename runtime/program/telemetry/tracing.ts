/** Traces of requests: a request's trace id is its span's, and calls of engines, of upstreams and of the store
 *  below it are its children. The parts of a node are wrapped once, at its start, and only where tracing is
 *  configured: switched off it costs nothing. Guarantee: a wrapped part behaves as the part itself.
 *  Source: docs/operations.md, "Tracing". */
import { AsyncLocalStorage } from "node:async_hooks"
import { Context, Effect, Exit, Fiber, Option, type Tracer } from "effect"
import type { ChatModel } from "../../../actors/engines/chat/model.ts"
import type { Engines } from "../../../actors/engines/ports.ts"
import type { Store } from "../../../storage/store.ts"
import type { Answer, Request, Response, Route, Service, Sink } from "../../http.ts"
import { eventLoop, type Scheduler } from "../../run-queue.ts"
import { RecordedSpan, recordingTracer } from "./spans.ts"

export interface TracingOptions {
  /** Receives each sampled span when it has ended. */
  readonly ended: (span: RecordedSpan) => void
  /** False while recording would be for nothing. */
  readonly accepts: () => boolean
  /** How many requests of a hundred are sampled. */
  readonly samplePercent: number
}

const nowNanos = (): bigint => BigInt(Math.round((performance.timeOrigin + performance.now()) * 1e6))

/** A wrapper that shares everything with the part but one member. */
const replacing = <P extends object, K extends keyof P>(part: P, member: K, value: P[K]): P =>
  Object.create(part, { [member]: { value } }) as P

export class Tracing {
  readonly tracer: Tracer.Tracer
  private readonly options: TracingOptions
  private readonly current = new AsyncLocalStorage<RecordedSpan | undefined>()

  constructor(options: TracingOptions) {
    this.options = options
    this.tracer = recordingTracer({ ended: options.ended, current: () => this.current.getStore() })
  }

  /** The trace id of the request that runs now, if it is traced. */
  get traceId(): string | undefined {
    return this.current.getStore()?.traceId
  }

  /** The decision is the trace id's, so every node makes the same one. */
  private samples(traceId: string): boolean {
    const { accepts, samplePercent } = this.options
    return accepts() && Number.parseInt(traceId.slice(0, 8), 16) < (samplePercent / 100) * 0x1_0000_0000
  }

  private requestSpan({ method, traceId }: Request, service: string, route: string): RecordedSpan {
    const name = `${method} ${route}`
    const none = Option.none<Tracer.AnySpan>()
    const options = { name, parent: none, links: [], annotations: Context.empty(), root: true } as const
    // The transport's ids are slices of one large block, which a span that waits would keep in memory.
    const ownTraceId = Buffer.from(traceId, "latin1").toString("latin1")
    const span = new RecordedSpan(
      { ...options, links: [], startTime: nowNanos(), kind: "server", sampled: true },
      ownTraceId,
      this.options.ended
    )
    span.attribute("http.request.method", method)
    span.attribute("http.route", route)
    span.attribute("troupe.service", service)
    return span
  }

  /** Begins a span below the request that runs now; undefined when there is none, or it is over. */
  private child(
    name: string,
    kind: Tracer.SpanKind,
    attributes: Readonly<Record<string, string | number>>
  ): RecordedSpan | undefined {
    const parent = this.current.getStore()
    if (parent === undefined || parent.status._tag === "Ended") return undefined
    const span = new RecordedSpan(
      {
        name,
        parent: Option.some(parent),
        links: [],
        annotations: Context.empty(),
        root: false,
        startTime: nowNanos(),
        kind,
        sampled: true
      },
      parent.traceId,
      this.options.ended
    )
    for (const key in attributes) span.attribute(key, attributes[key])
    return span
  }

  private end(span: RecordedSpan, exit: Exit.Exit<unknown, unknown>): void {
    span.end(nowNanos(), exit)
  }

  instrument(service: Service): Service {
    return { ...service, routes: service.routes.map((route) => this.route(service.name, route)) }
  }

  private route(service: string, route: Route): Route {
    const { handle, path } = route
    return {
      ...route,
      handle: (request) => {
        if (!this.samples(request.traceId)) return handle(request)
        const span = this.requestSpan(request, service, path)
        return this.current.run(span, () => {
          let answer: Answer
          try {
            answer = handle(request)
          } catch (cause) {
            this.end(span, Exit.die(cause))
            throw cause
          }
          if ("status" in answer) return this.answered(span, answer)
          if (!(answer instanceof Promise)) return this.traced(span, answer)
          return answer.then(
            (later) => this.answered(span, later),
            (cause: unknown) => {
              this.end(span, Exit.die(cause))
              throw cause
            }
          )
        })
      }
    }
  }

  /** Runs in a fiber of its own, which begins inside of the span: what it resumes from stays inside. */
  private traced(span: RecordedSpan, effect: Effect.Effect<Response>): Effect.Effect<Response> {
    const inside = Effect.withFiber<Response>(({ context }) =>
      Effect.callback((resume) => {
        const fiber = this.current.run(span, () => Effect.runForkWith(context)(effect))
        fiber.addObserver(resume)
        return Fiber.interrupt(fiber)
      })
    )
    return Effect.onExit(inside, (exit) =>
      Effect.sync(() => {
        if (Exit.isFailure(exit)) this.end(span, exit)
      })
    ).pipe(Effect.map((response) => this.answered(span, response)))
  }

  /** Ends the request's span with its answer, or with the end of its stream. */
  private answered(span: RecordedSpan, response: Response): Response {
    const { status, body, cause } = response
    span.attribute("http.response.status_code", status)
    const exit = status >= 500 ? Exit.die(cause ?? new Error(`answered ${status}`)) : Exit.void
    if (typeof body !== "function") {
      this.end(span, exit)
      return response
    }
    const traced = async (sink: Sink): Promise<void> => {
      try {
        await this.current.run(span, () => body(sink))
        this.end(span, exit)
      } catch (fault) {
        this.end(span, Exit.die(fault))
        throw fault
      }
    }
    return { ...response, body: traced }
  }

  store(store: Store): Store {
    const commit: Store["commit"] = (writes, settled) => {
      const span = this.child("storage commit", "internal", { "troupe.writes": writes.length })
      if (span === undefined) return store.commit(writes, settled)
      const conflict = store.commit(writes, (fault) => {
        this.end(span, fault === undefined ? Exit.void : Exit.fail(fault))
        settled(fault)
      })
      if (conflict !== undefined) this.end(span, Exit.fail(conflict))
      return conflict
    }
    return replacing(store, "commit", commit)
  }

  private effect<A, E>(name: string, engine: string, work: Effect.Effect<A, E>): Effect.Effect<A, E> {
    return Effect.suspend(() => {
      const span = this.child(name, "client", { "troupe.engine": engine })
      return span === undefined
        ? work
        : Effect.onExit(work, (exit) => Effect.sync(() => this.end(span, exit)))
    })
  }

  engines<E extends Engines>(engines: E): E {
    const { translator, corrector, rephraser } = engines
    const { info } = translator
    return {
      ...engines,
      translator: replacing(translator, "translate", (request) =>
        this.effect("translate", info.id, translator.translate(request))
      ),
      ...(corrector && {
        corrector: replacing(corrector, "correct", (text, language) =>
          this.effect("correct", corrector.info.id, corrector.correct(text, language))
        )
      }),
      ...(rephraser && {
        rephraser: replacing(rephraser, "rephrase", (text, options) =>
          this.effect("rephrase", rephraser.info.id, rephraser.rephrase(text, options))
        )
      })
    }
  }

  readonly chatModel = (upstream: string, model: ChatModel): ChatModel =>
    replacing(model, "generate", async (request, sink, signal) => {
      const span = this.child("generate", "client", { "troupe.upstream": upstream })
      if (span === undefined) return model.generate(request, sink, signal)
      try {
        await model.generate(request, sink, signal)
        this.end(span, Exit.void)
      } catch (fault) {
        this.end(span, Exit.fail(fault))
        throw fault
      }
    })

  /** Runs the actors' turns outside of the request that happened to wake them: they serve many. */
  readonly scheduler: Scheduler = {
    soon: (work) => this.current.run(undefined, eventLoop.soon, work),
    later: (work) => this.current.run(undefined, eventLoop.later, work)
  }
}
