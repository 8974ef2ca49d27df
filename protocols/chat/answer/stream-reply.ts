/** A streamed answer whose headers are held back until there is something to say: the first sign of the
 *  model, a failure, or a while. `headersSent` is the one fact about that: before it the answer may still
 *  become another.
 *  Guarantee: at most `waitingCharsMax` wait for a slow client before the upstream is paused; a client that
 *  takes nothing for a minute is cut off.
 *  Source: docs/spec/chat.md, sections 8.2, 8.6, 17.1 and 17.2. */
import { Effect } from "effect"
import type { Deadline, Deadlines } from "../../../actors/engines/chat/deadlines.ts"
import type { Flow } from "../../../actors/engines/chat/model.ts"
import type { Header, Response, Sink, Streaming } from "../../../runtime/http.ts"
import { comment, sseHeaders } from "../../shared/sse.ts"

/** Maximum number of characters that wait for the client before reading from the upstream pauses; it resumes
 *  when all of them have been sent. */
export const waitingCharsMax = 65_536

export const stalledMsMax = 60_000

export interface StreamReplyOptions {
  readonly deadlines: Deadlines
  /** The headers are sent after this long, whatever happens. */
  readonly commitMs: number
  readonly keepAliveMs: number
  /** Headers besides those of every stream, asked for when they are sent. */
  readonly headers: () => ReadonlyArray<Header>
  /** Called just before the first byte. */
  readonly onHeaders?: () => void
  /** Called when the client is cut off because it takes nothing any more. */
  readonly onStalled: () => void
  readonly onBackpressure: () => void
  /** Called when the body begins; what it returns is called when its client goes. Absent where a turn hears
   *  of its client itself. */
  readonly onBody?: () => () => void
}

export class StreamReply {
  readonly response: Promise<Response>
  headersSent = false
  private readonly options: StreamReplyOptions
  private readonly finished: Promise<void>
  private respond!: (response: Response) => void
  private finish!: () => void
  private fail!: (cause: Error) => void
  private sink: Sink | undefined
  private waiting = ""

  /** The client has not received everything that was sent. */
  private isBehind = false

  /** One for each upstream call that feeds this answer; those which have ended ignore it. */
  private readonly flows: Array<Flow> = []

  private flowsPaused = false
  private ended = false

  /** Timer of the next keep-alive. */
  private keepAlive: Deadline | undefined = undefined

  private readonly commitDeadline: Deadline

  constructor(options: StreamReplyOptions) {
    this.options = options
    this.response = new Promise((resolve) => {
      this.respond = resolve
    })
    this.finished = new Promise((resolve, reject) => {
      this.finish = resolve
      this.fail = reject
    })
    this.finished.catch(() => {})
    this.commitDeadline = options.deadlines.start(options.commitMs, () => this.sendHeaders())
  }

  /** Sends the headers unless they are sent; from now on the answer also slows down `flow`. */
  sendHeaders(flow?: Flow): void {
    if (flow !== undefined) {
      this.flows.push(flow)
      if (this.flowsPaused) flow.pause()
    }
    if (this.headersSent || this.ended) return
    this.headersSent = true
    this.stopTimers()
    this.options.onHeaders?.()
    if (this.options.keepAliveMs > 0) this.startKeepAlive()
    this.respond({ status: 200, headers: [...sseHeaders, ...this.options.headers()], body: this.body })
  }

  private readonly body: Streaming = (sink) => {
    const { onBody } = this.options
    const pumped = this.pump(sink)
    if (onBody === undefined) return pumped
    const onGone = onBody()
    return Effect.onInterrupt(
      Effect.promise(() => pumped),
      () => Effect.sync(onGone)
    )
  }

  /** Gives another answer, unless the headers are sent. */
  replaceWith(response: Response): void {
    if (this.headersSent) return
    this.ended = true
    this.stopTimers()
    this.respond(response)
  }

  private startKeepAlive(): void {
    this.keepAlive = this.options.deadlines.start(this.options.keepAliveMs, () => {
      if (this.ended) return
      if (!this.isBehind) this.write(comment("keep-alive"))
      this.startKeepAlive()
    })
  }

  private pump(sink: Sink): Promise<void> {
    this.sink = sink
    this.send()
    // A backlog from the time before the client was connected may have been sent at once, so the upstream may
    // resume.
    this.resumeFlows()
    if (this.ended) this.finish()
    return this.finished
  }

  write(text: string): void {
    this.keepAlive?.touch(this.options.keepAliveMs)
    this.waiting += text
    if (this.sink === undefined || this.isBehind) {
      if (this.waiting.length > waitingCharsMax) this.pauseFlows()
    } else this.send()
  }

  private send(): void {
    const { sink, waiting } = this
    if (sink === undefined || waiting === "") return
    this.waiting = ""
    if (sink.send(waiting)) return
    this.isBehind = true
    const stalled = this.options.deadlines.start(stalledMsMax, () => {
      this.ended = true
      this.options.onStalled()
      this.fail(new Error("the client takes nothing"))
    })
    void sink.drained().then(() => {
      stalled.stop()
      this.isBehind = false
      this.send()
      this.resumeFlows()
      if (this.ended && !this.isBehind) this.finish()
    })
  }

  private pauseFlows(): void {
    if (this.flowsPaused) return
    this.flowsPaused = true
    this.options.onBackpressure()
    for (const flow of this.flows) flow.pause()
  }

  private resumeFlows(): void {
    if (this.isBehind || !this.flowsPaused) return
    this.flowsPaused = false
    for (const flow of this.flows) flow.resume()
  }

  /** Ends the body when everything written has been sent. */
  end(): void {
    this.ended = true
    this.stopTimers()
    if (this.sink !== undefined && !this.isBehind) this.finish()
  }

  /** Ends at once: the client has closed the connection, nothing is written any more. */
  abandon(): void {
    this.ended = true
    this.stopTimers()
    this.waiting = ""
    this.finish()
  }

  private stopTimers(): void {
    this.keepAlive?.stop()
    this.commitDeadline.stop()
  }
}
