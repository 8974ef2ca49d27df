/** One server candidate: prints its port when it listens. node server.js KIND. `troupe-…` are the real
 *  routes, kernel, transport and store with an identity engine or a stub ear, so that the server's own share
 *  shows. */
import { Context, Effect, Stream } from "effect"
import { mkdtempSync, rmSync } from "node:fs"
import { createServer } from "node:http"
import { createRequire } from "node:module"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type uWS from "uWebSockets.js"
import type { WebSocketServer as Ws } from "ws"
import type { Engines, RecognitionEvent, Pcm } from "../../actors/engines/ports.ts"
import { RateWindow } from "../../actors/rate-window.ts"
import { VoiceSession } from "../../actors/voice-session.ts"
import { VoiceEngines } from "../../actors/voice/session-types.ts"
import { TranslationCache } from "../../protocols/translation/text/cache.ts"
import { KeyRing } from "../../protocols/translation/account/keys.ts"
import { createAccount, createKey } from "../../protocols/translation/account/records.ts"
import { translation } from "../../protocols/translation/routes.ts"
import { Usage } from "../../protocols/translation/account/usage.ts"
import { Voice } from "../../protocols/translation/voice/voice.ts"
import { Actors } from "../../runtime/registry.ts"
import { listenWith } from "../../runtime/transport/listen.ts"
import { openLmdb } from "../../storage/lmdb.ts"

const require = createRequire(import.meta.url)
const [, , kind, extra] = process.argv
const say = (port: number, more = ""): void => console.log(`${port} ${more}`)
const trace = "0123456789abcdef0123456789abcdef"

const answer = (body: { text: ReadonlyArray<string> }): string =>
  JSON.stringify({ translations: body.text.map((text) => ({ detected_source_language: "EN", text })) })

/** What each chunk holds at its start: when it was meant to leave, in ms. */
const stampOf = (bytes: Uint8Array): number =>
  new DataView(bytes.buffer, bytes.byteOffset, 8).getFloat64(0, true)

const update = (stamp: number, n: number): string =>
  JSON.stringify({
    source_transcript_update: {
      concluded: [],
      tentative: [
        {
          language: "en",
          text: `t=${stamp} the quick brown fox jumps over the lazy dog`,
          start_time: n * 200,
          end_time: n * 200 + 200
        }
      ]
    }
  })

/** The floor of voice: decode, keep in a ring, an update per 200 ms. */
const ring = () => {
  const bytes = Buffer.alloc(16_384)
  let at = 0
  let heard = 0
  let n = 0
  return (message: Buffer, send: (text: string) => void): void => {
    const data = Buffer.from(
      (JSON.parse(message.toString("latin1")) as any).source_media_chunk.data,
      "base64"
    )
    if (at + data.length > bytes.length) at = 0
    data.copy(bytes, at)
    at += data.length
    heard += data.length
    if (heard >= 6_400) {
      heard -= 6_400
      send(update(stampOf(new Uint8Array(data)), n++))
    }
  }
}

/** Says one partial per 200 ms, with the stamp of the chunk that completed it. */
const stubEar =
  (chunkSamples: number): Engines["recognizer"]["recognize"] =>
  (audio) => {
    let samples = 0
    let n = 0
    return Stream.mapArray(
      audio,
      (parts: ReadonlyArray<Pcm>): readonly [RecognitionEvent, ...Array<RecognitionEvent>] => {
        const heard: Array<RecognitionEvent> = []
        for (const pcm of parts) {
          samples += pcm.length
          if (samples < 3_200) continue
          samples -= 3_200
          const last = new Uint8Array(pcm.buffer, pcm.byteOffset + 2 * (pcm.length - chunkSamples), 8)
          heard.push({
            _tag: "partial",
            text: `t=${stampOf(last.slice())} the quick brown fox jumps over the lazy dog`,
            startMs: n * 200,
            endMs: ++n * 200,
            language: "en"
          })
        }
        // What has been said is said: nothing is kept for hearing again.
        heard.push({ _tag: "silence", untilMs: n * 200 })
        return heard as unknown as readonly [RecognitionEvent, ...Array<RecognitionEvent>]
      }
    )
  }

const info = { id: "stub", version: "1", tier: "embedded", licence: "MIT" } as const
const ready = () => ({ ready: true }) as const

const identity = (chunkSamples: number): Engines => {
  const translator: Engines["translator"] = {
    info,
    readiness: ready,
    supports: () => "direct",
    pairs: () => [["en", "de"]],
    formality: () => true,
    translate: ({ segments }) => Effect.succeed({ segments, engine: info.id })
  }
  return {
    translator,
    detector: { info, readiness: ready, detect: () => ({ language: "en", confidence: 1, reliable: true }) },
    recognizer: {
      info,
      readiness: ready,
      languages: () => ["en"],
      detects: false,
      capacity: () => ({ used: 0, max: 100_000 }),
      recognize: stubEar(chunkSamples)
    },
    synthesizer: { info, readiness: ready, languages: () => [], speak: () => Effect.never },
    all: () => [{ ...translator, port: "translator" }]
  }
}

const troupe = async (): Promise<void> => {
  const folder = mkdtempSync(join(tmpdir(), "troupe-bench-"))
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }))
  process.on("SIGTERM", () => process.exit(0))
  const store = await openLmdb({ folder })
  const [chunkBytes, sessions] = (extra ?? "640,0").split(",").map(Number) as [number, number]
  await Effect.runPromise(
    Effect.scoped(
      Effect.gen(function* () {
        const system = yield* Actors.make({ store })
        const engines = identity(chunkBytes / 2)
        const hash = (text: string): string => text
        system.host(RateWindow, Context.empty())
        system.host(VoiceSession, Context.make(VoiceEngines, engines))
        const ring = new KeyRing(store, hash)
        const usage = new Usage(store, system.nowMs)
        const voice = new Voice({
          store,
          actors: system,
          engines,
          usage,
          ring,
          hashToken: hash,
          newToken: () => "",
          clock: system.nowMs
        })
        const account = yield* Effect.promise(() => createAccount(store, { tier: "paid", nowMs: Date.now() }))
        const { key, secret } = yield* Effect.promise(() =>
          createKey(store, hash, account, { nowMs: Date.now() })
        )
        for (let i = 0; i < sessions; i++)
          yield* system
            .ref(VoiceSession, `session-${i}`)
            .ask("Create", {
              token: `t${i}`,
              config: {
                accountId: account.accountId,
                keyId: key.keyId,
                contentType: "audio/pcm;encoding=s16le;rate=16000",
                format: "json",
                sourceLanguage: "en",
                fixed: true,
                targets: [],
                mediaTargets: [],
                mediaType: "audio/webm",
                voice: null,
                formality: "default",
                tag: null
              }
            })
        const server = yield* Effect.promise(() =>
          listenWith(
            "uws",
            () => {},
            [
              translation({
                store,
                actors: system,
                engines,
                hashKey: hash,
                clock: system.nowMs,
                ring,
                usage,
                voice,
                cache: new TranslationCache(),
                limits: { calls: 10_000_000, windowMs: 1_000, inFlight: 10_000 }
              })
            ],
            { host: "127.0.0.1", port: 0 }
          )
        )
        say(server.port, secret)
        yield* Effect.never
      })
    )
  )
}

if (kind === "http-uws") {
  const { App, us_socket_local_port } = require("uWebSockets.js") as typeof uWS
  App()
    .post("/v2/translate", (res) => {
      let body: Buffer | undefined
      res.onAborted(() => {})
      res.onData((chunk, last) => {
        const part = Buffer.from(chunk)
        if (!last) {
          body = body === undefined ? Buffer.from(part) : Buffer.concat([body, part])
          return
        }
        const text = answer(
          JSON.parse((body === undefined ? part : Buffer.concat([body, part])).toString()) as any
        )
        res.cork(() => {
          res.writeHeader("Content-Type", "application/json")
          res.writeHeader("X-Trace-ID", trace)
          res.end(text)
        })
      })
    })
    .listen("127.0.0.1", 0, (token) => say(us_socket_local_port(token as never)))
} else if (kind === "http-node") {
  const server = createServer((request, response) => {
    const parts: Array<Buffer> = []
    request.on("data", (part: Buffer) => parts.push(part))
    request.on("end", () => {
      const text = answer(JSON.parse(Buffer.concat(parts).toString()) as any)
      response.writeHead(200, {
        "content-type": "application/json",
        "x-trace-id": trace,
        "content-length": Buffer.byteLength(text)
      })
      response.end(text)
    })
  }).listen(0, "127.0.0.1", () => say((server.address() as AddressInfo).port))
} else if (kind === "http-fastify") {
  const app = require("fastify")({ logger: false })
  const texts = { type: "array", items: { type: "string" } }
  app.post(
    "/v2/translate",
    {
      schema: {
        body: {
          type: "object",
          required: ["text", "target_lang"],
          properties: { text: texts, target_lang: { type: "string" } }
        },
        response: {
          200: {
            type: "object",
            properties: {
              translations: {
                type: "array",
                items: {
                  type: "object",
                  properties: { detected_source_language: { type: "string" }, text: { type: "string" } }
                }
              }
            }
          }
        }
      }
    },
    (request: any, response: any) => {
      response.header("x-trace-id", trace)
      return {
        translations: request.body.text.map((text: string) => ({ detected_source_language: "EN", text }))
      }
    }
  )
  app.listen({ port: 0, host: "127.0.0.1" }).then(() => say(app.server.address().port))
} else if (kind === "voice-uws") {
  const { App, us_socket_local_port } = require("uWebSockets.js") as typeof uWS
  App()
    .ws<{ hear: ReturnType<typeof ring> }>("/*", {
      compression: 0,
      maxPayloadLength: 262_144,
      idleTimeout: 120,
      upgrade: (res, req, context) => {
        res.upgrade({ hear: ring() }, req.getHeader("sec-websocket-key"), "", "", context)
      },
      message: (ws, message) => {
        ws.getUserData().hear(Buffer.from(message), (text) => {
          ws.send(text, false)
        })
      }
    })
    .listen("127.0.0.1", 0, (token) => say(us_socket_local_port(token as never)))
} else if (kind === "voice-ws") {
  const { WebSocketServer } = require("ws") as { WebSocketServer: typeof Ws }
  const server: Ws = new WebSocketServer({ port: 0, host: "127.0.0.1", perMessageDeflate: false }, () =>
    say((server.address() as AddressInfo).port)
  )
  server.on("connection", (ws) => {
    const hear = ring()
    ws.on("message", (message: Buffer) => hear(message, (text) => ws.send(text)))
  })
} else await troupe()
