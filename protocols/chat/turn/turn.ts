/** Every turn under way: its signal, its limit of time, why it ended, and what is counted about it. A client
 *  that goes, a limit or a shutdown abort the same controller; `refusal` tells them apart. Source: chat
 *  sections 1.3, 17, 18. */
import { Aborter, type Abort } from "../../../actors/engines/chat/abort.ts"
import { Deadlines, type Clock, type Deadline } from "../../../actors/engines/chat/deadlines.ts"
import { UpstreamFault, type Usage } from "../../../actors/engines/chat/model.ts"
import { publicId, type Target, type Upstreams } from "../../../actors/engines/chat/upstreams.ts"
import { IndexedSet, type Indexed } from "../../../runtime/indexed-set.ts"
import type { Request } from "../../../runtime/http.ts"
import type { BuiltinTools } from "./builtin-tools.ts"
import type { TurnSpec } from "../request/completions-request.ts"
import type { Output } from "./chunk-rewriter.ts"
import type { ChatMetrics } from "../metrics.ts"
import { clientGone, modelNotFound, overloaded, Refusal, refusalOf, shuttingDown } from "../problems.ts"
import { TurnRun, type TurnCaller, type TurnRunDeps, type TurnResult } from "./turn-run.ts"

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

/** As much of a request as a turn needs. */
type Client = Pick<Request, "onAborted">

export type Outcome = "completed" | "incomplete" | "failed" | "cancelled" | "client_disconnect"

export interface TurnsDeps {
  readonly settings: ChatSettings
  readonly upstreams: Upstreams
  readonly builtins: BuiltinTools
  readonly metrics: ChatMetrics
  readonly clock: Clock
  readonly deadlines: Deadlines
  readonly log: (level: "info" | "warn" | "error", message: string, fields?: Record<string, unknown>) => void
}

export class Turns {
  readonly deps: TurnsDeps

  /** Of every turn. */
  readonly options: TurnRunDeps

  draining = false
  private readonly running = new IndexedSet<Turn>()

  constructor(deps: TurnsDeps) {
    const {
      upstreams,
      deadlines,
      clock,
      builtins,
      settings: { backoffMs, unsupported }
    } = deps
    this.deps = deps
    this.options = {
      upstreams,
      deadlines,
      nowMs: () => clock.nowMs(),
      backoffMs,
      builtins,
      unsupported,
      onBreakerChange: ({ record: { id }, lastError }, rests) =>
        rests
          ? deps.log("warn", "a chat upstream rests after failures", { upstream: id, code: lastError?.code })
          : deps.log("info", "a chat upstream answers again", { upstream: id })
    }
  }

  get inFlight(): number {
    return this.running.size
  }

  nowS(): number {
    return Math.floor(this.deps.clock.nowMs() / 1_000)
  }

  /** Counts a turn in, or refuses it. Whoever begins one ends it. `client`: its going aborts. */
  beginTurn(client: Client | undefined): Turn {
    if (this.draining) throw shuttingDown()
    if (this.running.size >= this.deps.settings.inFlightMax) throw overloaded()
    const turn = new Turn(this, client, () => {
      this.running.delete(turn)
      if (this.running.size === 0) this.idle?.()
    })
    this.running.add(turn)
    return turn
  }

  private idle: (() => void) | undefined

  /** New turns are refused from now on; those under way get `graceMs`, then they are ended. Resolves when
   *  none is left. */
  async drain(graceMs: number): Promise<void> {
    this.draining = true
    if (this.running.size === 0) return
    const allEnded = new Promise<void>((resolve) => {
      this.idle = resolve
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
  private stopReason: "gone" | "timeout" | "shutdown" | "cancelled" | undefined
  private readonly turns: Turns
  private readonly deadline: Deadline
  private readonly onEnd: () => void
  private upstreamMs = 0
  private firstMs: number | undefined

  constructor(turns: Turns, client: Client | undefined, onEnd: () => void) {
    this.turns = turns
    this.onEnd = onEnd
    this.signal = this.aborter
    this.deadline = turns.deps.deadlines.start(turns.deps.settings.turnMs, () => this.stop("timeout"))
    client?.onAborted(() => this.stop("gone"))
  }

  stop(why: "gone" | "timeout" | "shutdown" | "cancelled"): void {
    if (!this.ended) {
      this.stopReason ??= why
      this.aborter.abort()
    }
  }

  get disconnected(): boolean {
    return this.stopReason === "gone"
  }

  get cancelled(): boolean {
    return this.stopReason === "cancelled" || this.stopReason === "gone"
  }

  get interrupted(): boolean {
    return this.stopReason === "shutdown"
  }

  attempted(target: Target, retryOf: UpstreamFault | undefined): void {
    this.attempts++
    // Counted for the one that failed.
    if (retryOf !== undefined)
      this.turns.deps.metrics.retry((this.target ?? target).upstream.record.id, retryOf.reason)
    this.target = target
  }

  onOutputTooLong(): void {
    this.aborter.abort()
  }

  noteFirstEvent(): void {
    this.firstMs ??= performance.now()
  }

  /** The model's answer into the output. */
  run(spec: TurnSpec, output: Output): Promise<TurnResult> {
    const found = this.turns.deps.upstreams.resolve(spec.model)
    return found instanceof Promise
      ? found.then((target) => this.ask(target, spec, output))
      : this.ask(found, spec, output)
  }

  private ask(target: Target | undefined, spec: TurnSpec, output: Output): Promise<TurnResult> {
    if (target === undefined) return Promise.reject(modelNotFound(spec.model))
    this.target = target
    if (this.signal.aborted)
      return Promise.reject(new UpstreamFault({ reason: "aborted", detail: "the caller went" }))
    return new TurnRun(spec, output, this.turns.options, this).run(target)
  }

  addUpstreamTime(ms: number, usage: Usage | undefined): void {
    this.upstreamMs += ms
    if (usage !== undefined) this.turns.deps.metrics.tokens(usage.input, usage.output)
  }

  get headers(): ReadonlyArray<readonly [string, string]> {
    const { target, attempts } = this
    return target === undefined
      ? []
      : attempts === 0
        ? [["x-proxy-model", publicId(target)]]
        : [
            ["x-proxy-model", publicId(target)],
            ["x-proxy-attempts", String(attempts)]
          ]
  }

  refusal(fault: unknown, model: string): Refusal {
    if (this.stopReason === "gone" || this.stopReason === "cancelled") return clientGone()
    if (this.stopReason === "shutdown") return shuttingDown()
    if (this.stopReason === "timeout")
      return refusalOf(new UpstreamFault({ reason: "timeout", detail: "the turn took too long" }))
    const refusal = refusalOf(fault, model)
    if (refusal.status === 500)
      this.turns.deps.log("error", "a turn failed", {
        fault: fault instanceof Error ? fault.name : "unknown"
      })
    return refusal
  }

  private ended = false

  end(outcome: Outcome): void {
    if (this.ended) return
    this.ended = true
    this.deadline.stop()
    const { metrics } = this.turns.deps
    const now = performance.now()
    metrics.turn(
      this.target?.upstream.record.id ?? "none",
      this.target?.model ?? "none",
      this.stopReason === "gone" ? "client_disconnect" : outcome
    )
    metrics.duration.observe((now - this.startedMs) / 1_000)
    metrics.overhead.observe(Math.max(0, now - this.startedMs - this.upstreamMs) / 1_000)
    if (this.firstMs !== undefined) metrics.firstToken.observe((this.firstMs - this.startedMs) / 1_000)
    this.onEnd()
  }
}
