/** What upstreams do wrong and what clients hear of it. Source: docs/spec/chat.md, sections 8, 14 and 17. */
import { connect } from "node:net"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import type { ChatModel } from "../../../../actors/engines/chat/model.ts"
import { chunk, completion, FakeUpstream, textStream } from "../fake-upstream.ts"
import { frames, until, ChatTestServer } from "../chat-server.ts"

let chatServer: ChatTestServer

beforeEach(async () => {
  chatServer = await ChatTestServer.open()
})

afterEach(() => chatServer.close())

interface Refused {
  readonly status: number
  readonly code: string
}

const refusedOf = ({ status, body }: { readonly status: number; readonly body: any }): Refused => ({
  status,
  code: body.error.code
})

describe("streams that break", () => {
  it("CHAT-35 dies before its first event → 502 JSON, not 200", async () => {
    chatServer.upstream.respondWith({ chunks: textStream("a"), dieAfter: 0 })
    const answer = await chatServer.ask({ stream: true })
    expect(refusedOf(answer)).toEqual({ status: 502, code: "upstream_error" })
    expect(answer.headers.get("content-type")).toContain("application/json")
  })
  it("CHAT-36 dies after 3 chunks → 3 chunks, error frame, [DONE]", async () => {
    chatServer.upstream.respondWith({ chunks: textStream("a", "b", "c"), dieAfter: 3 })
    const all = frames((await chatServer.ask({ stream: true })).text)
    expect(all.slice(0, 3).map(({ data }) => data.choices[0].delta.content)).toEqual(["", "a", "b"])
    expect(all[3]!.data.error).toMatchObject({ code: "upstream_error", type: "server_error", param: null })
    expect(all.slice(4).map(({ data }) => data)).toEqual(["[DONE]"])
    expect(chatServer.upstream.requests.length).toBe(1)
  })
  it("CHAT-37 ends without finish_reason → error frame upstream_bad_response", async () => {
    chatServer.upstream.respondWith({ chunks: [chunk({ content: "a" })] })
    const all = frames((await chatServer.ask({ stream: true })).text)
    expect(all.at(-2)!.data.error.code).toBe("upstream_bad_response")
    expect(all.at(-2)!.data.error.message).toContain("stream ended early")
    expect(all.some(({ data }) => data.choices?.[0].finish_reason)).toBe(false)
  })
  it("CHAT-38 ends without [DONE] but with finish_reason → normal end", async () => {
    chatServer.upstream.respondWith({ chunks: [chunk({ content: "a" }), chunk({}, "stop")], noDone: true })
    const all = frames((await chatServer.ask({ stream: true })).text)
    expect(all.map(({ data }) => data.choices?.[0].finish_reason ?? data)).toEqual([
      expect.anything(),
      expect.anything(),
      "stop",
      "[DONE]"
    ])
  })
  it("an error object in a frame, text that is no JSON, a chunk without choices", async () => {
    for (const [bad, code] of [
      [{ error: { message: "no" } }, "upstream_error"],
      ["{nonsense", "upstream_bad_response"],
      [{ id: "x" }, "upstream_bad_response"]
    ] as const) {
      chatServer.upstream.respondWith({ chunks: [chunk({ content: "a" }), bad] })
      expect(frames((await chatServer.ask({ stream: true })).text).at(-2)!.data.error.code).toBe(code)
    }
  })
  it.each([
    ["pieces of one byte", { pieceBytes: 1 }],
    ["pieces of seven bytes, CRLF, comments", { pieceBytes: 7, eol: "\r\n", comments: true }]
  ])("bytes cut anywhere: %s", async (_, step) => {
    const words = ["Grüße ", "🎻 ", "漢字\n", '"q" \\ end']
    chatServer.upstream.respondWith({ chunks: textStream(...words), ...step })
    const all = frames((await chatServer.ask({ stream: true })).text)
    expect(all.slice(0, -1).flatMap(({ data }) => data.choices[0]?.delta.content ?? [])).toEqual([
      "",
      ...words
    ])
  })
})

it("a first read that grows to more than may wait, before the client's answer has begun: nothing stands still", async () => {
  const words = Array.from({ length: 5_000 }, (_, i) => `w${i} `)
  const burst = words
    .map((content) => `data: ${JSON.stringify({ choices: [{ delta: { content } }] })}\n\n`)
    .join("")
  chatServer.upstream.respondWith({ raw: burst, chunks: [chunk({}, "stop")] })
  const answer = await Promise.race([
    chatServer.ask({ stream: true }),
    new Promise<undefined>((resolve) => {
      setTimeout(() => resolve(undefined), 3_000)
    })
  ])
  expect(
    answer === undefined
      ? "silence"
      : frames(answer.text)
          .map(({ data }) => data.choices?.[0]?.delta?.content ?? "")
          .join("")
  ).toBe(words.join(""))
})

it("a model's name from the client breaks no header, with either adapter", async () => {
  for (const adapter of ["uws", "node"] as const) {
    const own = await ChatTestServer.open({ main: { open_models: true } }, { adapter })
    own.upstream.respondWith({ json: completion("hello") })
    const answer = await own.ask({ model: "main/a\r\nx-evil: 1\r\n\r\n漢" })
    expect([answer.status, answer.body.choices[0].message.content, answer.headers.get("x-evil")]).toEqual([
      200,
      "hello",
      null
    ])
    expect(answer.headers.get("x-proxy-model")).toMatch(/^main\/a {2}x-evil: 1 {4}./)
    await own.close()
  }
})

it("a choice that does not begin at 0 is numbered anew", async () => {
  chatServer.upstream.respondWith({ json: { choices: [{ index: 1, message: { content: "x" } }] } })
  expect((await chatServer.ask()).body).toMatchObject({ choices: [{ index: 0, message: { content: "x" } }] })
})

it("whatever is answered carries its own headers once, with either adapter", async () => {
  for (const adapter of ["uws", "node"] as const) {
    const own = await ChatTestServer.open({ chatKeys: "k", chatBodyBytesMax: 1_000 }, { adapter })
    const path = "/v1/chat/completions"
    const large = { messages: "x".repeat(2_000) }
    for (const [status, answer] of [
      [401, own.fetch("/v1/models", { key: "" })],
      [401, own.fetch(path, { key: "", body: large })],
      [404, own.fetch("/v1/nothing")],
      [405, own.fetch(path)],
      [413, own.fetch(path, { body: large })],
      [415, own.fetch(path, { body: {}, headers: { "content-type": "text/xml" } })],
      [200, own.fetch("/v1/models", { method: "HEAD" })],
      [204, own.fetch(path, { method: "OPTIONS" })]
    ] as const) {
      const { status: got, headers } = await answer
      expect(
        [got, headers.get("access-control-allow-origin"), headers.get("access-control-max-age")],
        `${adapter} ${status}`
      ).toEqual([status, "*", "600"])
      expect(headers.get("x-request-id"), `${adapter} ${status}`).toMatch(/^req_[0-9a-f]{32}$/)
      expect(headers.get("x-trace-id")).toMatch(/^[0-9a-f]{32}$/)
    }
    await own.close()
  }
})

describe("answers that are none", () => {
  it.each<[string, any, ReadonlyArray<unknown>, number]>([
    [
      "CHAT-39 401 → 502 upstream_auth_error",
      { status: 401, json: { error: { message: "bad key sk-123" } } },
      [502, "upstream_auth_error"],
      1
    ],
    [
      "400 is passed on",
      { status: 400, json: { error: { message: "too odd", code: "odd", param: "x" } } },
      [400, "odd"],
      1
    ],
    [
      "context wording",
      { status: 400, json: { error: { message: "This model's maximum context length is 10 tokens" } } },
      [400, "context_length_exceeded"],
      1
    ],
    ["404", { status: 404 }, [404, "model_not_found"], 1],
    ["413", { status: 413 }, [413, "request_too_large"], 1],
    ["500", { status: 500 }, [502, "upstream_error"], 3],
    ["504", { status: 504 }, [504, "upstream_timeout"], 3],
    ["529", { status: 529 }, [503, "upstream_overloaded"], 3],
    [
      "a redirect",
      { status: 302, headers: { location: "http://example.invalid/" } },
      [502, "upstream_bad_response"],
      2
    ],
    ["no JSON", { json: "nonsense" }, [502, "upstream_bad_response"], 2],
    [
      "a choice of a number that is none",
      { json: { choices: [{ index: 1e9, message: { content: "x" } }] } },
      [502, "upstream_bad_response"],
      2
    ],
    ["no choices", { json: { choices: [] } }, [502, "upstream_bad_response"], 2]
  ])("%s", async (_, step, expected, attempts) => {
    chatServer.upstream.respondWith(step)
    const answer = await chatServer.ask()
    const [status, code] = expected
    expect(refusedOf(answer)).toEqual({ status, code })
    expect(chatServer.upstream.requests.length).toBe(attempts)
    expect(answer.text).not.toContain("sk-123")
    expect(answer.text).not.toContain("127.0.0.1")
  })
  it("CHAT-40 429 with Retry-After: 30 → 429 with it, one attempt", async () => {
    chatServer.upstream.respondWith({ status: 429, headers: { "retry-after": "30" } })
    const answer = await chatServer.ask()
    expect(refusedOf(answer)).toEqual({ status: 429, code: "rate_limit_exceeded" })
    expect(answer.headers.get("retry-after")).toBe("30")
    expect(answer.headers.get("retry-after-ms")).toBe("30000")
    expect(answer.headers.get("x-proxy-attempts")).toBe("1")
    expect(chatServer.upstream.requests.length).toBe(1)
  })
  it("CHAT-41 503 twice, then 200 → 200, three attempts", async () => {
    chatServer.upstream.respondWith({ status: 503 }, { status: 503 }, { json: completion("at last") })
    const answer = await chatServer.ask()
    expect([
      answer.status,
      answer.headers.get("x-proxy-attempts"),
      answer.body.choices[0].message.content
    ]).toEqual([200, "3", "at last"])
  })
  it("CHAT-42 never answers → 504 upstream_timeout at the first-event limit", async () => {
    chatServer.upstream.respondWith({ silent: true })
    const asked = chatServer.ask()
    await until(() => chatServer.upstream.requests.length === 1)
    chatServer.clockOffsetMs += 9_000
    await new Promise((resolve) => {
      setTimeout(resolve, 60)
    })
    chatServer.clockOffsetMs += 1_100
    const answer = await asked
    expect(refusedOf(answer)).toEqual({ status: 504, code: "upstream_timeout" })
    expect(answer.headers.get("x-should-retry")).toBe("false")
    await until(() => chatServer.upstream.last.aborted)
  })
  it("a head at once, the first event late: within the first event's limit, though longer than between two", async () => {
    const own = await ChatTestServer.open({ upstreamFirstMs: 10_000, upstreamIdleMs: 2_000 })
    let go!: () => void
    const gate = new Promise<void>((resolve) => {
      go = resolve
    })
    own.upstream.respondWith({ chunks: textStream("a"), pace: () => gate })
    const asked = own.ask({ stream: true })
    await until(() => own.upstream.requests.length === 1)
    await new Promise((resolve) => {
      setTimeout(resolve, 100)
    })
    own.clockOffsetMs += 8_000
    await new Promise((resolve) => {
      setTimeout(resolve, 100)
    })
    go()
    expect((await asked).text).toContain('"content":"a"')
    await own.close()
  })
  it("a connection refused → 502 upstream_unavailable; five in a row open the breaker, then one probe", async () => {
    const unreachable = await ChatTestServer.open({
      records: [
        { id: "gone", kind: "openai-chat", base_url: "http://127.0.0.1:1/v1", models: ["x"], retries: 0 }
      ]
    })
    for (let i = 0; i < 5; i++)
      expect(refusedOf(await unreachable.ask({ model: "gone/x" }))).toEqual({
        status: 502,
        code: "upstream_unavailable"
      })
    const view = async () =>
      (await unreachable.call("/health/details")).body.upstreams.find(
        ({ id }: { id: string }) => id === "gone"
      ).breaker
    expect(await view()).toBe("open")
    const refused = await unreachable.ask({ model: "gone/x" })
    expect(refusedOf(refused)).toEqual({ status: 502, code: "upstream_unavailable" })
    expect(refused.headers.get("x-proxy-attempts")).toBeNull()
    expect((await unreachable.call("/health/details")).body.status).toBe("degraded")
    unreachable.clockOffsetMs += 15_000
    expect((await unreachable.ask({ model: "gone/x" })).headers.get("x-proxy-attempts")).toBe("1")
    expect(await view()).toBe("open")
    await unreachable.close()
  })
  it("a fallback that cannot take the request is passed over: the first fault is told, not the fallback's refusal", async () => {
    const own = await ChatTestServer.open({
      main: { fallbacks: ["local/echo", "box/o"], retries: 0 },
      records: [{ id: "box", kind: "ollama", base_url: "http://127.0.0.1:1", models: ["o"] }]
    })
    own.upstream.respondWith({ status: 500 })
    expect(refusedOf(await own.ask({ logprobs: true }))).toEqual({ status: 502, code: "upstream_error" })
    const image = {
      role: "user",
      content: [{ type: "image_url", image_url: { url: "https://example.com/x.png" } }]
    }
    const answer = await own.ask({ messages: [image] })
    expect(refusedOf(answer)).toEqual({ status: 502, code: "upstream_error" })
    expect(answer.headers.get("x-proxy-attempts")).toBe("2")
    await own.close()
  })
  it.each([false, true])(
    "a fallback with a namespace of its own is heard by its own rules: calls and text under their public names (stream %s)",
    async (stream) => {
      const own = await ChatTestServer.open({ main: { fallbacks: ["local/echo"], retries: 0 } })
      own.upstream.respondWith({ status: 500 })
      const tools = [
        { type: "function", function: { name: "weather", parameters: { type: "object", properties: {} } } }
      ]
      const called = await own.ask({ stream, tools, tool_choice: "required" })
      const said = await own.ask({
        stream,
        tools,
        messages: [{ role: "user", content: "external__weather is a name" }]
      })
      expect([called.status, called.headers.get("x-proxy-model"), said.status]).toEqual([
        200,
        "local/echo",
        200
      ])
      expect([
        called.text.includes('"name":"weather"'),
        called.text.includes("error"),
        `${called.text}${said.text}`.includes("external__")
      ]).toEqual([true, false, false])
      await own.close()
    }
  )
  it("a fallback that takes tools only through the prompt: its block becomes calls", async () => {
    const weak = await FakeUpstream.open()
    const own = await ChatTestServer.open({
      main: { fallbacks: ["weak/m"], retries: 0 },
      records: [{ id: "weak", kind: "openai-chat", base_url: weak.url, native_tools: false }]
    })
    own.upstream.respondWith({ status: 500 })
    weak.respondWith({ json: completion('```json\n{"tool_calls":[{"name":"weather","arguments":{}}]}\n```') })
    const answer = await own.ask({
      tools: [
        { type: "function", function: { name: "weather", parameters: { type: "object", properties: {} } } }
      ]
    })
    expect([
      answer.status,
      answer.body.choices[0].finish_reason,
      answer.body.choices[0].message.tool_calls?.[0].function.name
    ]).toEqual([200, "tool_calls", "weather"])
    await own.close()
    weak.close()
  })
  it("a key that its variable does not hold is told at the start, by the variable's name", async () => {
    const told: Array<unknown> = []
    const own = await ChatTestServer.open(
      {
        main: { api_key_env: "TROUPE_TEST_NO_SUCH_KEY" },
        records: [
          {
            id: "kept",
            kind: "openai-chat",
            base_url: "http://127.0.0.1:1",
            api_key: "k",
            api_key_env: "TROUPE_TEST_NO_SUCH_KEY"
          }
        ]
      },
      {
        log: (level, _, more) => {
          told.push([level, more])
        }
      }
    )
    await own.close()
    expect(told).toEqual([["warn", { upstream: "main", variable: "TROUPE_TEST_NO_SUCH_KEY" }]])
  })
  it("that an upstream rests is logged once, and that it answers again", async () => {
    const told: Array<unknown> = []
    const own = await ChatTestServer.open(
      { main: { retries: 0 } },
      {
        log: (level, _, fields) => {
          told.push([level, fields])
        }
      }
    )
    own.upstream.respondWith(...Array.from({ length: 5 }, () => ({ status: 500 })), {
      json: completion("back")
    })
    for (let i = 0; i < 7; i++) expect((await own.ask()).status).toBe(502)
    own.clockOffsetMs += 15_000
    expect((await own.ask()).status).toBe(200)
    expect(told).toEqual([
      ["warn", { upstream: "main", code: "error" }],
      ["info", { upstream: "main" }]
    ])
    await own.close()
  })
  it("rate limits do not open the breaker, however many", async () => {
    const own = await ChatTestServer.open()
    own.upstream.respondWith(
      ...Array.from({ length: 6 }, () => ({ status: 429, headers: { "retry-after": "30" } })),
      { json: completion("there is room") }
    )
    for (let i = 0; i < 6; i++) expect((await own.ask()).status).toBe(429)
    expect((await own.ask()).status).toBe(200)
    await own.close()
  })
  it("fallbacks in order, one attempt each", async () => {
    const own = await ChatTestServer.open({ main: { fallbacks: ["local/echo"], retries: 1 } })
    own.upstream.respondWith({ status: 500 })
    const answer = await own.ask()
    expect([
      answer.status,
      answer.headers.get("x-proxy-model"),
      answer.headers.get("x-proxy-attempts"),
      answer.body.model
    ]).toEqual([200, "local/echo", "3", "main/m"])
    await own.close()
  })
  it("a full queue and a wait that is too long → 503 overloaded", async () => {
    const own = await ChatTestServer.open({ main: { max_concurrency: 1, queue: 1, queue_timeout_ms: 1_000 } })
    own.upstream.respondWith({ silent: true })
    const first = own.ask().catch(() => {})
    const second = own.ask()
    await until(() => own.upstream.requests.length === 1)
    await until(() => own.metrics().includes('proxy_queue_depth{upstream="main"} 1'))
    const third = await own.ask()
    expect(refusedOf(third)).toEqual({ status: 503, code: "overloaded" })
    expect(third.headers.get("retry-after")).toBe("1")
    own.clockOffsetMs += 1_100
    expect(refusedOf(await second)).toEqual({ status: 503, code: "overloaded" })
    own.clockOffsetMs += 20_000
    await first
    await own.close()
  })
  it("over MAX_INFLIGHT_TURNS → 503 overloaded; models and health still answer", async () => {
    const none = await ChatTestServer.open({ turnsInFlightMax: 0 })
    expect(refusedOf(await none.ask())).toEqual({ status: 503, code: "overloaded" })
    expect([(await none.call("/v1/models")).status, (await none.call("/health")).status]).toEqual([200, 200])
    await none.close()
  })
})

describe("clients that go", () => {
  const leaks = (of: ChatTestServer): ReadonlyArray<number> => {
    const metrics = of.metrics()
    return [
      Number(/proxy_inflight_turns (\d+)/.exec(metrics)![1]),
      Number(/proxy_queue_depth\{upstream="main"\} (\d+)/.exec(metrics)![1])
    ]
  }
  it.each([
    [true, 0],
    [true, 2],
    [false, 0]
  ])(
    "CHAT-43 stream %s, after %i tokens: the upstream sees the abort within 100 ms, the permit is free",
    async (stream, after) => {
      const own = await ChatTestServer.open({ main: { max_concurrency: 1 } })
      own.upstream.respondWith(
        after > 0 ? { chunks: textStream("a", "b").slice(0, after), hang: true } : { silent: true },
        { json: completion("free") }
      )
      const controller = new AbortController()
      const asked = own.fetch("/v1/chat/completions", {
        body: { model: "main/m", stream, messages: [{ role: "user", content: "x" }] },
        signal: controller.signal
      })
      asked.catch(() => {})
      await until(() => own.upstream.requests.length === 1)
      if (after > 0) await (await asked).body!.getReader().read()
      const left = Date.now()
      controller.abort()
      await own.upstream.requests[0]!.closed
      expect(own.upstream.requests[0]!.abortedAtMs - left).toBeLessThan(100)
      expect((await own.ask()).body.choices[0].message.content).toBe("free")
      await until(() => leaks(own).every((count) => count === 0))
      expect(own.metrics()).toContain('outcome="client_disconnect"} 1')
      await own.close()
    }
  )
  it("CHAT-43 while it waits for a permit: dropped from the queue at once", async () => {
    const own = await ChatTestServer.open({ main: { max_concurrency: 1 } })
    own.upstream.respondWith({ silent: true })
    const first = new AbortController()
    const second = new AbortController()
    const body = { model: "main/m", messages: [{ role: "user", content: "x" }] }
    own.fetch("/v1/chat/completions", { body, signal: first.signal }).catch(() => {})
    await until(() => own.upstream.requests.length === 1)
    own.fetch("/v1/chat/completions", { body, signal: second.signal }).catch(() => {})
    await until(() => leaks(own)[1] === 1)
    second.abort()
    await until(() => leaks(own)[1] === 0)
    first.abort()
    await until(() => leaks(own)[0] === 0)
    expect(own.upstream.requests.length).toBe(1)
    await own.close()
  })
  it("CHAT-44 a client that stops reading: the upstream is paused, memory stays bounded, cut off after 60 s", async () => {
    const filler = "x".repeat(16_384)
    const many = Array.from({ length: 4_000 }, () => chunk({ content: filler }))
    chatServer.upstream.respondWith({ chunks: [...many, chunk({}, "stop")] })
    const body = JSON.stringify({ model: "main/m", stream: true, messages: [{ role: "user", content: "x" }] })
    const wire = connect(chatServer.server.port, "127.0.0.1")
    let closed = false
    wire.on("close", () => {
      closed = true
    })
    wire.on("error", () => {})
    wire.write(
      `POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
    )
    wire.pause()
    await until(() => chatServer.metrics().includes("proxy_stream_backpressure_total 1"))
    let sent = -1
    await until(() => {
      const before = sent
      sent = chatServer.upstream.last.sentBytes
      return before === sent
    })
    expect(sent).toBeLessThan(32 * 1_048_576)
    expect((await chatServer.ask({ model: "local/echo" })).status).toBe(200)
    chatServer.clockOffsetMs += 60_100
    await chatServer.upstream.last.closed
    expect(chatServer.upstream.last.aborted).toBe(true)
    wire.resume()
    await until(() => closed)
    await until(() => leaks(chatServer)[0] === 0)
  })
})

it("CHAT-72 a turn that throws → 500 internal_error, no stack; the next request works", async () => {
  let broken = true
  const model: ChatModel = {
    supports: {},
    list: async () => [{ id: "x" }],
    close: () => {},
    generate: async (_, sink) => {
      if (broken) throw new TypeError("secret detail at /home/somewhere")
      sink.onFirstEvent()
      sink.event({ _tag: "text", choice: 0, text: "fine" })
      sink.event({ _tag: "finish", choice: 0, reason: "stop" })
    }
  }
  const own = await ChatTestServer.open(
    { records: [{ id: "own", kind: "embedded" }] },
    { modelOf: ({ id }) => (id === "own" ? model : undefined) }
  )
  const answer = await own.ask({ model: "own/x" })
  expect(refusedOf(answer)).toEqual({ status: 500, code: "internal_error" })
  expect(answer.text).not.toMatch(/secret|TypeError|home/)
  broken = false
  const fine = await own.ask({ model: "own/x" })
  expect([fine.status, fine.body.choices[0].message.content, fine.headers.get("x-proxy-usage")]).toEqual([
    200,
    "fine",
    "estimated"
  ])
  await own.close()
})

it("headers are held back, then keep-alive comments flow on an idle stream", async () => {
  const own = await ChatTestServer.open({ streamCommitMs: 100, streamKeepAliveMs: 200 })
  let go!: () => void
  const gate = new Promise<void>((resolve) => {
    go = resolve
  })
  own.upstream.respondWith({ chunks: textStream("a"), pace: () => gate })
  const asked = own.fetch("/v1/chat/completions", {
    body: { model: "main/m", stream: true, messages: [{ role: "user", content: "x" }] }
  })
  await until(() => own.upstream.requests.length === 1)
  own.clockOffsetMs += 150
  const response = await asked
  expect(response.status).toBe(200)
  const reader = response.body!.getReader()
  own.clockOffsetMs += 500
  expect(new TextDecoder().decode((await reader.read()).value)).toBe(": keep-alive\n\n")
  go()
  let rest = ""
  for (let part = await reader.read(); !part.done; part = await reader.read())
    rest += new TextDecoder().decode(part.value)
  expect(rest).toContain("data: [DONE]")
  await own.close()
})

it("a wrong upstream record stops the start with 78, in one line that names it", async () => {
  await expect(ChatTestServer.open({ chatUpstreams: [{ id: "a", kind: "ollama" }] })).rejects.toMatchObject({
    exitCode: 78,
    message: expect.stringContaining("chat.upstreams[0].base_url: is missing")
  })
})

it("operations' open paths are a browser's too: CORS, a request id, a preflight", async () => {
  const own = await ChatTestServer.open({ metricsMode: "off", chatCorsOrigins: ["*"] })
  for (const [path, status] of [
    ["/health", 200],
    ["/health/details", 200],
    ["/metrics", 404]
  ] as const) {
    const answer = await own.call(path, { headers: { "x-request-id": "mine" } })
    expect(
      [answer.status, answer.headers.get("access-control-allow-origin"), answer.headers.get("x-request-id")],
      path
    ).toEqual([status, "*", "mine"])
    const asked = await own.call(path, { method: "OPTIONS" })
    expect([asked.status, asked.headers.get("access-control-allow-methods")], path).toEqual([
      204,
      "GET, POST, DELETE, OPTIONS"
    ])
    expect((await own.call(path, { method: "HEAD" })).status, path).toBe(status)
  }
  await own.close()
})
