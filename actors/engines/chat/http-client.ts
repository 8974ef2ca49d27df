/** Calls to a model server: bytes by callback, pause and resume, a deadline for the first byte and between
 *  bytes, abort that closes the socket. Faults are worded by status, never by what the server's address or
 *  key is. Source: chat sections 13, 14, 17.1, 17.2. */
import type { Abort } from "./abort.ts"
import type { Deadline, Deadlines } from "./deadlines.ts"
import { UpstreamFault, type Flow } from "./model.ts"
import { Origin, type Head, type Hearer, type Line, type WireFault } from "./http1-connection.ts"

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
  /** Nothing more is wanted: the call is over now, its body may end within a second. */
  enough(): void
}

/** What a caller does with a 2xx answer. Each may throw. The bytes are valid during the call only. */
export interface Receiver {
  /** `length`: of the body in bytes, -1 when unknown. */
  head?(type: string, length: number, flow: CallFlow): void
  data(bytes: Buffer, from: number, to: number): void
  /** All of it has come. */
  end?(): void
}

const faultBytesMax = 65_536

const contextWording =
  /context[ _-]?(?:length|window)|maximum context|too many tokens|prompt is too long|exceeds? the (?:maximum|model)/i

/** Seconds or a date. */
export const retryAfterMs = (header: string | undefined, nowMs: number): number | undefined => {
  if (header === undefined) return undefined
  const seconds = Number(header)
  const ms = Number.isFinite(seconds) ? seconds * 1_000 : Date.parse(header) - nowMs
  return Number.isFinite(ms) && ms >= 0 ? ms : undefined
}

const fields = (
  body: string
): { readonly message: string | undefined; readonly param?: string; readonly code?: string } => {
  try {
    const value = JSON.parse(body) as any
    const error = typeof value?.error === "object" && value.error !== null ? value.error : value
    const message =
      typeof value?.error === "string"
        ? value.error
        : typeof error?.message === "string"
          ? error.message
          : undefined
    return {
      message,
      ...(typeof error?.param === "string" ? { param: error.param } : {}),
      ...(typeof error?.code === "string" ? { code: error.code } : {})
    }
  } catch {
    return { message: undefined }
  }
}

/** Section 14's table. */
export const faultOf = (status: number, body: string, retryAfter: number | undefined): UpstreamFault => {
  const { message, ...more } = fields(body)
  const fault = (reason: UpstreamFault["reason"], detail = `status ${status}`): UpstreamFault =>
    new UpstreamFault({ reason, detail, retryAfterMs: retryAfter })
  if (status === 400 || status === 422) {
    const context = more.code === "context_length_exceeded" || contextWording.test(message ?? "")
    return new UpstreamFault({
      reason: context ? "context" : "bad-request",
      detail: (message ?? "The model refused the request.").slice(0, 2_000),
      param: more.param ?? null,
      code: more.code ?? null
    })
  }
  switch (status) {
    case 401:
    case 403:
      return fault("auth")
    case 404:
      return fault("not-found")
    case 413:
      return fault("too-large")
    case 408:
    case 504:
      return fault("gateway-timeout")
    case 429:
      return fault("rate-limited")
    case 503:
    case 529:
      return fault("overloaded")
  }
  return status >= 300 && status < 400
    ? fault("bad-response", "a redirect")
    : status >= 400
      ? fault("error")
      : fault("bad-response")
}

/** Lines of a head cannot be broken by what stands in one. */
const line = (name: string, value: string): string => {
  if (!/^[\w!#$%&'*+.^`|~-]+$/.test(name) || /[^\t\x20-\x7e\x80-\xff]/.test(value))
    throw new Error(`the header ${JSON.stringify(name)} of an upstream cannot be sent`)
  return `${name}: ${value}\r\n`
}

/** The last one of a name counts; how long the body is, is not theirs to say. */
const linesOf = (host: string, headers: Readonly<Record<string, string>>): string => {
  const lines = new Map([["host", line("host", host)]])
  for (const [name, value] of Object.entries(headers))
    lines.set(name.toLowerCase(), line(name.toLowerCase(), value))
  for (const framing of ["content-length", "transfer-encoding"]) lines.delete(framing)
  return [...lines.values()].join("")
}

export class HttpClient {
  private readonly origin: Origin
  private readonly prefix: string

  /** Of every request. */
  private readonly head: string

  private readonly ascii: boolean
  private readonly http: UpstreamHttp

  constructor(http: UpstreamHttp) {
    const url = new URL(http.base)
    this.http = http
    this.prefix = url.pathname.replace(/\/+$/, "")
    this.head = ` HTTP/1.1\r\n${linesOf(url.host, http.headers)}`
    this.ascii = Buffer.byteLength(this.head) === this.head.length
    this.origin = new Origin({ url, connectMs: http.limits.connectMs, deadlines: http.deadlines })
  }

  close(): void {
    this.origin.close()
  }

  /** Resolves when the whole answer has been received. `path`: as it stands on the wire. */
  send(
    method: Method,
    path: string,
    body: string | undefined,
    receiver: Receiver,
    signal: Abort
  ): Promise<void> {
    return new Promise((resolve, reject) => {
      const call = new UpstreamCall(this.http, receiver, signal, resolve, reject)
      if (!call.begin()) return
      const bytes = body === undefined ? 0 : Buffer.byteLength(body)
      const head = `${method} ${this.prefix}${path}${this.head}`
      call.goes(
        this.origin.call(
          body === undefined ? `${head}\r\n` : `${head}content-length: ${bytes}\r\n\r\n${body}`,
          this.ascii && (body === undefined || bytes === body.length),
          call
        )
      )
    })
  }

  /** A whole answer as JSON. */
  json(method: Method, path: string, body: string | undefined, signal: Abort): Promise<any> {
    const whole = new Whole()
    return this.send(method, path, body, whole, signal).then(() => whole.json())
  }
}

type Method = "GET" | "POST" | "DELETE"

/** A body gathered, and what is done with it; one that comes in one piece is read where it lies. */
export class Whole implements Receiver {
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

/** One call under way, from its dispatch to its only end. Methods rather than closures: there is one of these
 *  per turn (bench/chat-turns). */
class UpstreamCall implements Hearer, CallFlow {
  private settled = false
  private paused = false
  private status = 0
  private retryAfter: number | undefined = undefined
  private failure: Array<Buffer> | undefined = undefined
  private failureBytes = 0
  private wire: Line | undefined = undefined
  private deadline: Deadline | undefined = undefined
  private readonly http: UpstreamHttp
  private readonly receiver: Receiver
  private readonly signal: Abort
  private readonly resolve: () => void
  private readonly reject: (fault: unknown) => void

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

  /** False: it is over before it began. */
  begin(): boolean {
    if (this.signal.aborted) {
      this.gone()
      return false
    }
    this.deadline = this.http.deadlines.start(this.http.limits.firstMs, this.late)
    this.signal.addEventListener("abort", this.gone, { once: true })
    return true
  }

  goes(wire: Line): void {
    this.wire = wire
  }

  private readonly late = (): void =>
    this.finish(
      new UpstreamFault({
        reason: "timeout",
        detail: this.status === 0 ? "no answer in time" : "the answer stopped"
      })
    )

  private readonly gone = (): void =>
    this.finish(new UpstreamFault({ reason: "aborted", detail: "the caller went" }))

  private finish(fault?: unknown): void {
    this.deadline?.stop()
    if (this.settled) {
      if (fault !== undefined) this.wire?.abandon(this)
      return
    }
    this.settled = true
    this.signal.removeEventListener("abort", this.gone)
    if (fault === undefined) return this.resolve()
    this.wire?.abandon(this)
    this.reject(fault)
  }

  pause(): void {
    if (this.settled) return
    this.paused = true
    this.deadline!.renew(Infinity)
    this.wire!.pause(this)
  }

  resume(): void {
    if (!this.paused || this.settled) return
    this.paused = false
    this.deadline!.renew(this.http.limits.idleMs)
    this.wire!.resume(this)
  }

  enough(): void {
    if (this.settled) return
    this.settled = true
    this.signal.removeEventListener("abort", this.gone)
    this.deadline!.renew(lastMs)
    this.wire!.resume(this)
    this.resolve()
  }

  head({ status, type, retryAfter, length }: Head): void {
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

  failed(reason: WireFault, detail: string): void {
    if (this.failure !== undefined) return this.finish(faultOf(this.status, "", this.retryAfter))
    this.finish(
      new UpstreamFault({
        reason: this.status > 0 ? "broken" : reason === "connect-timeout" ? reason : "unavailable",
        detail
      })
    )
  }
}

const answerBytesMax = 64 * 1_048_576
const lastMs = 1_000
