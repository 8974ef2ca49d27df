import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { Effect, Fiber, Result } from "effect"
import { TestClock } from "effect/testing"
import { afterEach, describe, expect, it, vi } from "vitest"
import type {
  EngineSegment,
  TranslateRequest,
  Translator,
  SegmentUnit
} from "../../../../actors/engines/ports.ts"
import { deeplUpstream } from "../../../../actors/engines/translation/deepl-upstream.ts"
import { openaiUpstream } from "../../../../actors/engines/translation/openai-upstream.ts"

type Answer = (
  body: any,
  call: number,
  request: IncomingMessage,
  response: ServerResponse
) => { readonly status?: number; readonly json?: unknown; readonly raw?: string } | "cut" | "silent"

let server: Server | undefined

afterEach(() => {
  server?.closeAllConnections()
  server?.close()
  server = undefined
})

/** A service of ours that answers POSTs as told; GETs are the language lists. */
const upstream = async (
  answer: Answer,
  lists: () => number = () => 200
): Promise<{ readonly url: string; readonly bodies: Array<any>; listings: number; aborted: number }> => {
  const seen = { url: "", bodies: [] as Array<any>, listings: 0, aborted: 0 }
  server = createServer((request, response) => {
    if (request.method === "GET") {
      seen.listings++
      response.statusCode = lists()
      return void response.end(
        JSON.stringify(
          request.url!.includes("source")
            ? [{ language: "EN" }, { language: "ES" }]
            : [
                { language: "ES", supports_formality: true },
                { language: "EN-GB" },
                { language: "PT-BR", supports_formality: true },
                { language: "DE" }
              ]
        )
      )
    }
    response.on("close", () => {
      if (!response.writableEnded) seen.aborted++
    })
    const parts: Array<Buffer> = []
    request
      .on("data", (part: Buffer) => parts.push(part))
      .on("end", () => {
        const body = JSON.parse(Buffer.concat(parts).toString()) as unknown
        seen.bodies.push(body)
        const is = answer(body, seen.bodies.length, request, response)
        if (is === "cut") return request.socket.destroy()
        if (is === "silent") return
        response.statusCode = is.status ?? 200
        response.end(is.raw ?? JSON.stringify(is.json ?? {}))
      })
  })
  await new Promise<void>((resolve) => server!.listen(0, "127.0.0.1", resolve))
  seen.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return seen
}

const text = (of: string): SegmentUnit => ({ _tag: "text", text: of })
const mark = (id: number): SegmentUnit => ({ _tag: "opaque", id })

const plain = ({ units }: EngineSegment): string =>
  units.map((unit) => (unit._tag === "text" ? unit.text : `‹${unit.id}›`)).join("")

const ask = (
  engine: Translator,
  segments: ReadonlyArray<EngineSegment>,
  more: Partial<TranslateRequest> = {}
) => engine.translate({ source: "en", target: "es", segments, ...more })

const run = <A, E>(effect: Effect.Effect<A, E>) => Effect.runPromise(Effect.result(effect))

/** Lets the upstream do its work while the pauses between tries pass by the test's clock. */
const hurried = async <A, E>(effect: Effect.Effect<A, E>): Promise<Result.Result<A, E>> =>
  Effect.runPromise(
    Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(Effect.result(effect))
      while (fiber.pollUnsafe() === undefined) {
        yield* Effect.promise(() => new Promise((resolve) => setTimeout(resolve, 5)))
        yield* TestClock.adjust(300)
      }
      return yield* Fiber.join(fiber)
    }).pipe(Effect.provide(TestClock.layer()))
  )

const hello: ReadonlyArray<EngineSegment> = [{ units: [text("hello")] }]

describe("a DeepL-compatible upstream", () => {
  const shout: Answer = ({ text: texts }) => ({
    json: {
      translations: (texts as Array<string>).map((one) => ({
        text: one.replace(/>[^<]+|^[^<]+/g, (part) =>
          part.replace(/(?<!&)\b[a-z]+(?!;)/g, (word) => word.toUpperCase())
        )
      }))
    }
  })
  const ready = async (url: string, nowMs?: () => number): Promise<Translator> => {
    const engine = deeplUpstream({ url: `${url}/`, key: "k", ...(nowMs === undefined ? {} : { nowMs }) })
    await vi.waitFor(() => expect(engine.readiness().ready).toBe(true))
    return engine
  }
  it("sends units as ignored XML elements, with formality, context and key; reads them back", async () => {
    let key: unknown
    const seen = await upstream((body, n, request, response) => {
      key = request.headers.authorization
      return shout(body, n, request, response)
    })
    const engine = await ready(seen.url)
    const result = await run(
      ask(engine, [{ units: [text("a < b & "), mark(1), text("c")] }], {
        formality: "more",
        context: "shop",
        instructions: ["be brief"]
      })
    )
    expect(result).toMatchObject({
      success: { engine: "deepl-upstream", segments: [{ units: [text("A < B & "), mark(1), text("C")] }] }
    })
    expect(key).toBe("DeepL-Auth-Key k")
    expect(seen.bodies).toEqual([
      {
        text: ['a &lt; b &amp; <x id="1"/>c'],
        source_lang: "EN",
        target_lang: "ES",
        tag_handling: "xml",
        ignore_tags: ["x"],
        split_sentences: "0",
        context: "shop",
        custom_instructions: ["be brief"],
        formality: "prefer_more"
      }
    ])
  })
  it("takes its pairs from its language lists; variants fall to what it knows", async () => {
    const engine = await ready((await upstream(shout)).url)
    expect([
      engine.supports("en", "es"),
      engine.supports("en", "es-419"),
      engine.supports("es", "en"),
      engine.supports("es", "en-us"),
      engine.supports("en", "pt-br"),
      engine.supports("en", "pt"),
      engine.supports("fr", "es"),
      engine.supports("en", "fr")
    ]).toEqual(["direct", "direct", "direct", "direct", "direct", "direct", false, false])
    expect([
      engine.formality("es"),
      engine.formality("es-419"),
      engine.formality("pt"),
      engine.formality("de"),
      engine.formality("fr")
    ]).toEqual([true, true, true, false, false])
    expect(engine.pairs().map((pair) => pair.join(">"))).toEqual([
      "en>es",
      "en>pt",
      "en>de",
      "es>en",
      "es>pt",
      "es>de"
    ])
  })
  it("a list that cannot be had is asked for again after 30 s, not at every request", async () => {
    let nowMs = 1
    let status = 503
    const seen = await upstream(shout, () => status)
    const engine = deeplUpstream({ url: seen.url, key: "k", nowMs: () => nowMs })
    await vi.waitFor(() =>
      expect(engine.readiness()).toMatchObject({ ready: false, reason: expect.stringContaining("HTTP 503") })
    )
    for (let i = 0; i < 50; i++) engine.readiness()
    expect(seen.listings).toBe(2)
    nowMs += 30_001
    status = 200
    await vi.waitFor(() => expect(engine.readiness().ready).toBe(true))
    expect(seen.listings).toBe(4)
  })
  it("120 segments go in three calls and come back in order", async () => {
    const seen = await upstream(shout)
    const engine = await ready(seen.url)
    const result = await run(
      ask(
        engine,
        Array.from({ length: 120 }, (_, i) => ({ units: [text(`word ${i}`)] }))
      )
    )
    expect(Result.isSuccess(result) && result.success.segments.map(plain)).toEqual(
      Array.from({ length: 120 }, (_, i) => `WORD ${i}`)
    )
    expect(seen.bodies).toHaveLength(3)
  })
  for (const [name, trouble, tries] of [
    ["503 twice, then well", { status: 503 }, 3],
    ["429 twice, then well", { status: 429 }, 3],
    ["a cut connection, then well", "cut", 3],
    ["no JSON, then well", { raw: "<html>" }, 3]
  ] as const) {
    it(name, async () => {
      const seen = await upstream((body, call, ...rest) =>
        call < tries ? trouble : shout(body, call, ...rest)
      )
      const result = await hurried(ask(await ready(seen.url), hello))
      expect(result).toMatchObject({ success: { segments: [{ units: [text("HELLO")] }] } })
    })
  }
  for (const [name, trouble, reason, calls] of [
    ["503 for ever", { status: 503 }, "upstream", 3],
    ["400", { status: 400 }, "bad-input", 1],
    ["403", { status: 403 }, "unavailable", 1],
    ["456, its quota", { status: 456 }, "unavailable", 1],
    ["too few translations", { json: { translations: [] } }, "upstream", 1],
    ["null", { raw: "null" }, "upstream", 3],
    ["a number for a text", { json: { translations: [{ text: 5 }] } }, "upstream", 1]
  ] as const) {
    it(`${name} → ${reason} after ${calls}`, async () => {
      const seen = await upstream(() => trouble)
      expect(await hurried(ask(await ready(seen.url), hello))).toMatchObject({
        failure: { reason, engine: "deepl-upstream" }
      })
      expect(seen.bodies).toHaveLength(calls)
    })
  }
  it("silence → timeout after 4 s, once, and the call is dropped", async () => {
    const seen = await upstream(() => "silent")
    expect(await hurried(ask(await ready(seen.url), hello))).toMatchObject({ failure: { reason: "timeout" } })
    expect(seen.bodies).toHaveLength(1)
    await vi.waitFor(() => expect(seen.aborted).toBe(1))
  })
  it("an answer without end is cut off", async () => {
    const seen = await upstream((_, __, ___, response) => {
      const part = "x".repeat(1_048_576)
      const more = (): void => {
        while (!response.destroyed && response.write(part));
        if (!response.destroyed) response.once("drain", more)
      }
      more()
      return "silent"
    })
    expect(await run(ask(await ready(seen.url), hello))).toMatchObject({
      failure: { reason: "unavailable", detail: expect.stringContaining("16777216") }
    })
    expect(seen.bodies).toHaveLength(1)
  })
})

describe("an OpenAI-compatible upstream", () => {
  const said = (content: unknown) => ({
    json: {
      choices: [{ message: { content: typeof content === "string" ? content : JSON.stringify(content) } }]
    }
  })
  const asked = (body: any): ReadonlyArray<string> =>
    JSON.parse(body.messages[1].content as string) as ReadonlyArray<string>
  const shouted = (body: any) => said(asked(body).map((one) => one.toUpperCase()))
  const engine = (url: string) => openaiUpstream({ url: `${url}/v1/`, key: "k", model: "m" })
  it("JSON array in and out, opaque units as ⟦n⟧, pair, formality and context in the system prompt", async () => {
    const seen = await upstream((body) =>
      said("```json\n" + JSON.stringify(asked(body).map((one) => one.toUpperCase())) + "\n```")
    )
    expect(
      await run(
        ask(engine(seen.url), [{ units: [text("a ⟦9⟧ "), mark(1), text("c")] }, ...hello], {
          formality: "less",
          context: "shop"
        })
      )
    ).toMatchObject({
      success: {
        engine: "openai-upstream",
        segments: [{ units: [text("A [9] "), mark(1), text("C")] }, { units: [text("HELLO")] }]
      }
    })
    expect(asked(seen.bodies[0])).toEqual(["a [9] ⟦1⟧c", "hello"])
    expect(seen.bodies[0].messages[0].content).toMatch(
      /from en to es[\s\S]*informal[\s\S]*Context[\s\S]*shop/
    )
  })
  it("at most 20 segments per call", async () => {
    const seen = await upstream(shouted)
    const result = await run(
      ask(
        engine(seen.url),
        Array.from({ length: 45 }, (_, i) => ({ units: [text(`word ${i}`)] }))
      )
    )
    expect(Result.isSuccess(result) && result.success.segments.map(plain)).toEqual(
      Array.from({ length: 45 }, (_, i) => `WORD ${i}`)
    )
    expect(seen.bodies.map((body) => asked(body).length).toSorted()).toEqual([20, 20, 5])
  })
  it("verification: a segment that lost a unit, a figure or all its words is asked for once more, alone", async () => {
    const seen = await upstream((body, call) =>
      call === 1 ? said(["SIN MARCA", "PÁGINA 21", "", "BIEN 7"]) : shouted(body)
    )
    const result = await run(
      ask(engine(seen.url), [
        { units: [text("a "), mark(1)] },
        { units: [text("page 12 of 3")] },
        { units: [text("full")] },
        { units: [text("well 7")] }
      ])
    )
    expect(Result.isSuccess(result) && result.success.segments.map(plain)).toEqual([
      "A ‹1›",
      "PAGE 12 OF 3",
      "FULL",
      "BIEN 7"
    ])
    expect(seen.bodies.slice(1).map(asked).toSorted()).toEqual([["a ⟦1⟧"], ["full"], ["page 12 of 3"]])
  })
  it("an answer of the wrong shape: each segment once more, alone; wrong again → upstream", async () => {
    const two: ReadonlyArray<EngineSegment> = [...hello, { units: [text("world")] }]
    const seen = await upstream((body, call) => (call === 1 ? said(["ONLY ONE"]) : shouted(body)))
    const result = await run(ask(engine(seen.url), two))
    expect(Result.isSuccess(result) && result.success.segments.map(plain)).toEqual(["HELLO", "WORLD"])
    for (const wrong of ["I am sorry.", "{}", [1], null]) {
      server?.close()
      const bad = await upstream(() => said(wrong))
      expect(await run(ask(engine(bad.url), hello)), String(wrong)).toMatchObject({
        failure: { reason: "upstream" }
      })
      expect(bad.bodies).toHaveLength(2)
    }
  })
  it("no choices at all → upstream, no crash", async () => {
    for (const json of [{}, { choices: [] }, { choices: [{}] }, []]) {
      server?.close()
      const bad = await upstream(() => ({ json }))
      expect(await run(ask(engine(bad.url), hello))).toMatchObject({ failure: { reason: "upstream" } })
    }
  })
})
