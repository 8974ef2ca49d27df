/** Runs one generation over unreliable servers: a permit and the breaker before each attempt, retries
 *  while nothing was sent, then fallbacks. It is guaranteed that nothing is generated twice once the
 *  client has a part of the answer. Source: docs/spec/chat.md, section 14. */
import { breakerPolicy } from "../../circuit-breaker.ts"
import type { Abort } from "./abort.ts"
import type { Deadlines } from "./deadlines.ts"
import { UpstreamFault, type ModelRequest, type ModelSink } from "./model.ts"
import type { Target, Upstream, Upstreams } from "./upstreams.ts"

/** A sink whose events can be undone until the client has received something. */
export interface RetrySink extends ModelSink {
  /** True when something was sent to the client, or cannot be undone: no retry is possible then. */
  readonly firstEventSent: boolean
  /** Discards everything since the attempt began. */
  reset(): void
}

export interface AttemptOptions {
  readonly upstreams: Upstreams
  readonly deadlines: Deadlines
  readonly nowMs: () => number
  /** The length of the first wait, which is doubled each time, ± 50 %. */
  readonly backoffMs: number
  /** Is called when an upstream's breaker opens after failures, and when the upstream answers again. */
  readonly onBreakerChange?: (upstream: Upstream, open: boolean) => void
}

/** The turn that generates. */
export interface Caller {
  readonly signal: Abort
  attempted(target: Target, retryOf: UpstreamFault | undefined): void
}

const waitMsMax = 5_000

/** Connections that are found closed cost no try and no wait, up to so many in one turn. */
const staleConnectionsMax = 2

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

/** Lists the faults that count against the upstream rather than the request. A rate limit does not count: the
 *  server answers, and its other models may have capacity. */
const countedByBreaker = new Set<UpstreamFault["reason"]>([
  "unavailable",
  "connect-timeout",
  "gateway-timeout",
  "error",
  "overloaded",
  "timeout",
  "broken"
])

/** Generates by the first target or one of its fallbacks, and returns the target that answered. `mayRepeat`
 *  is false when a side effect has run. The parameters are positional, because every turn calls this and no
 *  object should be allocated for them (bench/chat-turns). */
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
  let unusableAnswers = 0
  let staleConnections = 0
  const fallbacks = mayRepeat ? first.upstream.record.fallbacks : []
  for (let i = 0; i <= fallbacks.length; i++) {
    const target = i === 0 ? first : options.upstreams.find(fallbacks[i - 1]!)
    if (target === undefined) continue
    let request: ModelRequest
    // A fallback that cannot serve the request is skipped: the fault that led to it is more informative than
    // its own refusal.
    try {
      request = requestFor(target)
    } catch (unfit) {
      if (last === undefined) throw unfit
      continue
    }
    const tries = i === 0 && mayRepeat ? target.upstream.record.retries + 1 : 1
    for (let turn = 0; turn < tries; turn++) {
      const refusal = acquire(target.upstream, options)
      if (refusal !== undefined) {
        last ??= refusal
        break
      }
      try {
        caller.attempted(target, last)
        const { gate } = target.upstream
        const admission = gate.enter(signal)
        if (admission !== undefined) await admitted(admission, target.upstream)
        await generate(target.upstream, request, sink, signal, options)
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
        // The pool closed its other resting connections with this one: the repetition opens its own.
        if (cause.isStale === true && ++staleConnections <= staleConnectionsMax) {
          turn--
          continue
        }
        if (cause.reason === "bad-response" && ++unusableAnswers > 1) break
        const waitMs = cause.retryAfterMs ?? options.backoffMs * 2 ** turn * (0.5 + Math.random())
        if (waitMs > waitMsMax) break
        if (turn + 1 < tries) await wait(waitMs, signal, options.deadlines)
      }
    }
  }
  throw last!
}

/** Generates by one upstream, whose permit it holds, and reports the outcome to the breaker. Its parameters
 *  are positional for the same reason. */
const generate = async (
  upstream: Upstream,
  request: ModelRequest,
  sink: RetrySink,
  signal: Abort,
  options: AttemptOptions
): Promise<void> => {
  try {
    await upstream.model.generate(request, sink, signal)
    upstream.lastSuccessMs = options.nowMs()
    upstream.breaker.askNow("Succeeded", {}, ignore)
    if (upstream.breakerOpen) {
      upstream.breakerOpen = false
      options.onBreakerChange?.(upstream, false)
    }
  } catch (cause) {
    recordFailure(upstream, cause, options.nowMs)
    throw cause
  } finally {
    upstream.gate.leave()
  }
}

/** Asks the breaker to let a call pass; returns its refusal. */
const acquire = (upstream: Upstream, options: AttemptOptions): UpstreamFault | undefined => {
  let refusal: UpstreamFault | undefined
  upstream.breaker.askNow("Acquire", {}, (answer) => {
    if ("refuse" in answer)
      refusal = new UpstreamFault({ reason: "unavailable", detail: "the upstream rests after failures" })
  })
  // This is reported once, when the first caller is refused, not at every failed probe.
  if (refusal !== undefined && !upstream.breakerOpen) {
    upstream.breakerOpen = true
    options.onBreakerChange?.(upstream, true)
  }
  return refusal
}

/** Waits for the permit; a call that gets none leaves the breaker unchanged. */
const admitted = (admission: Promise<void>, { breaker }: Upstream): Promise<void> =>
  admission.catch((fault: unknown) => {
    breaker.tell("Release", {})
    throw fault
  })

const recordFailure = (upstream: Upstream, cause: unknown, nowMs: () => number): void => {
  if (!(cause instanceof UpstreamFault) || cause.reason === "aborted" || cause.isStale === true)
    upstream.breaker.askNow("Release", {}, ignore)
  else if (!countedByBreaker.has(cause.reason)) upstream.breaker.askNow("Succeeded", {}, ignore)
  else {
    upstream.lastError = { atMs: nowMs(), code: cause.reason }
    upstream.breaker.askNow("Failed", breakerPolicy, ignore)
  }
}

const ignore = (): void => {}

const wait = (ms: number, signal: Abort, deadlines: Deadlines): Promise<void> =>
  new Promise((resolve, reject) => {
    const abort = (): void => {
      deadline.stop()
      reject(new UpstreamFault({ reason: "aborted", detail: "the caller went" }))
    }
    const deadline = deadlines.start(ms, () => {
      signal.removeEventListener("abort", abort)
      resolve()
    })
    if (signal.aborted) abort()
    else signal.addEventListener("abort", abort, { once: true })
  })
