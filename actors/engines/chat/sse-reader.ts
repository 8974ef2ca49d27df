/** Reads server-sent events and lines out of bytes that may be cut anywhere. Lines are latin1 strings (one
 *  character per byte), so that a cut in the middle of a UTF-8 sequence costs nothing and the hot path never
 *  decodes; `utf8` makes text of one. The loops are plain (bench/chat-stream).
 *  Source: HTML standard, section 9.2.6; docs/spec/chat.md, sections 13.1 and 17.2. */
import { badResponse } from "./model.ts"

/** Limits the bytes of one event of an upstream; above it the answer is `bad-response`. */
export const eventBytesMax = 16 * 1_048_576

/** Decodes text that was read as latin1. */
export const utf8 = (latin1: string): string => Buffer.from(latin1, "latin1").toString("utf8")

/** Consumes the events that it recognizes at a line's beginning, and returns where the rest begins. */
export type SkipFrames = (text: string, at: number) => number

export class LineReader {
  /** The beginning of a line that has not arrived completely. */
  private rest = ""

  private readonly line: (line: string) => void
  private readonly skipFrames: SkipFrames | undefined

  constructor(line: (line: string) => void, skipFrames?: SkipFrames) {
    this.line = line
    this.skipFrames = skipFrames
  }

  push(bytes: Buffer, from = 0, to = bytes.length): void {
    const received = bytes.toString("latin1", from, to)
    const { rest } = this
    // The line has not ended: it is not searched again, so that the cost of a large event is proportional to
    // its length.
    if (rest !== "" && !received.includes("\n")) return this.buffer(rest + received)
    const text = rest === "" ? received : rest + received
    let start = this.skipFrames === undefined ? 0 : this.skipFrames(text, 0)
    for (
      let end = start === text.length ? -1 : text.indexOf("\n", start);
      end >= 0;
      end = text.indexOf("\n", start)
    ) {
      this.line(
        text.charCodeAt(end - 1) === 13 && end > start ? text.slice(start, end - 1) : text.slice(start, end)
      )
      start = this.skipFrames === undefined ? end + 1 : this.skipFrames(text, end + 1)
    }
    this.buffer(start === 0 ? text : text.slice(start))
  }

  private buffer(rest: string): void {
    this.rest = rest
    if (rest.length > eventBytesMax) throw badResponse("an event is too large")
  }

  end(): void {
    const rest = this.rest
    this.rest = ""
    if (rest !== "") this.line(rest.endsWith("\r") ? rest.slice(0, -1) : rest)
  }
}

/** The byte order mark, which may begin a stream, as latin1. */
const byteOrderMark = "\u00ef\u00bb\u00bf"

/** Calls back with the data of each event; comments, ids and event names are skipped (every dialect in use
 *  repeats the name in its data). `skipFrames` gets the text at every position where an event may begin. */
export class SseReader {
  private data: string | undefined = undefined
  private readonly lines: LineReader
  private readonly payload: (payload: string) => void

  constructor(payload: (payload: string) => void, skipFrames?: SkipFrames) {
    this.payload = payload
    this.lines = new LineReader(
      (line) => this.read(line),
      skipFrames === undefined
        ? undefined
        : (text, at) => (this.data === undefined ? skipFrames(text, at) : at)
    )
  }

  push(bytes: Buffer, from?: number, to?: number): void {
    this.lines.push(bytes, from, to)
  }

  /** Ends the stream. A last event without its blank line counts all the same. */
  end(): void {
    this.lines.end()
    this.dispatch()
  }

  private read(line: string): void {
    if (line === "") return this.dispatch()
    if (!line.startsWith("data:")) {
      if (line.startsWith(byteOrderMark)) this.read(line.slice(byteOrderMark.length))
      return
    }
    const value = line.slice(line.charCodeAt(5) === 32 ? 6 : 5)
    this.data = this.data === undefined ? value : `${this.data}\n${value}`
    if (this.data.length > eventBytesMax) throw badResponse("an event is too large")
  }

  private dispatch(): void {
    const { data } = this
    if (data === undefined) return
    this.data = undefined
    if (data !== "") this.payload(data)
  }
}
