/** Calls to a model server over undici: bytes by callback, pause and resume, a deadline for the first byte and between bytes, abort that closes
 *  the socket. Faults are worded by status, never by what the server's address or key is. Source: chat sections 13, 14, 17.1, 17.2. */
import type { Dispatcher, Pool } from "undici"
import { UpstreamFault, type Flow } from "./model.ts"

/** Deadlines in one set, swept on the house's timer wheel: no timer per call, and nothing stays behind when a call is over. */
export class Deadlines {
  private readonly waiting = new Set<Deadline>()
  private armed = false
  private readonly clock: Clock
  constructor(clock: Clock) { this.clock = clock }
  start(ms: number, fire: () => void): Deadline {
    const deadline: Deadline = { atMs: this.clock.nowMs() + ms, fire, renew: (by) => { deadline.atMs = this.clock.nowMs() + by }, stop: () => { this.waiting.delete(deadline) } }
    this.waiting.add(deadline)
    this.arm()
    return deadline
  }
  get size(): number { return this.waiting.size }
  private arm(): void {
    if (this.armed) return
    this.armed = true
    this.clock.timers.at(this.clock.nowMs() + sweepMs, () => {
      this.armed = false
      const now = this.clock.nowMs()
      for (const deadline of this.waiting) if (deadline.atMs <= now) { this.waiting.delete(deadline); deadline.fire() }
      if (this.waiting.size > 0) this.arm()
    })
  }
}
const sweepMs = 50
export interface Deadline { atMs: number; readonly fire: () => void; readonly renew: (ms: number) => void; readonly stop: () => void }
export interface Clock { nowMs(): number; readonly timers: { at(atMs: number, fire: () => void): void } }

export interface CallLimits { readonly connectMs: number; readonly firstMs: number; readonly idleMs: number }
export interface UpstreamHttp { readonly base: string; readonly headers: Readonly<Record<string, string>>; readonly connections: number; readonly limits: CallLimits; readonly deadlines: Deadlines }
/** What a caller does with a 2xx answer. `head` may throw; so may `data`. */
export interface Receiver { head?(type: string, flow: Flow): void; data(chunk: Buffer): void }

const faultBytesMax = 65_536
const contextWording = /context[ _-]?(?:length|window)|maximum context|too many tokens|prompt is too long|exceeds? the (?:maximum|model)/i

/** Seconds or a date. */
export const retryAfterMs = (header: string | undefined, nowMs: number): number | undefined => {
  if (header === undefined) return undefined
  const seconds = Number(header)
  const ms = Number.isFinite(seconds) ? seconds * 1_000 : Date.parse(header) - nowMs
  return Number.isFinite(ms) && ms >= 0 ? ms : undefined
}
const fields = (body: string): { readonly message: string | undefined; readonly param?: string; readonly code?: string } => {
  try {
    const value = JSON.parse(body) as any, error = typeof value?.error === "object" && value.error !== null ? value.error : value
    const message = typeof value?.error === "string" ? value.error : typeof error?.message === "string" ? error.message : undefined
    return { message, ...(typeof error?.param === "string" ? { param: error.param } : {}), ...(typeof error?.code === "string" ? { code: error.code } : {}) }
  } catch { return { message: undefined } }
}
/** Section 14's table. */
export const faultOf = (status: number, body: string, retryAfter: number | undefined): UpstreamFault => {
  const { message, ...more } = fields(body)
  const fault = (reason: UpstreamFault["reason"], detail = `status ${status}`): UpstreamFault => new UpstreamFault({ reason, detail, retryAfterMs: retryAfter })
  if (status === 400 || status === 422) {
    const context = more.code === "context_length_exceeded" || contextWording.test(message ?? "")
    return new UpstreamFault({ reason: context ? "context" : "bad-request", detail: (message ?? "The model refused the request.").slice(0, 2_000), param: more.param ?? null, code: more.code ?? null })
  }
  switch (status) {
    case 401: case 403: return fault("auth")
    case 404: return fault("not-found")
    case 413: return fault("too-large")
    case 408: case 504: return fault("gateway-timeout")
    case 429: return fault("rate-limited")
    case 503: case 529: return fault("overloaded")
  }
  return status >= 300 && status < 400 ? fault("bad-response", "a redirect") : status >= 400 ? fault("error") : fault("bad-response")
}

export class HttpClient {
  /** Loaded with the first call: a node without remote models never pays for it (bench/cold-start). */
  private pool: Pool | undefined = undefined
  private opening: Promise<void> | undefined = undefined
  private closed = false
  private readonly prefix: string
  private readonly http: UpstreamHttp
  constructor(http: UpstreamHttp) {
    this.http = http
    this.prefix = new URL(http.base).pathname.replace(/\/+$/, "")
  }
  private open(): Promise<void> {
    const { base, connections, limits } = this.http
    return this.opening ??= import("undici").then(({ Pool }) => {
      this.pool = new Pool(new URL(base).origin, { connections, pipelining: 1, headersTimeout: 0, bodyTimeout: 0, connect: { timeout: limits.connectMs }, keepAliveTimeout: 30_000 })
      if (this.closed) void this.pool.destroy()
    })
  }
  close(): void { this.closed = true; void this.pool?.destroy() }

  /** Resolves when the whole answer has been received. */
  send(method: "GET" | "POST" | "DELETE", path: string, body: string | undefined, receiver: Receiver, signal: AbortSignal): Promise<void> {
    const { pool } = this
    if (pool === undefined) return this.open().then(() => this.send(method, path, body, receiver, signal))
    const { limits, deadlines } = this.http
    return new Promise((resolve, reject) => {
      let settled = false, control: Dispatcher.DispatchController | undefined, status = 0, retryAfter: number | undefined, failed: Array<Buffer> | undefined, failedBytes = 0
      let paused = false
      const finish = (fault?: unknown): void => {
        if (settled) return
        settled = true
        deadline.stop()
        signal.removeEventListener("abort", abort)
        if (fault === undefined) return resolve()
        reject(fault)
        control?.abort(fault instanceof Error ? fault : new Error("abandoned"))
      }
      const deadline = deadlines.start(limits.firstMs, () => finish(new UpstreamFault({ reason: "timeout", detail: status === 0 ? "no answer in time" : "the answer stopped" })))
      const abort = (): void => finish(new UpstreamFault({ reason: "aborted", detail: "the caller went" }))
      if (signal.aborted) return abort()
      signal.addEventListener("abort", abort, { once: true })
      const flow: Flow = {
        pause: () => { if (settled) return; paused = true; deadline.renew(Infinity); control?.pause() },
        resume: () => { if (!paused || settled) return; paused = false; deadline.renew(limits.idleMs); control?.resume() }
      }
      pool.dispatch({ method, path: this.prefix + path, headers: this.http.headers, ...(body === undefined ? {} : { body }) }, {
        onRequestStart: (controller) => { control = controller; if (settled) controller.abort(new Error("abandoned")) },
        onResponseStart: (_, code, headers) => {
          if (settled || code < 200) return
          status = code
          if (code >= 300) { retryAfter = retryAfterMs(single(headers["retry-after"]), Date.now()); failed = []; return }
          try { receiver.head?.(single(headers["content-type"]) ?? "", flow) } catch (fault) { finish(fault) }
        },
        onResponseData: (_, chunk) => {
          if (settled) return
          if (!paused) deadline.renew(limits.idleMs)
          if (failed !== undefined) { if ((failedBytes += chunk.length) <= faultBytesMax) failed.push(chunk); return }
          try { receiver.data(chunk) } catch (fault) { finish(fault) }
        },
        onResponseEnd: () => finish(failed === undefined ? undefined : faultOf(status, Buffer.concat(failed).toString("utf8"), retryAfter)),
        onResponseError: (_, cause) => {
          const code = (cause as NodeJS.ErrnoException).code
          if (failed !== undefined) return finish(faultOf(status, "", retryAfter))
          finish(new UpstreamFault({ reason: code === "UND_ERR_CONNECT_TIMEOUT" ? "connect-timeout" : status === 0 ? "unavailable" : "broken", detail: code ?? "the connection broke" }))
        }
      })
    })
  }
  /** A whole answer as JSON. */
  async json(method: "GET" | "POST" | "DELETE", path: string, body: string | undefined, signal: AbortSignal): Promise<any> {
    const parts: Array<Buffer> = []
    let bytes = 0
    await this.send(method, path, body, { data: (chunk) => {
      if ((bytes += chunk.length) > answerBytesMax) throw new UpstreamFault({ reason: "bad-response", detail: "the answer is too large" })
      parts.push(chunk)
    } }, signal)
    try { return JSON.parse((parts.length === 1 ? parts[0]! : Buffer.concat(parts)).toString("utf8")) } catch { throw new UpstreamFault({ reason: "bad-response", detail: "the answer is not JSON" }) }
  }
}
const answerBytesMax = 64 * 1_048_576
const single = (value: string | Array<string> | undefined): string | undefined => Array.isArray(value) ? value[0] : value
