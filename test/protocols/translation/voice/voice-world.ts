/** Live speech with scripted engines, a clock in hand, and real sockets. */
import { Context, Effect } from "effect"
import { WebSocket } from "ws"
import { pack, unpack } from "msgpackr"
import { RateWindow } from "../../../../actors/rate-window.ts"
import type { PoolClock } from "../../../../actors/engines/pool.ts"
import type { Engines, Recognizer, Synthesizer } from "../../../../actors/engines/ports.ts"
import { EngineFault } from "../../../../actors/engines/ports.ts"
import { VoiceSession } from "../../../../actors/voice-session.ts"
import { VoiceEngines } from "../../../../actors/voice/session-types.ts"
import { KeyRing } from "../../../../protocols/translation/account/keys.ts"
import {
  createAccount,
  createKey,
  type Account,
  type NewAccount
} from "../../../../protocols/translation/account/records.ts"
import { translation } from "../../../../protocols/translation/routes.ts"
import { Usage } from "../../../../protocols/translation/account/usage.ts"
import { voiceAids } from "../../../../protocols/translation/voice/customizations.ts"
import { Voice } from "../../../../protocols/translation/voice/voice.ts"
import { ActorSystem } from "../../../../runtime/registry.ts"
import type { Server } from "../../../../runtime/transport/server.ts"
import { listen } from "../../../../runtime/transport/node.ts"
import { sealer } from "../../../../storage/seal.ts"
import { openMemory } from "../../../../storage/memory.ts"
import type { Store } from "../../../../storage/store.ts"
import {
  scriptedRecognizer,
  soundOf,
  type Script as Hearing
} from "../../../actors/engines/scripted-recognizer.ts"
import { scripted, type Script } from "../harness.ts"

export interface VoiceScript {
  readonly hearing?: Hearing
  readonly translating?: Script
  readonly speaks?: boolean
  readonly account?: Partial<NewAccount>
  readonly store?: Store
  /** Another recognizer than the scripted one. */
  readonly ear?: (system: ActorSystem) => Recognizer
}

export const pcm = "audio/pcm;encoding=s16le;rate=16000"

export const until = async (what: () => boolean, ms = 3_000): Promise<void> => {
  for (let waited = 0; waited < ms && !what(); waited += 5)
    await new Promise((resolve) => setTimeout(resolve, 5))
  if (!what()) throw new Error(`never: ${what.toString()}`)
}

export const voiceEngines = (
  script: VoiceScript = {},
  clock?: PoolClock
): Engines & { readonly recognizer: ReturnType<typeof scriptedRecognizer> } => {
  const { engines } = scripted({ change: (text) => text.toUpperCase(), ...script.translating })
  const synthesizer: Synthesizer = {
    ...engines.synthesizer,
    languages: () => ["de", "en"],
    speak: (text) =>
      script.speaks === false
        ? Effect.fail(new EngineFault({ reason: "crashed", engine: "mute", detail: "scripted" }))
        : Effect.succeed({ pcm: new Int16Array(text.length * 160).fill(1_000), rate: 16_000 })
  }
  return { ...engines, recognizer: scriptedRecognizer(script.hearing, clock), synthesizer }
}

/** One client connection: everything it has heard, in order. */
export class Listener {
  readonly heard: Array<Record<string, any>> = []
  readonly ws: WebSocket
  code = 0
  private readonly msgpack: boolean

  constructor(url: string, msgpack = false) {
    this.msgpack = msgpack
    this.ws = new WebSocket(url)
    this.ws.on("message", (data: Buffer, binary) =>
      this.heard.push((binary ? unpack(data) : JSON.parse(data.toString())) as Record<string, any>)
    )
    this.ws.on("close", (code) => {
      this.code = code
    })
    this.ws.on("error", () => {})
  }

  get opened(): Promise<boolean> {
    return new Promise((resolve) => {
      this.ws.on("open", () => resolve(true))
      this.ws.on("error", () => resolve(false))
    })
  }

  send(message: unknown): void {
    this.ws.send(this.msgpack ? pack(message) : JSON.stringify(message))
  }

  sound(data: Uint8Array): void {
    this.send({
      source_media_chunk: { data: this.msgpack ? Buffer.from(data) : Buffer.from(data).toString("base64") }
    })
  }

  /** `count` words from `first` on, in chunks of 200 ms. */
  words(first: number, count: number): void {
    for (let i = 0; i < count; i++) this.sound(soundOf(first + i, 1))
  }

  end(): void {
    this.send({ end_of_source_media: {} })
  }

  get names(): ReadonlyArray<string> {
    return this.heard.map((message) => Object.keys(message)[0]!)
  }

  /** All concluded text of the source, or of a target. */
  concluded(target?: string): string {
    return this.heard
      .flatMap((message) => {
        if (target === undefined) return message["source_transcript_update"]?.concluded ?? []
        const update = message["target_transcript_update"]
        return update?.language === target ? update.concluded : []
      })
      .map(({ text }: { text: string }) => text)
      .join("")
  }

  get error(): Record<string, any> | undefined {
    return this.heard.find((message) => "error" in message)?.["error"]
  }
}

export class VoiceWorld {
  nowMs = Date.UTC(2026, 0, 31, 12)
  readonly store: Store
  readonly system: ActorSystem
  readonly engines: ReturnType<typeof voiceEngines>
  readonly ring: KeyRing
  readonly usage: Usage
  readonly voice: Voice
  server!: Server
  account!: Account
  secret = ""
  private readonly hash = (secret: string): string => sealer(new Uint8Array(32)).hash(secret, "test")
  private readonly ticking: NodeJS.Timeout
  private tokens = 0
  readonly logged: Array<{ level: string; message: string; fields: Record<string, unknown> }> = []

  private constructor(script: VoiceScript) {
    this.store = script.store ?? openMemory()
    this.system = new ActorSystem({ store: this.store, nowMs: () => this.nowMs })
    const engines = voiceEngines(script, this.system)
    this.engines =
      script.ear === undefined
        ? engines
        : { ...engines, recognizer: Object.assign(engines.recognizer, script.ear(this.system)) }
    this.system.host(RateWindow, Context.empty())
    this.system.host(
      VoiceSession,
      Context.make(VoiceEngines, {
        ...this.engines,
        customizations: voiceAids(this.store, this.engines.translator)
      })
    )
    this.ring = new KeyRing(this.store, this.hash)
    this.usage = new Usage(this.store, () => this.nowMs)
    this.voice = new Voice({
      store: this.store,
      actors: this.system,
      engines: this.engines,
      usage: this.usage,
      ring: this.ring,
      hashToken: this.hash,
      newToken: () => `token${++this.tokens}-${crypto.randomUUID()}`,
      clock: () => this.nowMs,
      log: (level, message, fields) => this.logged.push({ level, message, fields })
    })
    this.ticking = setInterval(() => this.system.tick(), 5)
  }

  static async open(script: VoiceScript = {}): Promise<VoiceWorld> {
    const world = new VoiceWorld(script)
    world.account = await createAccount(world.store, { tier: "paid", nowMs: world.nowMs, ...script.account })
    world.secret = (await createKey(world.store, world.hash, world.account, { nowMs: world.nowMs })).secret
    const service = translation({
      store: world.store,
      actors: world.system,
      engines: world.engines,
      hashKey: world.hash,
      clock: () => world.nowMs,
      ring: world.ring,
      usage: world.usage,
      voice: world.voice,
      limits: { calls: 1_000, windowMs: 1_000, inFlight: 100 }
    })
    world.server = await listen([service], { host: "127.0.0.1", port: 0 })
    return world
  }

  async key(scopes?: ReadonlyArray<string>): Promise<string> {
    return (
      await createKey(this.store, this.hash, this.account, {
        nowMs: this.nowMs,
        ...(scopes === undefined ? {} : { scopes })
      })
    ).secret
  }

  /** The key of another customer. */
  async stranger(): Promise<string> {
    const account = await createAccount(this.store, { tier: "paid", nowMs: this.nowMs })
    return (await createKey(this.store, this.hash, account, { nowMs: this.nowMs })).secret
  }

  /** Lets time pass in steps of half a second, each with a sweep of the connections. */
  async pass(ms: number): Promise<void> {
    for (const endMs = this.nowMs + ms; this.nowMs < endMs;) {
      this.nowMs += 500
      this.voice.sweep()
      this.system.tick()
      await new Promise((resolve) => setImmediate(resolve))
    }
  }

  async close(): Promise<void> {
    clearInterval(this.ticking)
    this.voice.close()
    await this.server.drain(200)
    await Effect.runPromise(this.system.stop)
    await this.store.close()
  }

  private async call(
    method: string,
    query: string,
    body?: unknown,
    key = this.secret,
    headers: Record<string, string> = {},
    signal?: AbortSignal
  ): Promise<{ status: number; body: any }> {
    const answer = await fetch(`http://127.0.0.1:${this.server.port}/v3/voice/realtime${query}`, {
      method,
      headers: {
        Authorization: `DeepL-Auth-Key ${key}`,
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        ...headers
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal })
    })
    return { status: answer.status, body: await answer.json() }
  }

  create(body: Record<string, unknown> = {}, key?: string, headers?: Record<string, string>) {
    return this.call("POST", "", { source_media_content_type: pcm, ...body }, key, headers)
  }

  renew(token: string | undefined, key?: string, signal?: AbortSignal) {
    const query = token === undefined ? "" : `?token=${encodeURIComponent(token)}`
    return this.call("GET", query, undefined, key, {}, signal)
  }

  listen({ streaming_url, token }: { streaming_url: string; token: string }, msgpack = false): Listener {
    return new Listener(`${streaming_url}?token=${token}`, msgpack)
  }

  /** Session made and connected. */
  async connect(
    body: Record<string, unknown> = {},
    key = this.secret
  ): Promise<{ listener: Listener; token: string; session: string }> {
    const { status, body: created } = await this.create(body, key)
    if (status !== 200) throw new Error(JSON.stringify(created))
    const listener = this.listen(created, body["message_format"] === "msgpack")
    await listener.opened
    return { listener, token: created.token, session: created.session_id }
  }

  live(session: string) {
    return this.system.inspect("voice-session", session)
  }
}
