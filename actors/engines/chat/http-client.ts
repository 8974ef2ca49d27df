/** Calls a model server: bytes come by callback and can be paused, a deadline stands before the first byte
 *  and between bytes, an abort closes the socket. It is guaranteed that a call ends once, and that faults are
 *  worded by status, never by what the server's address or key is.
 *  Source: docs/spec/chat.md, sections 13, 14, 17.1 and 17.2. */
import type { Abort } from "./abort.ts"
import type { Deadline, Deadlines } from "./deadlines.ts"
import { UpstreamFault, type Flow } from "./model.ts"
import { type Exchange, type ResponseHandler, type WireFault } from "./http1-connection.ts"
import type { ResponseHead } from "./http1-head.ts"
import { Http1Pool } from "./http1-pool.ts"

export interface CallLimits {
  readonly connectMs: number
  readonly firstMs: number
  readonly idleMs: number
}

export interface UpstreamHttp {
  readonly base: string
  readonly headers: Readonly<Record<string, string>>
  readonly limits: CallLimits
  readonly deadlines: Deadlines
}

export interface CallFlow extends Flow {
  /** Ends the call at once because nothing more is wanted; its body may still end within a second. */
  enough(): void
}

/** Takes a 2xx answer. Each method may throw. The bytes are valid during the call only. */
export interface Receiver {
  /** `length` is the body's in bytes, or -1 when it is unknown. */
  head?(type: string, length: number, flow: CallFlow): void
  data(bytes: Buffer, from: number, to: number): void
  /** Is called when the whole body has come. */
  end?(): void
}

const faultBytesMax = 65_536

const contextWording =
  /context[ _-]?(?:length|window)|maximum context|too many tokens|prompt is too long|exceeds? the (?:maximum|model)/i

/** Reads seconds or a date. */
export const retryAfterMs = (header: string | undefined, nowMs: number): number | undefined => {
  if (header === undefined) return undefined
  const seconds = Number(header)
  const ms = Number.isFinite(seconds) ? seconds * 1_000 : Date.parse(header) - nowMs
  return Number.isFinite(ms) && ms >= 0 ? ms : undefined
}

interface ErrorBody {
  readonly message: string | undefined
  readonly param?: string
  readonly code?: string
}

const messageOf = (whole: any, error: any): string | undefined => {
  if (typeof whole?.error === "string") return whole.error
  return typeof error?.message === "string" ? error.message : undefined
}

const readError = (body: string): ErrorBody => {
  try {
    const whole = JSON.parse(body) as any
    const error = typeof whole?.error === "object" && whole.error !== null ? whole.error : whole
    return {
      message: messageOf(whole, error),
      ...(typeof error?.param === "string" ? { param: error.param } : {}),
      ...(typeof error?.code === "string" ? { code: error.code } : {})
    }
  } catch {
    return { message: undefined }
  }
}

/** Reasons by status, as section 14 has them. */
const reasons = new Map<number, UpstreamFault["reason"]>([
  [401, "auth"],
  [403, "auth"],
  [404, "not-found"],
  [408, "gateway-timeout"],
  [413, "too-large"],
  [429, "rate-limited"],
  [503, "overloaded"],
  [504, "gateway-timeout"],
  [529, "overloaded"]
])

const refusedRequest = (body: string): UpstreamFault => {
  const { message, param, code } = readError(body)
  const context = code === "context_length_exceeded" || contextWording.test(message ?? "")
  return new UpstreamFault({
    reason: context ? "context" : "bad-request",
    detail: (message ?? "The model refused the request.").slice(0, 2_000),
    param: param ?? null,
    code: code ?? null
  })
}

/** Words an answer that is no success. */
export const faultOf = (status: number, body: string, retryAfter: number | undefined): UpstreamFault => {
  if (status === 400 || status === 422) return refusedRequest(body)
  const redirected = status >= 300 && status < 400
  return new UpstreamFault({
    reason: reasons.get(status) ?? (status >= 400 ? "error" : "bad-response"),
    detail: redirected ? "a redirect" : `status ${status}`,
    retryAfterMs: retryAfter
  })
}

/** Writes one header line, and throws where a name or value could break out of it. */
const headerLine = (name: string, value: string): string => {
  if (!/^[\w!#$%&'*+.^`|~-]+$/.test(name) || /[^\t\x20-\x7e\x80-\xff]/.test(value))
    throw new Error(`the header ${JSON.stringify(name)} of an upstream cannot be sent`)
  return `${name}: ${value}\r\n`
}

/** Of several headers of one name the last counts; how long the body is, is not theirs to say. */
const headerLinesOf = (host: string, headers: Readonly<Record<string, string>>): string => {
  const lines = new Map([["host", headerLine("host", host)]])
  for (const [name, value] of Object.entries(headers))
    lines.set(name.toLowerCase(), headerLine(name.toLowerCase(), value))
  for (const framing of ["content-length", "transfer-encoding"]) lines.delete(framing)
  return [...lines.values()].join("")
}

export class HttpClient {
  private readonly pool: Http1Pool
  private readonly prefix: string

  /** Everything of a request's head that is the same in each. */
  private readonly head: string

  private readonly headIsAscii: boolean
  private readonly http: UpstreamHttp

  constructor(http: UpstreamHttp) {
    const url = new URL(http.base)
    this.http = http
    this.prefix = url.pathname.replace(/\/+$/, "")
    this.head = ` HTTP/1.1\r\n${headerLinesOf(url.host, http.headers)}`
    this.headIsAscii = Buffer.byteLength(this.head) === this.head.length
    this.pool = new Http1Pool({ url, connectMs: http.limits.connectMs, deadlines: http.deadlines })
  }

  close(): void {
    this.pool.close()
  }

  /** Resolves when the whole answer has been received. `path` goes on the wire as it is. The parameters are
   *  positional: a turn makes one call, and no object for its arguments (bench/chat-turns). */
  send(
    method: Method,
    path: string,
    body: string | undefined,
    receiver: Receiver,
    signal: Abort
  ): Promise<void> {
    return new Promise((resolve, reject) => {
      const call = new UpstreamCall(this.http, receiver, signal, resolve, reject)
      if (!call.start()) return
      const head = `${method} ${this.prefix}${path}${this.head}`
      if (body === undefined) {
        call.sentOn(this.pool.call(`${head}\r\n`, this.headIsAscii, call))
        return
      }
      const bytes = Buffer.byteLength(body)
      const isAscii = this.headIsAscii && bytes === body.length
      call.sentOn(this.pool.call(`${head}content-length: ${bytes}\r\n\r\n${body}`, isAscii, call))
    })
  }

  /** Resolves with a whole answer as JSON. Its parameters are positional like those of `send`. */
  json(method: Method, path: string, body: string | undefined, signal: Abort): Promise<any> {
    const answer = new JsonBody()
    return this.send(method, path, body, answer, signal).then(() => answer.json())
  }
}

type Method = "GET" | "POST" | "DELETE"

const answerBytesMax = 64 * 1_048_576

/** Gathers a body and parses it, for `use` where there is one; a body that comes in one piece is not
 *  copied. */
export class JsonBody implements Receiver {
  private length = -1
  private text: string | undefined = undefined
  private readonly parts: Array<Buffer> = []
  private bytes = 0
  private readonly use: ((answer: any) => void) | undefined

  constructor(use?: (answer: any) => void) {
    this.use = use
  }

  end(): void {
    this.use?.(this.json())
  }

  head(_: string, length: number): void {
    this.length = length
  }

  data(bytes: Buffer, from: number, to: number): void {
    if ((this.bytes += to - from) > answerBytesMax)
      throw new UpstreamFault({ reason: "bad-response", detail: "the answer is too large" })
    if (to - from === this.length) this.text = bytes.toString("utf8", from, to)
    else this.parts.push(Buffer.from(bytes.subarray(from, to)))
  }

  json(): any {
    try {
      return JSON.parse(this.text ?? Buffer.concat(this.parts).toString("utf8"))
    } catch {
      throw new UpstreamFault({ reason: "bad-response", detail: "the answer is not JSON" })
    }
  }
}

/** A body that nobody waits for may end within this, so that its connection can be used again. */
const bodyEndMs = 1_000

/** One call under way, from its dispatch to its only end. It has methods rather than closures, because
 *  there is one of these per turn (bench/chat-turns). */
class UpstreamCall implements ResponseHandler, CallFlow {
  private settled = false
  private paused = false
  private status = 0
  private retryAfter: number | undefined = undefined
  private failure: Array<Buffer> | undefined = undefined
  private failureBytes = 0
  private exchange: Exchange | undefined = undefined
  private deadline: Deadline | undefined = undefined
  private readonly http: UpstreamHttp
  private readonly receiver: Receiver
  private readonly signal: Abort
  private readonly resolve: () => void
  private readonly reject: (fault: unknown) => void

  /** The parameters are positional: no object is made for them in a turn. */
  constructor(
    http: UpstreamHttp,
    receiver: Receiver,
    signal: Abort,
    resolve: () => void,
    reject: (fault: unknown) => void
  ) {
    this.http = http
    this.receiver = receiver
    this.signal = signal
    this.resolve = resolve
    this.reject = reject
  }

  /** Arms the deadline and the abort; false when the call has ended before it began. */
  start(): boolean {
    if (this.signal.aborted) {
      this.abort()
      return false
    }
    this.deadline = this.http.deadlines.start(this.http.limits.firstMs, this.expire)
    this.signal.addEventListener("abort", this.abort, { once: true })
    return true
  }

  sentOn(exchange: Exchange): void {
    this.exchange = exchange
  }

  private readonly expire = (): void =>
    this.finish(
      new UpstreamFault({
        reason: "timeout",
        detail: this.status === 0 ? "no answer in time" : "the answer stopped"
      })
    )

  private readonly abort = (): void =>
    this.finish(new UpstreamFault({ reason: "aborted", detail: "the caller went" }))

  private finish(fault?: unknown): void {
    this.deadline?.stop()
    if (this.settled) {
      if (fault !== undefined) this.exchange?.abandon(this)
      return
    }
    this.settled = true
    this.signal.removeEventListener("abort", this.abort)
    if (fault === undefined) return this.resolve()
    this.exchange?.abandon(this)
    this.reject(fault)
  }

  pause(): void {
    if (this.settled) return
    this.paused = true
    this.deadline!.renew(Infinity)
    this.exchange!.pause(this)
  }

  resume(): void {
    if (!this.paused || this.settled) return
    this.paused = false
    this.deadline!.renew(this.http.limits.idleMs)
    this.exchange!.resume(this)
  }

  enough(): void {
    if (this.settled) return
    this.settled = true
    this.signal.removeEventListener("abort", this.abort)
    this.deadline!.renew(bodyEndMs)
    this.exchange!.resume(this)
    this.resolve()
  }

  head({ status, type, retryAfter, length }: ResponseHead): void {
    this.status = status
    if (status >= 300) {
      this.retryAfter = retryAfterMs(retryAfter, Date.now())
      this.failure = []
      return
    }
    // The head alone does not end the wait for the first byte.
    try {
      this.receiver.head?.(type, length, this)
    } catch (fault) {
      this.finish(fault)
    }
  }

  data(bytes: Buffer, from: number, to: number): void {
    if (this.settled) return
    if (!this.paused) this.deadline!.touch(this.http.limits.idleMs)
    if (this.failure !== undefined) {
      if ((this.failureBytes += to - from) <= faultBytesMax)
        this.failure.push(Buffer.from(bytes.subarray(from, to)))
      return
    }
    try {
      this.receiver.data(bytes, from, to)
    } catch (fault) {
      this.finish(fault)
    }
  }

  end(): void {
    if (this.failure !== undefined)
      return this.finish(faultOf(this.status, Buffer.concat(this.failure).toString("utf8"), this.retryAfter))
    if (!this.settled)
      try {
        this.receiver.end?.()
      } catch (fault) {
        return this.finish(fault)
      }
    this.finish()
  }

  private reasonOf(reason: WireFault): UpstreamFault["reason"] {
    if (this.status > 0) return "broken"
    return reason === "connect-timeout" ? reason : "unavailable"
  }

  failed(reason: WireFault, detail: string): void {
    if (this.failure !== undefined) return this.finish(faultOf(this.status, "", this.retryAfter))
    this.finish(new UpstreamFault({ reason: this.reasonOf(reason), detail, isStale: reason === "stale" }))
  }
}
