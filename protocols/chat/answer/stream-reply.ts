/** A streamed answer whose status is held back until there is something to say: the first sign of the model,
 *  a failure, or a while. Guarantee: at most `aheadMax` waits for a slow client before the upstream is
 *  paused; one that takes nothing for a minute is cut off.
 *  Source: chat sections 8.2, 8.6, 17.1, 17.2. */
import type { Deadline, Deadlines } from "../../../actors/engines/chat/deadlines.ts"
import type { Flow } from "../../../actors/engines/chat/model.ts"
import type { Response, Sink } from "../../../runtime/http.ts"
import { comment, sseHeaders } from "../../shared/sse.ts"

/** Characters that wait for the client before reading from the upstream stops; it goes on when all of them
 *  have left. */
export const aheadMax = 65_536

export const stalledMsMax = 60_000

export interface StreamReplyOptions {
  readonly deadlines: Deadlines
  readonly commitMs: number
  readonly keepAliveMs: number
  /** Of the answer's head, when it leaves. */
  readonly headers: () => ReadonlyArray<readonly [string, string]>
  /** Just before the first byte. */
  readonly onHeaders?: () => void
  /** The client takes nothing any more. */
  readonly onStalled: () => void
  readonly onBackpressure: () => void
}

export class StreamReply {
  readonly response: Promise<Response>
  private answer!: (response: Response) => void
  headersSent = false
  private sink: Sink | undefined
  private waiting = ""
  private behind = false

  /** Of every upstream call that feeds this answer; those which are over ignore it. */
  private readonly flows: Array<Flow> = []

  private pausing = false
  private over = false

  /** Until the next sign of life. */
  private idle: Deadline | undefined = undefined

  private readonly finished: Promise<void>
  private finish!: () => void
  private cut!: (cause: Error) => void
  private readonly timers: Array<Deadline> = []
  private readonly options: StreamReplyOptions

  constructor(options: StreamReplyOptions) {
    this.options = options
    this.response = new Promise((resolve) => {
      this.answer = resolve
    })
    this.finished = new Promise((resolve, reject) => {
      this.finish = resolve
      this.cut = reject
    })
    this.finished.catch(() => {})
    this.timers.push(options.deadlines.start(options.commitMs, () => this.sendHeaders()))
  }

  sendHeaders(flow?: Flow): void {
    if (flow !== undefined) {
      this.flows.push(flow)
      if (this.pausing) flow.pause()
    }
    if (this.headersSent || this.over) return
    this.headersSent = true
    this.stopTimers()
    this.options.onHeaders?.()
    if (this.options.keepAliveMs > 0) this.beat()
    this.answer({
      status: 200,
      headers: [...sseHeaders, ...this.options.headers()],
      body: (sink) => this.pump(sink)
    })
  }

  /** Before the commit only: an answer of another kind. */
  replaceWith(response: Response): void {
    if (!this.headersSent) {
      this.over = true
      this.stopTimers()
      this.answer(response)
    }
  }

  private beat(): void {
    this.idle = this.options.deadlines.start(this.options.keepAliveMs, () => {
      if (this.over) return
      if (!this.behind) this.write(comment("keep-alive"))
      this.beat()
    })
  }

  private pump(sink: Sink): Promise<void> {
    this.sink = sink
    this.send()
    // What grew too long before there was a client to take it may have left at once.
    this.go()
    if (this.over) this.finish()
    return this.finished
  }

  write(text: string): void {
    this.idle?.touch(this.options.keepAliveMs)
    this.waiting += text
    if (this.sink === undefined || this.behind) {
      if (this.waiting.length > aheadMax) this.hold()
    } else this.send()
  }

  private send(): void {
    const { sink, waiting } = this
    if (sink === undefined || waiting === "") return
    this.waiting = ""
    if (sink.send(waiting)) return
    this.behind = true
    const stalled = this.options.deadlines.start(stalledMsMax, () => {
      this.over = true
      this.options.onStalled()
      this.cut(new Error("the client takes nothing"))
    })
    void sink.drained().then(() => {
      stalled.stop()
      this.behind = false
      this.send()
      this.go()
      if (this.over && !this.behind) this.finish()
    })
  }

  private hold(): void {
    if (this.pausing) return
    this.pausing = true
    this.options.onBackpressure()
    for (const flow of this.flows) flow.pause()
  }

  private go(): void {
    if (this.behind || !this.pausing) return
    this.pausing = false
    for (const flow of this.flows) flow.resume()
  }

  /** All that was written leaves, then the body ends. */
  end(): void {
    this.over = true
    this.stopTimers()
    if (this.sink !== undefined && !this.behind) this.finish()
  }

  /** The client is gone: nothing is written any more. */
  abandon(): void {
    this.over = true
    this.stopTimers()
    this.waiting = ""
    this.finish()
  }

  private stopTimers(): void {
    this.idle?.stop()
    for (const timer of this.timers.splice(0)) timer.stop()
  }
}
