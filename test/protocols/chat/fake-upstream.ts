/** A scripted model server: what goes wrong is data. One step per request, in order; the last one repeats. */
import { createServer, type IncomingMessage, type Server } from "node:http"
import type { AddressInfo } from "node:net"

export interface Step {
  readonly status?: number
  readonly headers?: Record<string, string>
  /** A whole JSON answer. */
  readonly json?: unknown
  /** Payloads of a stream: objects as JSON, strings as they are. */
  readonly chunks?: ReadonlyArray<unknown>
  /** `event:` lines from the payload's type. */
  readonly eventLines?: boolean
  /** Lines of JSON instead of events. */
  readonly lines?: boolean
  /** Without `[DONE]`. */
  readonly noDone?: boolean
  /** The connection breaks after so many chunks. */
  readonly dieAfter?: number
  /** After the chunks nothing comes any more. */
  readonly hang?: boolean
  /** No answer at all. */
  readonly silent?: boolean
  /** The bytes leave in pieces of this size: in the middle of characters and lines. */
  readonly pieceBytes?: number
  readonly eol?: string
  /** Between chunks: a promise made per chunk. */
  readonly pace?: (i: number) => Promise<void>
  /** Bytes as they are. */
  readonly raw?: string | Buffer
  readonly comments?: boolean
}

export interface UpstreamRequest {
  readonly method: string
  readonly path: string
  readonly headers: IncomingMessage["headers"]
  readonly body: any
  readonly text: string
  aborted: boolean
  abortedAtMs: number
  readonly closed: Promise<void>
  sentBytes: number
}

export class FakeUpstream {
  readonly requests: Array<UpstreamRequest> = []
  private server!: Server
  private script: ReadonlyArray<Step | ((seen: UpstreamRequest) => Step)> = []
  private at = 0
  url = ""
  models: ReadonlyArray<string> = ["m", "llama-3.1-8b"]

  static async open(): Promise<FakeUpstream> {
    const fake = new FakeUpstream()
    fake.server = createServer((request, reply) => {
      const parts: Array<Buffer> = []
      request.on("data", (part: Buffer) => parts.push(part))
      request.on("end", () => {
        const text = Buffer.concat(parts).toString()
        let resolveClosed!: () => void
        const seen: UpstreamRequest = {
          method: request.method!,
          path: request.url!,
          headers: request.headers,
          body: text === "" ? undefined : JSON.parse(text),
          text,
          aborted: false,
          abortedAtMs: 0,
          closed: new Promise((resolve) => {
            resolveClosed = resolve
          }),
          sentBytes: 0
        }
        reply.on("close", () => {
          if (!reply.writableFinished) {
            seen.aborted = true
            seen.abortedAtMs = Date.now()
          }
          resolveClosed()
        })
        if (request.method === "GET") {
          reply.setHeader("content-type", "application/json")
          if (request.url!.endsWith("/api/tags"))
            return reply.end(JSON.stringify({ models: fake.models.map((name) => ({ name })) }))
          return reply.end(
            JSON.stringify({
              object: "list",
              data: fake.models.map((id) => ({
                id,
                object: "model",
                created: 1_704_067_200,
                owned_by: "fake"
              }))
            })
          )
        }
        fake.requests.push(seen)
        const step = fake.script[Math.min(fake.at++, fake.script.length - 1)]
        void fake
          .answer(
            typeof step === "function" ? step(seen) : (step ?? { json: completion("hello") }),
            reply,
            seen
          )
          .catch(() => {})
        return undefined
      })
    })
    await new Promise<void>((resolve) => {
      fake.server.listen(0, "127.0.0.1", resolve)
    })
    fake.url = `http://127.0.0.1:${(fake.server.address() as AddressInfo).port}/v1`
    return fake
  }

  respondWith(...script: ReadonlyArray<Step | ((seen: UpstreamRequest) => Step)>): this {
    this.script = script
    this.at = 0
    this.requests.length = 0
    return this
  }

  get last(): UpstreamRequest {
    return this.requests.at(-1)!
  }

  close(): void {
    this.server.closeAllConnections()
    this.server.close()
  }

  private async answer(
    step: Step,
    reply: import("node:http").ServerResponse,
    seen: UpstreamRequest
  ): Promise<void> {
    if (step.silent === true) return
    if (
      step.json !== undefined ||
      (step.status !== undefined && step.chunks === undefined && step.raw === undefined)
    ) {
      reply.writeHead(step.status ?? 200, { "content-type": "application/json", ...step.headers })
      reply.end(typeof step.json === "string" ? step.json : JSON.stringify(step.json ?? {}))
      return
    }
    reply.writeHead(step.status ?? 200, {
      "content-type": step.lines === true ? "application/x-ndjson" : "text/event-stream",
      ...step.headers
    })
    reply.flushHeaders()
    const eol = step.eol ?? "\n"
    const write = async (bytes: Buffer): Promise<void> => {
      const size = step.pieceBytes ?? bytes.length
      for (let i = 0; i < bytes.length && !seen.aborted; i += size) {
        seen.sentBytes += Math.min(size, bytes.length - i)
        if (!reply.write(bytes.subarray(i, i + size)))
          await Promise.race([
            new Promise((resolve) => {
              reply.once("drain", resolve)
            }),
            seen.closed
          ])
        if (step.pieceBytes !== undefined)
          await new Promise((resolve) => {
            setImmediate(resolve)
          })
      }
    }
    if (step.raw !== undefined) await write(Buffer.from(step.raw))
    for (const [i, chunk] of (step.chunks ?? []).entries()) {
      if (i === step.dieAfter) break
      await step.pace?.(i)
      const text = typeof chunk === "string" ? chunk : JSON.stringify(chunk)
      if (step.lines === true) await write(Buffer.from(`${text}${eol}`))
      else
        await write(
          Buffer.from(
            `${step.comments === true ? `: ping${eol}` : ""}${step.eventLines === true ? `event: ${(chunk as { type: string }).type}${eol}` : ""}data: ${text}${eol}${eol}`
          )
        )
    }
    if (step.dieAfter !== undefined) {
      await new Promise((resolve) => {
        setTimeout(resolve, 10)
      })
      reply.destroy()
      return
    }
    if (step.hang === true) return
    if (step.noDone !== true && step.lines !== true && step.eventLines !== true)
      await write(Buffer.from(`data: [DONE]${eol}${eol}`))
    reply.end()
  }
}

export const completion = (
  content: string | null,
  more: Record<string, unknown> = {},
  finish = "stop"
): unknown => ({
  id: "up-1",
  object: "chat.completion",
  created: 1,
  model: "m",
  choices: [{ index: 0, message: { role: "assistant", content, ...more }, finish_reason: finish }],
  usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 }
})

export const chunk = (
  delta: unknown,
  finish: string | null = null,
  more: Record<string, unknown> = {}
): unknown => ({
  id: "up-1",
  object: "chat.completion.chunk",
  created: 1,
  model: "m",
  choices: [{ index: 0, delta, finish_reason: finish }],
  ...more
})

/** Role, words, finish, usage: as most servers stream. */
export const textStream = (...words: ReadonlyArray<string>): ReadonlyArray<unknown> => [
  chunk({ role: "assistant", content: "" }),
  ...words.map((content) => chunk({ content })),
  chunk({}, "stop"),
  {
    ...(chunk({}) as object),
    choices: [],
    usage: { prompt_tokens: 3, completion_tokens: words.length, total_tokens: 3 + words.length }
  }
]

export const toolCallStream = (name: string, args: string, id = "call_1"): ReadonlyArray<unknown> => [
  chunk({ role: "assistant", content: null }),
  chunk({ tool_calls: [{ index: 0, id, type: "function", function: { name, arguments: "" } }] }),
  ...[args.slice(0, 3), args.slice(3)]
    .filter((part) => part !== "")
    .map((part) => chunk({ tool_calls: [{ index: 0, function: { arguments: part } }] })),
  chunk({}, "tool_calls")
]
