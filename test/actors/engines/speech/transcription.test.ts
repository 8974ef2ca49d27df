/** An OpenAI-compatible transcription service, scripted over a real socket; and how sound is cut into
 *  utterances for it. */
import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { Effect, Stream } from "effect"
import { afterEach, describe, expect, it } from "vitest"
import type { RecognitionEvent, Pcm, Recognizer } from "../../../../actors/engines/ports.ts"
import { stillClock } from "../scripted-recognizer.ts"
import { openaiTranscription } from "../../../../actors/engines/speech/openai-transcription.ts"
import { UtteranceSegmenter, type Utterance } from "../../../../actors/engines/speech/utterance-segmenter.ts"

interface Asked {
  readonly path: string
  readonly key: string
  readonly samples: number
  readonly fields: Readonly<Record<string, string>>
}

type Answer = (
  asked: Asked,
  call: number
) => { readonly status?: number; readonly json?: unknown; readonly raw?: string }

let server: Server | undefined

afterEach(() => {
  server?.closeAllConnections()
  server?.close()
  server = undefined
})

const service = async (
  answer: Answer
): Promise<{ readonly engine: Recognizer; readonly asked: Array<Asked> }> => {
  const asked: Array<Asked> = []
  server = createServer(async (request, response) => {
    const parts: Array<Buffer> = []
    for await (const part of request) parts.push(part as Buffer)
    const form = await new Response(Buffer.concat(parts), {
      headers: { "Content-Type": request.headers["content-type"]! }
    }).formData()
    const wav = Buffer.from(await (form.get("file") as File).arrayBuffer())
    expect([
      wav.toString("latin1", 0, 4),
      wav.toString("latin1", 8, 16),
      wav.readUInt32LE(24),
      wav.readUInt16LE(22),
      wav.readUInt32LE(40)
    ]).toEqual(["RIFF", "WAVEfmt ", 16_000, 1, wav.length - 44])
    asked.push({
      path: request.url!,
      key: request.headers.authorization!,
      samples: (wav.length - 44) / 2,
      fields: Object.fromEntries(
        [...form].flatMap(([name, value]) => (typeof value === "string" ? [[name, value]] : []))
      )
    })
    const is = answer(asked.at(-1)!, asked.length)
    response.statusCode = is.status ?? 200
    response.end(is.raw ?? JSON.stringify(is.json ?? { text: "heard" }))
  })
  await new Promise<void>((resolve) => server!.listen(0, "127.0.0.1", resolve))
  return {
    engine: openaiTranscription(
      { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/`, key: "k", model: "ear-1" },
      stillClock
    ),
    asked
  }
}

const quiet = (ms: number): Int16Array => new Int16Array(ms * 16)

const speech = (ms: number): Int16Array =>
  Int16Array.from({ length: ms * 16 }, (_, i) => Math.round(6_000 * Math.sin(i / 9)))

const chunksOf = (size: number, ...parts: ReadonlyArray<Int16Array>): ReadonlyArray<Pcm> => {
  const whole = Int16Array.from(parts.flatMap((part) => [...part]))
  return Array.from({ length: Math.ceil(whole.length / size) }, (_, i) =>
    whole.slice(i * size, (i + 1) * size)
  )
}

const hear = (
  engine: Recognizer,
  chunks: ReadonlyArray<Pcm>,
  options: Parameters<Recognizer["recognize"]>[1] = { language: "de" }
) =>
  Effect.runPromise(Effect.result(Stream.runCollect(engine.recognize(Stream.fromIterable(chunks), options))))

describe("OpenAI-compatible transcription", () => {
  it("sends each utterance as a WAV file with model, language, hints and key; its answer is a final at the utterance's time", async () => {
    const { engine, asked } = await service((_, call) => ({ json: { text: ` Satz ${call}. ` } }))
    const heard = await hear(
      engine,
      chunksOf(3_200, quiet(200), speech(900), quiet(1_000), speech(800), quiet(300)),
      { language: "de", hints: ["Troupe", "Äpfel"] }
    )
    expect(heard).toMatchObject({
      success: [
        { _tag: "final", text: "Satz 1.", language: "de" },
        { _tag: "final", text: "Satz 2.", language: "de" }
      ]
    })
    const [first, second] = (
      heard as unknown as { readonly success: ReadonlyArray<Extract<RecognitionEvent, { _tag: "final" }>> }
    ).success
    for (const [{ startMs, endMs }, from, to] of [
      [first!, 200, 1_100],
      [second!, 2_100, 2_900]
    ] as const) {
      expect(Math.abs(startMs - from)).toBeLessThanOrEqual(300)
      expect(Math.abs(endMs - to)).toBeLessThanOrEqual(300)
    }
    expect(asked.map(({ path, key, fields }) => [path, key, fields])).toEqual(
      Array.from({ length: 2 }, () => [
        "/v1/audio/transcriptions",
        "Bearer k",
        { model: "ear-1", language: "de", prompt: "Troupe, Äpfel" }
      ])
    )
  })
  it("an utterance that goes on is told as a partial at most every two seconds, then as a final", async () => {
    const { engine, asked } = await service((_, call) => ({ json: { text: `so far ${call}` } }))
    const heard = await hear(engine, chunksOf(3_200, speech(7_000), quiet(1_000)))
    expect(
      (heard as any).success.map((item: RecognitionEvent) =>
        item._tag === "silence" ? "silence" : `${item._tag} ${item.text}`
      )
    ).toEqual(["partial so far 1", "partial so far 2", "partial so far 3", "final so far 4"])
    expect(asked.map(({ samples }) => samples)).toEqual(
      asked.map(({ samples }) => samples).sort((a, b) => a - b)
    )
  })
  it("no language and no hints: neither is sent; silence asks nothing; an empty answer tells nothing", async () => {
    const { engine, asked } = await service(() => ({ json: { text: "  " } }))
    expect(await hear(engine, chunksOf(3_200, quiet(2_000)), { language: undefined })).toMatchObject({
      success: []
    })
    expect(asked).toHaveLength(0)
    expect(await hear(engine, chunksOf(3_200, speech(600)), { language: undefined })).toMatchObject({
      success: []
    })
    expect(asked.map(({ fields }) => fields)).toEqual([{ model: "ear-1" }])
  })
  it.each<[string, Answer, string, number]>([
    ["503 is tried twice more, then an upstream fault", () => ({ status: 503 }), "upstream", 3],
    ["429 likewise", () => ({ status: 429 }), "upstream", 3],
    ["no JSON likewise", () => ({ raw: "<html>" }), "upstream", 3],
    ["400 is bad input, at once", () => ({ status: 400 }), "bad-input", 1],
    ["401 makes it unavailable, at once", () => ({ status: 401 }), "unavailable", 1]
  ])("%s", async (_, answer, reason, calls) => {
    const { engine, asked } = await service(answer)
    expect(await hear(engine, chunksOf(3_200, speech(600)))).toMatchObject({
      failure: { reason, engine: "openai-transcription" }
    })
    expect([asked.length, engine.capacity().used]).toEqual([calls, 0])
  })
  it("a service that stumbles once is asked again with the same sound", async () => {
    const { engine, asked } = await service((_, call) => (call === 1 ? { status: 500 } : {}))
    expect(await hear(engine, chunksOf(3_200, speech(600)))).toMatchObject({
      success: [{ _tag: "final", text: "heard" }]
    })
    expect(asked[0]!.samples).toBe(asked[1]!.samples)
  })
})

describe("utterances", () => {
  const cut = (chunks: ReadonlyArray<Pcm>): ReadonlyArray<Utterance> => {
    const of = new UtteranceSegmenter()
    return [...chunks.flatMap((chunk) => of.push(chunk)), ...of.end()]
  }
  const timesOf = (pieces: ReadonlyArray<Utterance>) => pieces.map(({ startMs, endMs }) => [startMs, endMs])
  it("0.6 s of quiet end one, less does not; a lead of up to eight frames comes before it", () => {
    const long = cut(
      chunksOf(1_600, quiet(900), speech(600), quiet(300), speech(600), quiet(900), speech(600))
    )
    expect(timesOf(long)).toEqual(
      [
        [660, 2_400],
        [3_000, 3_900]
      ].map(([from, to]) => [expect.closeTo(from!, -2.7), expect.closeTo(to!, -2.7)])
    )
    for (const { pcm, startMs, endMs } of long)
      expect(pcm.length / 16).toBeGreaterThanOrEqual(endMs - startMs - 30)
  })
  it("the cuts do not depend on how the sound came", () => {
    const parts = [quiet(400), speech(900), quiet(700), speech(500), quiet(200)]
    const whole = timesOf(cut(chunksOf(1_000_000, ...parts)))
    for (const size of [1, 160, 481, 3_200]) expect(timesOf(cut(chunksOf(size, ...parts)))).toEqual(whole)
  })
  it("speech without a pause is cut at 15 s; nothing of it is lost", () => {
    const pieces = cut(chunksOf(3_200, speech(40_000)))
    expect(pieces.map(({ pcm }) => pcm.length / 16)).toEqual([15_000, 15_000, expect.closeTo(10_000, -2)])
    for (let i = 1; i < pieces.length; i++) expect(pieces[i]!.startMs).toBe(pieces[i - 1]!.endMs)
  })
  it("a steady hum becomes the floor; silence is no utterance; `open` is what is being said", () => {
    expect(cut(chunksOf(1_600, quiet(3_000)))).toEqual([])
    const hum = Int16Array.from({ length: 160_000 }, (_, i) => Math.round(300 * Math.sin(i / 11)))
    expect(cut(chunksOf(1_600, hum))).toEqual([])
    const of = new UtteranceSegmenter()
    expect(of.open).toBeUndefined()
    of.push(speech(900))
    expect(of.open!.pcm.length).toBe(14_400)
  })
})
