/** Chat over a real socket: memory store unless given another, a clock that tests can push forward, a
 *  scripted upstream called `main`. */
import { Effect } from "effect"
import {
  chatService,
  type ChatConfig,
  type ChatParts,
  type ChatService
} from "../../../runtime/program/services/chat.ts"
import { operations } from "../../../runtime/program/operations.ts"
import { ActorSystem } from "../../../runtime/registry.ts"
import { Metrics } from "../../../runtime/metrics.ts"
import { prometheusText } from "../../../runtime/program/telemetry/prometheus.ts"
import { listenWith } from "../../../runtime/transport/listen.ts"
import type { Server } from "../../../runtime/transport/server.ts"
import { openMemory } from "../../../storage/memory.ts"
import type { Store } from "../../../storage/store.ts"
import { FakeUpstream } from "./fake-upstream.ts"

export const defaults: ChatConfig = {
  host: "127.0.0.1",
  chatKeys: undefined,
  chatHosts: [],
  chatCorsOrigins: [],
  chatUpstreams: undefined,
  healthDetailsMode: "open",
  metricsMode: "open",
  sessionRetentionMs: 1_800_000,
  chatBodyBytesMax: 52_428_800,
  upstreamConnectMs: 2_000,
  upstreamFirstMs: 10_000,
  upstreamIdleMs: 10_000,
  turnMs: 20_000,
  streamCommitMs: 10_000,
  streamKeepAliveMs: 15_000,
  turnsInFlightMax: 4_096,
  sessionTurnsMax: 16,
  sessionsMax: 100_000,
  storedResponseBytesMax: 8_388_608,
  shutdownGraceMs: 0,
  builtinTools: [],
  builtinRoundsMax: 8,
  modelsCacheMs: 60_000,
  unsupportedParams: "drop"
}

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: any
  readonly text: string
}

export interface StreamFrame {
  readonly event: string | undefined
  readonly data: any
}

export class ChatTestServer {
  server!: Server
  chat!: ChatService
  system!: ActorSystem
  url = ""
  key: string | undefined
  readonly numbers = new Metrics()

  /** Added to the clock. */
  clockOffsetMs = 0

  private ticking: ReturnType<typeof setInterval> | undefined
  private readonly own: boolean
  readonly store: Store
  readonly upstream: FakeUpstream

  private constructor(upstream: FakeUpstream, store: Store, own: boolean) {
    this.upstream = upstream
    this.store = store
    this.own = own
  }

  static async open(
    config: Partial<ChatConfig> & {
      readonly records?: ReadonlyArray<Record<string, unknown>>
      readonly main?: Record<string, unknown>
    } = {},
    parts: Partial<ChatParts> & { readonly upstream?: FakeUpstream; readonly adapter?: "uws" | "node" } = {}
  ): Promise<ChatTestServer> {
    const { records = [], main = {}, ...rest } = config
    const chatServer = new ChatTestServer(
      parts.upstream ?? (await FakeUpstream.open()),
      parts.store ?? openMemory(),
      parts.upstream === undefined
    )
    const nowMs = (): number => Date.now() + chatServer.clockOffsetMs
    // As in a real node, the clock of durations is another than the one of the wall (K-8).
    const monotonicMs = (): number => performance.now() + chatServer.clockOffsetMs
    chatServer.system = parts.actors ?? new ActorSystem({ store: chatServer.store, nowMs, monotonicMs })
    chatServer.ticking = setInterval(() => chatServer.system.tick(), 5)
    chatServer.key = rest.chatKeys?.split(",")[0]
    chatServer.chat = chatService(
      {
        ...defaults,
        ...rest,
        chatUpstreams: rest.chatUpstreams ?? [
          { id: "main", kind: "openai-chat", base_url: chatServer.upstream.url, ...main },
          { id: "local", kind: "embedded" },
          ...records
        ]
      },
      {
        store: chatServer.store,
        actors: chatServer.system,
        engines: undefined,
        log: () => {},
        metrics: chatServer.numbers,
        backoffMs: 1,
        ...parts
      }
    )
    const ops = operations({
      actors: chatServer.system,
      metrics: chatServer.numbers,
      engines: () => [],
      adapter: () => "",
      isOperator: () => false,
      keys: { list: () => [], create: () => Promise.resolve({}), deactivate: () => Promise.resolve({}) },
      backup: () => Effect.die("not asked for"),
      check: () => Effect.die("not asked for"),
      probes: chatServer.chat.probes
    })
    chatServer.server = await listenWith(parts.adapter ?? "uws", () => {}, [ops, chatServer.chat.service], {
      host: "127.0.0.1",
      port: 0
    })
    chatServer.url = `http://127.0.0.1:${chatServer.server.port}`
    await chatServer.chat.resume()
    return chatServer
  }

  /** What /metrics answers. */
  metrics(): string {
    return prometheusText(this.numbers)
  }

  async close(): Promise<void> {
    await this.chat.drain()
    await this.server.drain(200)
    clearInterval(this.ticking)
    this.chat.close()
    if (this.own) this.upstream.close()
  }

  fetch(
    path: string,
    {
      body,
      key = this.key,
      method = body === undefined ? "GET" : "POST",
      headers = {},
      signal
    }: {
      readonly body?: unknown
      readonly key?: string | undefined
      readonly method?: string
      readonly headers?: Record<string, string>
      readonly signal?: AbortSignal
    } = {}
  ): Promise<Response> {
    return fetch(`${this.url}${path}`, {
      method,
      headers: {
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(key === undefined || key === "" ? {} : { authorization: `Bearer ${key}` }),
        ...headers
      },
      ...(body === undefined
        ? {}
        : {
            body:
              typeof body === "string" || body instanceof Uint8Array ? (body as string) : JSON.stringify(body)
          }),
      ...(signal === undefined ? {} : { signal })
    })
  }

  async call(path: string, options: Parameters<ChatTestServer["fetch"]>[1] = {}): Promise<Answer> {
    const response = await this.fetch(path, options)
    const text = await response.text()
    return {
      status: response.status,
      headers: response.headers,
      text,
      body: /^[[{]/.test(text) ? JSON.parse(text) : undefined
    }
  }

  /** A chat completion; the model is local/echo, the message "hi", unless given. */
  ask(
    body: Record<string, unknown> = {},
    options: Parameters<ChatTestServer["fetch"]>[1] = {}
  ): Promise<Answer> {
    return this.call("/v1/chat/completions", {
      body: { model: "main/m", messages: [{ role: "user", content: "hi" }], ...body },
      ...options
    })
  }

  respond(
    body: Record<string, unknown> = {},
    options: Parameters<ChatTestServer["fetch"]>[1] = {}
  ): Promise<Answer> {
    return this.call("/v1/responses", { body: { model: "main/m", input: "hi", ...body }, ...options })
  }
}

/** The frames of a stream; a comment is a frame of event ":". */
export const frames = (text: string): ReadonlyArray<StreamFrame> =>
  text
    .split("\n\n")
    .filter((block) => block !== "")
    .map((block) => {
      const lines = block.split("\n")
      const event = lines.find((line) => line.startsWith("event: "))?.slice(7)
      const data = lines
        .filter((line) => line.startsWith("data: "))
        .map((line) => line.slice(6))
        .join("\n")
      return {
        event: block.startsWith(":") ? ":" : event,
        data: data.startsWith("{") ? JSON.parse(data) : data
      }
    })

export const until = async (holds: () => boolean, withinMs = 5_000): Promise<void> => {
  const end = Date.now() + withinMs
  while (!holds()) {
    if (Date.now() > end) throw new Error("it did not come about")
    await new Promise((resolve) => {
      setTimeout(resolve, 2)
    })
  }
}
