/** One generation over unreliable servers: permits, breaker, retries before anything was sent, then
 *  fallbacks. Source: chat section 14. */
import { breakerPolicy } from "../../circuit-breaker.ts"
import type { Abort } from "./abort.ts"
import type { Deadlines } from "./deadlines.ts"
import { UpstreamFault, type ModelRequest, type ModelSink } from "./model.ts"
import type { Target, Upstream, Upstreams } from "./upstreams.ts"

/** A sink whose beginning may be taken back until the client has something. */
export interface RetrySink extends ModelSink {
  /** Something has left for the client, or cannot be undone: no retry. */
  readonly firstEventSent: boolean
  /** Forgets everything since the attempt began. */
  reset(): void
}

export interface AttemptOptions {
  readonly upstreams: Upstreams
  readonly deadlines: Deadlines
  readonly nowMs: () => number
  /** Of the first wait; doubled each time, ± 50 %. */
  readonly backoffMs: number
  /** An upstream rests after failures, or answers again. */
  readonly onBreakerChange?: (upstream: Upstream, rests: boolean) => void
}

/** Whose generation it is. */
export interface Caller {
  readonly signal: Abort
  attempted(target: Target, retryOf: UpstreamFault | undefined): void
}

const waitMsMax = 5_000

const retryable = new Set<UpstreamFault["reason"]>([
  "unavailable",
  "connect-timeout",
  "gateway-timeout",
  "error",
  "overloaded",
  "rate-limited",
  "bad-response",
  "broken"
])

/** What speaks against the upstream rather than the request. A rate limit does not: the server answers, and
 *  its other models may have room. */
const blames = new Set<UpstreamFault["reason"]>([
  "unavailable",
  "connect-timeout",
  "gateway-timeout",
  "error",
  "overloaded",
  "timeout",
  "broken"
])

/** `mayRepeat` false: a side effect has run. */
export const attempt = async (
  first: Target,
  requestFor: (target: Target) => ModelRequest,
  sink: RetrySink,
  caller: Caller,
  mayRepeat: boolean,
  options: AttemptOptions
): Promise<Target> => {
  const { signal } = caller
  let last: UpstreamFault | undefined
  let unusable = 0
  const fallbacks = mayRepeat ? first.upstream.record.fallbacks : []
  for (let i = 0; i <= fallbacks.length; i++) {
    const target = i === 0 ? first : options.upstreams.find(fallbacks[i - 1]!)
    if (target === undefined) continue
    let request: ModelRequest
    // A fallback that cannot take the request is passed over: the fault that led to it says more than its own
    // refusal.
    try {
      request = requestFor(target)
    } catch (unfit) {
      if (last === undefined) throw unfit
      continue
    }
    const tries = i === 0 && mayRepeat ? target.upstream.record.retries + 1 : 1
    for (let turn = 0; turn < tries; turn++) {
      const resting = enter(target.upstream, options)
      if (resting !== undefined) {
        last ??= resting
        break
      }
      try {
        caller.attempted(target, last)
        const { upstream } = target
        const waits = upstream.gate.enter(signal)
        if (waits !== undefined) await queued(waits, upstream)
        try {
          await upstream.model.generate(request, sink, signal)
          upstream.lastSuccessMs = options.nowMs()
          upstream.breaker.askNow("Succeeded", {}, ignore)
          if (upstream.breakerOpen) {
            upstream.breakerOpen = false
            options.onBreakerChange?.(upstream, false)
          }
        } catch (cause) {
          blame(upstream, cause, options.nowMs)
          throw cause
        } finally {
          upstream.gate.leave()
        }
        return target
      } catch (cause) {
        if (!(cause instanceof UpstreamFault)) throw cause
        if (cause.reason === "unsupported" && last !== undefined && !sink.firstEventSent) {
          sink.reset()
          break
        }
        last = cause
        if (sink.firstEventSent || signal.aborted || !mayRepeat || !retryable.has(cause.reason)) throw cause
        sink.reset()
        if (cause.reason === "bad-response" && ++unusable > 1) break
        const waitMs = cause.retryAfterMs ?? options.backoffMs * 2 ** turn * (0.5 + Math.random())
        if (waitMs > waitMsMax) break
        if (turn + 1 < tries) await rest(waitMs, signal, options.deadlines)
      }
    }
  }
  throw last!
}

const enter = (upstream: Upstream, options: AttemptOptions): UpstreamFault | undefined => {
  let resting: UpstreamFault | undefined
  upstream.breaker.askNow("Acquire", {}, (answer) => {
    if ("refuse" in answer)
      resting = new UpstreamFault({ reason: "unavailable", detail: "the upstream rests after failures" })
  })
  // Told once, when the first caller is kept away, not at every failed probe.
  if (resting !== undefined && !upstream.breakerOpen) {
    upstream.breakerOpen = true
    options.onBreakerChange?.(upstream, true)
  }
  return resting
}

/** Whoever does not get in leaves the breaker as it was. */
const queued = (waits: Promise<void>, { breaker }: Upstream): Promise<void> =>
  waits.catch((fault: unknown) => {
    breaker.tell("Release", {})
    throw fault
  })

const blame = (upstream: Upstream, cause: unknown, nowMs: () => number): void => {
  if (!(cause instanceof UpstreamFault) || cause.reason === "aborted")
    upstream.breaker.askNow("Release", {}, ignore)
  else if (!blames.has(cause.reason)) upstream.breaker.askNow("Succeeded", {}, ignore)
  else {
    upstream.lastError = { atMs: nowMs(), code: cause.reason }
    upstream.breaker.askNow("Failed", breakerPolicy, ignore)
  }
}

const ignore = (): void => {}

const rest = (ms: number, signal: Abort, deadlines: Deadlines): Promise<void> =>
  new Promise((resolve, reject) => {
    const gone = (): void => {
      deadline.stop()
      reject(new UpstreamFault({ reason: "aborted", detail: "the caller went" }))
    }
    const deadline = deadlines.start(ms, () => {
      signal.removeEventListener("abort", gone)
      resolve()
    })
    if (signal.aborted) gone()
    else signal.addEventListener("abort", gone, { once: true })
  })
