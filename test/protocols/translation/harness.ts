/** The service over a memory store, a clock in hand and scripted engines; requests as values, no socket. */
import { RecognizerPools } from "../../../actors/engines/speech/recognizer-pools.ts"
import { stillClock } from "../../actors/engines/scripted-recognizer.ts"
import { Context, Effect, Stream } from "effect"
import { RateWindow } from "../../../actors/rate-window.ts"
import {
  EngineFault,
  type Engines,
  type Language,
  type TranslateRequest,
  type Translator
} from "../../../actors/engines/ports.ts"
import type { Request, Response, Route, Service, Streaming } from "../../../runtime/http.ts"
import { ActorSystem } from "../../../runtime/registry.ts"
import { KeyRing } from "../../../protocols/translation/account/keys.ts"
import {
  createAccount,
  createKey,
  type Account,
  type NewAccount,
  type NewKey
} from "../../../protocols/translation/account/records.ts"
import { translation, type TranslationDeps } from "../../../protocols/translation/routes.ts"
import { Usage } from "../../../protocols/translation/account/usage.ts"
import { RouteTable } from "../../../runtime/transport/route-table.ts"
import { openMemory } from "../../../storage/memory.ts"
import { sealer } from "../../../storage/seal.ts"
import type { Store } from "../../../storage/store.ts"
import { answerOf } from "../../answer.ts"

export interface Script {
  readonly pairs?: ReadonlyArray<readonly [Language, Language]>
  readonly formality?: ReadonlyArray<Language>
  readonly change?: (text: string) => string
  /** Answers at once, or this instead. */
  readonly instead?: (request: TranslateRequest) => Effect.Effect<never, EngineFault>
  readonly tier?: "embedded" | "local" | "remote"
  /** Whether the recognizer takes hints. */
  readonly hints?: boolean
  /** Languages that are corrected ("teh" → "the") and rephrased ("style tone: text"); styles in all but
   *  French. */
  readonly writes?: ReadonlyArray<Language>
  /** Is called when the rephrasing of "wait", which never ends, is interrupted. */
  readonly interrupted?: () => void
  /** Text → reliable language; what is absent is not detected. */
  readonly detects?: Readonly<Record<string, Language>>
}

const bases = ["en", "de", "fr", "es", "it", "pt", "ja", "zh", "ru", "ko"]
export const allPairs = bases.flatMap((a) => bases.filter((b) => b !== a).map((b) => [a, b] as const))

export const fault = (reason: EngineFault["reason"]): EngineFault =>
  new EngineFault({ reason, engine: "fake", detail: "scripted" })

const ready = () => ({ ready: true }) as const

export const scripted = (
  script: Script = {}
): { readonly engines: Engines; readonly asked: Array<TranslateRequest> } => {
  const asked: Array<TranslateRequest> = []
  const { pairs = allPairs, formality = ["de", "fr"], change = (text) => text, detects } = script
  const info = { id: "fake", version: "1", tier: script.tier ?? "embedded", licence: "MIT" } as const
  const translator: Translator = {
    info,
    readiness: ready,
    pairs: () => pairs,
    supports: (source, target) => (pairs.some(([a, b]) => a === source && b === target) ? "direct" : false),
    formality: (target) => formality.includes(target),
    translate: (request) => {
      asked.push(request)
      return (
        script.instead?.(request) ??
        Effect.succeed({
          engine: "fake",
          segments: request.segments.map(({ units }) => ({
            units: units.map((unit) =>
              unit._tag === "text" ? { _tag: "text" as const, text: change(unit.text) } : unit
            )
          }))
        })
      )
    }
  }
  const found = (text: string): Language | undefined => (detects === undefined ? "en" : detects[text])
  const engines: Engines = {
    translator,
    detector: {
      info: { ...info, id: "fake-detector" },
      readiness: ready,
      detect: (text, together) => {
        const language = found(text) ?? together?.map(found).find((other) => other !== undefined)
        return { language, confidence: language === undefined ? 0 : 1, reliable: found(text) !== undefined }
      }
    },
    recognizer: {
      info: { ...info, id: "fake-ear" },
      readiness: ready,
      languages: () => ["en", "de"],
      detects: false,
      takesHints: script.hints ?? true,
      capacity: () => ({ used: 0, max: 1 }),
      places: new RecognizerPools({ id: "fake-ear", live: [0], jobs: [0], clock: stillClock }),
      recognize: () => Stream.empty
    },
    synthesizer: {
      info: { ...info, id: "fake-voice" },
      readiness: ready,
      languages: () => ["en"],
      speak: () => Effect.fail(fault("unsupported"))
    },
    all: () => [{ ...translator, port: "translator" }]
  }
  const { writes } = script
  return {
    engines:
      writes === undefined
        ? engines
        : {
            ...engines,
            corrector: {
              info: { ...info, id: "fake-corrector" },
              readiness: ready,
              languages: () => writes,
              correct: (text) =>
                Effect.succeed(
                  [...text.matchAll(/teh/g)].map(({ index }) => ({
                    from: index,
                    to: index + 3,
                    text: "the",
                    kind: "spelling" as const
                  }))
                )
            },
            rephraser: {
              info: { ...info, id: "fake-rephraser" },
              readiness: ready,
              languages: () => writes,
              styles: (language) => !language.startsWith("fr"),
              rephrase: (text, { language, style, tone }) => {
                if (text === "fail") return Effect.fail(fault("timeout"))
                return text === "wait"
                  ? Effect.onInterrupt(Effect.never, () => Effect.sync(() => script.interrupted?.()))
                  : Effect.succeed(`${language} ${style ?? ""} ${tone ?? ""}: ${text}`)
              }
            }
          },
    asked
  }
}

export interface Call {
  readonly method?: string
  readonly path?: string
  readonly query?: string
  readonly key?: string | undefined
  readonly headers?: Readonly<Record<string, string>>
  /** An object goes as JSON, a string as it is. */
  readonly body?: unknown
  readonly type?: string | undefined
  /** The body in pieces, for routes that stream. */
  readonly stream?: AsyncIterable<Uint8Array>
  readonly signal?: AbortSignal
}

export interface Answer {
  readonly status: number
  readonly body: any
  readonly text: string
  readonly header: (name: string) => string | undefined
}

const isJson = (body: unknown): boolean =>
  typeof body === "object" && body !== null && !(body instanceof Uint8Array)

const bytesOf = (body: unknown): Uint8Array => {
  if (body === undefined) return new Uint8Array(0)
  if (body instanceof Uint8Array) return body
  return new TextEncoder().encode(isJson(body) ? JSON.stringify(body) : String(body))
}

const textOf = (body: Response["body"]): string => (typeof body === "string" ? body : "")

const streamed = async (body: Streaming, signal: AbortSignal): Promise<string> => {
  const parts: Array<Buffer> = []
  const write = (chunk: string | Uint8Array): boolean => {
    parts.push(Buffer.from(chunk))
    return true
  }
  const writing = body({
    write,
    send: write,
    drained: () => Promise.resolve(),
    end: () => Promise.resolve(true),
    signal
  })
  if (Effect.isEffect(writing)) await Effect.runPromise(writing as Effect.Effect<void>, { signal })
  else await writing
  return Buffer.concat(parts).toString()
}

export class TranslationHarness {
  readonly store: Store
  readonly service: Service
  readonly system: ActorSystem
  readonly ring: KeyRing
  readonly usage: Usage
  readonly asked: Array<TranslateRequest>
  nowMs = Date.UTC(2026, 0, 31, 12)
  secret = ""
  account!: Account

  private readonly hash = (secret: string): string =>
    sealer(new Uint8Array(32)).hash(secret, "translation-key")

  constructor(
    script: Script = {},
    deps: Partial<TranslationDeps> = {},
    store: Store = openMemory(),
    behindMs = 0
  ) {
    const { engines, asked } = scripted(script)
    this.asked = asked
    this.store = store
    this.system = new ActorSystem({ store, nowMs: () => this.nowMs })
    this.system.host(RateWindow, Context.empty())
    this.ring = new KeyRing(store, this.hash)
    this.usage = new Usage(store, () => this.nowMs, behindMs)
    this.service = translation({
      store,
      actors: this.system,
      engines,
      hashKey: this.hash,
      clock: () => this.nowMs,
      ring: this.ring,
      usage: this.usage,
      limits: { calls: 1_000_000, windowMs: 2_000, inFlight: 64 },
      ...deps
    })
  }

  static async open(
    script: Script = {},
    {
      account = {},
      key = {},
      ...deps
    }: Partial<TranslationDeps> & { account?: Partial<NewAccount>; key?: Partial<NewKey> } = {}
  ): Promise<TranslationHarness> {
    const world = new TranslationHarness(script, deps)
    world.account = await createAccount(world.store, { tier: "paid", nowMs: world.nowMs, ...account })
    world.secret = await world.key(key)
    return world
  }

  async key(options: Partial<NewKey> = {}): Promise<string> {
    return (await createKey(this.store, this.hash, this.account, { nowMs: this.nowMs, ...options })).secret
  }

  private table: RouteTable | undefined

  route(method: string, path: string): Route | undefined {
    return this.matched(method, path).route
  }

  private matched(method: string, path: string) {
    return (this.table ??= new RouteTable([this.service])).match(method, path)
  }

  async call({
    method = "POST",
    path = "/v2/translate",
    query = "",
    key = this.secret,
    headers = {},
    body,
    type,
    stream,
    signal = new AbortController().signal
  }: Call): Promise<Answer> {
    const headerMap = new Map(Object.entries(headers))
    if (key !== undefined && key !== "" && !headerMap.has("authorization"))
      headerMap.set("authorization", `DeepL-Auth-Key ${key}`)
    if (type !== undefined) {
      if (type !== "") headerMap.set("content-type", type)
    } else if (body !== undefined)
      headerMap.set("content-type", isJson(body) ? "application/json" : "application/x-www-form-urlencoded")
    const bytes = bytesOf(body)
    const { route, params } = this.matched(method, path)
    const request: Request = {
      method,
      path,
      query,
      params,
      headers: { get: (name) => headerMap.get(name), entries: () => headerMap.entries() },
      client: "127.0.0.1",
      scheme: "http",
      traceId: "0".repeat(32),
      body: bytes,
      stream:
        stream ??
        (async function* () {
          yield bytes
        })(),
      signal,
      onAborted: (hear) => {
        signal.addEventListener("abort", hear, { once: true })
      }
    }
    const response: Response =
      route === undefined ? this.service.refused(404, request) : await answerOf(route.handle(request), signal)
    const text =
      typeof response.body === "function" ? await streamed(response.body, signal) : textOf(response.body)
    return {
      status: response.status,
      text,
      body: text.startsWith("{") || text.startsWith("[") ? JSON.parse(text) : undefined,
      header: (name) =>
        response.headers?.find(([headerName]) => headerName.toLowerCase() === name.toLowerCase())?.[1]
    }
  }

  /** POST /v2/translate of JSON, target DE unless given. */
  translate(body: Readonly<Record<string, unknown>>, more: Call = {}): Promise<Answer> {
    return this.call({ body: { target_lang: "DE", ...body }, ...more })
  }

  /** The one text's translation. */
  async text(body: Readonly<Record<string, unknown>>): Promise<string> {
    const answer = await this.translate(body)
    if (answer.status !== 200) throw new Error(`${answer.status} ${answer.text}`)
    return answer.body.translations[0].text
  }
}
