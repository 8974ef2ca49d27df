import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { toolCallStream, chunk, completion, textStream } from "../fake-upstream.ts"
import { frames, ChatTestServer } from "../chat-server.ts"

let chatServer: ChatTestServer

beforeAll(async () => {
  chatServer = await ChatTestServer.open()
})

afterAll(() => chatServer.close())

describe("chat completions, whole", () => {
  it("the deterministic model: the shape of section 7.3", async () => {
    const answer = await chatServer.ask({
      model: "local/echo",
      messages: [{ role: "user", content: "one two" }]
    })
    expect(answer.status).toBe(200)
    expect(answer.body).toMatchObject({
      object: "chat.completion",
      model: "local/echo",
      choices: [
        {
          index: 0,
          message: { role: "assistant", content: "one two", refusal: null, annotations: [] },
          logprobs: null,
          finish_reason: "stop"
        }
      ],
      usage: { prompt_tokens: 2, completion_tokens: 2, total_tokens: 4 },
      service_tier: "default",
      system_fingerprint: null
    })
    expect(answer.body.id).toMatch(/^chatcmpl-[0-9a-f]{32}$/)
    expect(answer.headers.get("x-proxy-model")).toBe("local/echo")
    expect(answer.headers.get("x-proxy-attempts")).toBe("1")
    expect(answer.headers.get("x-request-id")).toMatch(/^req_[0-9a-f]{32}$/)
  })
  it("an OpenAI-compatible upstream, by full id and by bare name", async () => {
    chatServer.upstream.respondWith({ json: completion("hello") })
    expect((await chatServer.ask()).body.choices[0].message.content).toBe("hello")
    expect((await chatServer.ask({ model: "llama-3.1-8b" })).body).toMatchObject({
      model: "llama-3.1-8b",
      choices: [{ message: { content: "hello" } }]
    })
    expect(chatServer.upstream.last.body).toMatchObject({
      model: "llama-3.1-8b",
      messages: [{ role: "user", content: "hi" }]
    })
  })
})

describe("what an upstream gets", () => {
  const sent = async (messages: string): Promise<unknown> => {
    chatServer.upstream.respondWith({ json: completion("hello") })
    expect(
      (await chatServer.call("/v1/chat/completions", { body: `{"model":"main/m","messages":${messages}}` }))
        .status
    ).toBe(200)
    return chatServer.upstream.last.text.replace(/^.*"messages":/, "").slice(0, -1)
  }
  it("plain messages, as they were written", async () => {
    for (const written of [
      '[{"role":"user","content":"hi"}]',
      '[ {"content":"\\ud800 \\u00fc \\/", "role" : "system"},{"role":"user","content":""}]'
    ])
      expect(await sent(written)).toBe(written)
  })
  it("a name that stands twice in a message: only the last of it, which is what was checked", async () => {
    for (const [written, read] of [
      ['[{"role":"system","role":"user","content":"hi"}]', '[{"role":"user","content":"hi"}]'],
      [
        '[{"role":"user","content":[{"type":"odd"}],"content":"hi"},{"role":"user","content":"x"}]',
        '[{"role":"user","content":"hi"},{"role":"user","content":"x"}]'
      ],
      ['[{"role":"user","content":1,"content":"hi"}]', '[{"role":"user","content":"hi"}]'],
      [
        '[{"role":"user","content":"hi"}],"messages":[{"role":"user","content":"last"}]',
        '[{"role":"user","content":"last"}]'
      ]
    ] as const)
      expect(await sent(written)).toBe(read)
  })
})

describe("chat completions, streamed", () => {
  it("the deterministic model: role first, one word an event, finish, [DONE]", async () => {
    const { text, headers } = await chatServer.ask({
      model: "local/echo",
      stream: true,
      messages: [{ role: "user", content: "one two three" }]
    })
    expect(headers.get("content-type")).toBe("text/event-stream; charset=utf-8")
    const all = frames(text)
    expect(all.at(-1)!.data).toBe("[DONE]")
    expect(all.slice(0, -1).map(({ data }) => data.choices[0].delta)).toEqual([
      { role: "assistant", content: "", refusal: null },
      { content: "one " },
      { content: "two " },
      { content: "three" },
      {}
    ])
    expect(new Set(all.slice(0, -1).map(({ data }) => `${data.id} ${data.created} ${data.model}`)).size).toBe(
      1
    )
  })
  it("an upstream's stream", async () => {
    chatServer.upstream.respondWith({ chunks: textStream("a", "b", 'ü\n"x"', "d") })
    const all = frames((await chatServer.ask({ stream: true })).text)
    expect(
      all
        .slice(0, -1)
        .map(({ data }) => data.choices[0].delta.content ?? "")
        .join("")
    ).toBe('abü\n"x"d')
    expect(chatServer.upstream.last.body).toMatchObject({
      stream: true,
      stream_options: { include_usage: true }
    })
  })
  it("a tool call", async () => {
    chatServer.upstream.respondWith({ chunks: toolCallStream("look", '{"city":"Rome"}') })
    const all = frames(
      (await chatServer.ask({ stream: true, tools: [{ type: "function", function: { name: "look" } }] })).text
    )
      .slice(0, -1)
      .map(({ data }) => data.choices[0])
    expect(all.map(({ delta }) => delta)).toEqual([
      { role: "assistant", content: null, refusal: null },
      {
        tool_calls: [{ index: 0, id: "call_1", type: "function", function: { name: "look", arguments: "" } }]
      },
      { tool_calls: [{ index: 0, function: { arguments: '{"c' } }] },
      { tool_calls: [{ index: 0, function: { arguments: 'ity":"Rome"}' } }] },
      {}
    ])
    expect(all.at(-1).finish_reason).toBe("tool_calls")
    expect(chunk({})).toBeTruthy()
  })
})

describe("an upstream's last and first words", () => {
  it("[DONE] is the end: a body that stays open holds nobody up, and its connection is let go", async () => {
    chatServer.upstream.respondWith({ chunks: [...textStream("a", "b"), "[DONE]"], hang: true })
    const { text } = await chatServer.ask({ stream: true })
    expect(text.endsWith("data: [DONE]\n\n")).toBe(true)
    expect(frames(text).length).toBeGreaterThan(3)
    const { last } = chatServer.upstream
    expect(last.aborted).toBe(false)
    chatServer.clockOffsetMs += 1_200
    await last.closed
  })
  it("a fault in the first event, or as JSON, is an answer with a status, after retries", async () => {
    for (const step of [
      { chunks: [{ error: { message: "no room", type: "server_error" } }] },
      { json: { error: { message: "no room" } } }
    ]) {
      chatServer.upstream.respondWith(step, step, { chunks: textStream("third") })
      const { status, text } = await chatServer.ask({ stream: true })
      expect([status, text.includes("third"), chatServer.upstream.requests.length]).toEqual([200, true, 3])
      chatServer.upstream.respondWith(step)
      expect((await chatServer.ask({ stream: true })).status).toBe(502)
      // Not a fifth fault in a row: the upstream would rest.
      chatServer.upstream.respondWith({ json: completion("well") })
      await chatServer.ask()
    }
  })
})

it("an error of null is none: the stream is committed by its first chunk", async () => {
  const own = await ChatTestServer.open({ streamCommitMs: 1_000_000 })
  let go!: () => void
  const gate = new Promise<void>((resolve) => {
    go = resolve
  })
  own.upstream.respondWith({
    chunks: textStream("a", "b").map((one) => ({ ...(one as object), error: null })),
    pace: (i) => (i < 2 ? Promise.resolve() : gate)
  })
  const response = await own.fetch("/v1/chat/completions", {
    body: { model: "main/m", stream: true, messages: [{ role: "user", content: "x" }] }
  })
  expect(response.status).toBe(200)
  go()
  expect(await response.text()).toContain('"content":"b"')
  await own.close()
})

it("spoken answers: asked for as OpenAI asks, given back whole or piece by piece", async () => {
  const own = await ChatTestServer.open({ main: { supports: { audio: true } } })
  const body = {
    model: "main/m",
    modalities: ["text", "audio"],
    audio: { voice: "alloy", format: "wav" },
    messages: [{ role: "user", content: "x" }]
  }
  const audio = { id: "audio_1", data: "UklGRg==", expires_at: 5, transcript: "hi" }
  own.upstream.respondWith({ json: completion(null, { audio }) })
  expect((await own.ask(body)).body.choices[0].message).toMatchObject({ content: null, audio })
  expect(own.upstream.last.body).toMatchObject({
    modalities: ["text", "audio"],
    audio: { voice: "alloy", format: "wav" }
  })
  own.upstream.respondWith({
    chunks: [
      chunk({ role: "assistant", audio: { id: "audio_1", transcript: "h" } }),
      chunk({ audio: { data: "Uk" } }),
      chunk({ audio: { transcript: "i", data: "lG" } }),
      chunk({}, "stop")
    ]
  })
  expect(
    frames((await own.ask({ ...body, stream: true })).text).flatMap(
      ({ data }) => data.choices?.[0]?.delta.audio ?? []
    )
  ).toEqual([{ id: "audio_1", transcript: "h" }, { data: "Uk" }, { transcript: "i", data: "lG" }])
  await own.close()
})

it("figures that are no counts are none", async () => {
  chatServer.upstream.respondWith({
    json: {
      ...(completion("x") as object),
      usage: {
        prompt_tokens: 3.7,
        completion_tokens: -1,
        prompt_tokens_details: { cached_tokens: 1e300 },
        completion_tokens_details: { reasoning_tokens: "5" }
      }
    }
  })
  expect((await chatServer.ask()).body.usage).toMatchObject({
    prompt_tokens: 3,
    completion_tokens: 0,
    total_tokens: 3,
    prompt_tokens_details: { cached_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 0 }
  })
})

it.each(["chat/completions", "responses"])(
  "the end of a drain interrupts %s, whole and before the first event: 503, the upstream is freed",
  async (path) => {
    for (const stream of [false, true]) {
      const server = await ChatTestServer.open()
      server.upstream.respondWith({ chunks: [], hang: true })
      const body = { model: "main/m", stream, input: "hi", messages: [{ role: "user", content: "hi" }] }
      const answer = server.call(`/v1/${path}`, { body: JSON.stringify(body) })
      await expect.poll(() => server.upstream.requests.length).toBe(1)
      await server.server.drain(0)
      await server.upstream.last.closed
      expect(server.upstream.last.aborted).toBe(true)
      expect((await answer).status).toBe(503)
      await server.close()
    }
  }
)
