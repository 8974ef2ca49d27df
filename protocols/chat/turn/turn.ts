/** Every turn under way: its signal, its time limit, why it was stopped, and what is counted about it. A
 *  client that disconnects, a limit or a shutdown abort the same signal; `problem` tells them apart.
 *  Guarantee: a turn that was begun is ended once, whatever becomes of it.
 *  Source: docs/spec/chat.md, sections 1.3, 17 and 18. */
import { Effect } from "effect"
import { Aborter, type Abort } from "../../../actors/engines/chat/abort.ts"
import { Deadlines, type Deadline } from "../../../actors/engines/chat/deadlines.ts"
import { UpstreamFault, type Usage } from "../../../actors/engines/chat/model.ts"
import { publicId, type Target, type Upstreams } from "../../../actors/engines/chat/upstreams.ts"
import { IndexedSet, type Indexed } from "../../../runtime/indexed-set.ts"
import type { Header, Request, Response } from "../../../runtime/http.ts"
import type { ChatMetrics } from "../metrics.ts"
import { problemResponse, Refusal, statusOf, type Problem } from "../problems.ts"
import type { TurnSpec } from "../request/turn-spec.ts"
import { problemOf } from "../upstream-problems.ts"
import type { BuiltinTools } from "./builtin-tools.ts"
import type { Output } from "./chunk-rewriter.ts"
import { TurnRun, type TurnCaller, type TurnResult, type TurnRunDeps } from "./turn-run.ts"

export interface ChatSettings {
  readonly bodyBytesMax: number
  readonly turnMs: number
  readonly commitMs: number
  readonly keepAliveMs: number
  readonly inFlightMax: number
  readonly sessionTurnsMax: number
  readonly sessionsMax: number
  readonly responseBytesMax: number
  readonly retentionMs: number
  readonly unsupported: "drop" | "error"
  readonly backoffMs: number
}

/** The part of a request that a turn needs. */
type Client = Pick<Request, "onAborted" | "traceId">

export type Outcome = "completed" | "incomplete" | "failed" | "cancelled" | "client_disconnect"

type StopReason = "disconnected" | "timeout" | "shutdown" | "cancelled"

export interface TurnsDeps {
  readonly settings: ChatSettings
  readonly upstreams: Upstreams
  readonly builtins: BuiltinTools
  readonly metrics: ChatMetrics
  /** Wall time, epoch ms. */
  readonly clock: { nowMs(): number }
  readonly deadlines: Deadlines
  readonly log: (level: "info" | "warn" | "error", message: string, fields?: Record<string, unknown>) => void
}

export class Turns {
  readonly deps: TurnsDeps
  readonly runDeps: TurnRunDeps
  draining = false
  private readonly running = new IndexedSet<Turn>()
  private onIdle: (() => void) | undefined

  constructor(deps: TurnsDeps) {
    const { upstreams, deadlines, clock, builtins, settings, log } = deps
    this.deps = deps
    this.runDeps = {
      upstreams,
      deadlines,
      nowMs: () => clock.nowMs(),
      backoffMs: settings.backoffMs,
      builtins,
      unsupported: settings.unsupported,
      onBreakerChange: ({ record: { id }, lastError }, isOpen) =>
        isOpen
          ? log("warn", "a chat upstream rests after failures", { upstream: id, code: lastError?.code })
          : log("info", "a chat upstream answers again", { upstream: id })
    }
  }

  get inFlight(): number {
    return this.running.size
  }

  nowS(): number {
    return Math.floor(this.deps.clock.nowMs() / 1_000)
  }

  /** Counts a turn in, or refuses it. Whoever begins one ends it. A client that disconnects aborts its turn;
   *  a turn without a client runs on. */
  beginTurn(client: Client | undefined): Turn {
    if (this.draining) throw new Refusal({ _tag: "ShuttingDown" })
    if (this.running.size >= this.deps.settings.inFlightMax) throw new Refusal({ _tag: "Overloaded" })
    const turn = new Turn(this, client, () => {
      this.running.delete(turn)
      if (this.running.size === 0) this.onIdle?.()
    })
    this.running.add(turn)
    return turn
  }

  /** Refuses new turns from now on. Those under way get `graceMs`, then they are stopped; resolves when none
   *  is left. */
  async drain(graceMs: number): Promise<void> {
    this.draining = true
    if (this.running.size === 0) return
    const allEnded = new Promise<void>((resolve) => {
      this.onIdle = resolve
    })
    const grace = this.deps.deadlines.start(graceMs, () => {
      this.running.forEach((turn) => turn.stop("shutdown"))
    })
    await allEnded
    grace.stop()
  }
}

export class Turn implements Indexed, TurnCaller {
  index = -1
  readonly signal: Abort
  attempts = 0
  target: Target | undefined = undefined
  readonly startedMs = performance.now()
  private readonly aborter = new Aborter()
  private readonly turns: Turns
  private readonly deadline: Deadline
  private readonly onEnd: () => void

  /** The trace id of its request; a turn without a client has none. */
  private readonly traceId: string | undefined

  private stopReason: StopReason | undefined
  private upstreamMs = 0

  /** Time of the first model event of this answer, in ms; undefined until then. */
  private firstEventMs: number | undefined

  private ended = false

  constructor(turns: Turns, client: Client | undefined, onEnd: () => void) {
    this.turns = turns
    this.onEnd = onEnd
    this.traceId = client?.traceId
    this.signal = this.aborter
    this.deadline = turns.deps.deadlines.start(turns.deps.settings.turnMs, () => this.stop("timeout"))
    client?.onAborted(() => this.stop("disconnected"))
  }

  stop(reason: StopReason): void {
    if (this.ended) return
    this.stopReason ??= reason
    this.aborter.abort()
  }

  get disconnected(): boolean {
    return this.stopReason === "disconnected"
  }

  /** Returns whether its client cancelled the turn, explicitly or by disconnecting. */
  get cancelled(): boolean {
    return this.stopReason === "cancelled" || this.stopReason === "disconnected"
  }

  get interrupted(): boolean {
    return this.stopReason === "shutdown"
  }

  /** Answers by this turn. An interruption, at the end of the drain or because the client went, stops it and
   *  waits until its upstream is free. */
  answered(answer: Promise<Response>): Effect.Effect<Response, unknown> {
    return Effect.onInterrupt(
      Effect.interruptible(Effect.tryPromise({ try: () => answer, catch: (thrown) => thrown })),
      () => {
        this.stop("shutdown")
        return Effect.promise(() => answer.catch(() => {}))
      }
    ).pipe(Effect.uninterruptible)
  }

  attempted(target: Target, retryOf: UpstreamFault | undefined): void {
    this.attempts++
    // A retry is counted for the upstream that failed.
    if (retryOf !== undefined)
      this.turns.deps.metrics.retry((this.target ?? target).upstream.record.id, retryOf.reason)
    this.target = target
  }

  onOutputTooLong(): void {
    this.aborter.abort()
  }

  noteFirstEvent(): void {
    this.firstEventMs ??= performance.now()
  }

  /** Writes the model's answer to the output. */
  run(spec: TurnSpec, output: Output): Promise<TurnResult> {
    const target = this.turns.deps.upstreams.resolve(spec.model)
    if (!(target instanceof Promise)) return this.ask(target, spec, output)
    return target.then((resolved) => this.ask(resolved, spec, output))
  }

  private ask(target: Target | undefined, spec: TurnSpec, output: Output): Promise<TurnResult> {
    if (target === undefined) return Promise.reject(new Refusal({ _tag: "ModelNotFound", model: spec.model }))
    this.target = target
    if (this.signal.aborted)
      return Promise.reject(new UpstreamFault({ reason: "aborted", detail: "the caller went" }))
    return new TurnRun(spec, output, this.turns.runDeps, this).run(target)
  }

  addUpstreamTime(ms: number, usage: Usage | undefined): void {
    this.upstreamMs += ms
    if (usage !== undefined) this.turns.deps.metrics.tokens(usage.input, usage.output)
  }

  /** Headers that name the model that answered and the number of attempts. */
  get headers(): ReadonlyArray<Header> {
    const { target, attempts } = this
    if (target === undefined) return []
    const model: Header = ["x-proxy-model", publicId(target)]
    return attempts === 0 ? [model] : [model, ["x-proxy-attempts", String(attempts)]]
  }

  /** Converts an exception of this turn to the problem that its client receives; the reason for which the
   *  turn was stopped takes precedence. */
  problem(thrown: unknown, model: string): Problem {
    switch (this.stopReason) {
      case "disconnected":
      case "cancelled":
        return { _tag: "ClientDisconnected" }
      case "shutdown":
        return { _tag: "ShuttingDown" }
      case "timeout":
        return { _tag: "UpstreamTimeout", shouldNotRetry: true }
    }
    return problemOf(thrown, model)
  }

  /** The answer to a turn that failed before its headers were sent. */
  problemResponse(problem: Problem, thrown: unknown): Response {
    return problemResponse(problem, this.headers, thrown)
  }

  /** Logs a failure that its client learns from the stream, or from the stored response: there is no answer
   *  to carry its cause. */
  logFailure(problem: Problem, cause: unknown, response?: string): void {
    const status = statusOf(problem)
    if (status < 500 || problem._tag === "ClientDisconnected") return
    this.turns.deps.log(status === 500 ? "error" : "warn", "a turn failed", {
      traceId: this.traceId,
      response,
      status,
      cause
    })
  }

  end(outcome: Outcome): void {
    if (this.ended) return
    this.ended = true
    this.deadline.stop()
    this.observe(this.disconnected ? "client_disconnect" : outcome)
    this.onEnd()
  }

  private observe(outcome: Outcome): void {
    const { metrics } = this.turns.deps
    const durationMs = performance.now() - this.startedMs
    metrics.turn(this.target?.upstream.record.id ?? "none", this.target?.model ?? "none", outcome)
    metrics.duration.observe(durationMs / 1_000)
    metrics.overhead.observe(Math.max(0, durationMs - this.upstreamMs) / 1_000)
    if (this.firstEventMs !== undefined)
      metrics.firstToken.observe((this.firstEventMs - this.startedMs) / 1_000)
  }
}
