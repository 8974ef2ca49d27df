/** A raw HTTP/1.1 client over one kept connection, for load: it sends bytes as they are and reads one answer
 *  at a time. Guarantee: `ask` always resolves, with undefined when the connection was cut or nothing came in
 *  time. Source: RFC 9112. */
import net from "node:net"

export interface Answer {
  readonly status: number
  /** The status line and the fields, as sent. */
  readonly head: string
  /** Without the framing of chunks. */
  readonly body: string
}

export interface Ask {
  readonly method: string
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Buffer
}

const headEnd = "\r\n\r\n"

export const bytesOf = ({ method, path, headers = {}, body }: Ask): Buffer => {
  const bytes = Buffer.from(body ?? "")
  const fields = Object.entries({
    Host: "localhost",
    ...headers,
    ...(body === undefined ? {} : { "Content-Length": String(bytes.length) })
  })
  const head = `${method} ${path} HTTP/1.1\r\n${fields.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n`
  return Buffer.concat([Buffer.from(head, "latin1"), bytes])
}

export const fieldOf = (head: string, name: string): string | undefined =>
  new RegExp(`^${name}: *(.*)$`, "im").exec(head)?.[1]?.trim()

/** The digits that the log knows the answer by: `X-Trace-ID`, or the UUID of `X-Request-Id`. */
export const traceIdOf = (head: string): string =>
  (fieldOf(head, "x-trace-id") ?? fieldOf(head, "x-request-id") ?? "").replaceAll("-", "").toLowerCase()

/** Takes chunks apart; undefined while the last one is missing. */
const unchunked = (bytes: Buffer): Buffer | undefined => {
  const parts: Array<Buffer> = []
  for (let at = 0; ;) {
    const line = bytes.indexOf("\r\n", at)
    if (line < 0) return undefined
    const size = parseInt(bytes.toString("latin1", at, line), 16)
    if (size === 0) return bytes.length >= line + 4 ? Buffer.concat(parts) : undefined
    if (!(size > 0) || bytes.length < line + 2 + size + 2) return undefined
    parts.push(bytes.subarray(line + 2, line + 2 + size))
    at = line + 2 + size + 2
  }
}

/** Reads the first answer; undefined while it is incomplete. */
export const answerIn = (bytes: Buffer, isHead: boolean): Answer | undefined => {
  const end = bytes.indexOf(headEnd)
  if (end < 0) return undefined
  const head = bytes.toString("latin1", 0, end)
  const status = Number(head.slice(9, 12))
  const rest = bytes.subarray(end + headEnd.length)
  if (isHead || status === 204 || status === 304) return { status, head, body: "" }
  if (/^transfer-encoding: *chunked/im.test(head)) {
    const body = unchunked(rest)
    return body === undefined ? undefined : { status, head, body: body.toString() }
  }
  const length = Number(fieldOf(head, "content-length") ?? 0)
  return rest.length < length ? undefined : { status, head, body: rest.toString("utf8", 0, length) }
}

export interface WireOptions {
  readonly port: number
  readonly timeoutMs?: number
}

export class Wire {
  private readonly options: WireOptions
  private socket: net.Socket | undefined
  private parts: Array<Buffer> = []
  private receive: ((bytes: Buffer) => void) | undefined
  private lose: (() => void) | undefined

  constructor(options: WireOptions) {
    this.options = options
  }

  ask(ask: Ask): Promise<Answer | undefined> {
    return this.send(bytesOf(ask), ask.method === "HEAD")
  }

  send(request: Buffer, isHead = false): Promise<Answer | undefined> {
    return new Promise((resolve) => {
      const finish = (answer: Answer | undefined): void => {
        clearTimeout(timer)
        this.receive = this.lose = undefined
        this.parts = []
        if (answer === undefined || /^connection: *close/im.test(answer.head)) this.close()
        resolve(answer)
      }
      const timer = setTimeout(finish, this.options.timeoutMs ?? 60_000, undefined)
      this.parts = []
      this.receive = (bytes) => {
        this.parts.push(bytes)
        const all = this.parts.length === 1 ? bytes : Buffer.concat(this.parts)
        this.parts = [all]
        const answer = answerIn(all, isHead)
        if (answer !== undefined) finish(answer)
      }
      this.lose = () => finish(undefined)
      this.connected().write(request)
    })
  }

  close(): void {
    const socket = this.socket
    this.socket = undefined
    socket?.destroy()
    this.lose?.()
  }

  private connected(): net.Socket {
    if (this.socket !== undefined && !this.socket.destroyed && this.socket.writable) return this.socket
    const socket = net.connect({ port: this.options.port, host: "127.0.0.1", noDelay: true })
    this.socket = socket
    socket.on("data", (bytes) => {
      if (this.socket === socket) this.receive?.(bytes)
    })
    for (const event of ["error", "end", "close"])
      socket.on(event, () => {
        if (this.socket === socket) this.close()
      })
    return socket
  }
}
