/** Calls to a model server over undici: bytes by callback, pause and resume, a deadline for the first byte and between bytes, abort that closes
 *  the socket. Faults are worded by status, never by what the server's address or key is. Source: chat sections 13, 14, 17.1, 17.2. */
import type { Dispatcher, Pool } from "undici"
import type { Abort } from "./abort.ts"
import { UpstreamFault, type Flow } from "./model.ts"

/** Deadlines in one set, swept on the house's timer wheel: no timer per call, and nothing stays behind when a call is over. */
export class Deadlines {
  private readonly waiting = new Set<Deadline>()
  private armed = false
  readonly clock: Clock
  constructor(clock: Clock) { this.clock = clock }
  start(ms: number, fire: () => void): Deadline {
    const deadline = new Deadline(this, this.clock.nowMs() + ms, fire)
    this.waiting.add(deadline)
    if (!this.armed) this.arm()
    return deadline
  }
  forget(deadline: Deadline): void { this.waiting.delete(deadline) }
  get size(): number { return this.waiting.size }
  private arm(): void {
    this.armed = true
    this.clock.timers.at(this.clock.nowMs() + sweepMs, () => {
      this.armed = false
      const now = this.clock.nowMs()
      for (const deadline of this.waiting) if (deadline.atMs <= now) { this.waiting.delete(deadline); deadline.fire() }
      if (this.waiting.size > 0 && !this.armed) this.arm()
    })
  }
}
export class Deadline {
  atMs: number
  readonly fire: () => void
  private readonly of: Deadlines
  constructor(of: Deadlines, atMs: number, fire: () => void) { this.of = of; this.atMs = atMs; this.fire = fire }
  renew(ms: number): void { this.atMs = this.of.clock.nowMs() + ms }
  stop(): void { this.of.forget(this) }
}
const sweepMs = 50
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
  send(method: Method, path: string, body: string | undefined, receiver: Receiver, signal: Abort): Promise<void> {
    const { pool } = this
    if (pool === undefined) return this.open().then(() => this.send(method, path, body, receiver, signal))
    return new Promise((resolve, reject) => {
      const call = new Call(this.http, receiver, signal, resolve, reject)
      if (call.begin()) pool.dispatch(body === undefined ? { method, path: this.prefix + path, headers: this.http.headers } : { method, path: this.prefix + path, headers: this.http.headers, body }, call)
    })
  }
  /** A whole answer as JSON. */
  json(method: Method, path: string, body: string | undefined, signal: Abort): Promise<any> {
    const whole = new Whole()
    return this.send(method, path, body, whole, signal).then(() => whole.json())
  }
}
type Method = "GET" | "POST" | "DELETE"

class Whole implements Receiver {
  private first: Buffer | undefined = undefined
  private more: Array<Buffer> | undefined = undefined
  private bytes = 0
  data(chunk: Buffer): void {
    if ((this.bytes += chunk.length) > answerBytesMax) throw new UpstreamFault({ reason: "bad-response", detail: "the answer is too large" })
    if (this.first === undefined) this.first = chunk
    else (this.more ??= [this.first]).push(chunk)
  }
  json(): any {
    const all = this.more === undefined ? this.first : Buffer.concat(this.more)
    try { return JSON.parse(all!.toString("utf8")) } catch { throw new UpstreamFault({ reason: "bad-response", detail: "the answer is not JSON" }) }
  }
}

/** One call under way, from its dispatch to its only end. Methods rather than closures: there is one of these per turn (bench/chat-turns). */
class Call implements Dispatcher.DispatchHandler, Flow {
  private settled = false
  private paused = false
  private status = 0
  private retryAfter: number | undefined = undefined
  private failed: Array<Buffer> | undefined = undefined
  private failedBytes = 0
  private control: Dispatcher.DispatchController | undefined = undefined
  private deadline: Deadline | undefined = undefined
  private readonly http: UpstreamHttp
  private readonly receiver: Receiver
  private readonly signal: Abort
  private readonly resolve: () => void
  private readonly reject: (fault: unknown) => void
  constructor(http: UpstreamHttp, receiver: Receiver, signal: Abort, resolve: () => void, reject: (fault: unknown) => void) {
    this.http = http
    this.receiver = receiver
    this.signal = signal
    this.resolve = resolve
    this.reject = reject
  }
  /** False: it is over before it began. */
  begin(): boolean {
    if (this.signal.aborted) { this.gone(); return false }
    this.deadline = this.http.deadlines.start(this.http.limits.firstMs, this.late)
    this.signal.addEventListener("abort", this.gone, { once: true })
    return true
  }
  private readonly late = (): void => this.finish(new UpstreamFault({ reason: "timeout", detail: this.status === 0 ? "no answer in time" : "the answer stopped" }))
  private readonly gone = (): void => this.finish(new UpstreamFault({ reason: "aborted", detail: "the caller went" }))
  private finish(fault?: unknown): void {
    if (this.settled) return
    this.settled = true
    this.deadline?.stop()
    this.signal.removeEventListener("abort", this.gone)
    if (fault === undefined) return this.resolve()
    this.reject(fault)
    this.control?.abort(fault instanceof Error ? fault : new Error("abandoned"))
  }
  pause(): void {
    if (this.settled) return
    this.paused = true
    this.deadline!.renew(Infinity)
    this.control?.pause()
  }
  resume(): void {
    if (!this.paused || this.settled) return
    this.paused = false
    this.deadline!.renew(this.http.limits.idleMs)
    this.control?.resume()
  }

  onRequestStart(control: Dispatcher.DispatchController): void {
    this.control = control
    if (this.settled) control.abort(new Error("abandoned"))
  }
  onResponseStart(_: Dispatcher.DispatchController, code: number, headers: Record<string, string | Array<string> | undefined>): void {
    if (this.settled || code < 200) return
    this.status = code
    if (code >= 300) { this.retryAfter = retryAfterMs(single(headers["retry-after"]), Date.now()); this.failed = []; return }
    try { this.receiver.head?.(single(headers["content-type"]) ?? "", this) } catch (fault) { this.finish(fault) }
  }
  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.settled) return
    if (!this.paused) this.deadline!.renew(this.http.limits.idleMs)
    if (this.failed !== undefined) { if ((this.failedBytes += chunk.length) <= faultBytesMax) this.failed.push(chunk); return }
    try { this.receiver.data(chunk) } catch (fault) { this.finish(fault) }
  }
  onResponseEnd(): void { this.finish(this.failed === undefined ? undefined : faultOf(this.status, Buffer.concat(this.failed).toString("utf8"), this.retryAfter)) }
  onResponseError(_: Dispatcher.DispatchController, cause: Error): void {
    const { code } = cause as NodeJS.ErrnoException
    if (this.failed !== undefined) return this.finish(faultOf(this.status, "", this.retryAfter))
    this.finish(new UpstreamFault({ reason: code === "UND_ERR_CONNECT_TIMEOUT" ? "connect-timeout" : this.status === 0 ? "unavailable" : "broken", detail: code ?? "the connection broke" }))
  }
}
const answerBytesMax = 64 * 1_048_576
const single = (value: string | Array<string> | undefined): string | undefined => Array.isArray(value) ? value[0] : value
