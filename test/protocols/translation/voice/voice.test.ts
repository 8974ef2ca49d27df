import { afterEach, describe, expect, it } from "vitest"
import { encoderFor } from "../../../../actors/engines/speech/encoder.ts"
import { pack } from "msgpackr"
import { supportedSourceTypes } from "../../../../actors/engines/speech/decoder.ts"
import { soundOf } from "../../../actors/engines/scripted-recognizer.ts"
import { EngineFault } from "../../../../actors/engines/ports.ts"
import { Effect } from "effect"
import { Listener, pcm, until, VoiceWorld, type VoiceScript } from "./voice-world.ts"

let world: VoiceWorld
const open = async (script: VoiceScript = {}): Promise<VoiceWorld> => (world = await VoiceWorld.open(script))
afterEach(() => world.close())

const words = (from: number, to: number, upper = false): string =>
  Array.from({ length: to - from }, (_, i) => `${upper ? "W" : "w"}${from + i}`).join(" ")

describe("12.1 POST /v3/voice/realtime", () => {
  it("answers streaming_url without the token, token and session_id; scheme ws, host from the request", async () => {
    await open()
    const { status, body } = await world.create({
      target_languages: ["de"],
      source_language: null,
      formality: null,
      glossary_id: null
    })
    expect([status, body.streaming_url]).toEqual([
      200,
      `ws://127.0.0.1:${world.server.port}/v3/voice/realtime/connect`
    ])
    expect(body.token).toBeTruthy()
    expect(body.session_id).toMatch(/^[0-9a-f-]{36}$/)
  })
  it("source_media_content_type is required, compared after removing spaces and lower-casing", async () => {
    await open()
    expect((await world.create({ source_media_content_type: null })).body).toMatchObject({
      message: "Parameter 'source_media_content_type' not specified."
    })
    expect(
      (await world.create({ source_media_content_type: "Audio/PCM; Encoding=S16LE; rate=16000" })).status
    ).toBe(200)
    for (const type of supportedSourceTypes.slice(0, 12))
      expect((await world.create({ source_media_content_type: type })).status, type).toBe(200)
  })
  it.each<[string, Record<string, unknown>, string]>([
    [
      "12.10 a listed type that our build cannot handle: 400 at creation",
      { source_media_content_type: "audio/x-matroska;codecs=aac" },
      "source_media_content_type"
    ],
    [
      "unknown source type",
      { source_media_content_type: "audio/pcm;encoding=s16le;rate=22050" },
      "source_media_content_type"
    ],
    ["message_format json or msgpack", { message_format: "xml" }, "message_format"],
    ["source_language: voice source languages", { source_language: "xx" }, "source_language"],
    ["source_language which no recogniser hears", { source_language: "ja" }, "source_language"],
    ["source_language_mode auto or fixed", { source_language_mode: "guess" }, "source_language_mode"],
    ["fixed without a language", { source_language_mode: "fixed" }, "source_language"],
    ["target_languages: voice targets", { target_languages: ["tlh"] }, "target_languages"],
    ["more than 5 targets", { target_languages: ["de", "fr", "es", "it", "ru", "ja"] }, "target_languages"],
    [
      "5 targets and one more by media: the sum still ≤ 5",
      { target_languages: ["fr", "es", "it", "ru", "ja"], target_media_languages: ["de"] },
      "target_languages"
    ],
    ["at most one media target", { target_media_languages: ["de", "en"] }, "target_media_languages"],
    ["a media language nobody speaks", { target_media_languages: ["fr"] }, "target_media_languages"],
    [
      "target_media_content_type which our build cannot make",
      { target_media_languages: ["de"], target_media_content_type: "video/mp2t;codecs=aac" },
      "target_media_content_type"
    ],
    ["target_media_voice male or female", { target_media_voice: "robot" }, "target_media_voice"],
    [
      "spoken_terms_id unknown",
      { spoken_terms_id: "0f8fad5b-d9cb-469f-a165-70867728950e" },
      "spoken_terms_id"
    ],
    ["glossary_id unknown", { glossary_id: "0f8fad5b-d9cb-469f-a165-70867728950e" }, "glossary_id"],
    ["formality of its list", { formality: "rude" }, "formality"]
  ])("%s → 400", async (_, body, name) => {
    await open()
    const answer = await world.create(body)
    expect(answer.status).toBe(400)
    expect(answer.body.message).toContain(`'${name}'`)
  })
  it("duplicates among targets are dropped, media targets are added, spelling is kept", async () => {
    await open()
    const { listener } = await world.connect({
      target_languages: ["DE", "de", "fr"],
      target_media_languages: ["De"],
      target_media_content_type: pcm
    })
    listener.words(1, 5)
    listener.end()
    await until(() => listener.code === 1000)
    expect(listener.names.filter((name) => name === "end_of_target_transcript")).toHaveLength(2)
    expect(listener.concluded("DE")).toBe(words(1, 6, true))
  })
  it("free key: 403; scoped key: 403; unknown key: 403; bad reporting tag: 400", async () => {
    await open({ account: { tier: "free" } })
    expect((await world.create()).status).toBe(403)
    await world.close()
    await open()
    expect((await world.create({}, await world.key(["translate:text"]))).status).toBe(403)
    expect((await world.create({}, "nobody")).status).toBe(403)
    expect((await world.create({}, undefined, { "X-DeepL-Reporting-Tag": "a b" })).status).toBe(400)
  })
  it("more than 20 live sessions of an account: 429", async () => {
    await open()
    for (let i = 0; i < 20; i++) expect((await world.create()).status).toBe(200)
    expect((await world.create()).status).toBe(429)
    world.nowMs += 61_000
    await until(() => world.system.list("voice-session", 99).length === 0)
    expect((await world.create()).status).toBe(200)
  })
  it("speech quota used up: 456; recogniser full: 503", async () => {
    await open({ account: { limits: { speechToTextMs: 0 } } })
    expect((await world.create()).status).toBe(456)
    await world.close()
    await open({ hearing: { capacity: 0 } })
    expect((await world.create()).status).toBe(503)
  })
})

describe("12.2, 12.3 tokens", () => {
  it("reconnect gives a new token and the same session; the old connection closes 4001", async () => {
    await open()
    const { listener, token, session } = await world.connect()
    const { status, body } = await world.renew(token)
    expect([status, body.session_id]).toEqual([200, session])
    expect(body.token).not.toBe(token)
    await until(() => listener.code === 4001)
    expect(await world.listen(body).opened).toBe(true)
  })
  it("missing token: 400; unknown token: 403; another account's: 403", async () => {
    await open()
    const { token } = await world.connect()
    expect((await world.renew(undefined)).status).toBe(400)
    expect((await world.renew("nothing")).status).toBe(403)
    expect((await world.renew(token, "nobody")).status).toBe(403)
  })
  it("an outdated token ends the session for good", async () => {
    await open()
    const { token, session } = await world.connect()
    const { body } = await world.renew(token)
    const later = world.listen(body)
    await later.opened
    expect((await world.renew(token)).status).toBe(403)
    await until(() => later.code === 1008)
    expect(later.error).toMatchObject({ error_code: 403, reason_code: 4030401 })
    expect((await world.renew(body.token)).status).toBe(403)
    expect(world.live(session)?.phase).not.toBe("Live")
  })
  it("a token used twice for a WebSocket: handshake 403, and the live connection ends with 4030401", async () => {
    await open()
    const { body } = await world.create()
    const first = world.listen(body)
    await first.opened
    await until(() => (world.live(body.session_id)?.state as any)?.connection !== "")
    expect(await world.listen(body).opened).toBe(false)
    await until(() => first.code === 1008)
    expect(first.error).toMatchObject({ reason_code: 4030401, request_type: "session" })
    expect((await world.renew(body.token)).status).toBe(403)
  })
  it("a bad token: handshake refused with 403", async () => {
    await open()
    const { body } = await world.create()
    expect(await world.listen({ ...body, token: "wrong" }).opened).toBe(false)
  })
  it("a token must connect within 60 s of issue", async () => {
    await open()
    const { body } = await world.create()
    world.nowMs += 61_000
    await until(() => world.live(body.session_id) === undefined)
    expect(await world.listen(body).opened).toBe(false)
  })
  it("a session is resumable for 10 min after the last disconnect, then 403", async () => {
    await open()
    const { listener, token, session } = await world.connect()
    listener.ws.terminate()
    await until(() => (world.live(session)?.state as any)?.disconnectedMs > 0)
    world.nowMs += 590_000
    const { status, body } = await world.renew(token)
    expect(status).toBe(200)
    const again = world.listen(body)
    await again.opened
    again.ws.terminate()
    await until(() => (world.live(session)?.state as any)?.connection === "")
    world.nowMs += 601_000
    await until(() => world.live(session) === undefined)
    expect((await world.renew(body.token)).status).toBe(403)
  })
})

describe.each(["json", "msgpack"] as const)("12.4 to 12.7 the stream, %s", (format) => {
  it("hears, translates, and ends in the order of 12.7", async () => {
    await open()
    const { listener } = await world.connect({
      message_format: format,
      target_languages: ["de", "FR"],
      target_media_languages: ["de"],
      target_media_content_type: pcm
    })
    listener.words(1, 12)
    await until(() => listener.concluded("FR") === words(1, 11, true).replace("W6", "W6"))
    listener.end()
    listener.end()
    await until(() => listener.code === 1000)
    expect(listener.concluded()).toBe(words(1, 13))
    expect(listener.concluded("de")).toBe(words(1, 13, true))
    for (const message of listener.heard) expect(Object.keys(message)).toHaveLength(1)
    const tail = listener.names.slice(listener.names.indexOf("end_of_source_transcript"))
    expect(tail).toEqual([
      "end_of_source_transcript",
      "end_of_target_transcript",
      "end_of_target_transcript",
      "end_of_target_media",
      "end_of_stream"
    ])
    expect(
      listener.heard
        .filter((m) => "end_of_target_transcript" in m)
        .map((m) => m["end_of_target_transcript"].language)
    ).toEqual(["de", "FR"])
  })
  it("12.6 semantics: both arrays always, integer times, source language, tentative replaced and empty at the end", async () => {
    await open()
    const { listener } = await world.connect({ message_format: format, target_languages: ["de"] })
    listener.words(1, 7)
    await until(() => listener.concluded() === words(1, 6))
    listener.end()
    await until(() => listener.code === 1000)
    const updates = listener.heard.flatMap(
      (m) => m["source_transcript_update"] ?? m["target_transcript_update"] ?? []
    )
    for (const { concluded, tentative } of updates)
      for (const { start_time, end_time, text } of [...concluded, ...tentative]) {
        expect(Number.isInteger(start_time) && Number.isInteger(end_time) && end_time >= start_time).toBe(
          true
        )
        expect(typeof text).toBe("string")
      }
    const source = listener.heard.flatMap((m) => m["source_transcript_update"] ?? [])
    expect(
      source.every(({ concluded, tentative }) => Array.isArray(concluded) && Array.isArray(tentative))
    ).toBe(true)
    expect(source.flatMap(({ concluded }) => concluded)).toMatchObject([
      { language: "en", text: words(1, 6), start_time: 0, end_time: 1_000 },
      { text: ` ${words(6, 8)}`, start_time: 1_000, end_time: 1_400 }
    ])
    expect(source.some(({ tentative }) => tentative.length > 0)).toBe(true)
    expect(source.at(-1)!.tentative).toEqual([])
  })
  it("target media: content_type and headers once, text per segment, packets as bytes, concatenated text equals the transcript", async () => {
    await open()
    const { listener } = await world.connect({
      message_format: format,
      target_languages: ["de"],
      target_media_languages: ["de"]
    })
    listener.words(1, 10)
    listener.end()
    await until(() => listener.code === 1000)
    const media = listener.heard.flatMap((m) => m["target_media_chunk"] ?? [])
    expect(media).toHaveLength(2)
    expect(media[0]).toMatchObject({ language: "de", content_type: "audio/webm;codecs=opus", headers: 1 })
    expect(media[1]).not.toHaveProperty("content_type")
    expect(media.map(({ text }) => text).join("")).toBe(listener.concluded("de"))
    const first = format === "json" ? Buffer.from(media[0].data[0], "base64") : (media[0].data[0] as Buffer)
    expect(first.subarray(0, 4).toString("hex")).toBe("1a45dfa3")
    expect(media[0].duration).toBeGreaterThan(0)
  })
})

describe("the stream", () => {
  it("no targets: a transcript only; empty data is allowed and counts as activity", async () => {
    await open()
    const { listener } = await world.connect()
    listener.sound(new Uint8Array(0))
    listener.words(3, 5)
    listener.end()
    await until(() => listener.code === 1000)
    expect(listener.concluded()).toBe(words(3, 8))
    expect(listener.names.slice(-2)).toEqual(["end_of_source_transcript", "end_of_stream"])
  })
  it("a target equal to the source language gets the transcript itself", async () => {
    await open()
    const { listener } = await world.connect({ target_languages: ["en-GB", "de"] })
    listener.words(1, 5)
    listener.end()
    await until(() => listener.code === 1000)
    expect([listener.concluded("en-GB"), listener.concluded("de")]).toEqual([words(1, 6), words(1, 6, true)])
  })
  it("sound sent before the session has answered is not lost, padding of base64 is optional", async () => {
    await open()
    const { body } = await world.create()
    const listener = world.listen(body)
    listener.ws.on("open", () => {
      for (let i = 1; i <= 5; i++)
        listener.ws.send(
          `{"source_media_chunk":{"data":"${Buffer.from(soundOf(i, 1)).toString("base64").replace(/=+$/, "")}"}}`
        )
      listener.ws.send('{ "end_of_source_media": {} }')
    })
    await until(() => listener.code === 1000)
    expect(listener.concluded()).toBe(words(1, 6))
  })
  it("speech is counted, and the quota in the middle of a session ends it with 4560401", async () => {
    await open({ account: { limits: { speechToTextMs: 12_000 } } })
    const { listener } = await world.connect()
    for (let second = 0; second < 24; second++) {
      listener.words(1 + second * 5, 5)
      world.nowMs += 1_000
      await new Promise((resolve) => setTimeout(resolve, 2))
      world.voice.sweep()
    }
    await until(() => listener.error !== undefined)
    expect(listener.error).toMatchObject({ error_code: 456, reason_code: 4560401 })
    const { account } = world.usage.read(world.ring.find(`DeepL-Auth-Key ${world.secret}`)!)
    expect(account.used.speechToTextMs).toBeGreaterThanOrEqual(10_000)
  })
})

describe("12.5, 12.8 errors and closes", () => {
  const b64 = (bytes: number): string => Buffer.alloc(bytes).toString("base64")
  it.each<[string, number, number, number, (listener: Listener) => void]>([
    ["message not decodable", 400, 4000401, 1007, (l) => l.ws.send("{")],
    [
      "not a one-member map: two members",
      400,
      4000401,
      1007,
      (l) => l.ws.send('{"end_of_source_media":{},"source_media_chunk":{}}')
    ],
    ["not a map: array", 400, 4000401, 1007, (l) => l.ws.send("[]")],
    ["not a map: number", 400, 4000401, 1007, (l) => l.ws.send("7")],
    ["empty map", 400, 4000401, 1007, (l) => l.ws.send("{}")],
    ["unknown message name", 400, 4000402, 1008, (l) => l.ws.send('{"hello":{}}')],
    [
      "bad member type: data a number",
      400,
      4000402,
      1008,
      (l) => l.ws.send('{"source_media_chunk":{"data":5}}')
    ],
    ["bad member type: no data", 400, 4000402, 1008, (l) => l.ws.send('{"source_media_chunk":{}}')],
    ["bad member type: body a string", 400, 4000402, 1008, (l) => l.ws.send('{"source_media_chunk":"x"}')],
    ["data not base64", 400, 4000402, 1008, (l) => l.ws.send('{"source_media_chunk":{"data":"#!?*"}}')],
    ["wrong frame type", 400, 4000404, 1003, (l) => l.ws.send(pack({ end_of_source_media: {} }))],
    [
      "chunk not a multiple of the PCM frame",
      400,
      4000405,
      1008,
      (l) => l.ws.send(`{"source_media_chunk":{"data":"${b64(3)}"}}`)
    ],
    [
      "audio after end of source media",
      400,
      4000406,
      1008,
      (l) => {
        l.words(1, 1)
        l.end()
        l.words(1, 1)
      }
    ],
    [
      "chunk too large",
      413,
      4130401,
      1009,
      (l) => l.ws.send(`{"source_media_chunk":{"data":"${b64(102_402)}"}}`)
    ],
    [
      "chunk too long",
      413,
      4130401,
      1009,
      (l) => l.ws.send(`{"source_media_chunk":{"data":"${b64(32_002)}"}}`)
    ],
    ["faster than 2× real time", 429, 4290401, 1008, (l) => l.words(1, 26)]
  ])("%s", async (_, error_code, reason_code, close, send) => {
    await open()
    const { listener, token, session } = await world.connect()
    await until(() => world.live(session) !== undefined)
    send(listener)
    await until(() => listener.code !== 0)
    expect(listener.error).toMatchObject({
      error_code,
      reason_code,
      request_type: expect.any(String),
      error_message: expect.any(String)
    })
    expect(listener.code).toBe(close)
    expect((await world.renew(token)).status).toBe(403)
  })
  it("msgpack: text frames, arrays instead of maps and integer keys are errors", async () => {
    await open()
    for (const [message, reason] of [
      ["{}", 4000404],
      [pack([1]), 4000401],
      [pack(new Map([[1, {}]])), 4000401],
      [pack({ source_media_chunk: [new Uint8Array(2)] }), 4000402]
    ] as const) {
      const { listener } = await world.connect({ message_format: "msgpack" })
      listener.ws.send(message)
      await until(() => listener.error !== undefined)
      expect(listener.error).toMatchObject({ reason_code: reason })
    }
  })
  it("audio not decodable as the declared format: 4000403, close 1008", async () => {
    await open()
    const { listener } = await world.connect({ source_media_content_type: "audio/ogg;codecs=opus" })
    for (let i = 0; i < 4; i++) listener.sound(new Uint8Array(6_000).fill(i + 65))
    listener.end()
    await until(() => listener.code === 1008)
    expect(listener.error).toMatchObject({ reason_code: 4000403, request_type: "source_media_chunk" })
  })
  it("30 s without audio, also right after connecting: 4080401; pings do not count", async () => {
    await open()
    const { listener, session } = await world.connect()
    await until(() => world.live(session) !== undefined)
    world.nowMs += 29_000
    world.voice.sweep()
    listener.ws.ping()
    expect(listener.code).toBe(0)
    world.nowMs += 1_000
    await new Promise((resolve) => setTimeout(resolve, 20))
    world.voice.sweep()
    await until(() => listener.code === 1008)
    expect(listener.error).toMatchObject({ error_code: 408, reason_code: 4080401 })
  })
  it("1 h of connection: 1001 without error, and the session stays resumable", async () => {
    await open()
    const { listener, token } = await world.connect()
    for (let i = 0; i < 144; i++) {
      listener.sound(new Uint8Array(0))
      world.nowMs += 25_000
      await new Promise((resolve) => setTimeout(resolve, 1))
      world.voice.sweep()
    }
    await until(() => listener.code === 1001)
    expect(listener.error).toBeUndefined()
    expect((await world.renew(token)).status).toBe(200)
  })
  it("server shutdown: 1001 without error", async () => {
    await open()
    const { listener } = await world.connect()
    await world.server.drain(500)
    await until(() => listener.code === 1001)
    expect(listener.error).toBeUndefined()
  })
  it("a key that is deactivated: its connections end with error 403", async () => {
    await open()
    const { listener, session } = await world.connect()
    await until(() => world.live(session) !== undefined)
    const { accountId, keyId } = world.ring.find(`DeepL-Auth-Key ${world.secret}`)!.key
    await world.ring.deactivate(accountId, keyId, world.nowMs)
    await new Promise((resolve) => setTimeout(resolve, 20))
    world.voice.sweep()
    await until(() => listener.code === 1008)
    expect(listener.error).toMatchObject({ error_code: 403 })
  })
  it("recogniser unavailable: 5030401, close 1013", async () => {
    await open({ hearing: { alwaysCrashAfter: 2 } })
    const { listener } = await world.connect()
    listener.words(1, 10)
    await until(() => listener.code === 1013)
    expect(listener.error).toMatchObject({ error_code: 503, reason_code: 5030401 })
  })
  it("translator unavailable, twice: 5030401, close 1013", async () => {
    await open({
      translating: {
        instead: () => Effect.fail(new EngineFault({ reason: "crashed", engine: "fake", detail: "scripted" }))
      }
    })
    const { listener } = await world.connect({ target_languages: ["de"] })
    listener.words(1, 5)
    await until(() => listener.code === 1013)
    expect(listener.error).toMatchObject({ reason_code: 5030401 })
    // G-13: a failure of ours that a WebSocket tells is logged like any other.
    expect(world.logged).toMatchObject([
      {
        level: "warn",
        message: "a voice session failed",
        fields: {
          traceId: expect.stringMatching(/^[0-9a-f]{32}$/),
          session: expect.any(String),
          status: 503,
          cause: { reason: "crashed", engine: "fake" }
        }
      }
    ])
  })
})

describe("continuity", () => {
  it("a recogniser that crashes once: what was not concluded is heard again, nothing is lost or doubled", async () => {
    await open({ hearing: { crashAfter: 8 } })
    const { listener } = await world.connect({ target_languages: ["de"] })
    for (let i = 0; i < 4; i++) {
      listener.words(1 + 5 * i, 5)
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
    listener.end()
    await until(() => listener.code === 1000)
    expect(listener.concluded()).toBe(words(1, 21))
    expect(listener.concluded("de")).toBe(words(1, 21, true))
    expect(world.engines.recognizer.hearings).toBe(2)
  })
  it("a lost connection: what was heard meanwhile comes first after the reconnect, times go on, media is described again", async () => {
    await open()
    const { listener, token, session } = await world.connect({
      target_languages: ["de"],
      target_media_languages: ["de"]
    })
    listener.words(1, 5)
    await until(() => listener.concluded("de") !== "")
    listener.words(6, 5)
    listener.ws.terminate()
    await until(() => (world.live(session)?.state as any)?.disconnectedMs > 0)
    await until(() => world.live(session)?.lanes["audio"] === 0)
    world.nowMs += 5_000
    const { body } = await world.renew(token)
    const again = world.listen(body)
    await again.opened
    again.words(11, 5)
    again.end()
    await until(() => again.code === 1000)
    expect(listener.concluded() + again.concluded()).toBe(words(1, 16))
    expect(listener.concluded("de") + again.concluded("de")).toBe(words(1, 16, true))
    expect(again.heard.flatMap((m) => m["source_transcript_update"]?.concluded ?? []).at(-1)).toMatchObject({
      start_time: 2_000,
      end_time: 3_000
    })
    expect(again.heard.find((m) => "target_media_chunk" in m)!["target_media_chunk"]).toHaveProperty(
      "content_type"
    )
  })
  it("compressed sound is metered per connection: a reconnect does not count what came before as too fast", async () => {
    await open()
    const type = "audio/ogg;codecs=opus"
    const encoder = encoderFor(type)!()
    const { packets } = await encoder.encode(new Int16Array(24_000 * 40), 24_000)
    const { listener, token, session } = await world.connect({ source_media_content_type: type })
    await until(() => world.live(session) !== undefined)
    world.nowMs += 20_000
    listener.sound(Buffer.concat([...encoder.headers, ...packets]))
    await until(() => world.live(session)?.lanes["audio"] === 0)
    listener.ws.terminate()
    await until(() => (world.live(session)?.state as any)?.disconnectedMs > 0)
    const { body } = await world.renew(token)
    const again = world.listen(body)
    await again.opened
    for (const part of (await encoder.encode(new Int16Array(24_000 * 2), 24_000)).packets) again.sound(part)
    again.end()
    await until(() => again.code !== 0)
    expect([again.error, again.code]).toEqual([undefined, 1000])
  })
  it("connection lost while finalizing: the rest is delivered after the reconnect", async () => {
    await open()
    const { listener, token, session } = await world.connect({ target_languages: ["de"] })
    listener.words(1, 5)
    await until(() => listener.concluded("de") !== "")
    listener.words(6, 2)
    listener.end()
    listener.ws.terminate()
    await until(() => (world.live(session)?.state as any)?.disconnectedMs > 0)
    const { body } = await world.renew(token)
    const again = world.listen(body)
    await until(() => again.code === 1000)
    expect(listener.concluded() + again.concluded()).toBe(words(1, 8))
    expect(again.names.at(-1)).toBe("end_of_stream")
  })
})
