/** What a bad or borderline request is answered, row by row.
 *  Source: docs/spec/chat.md, section 20. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest"
import { toolCallStream, chunk, completion, textStream } from "../protocols/chat/fake-upstream.ts"
import { frames, ChatTestServer, type Answer } from "../protocols/chat/chat-server.ts"

const errorOf = ({ status, body }: Answer): unknown => [status, body?.error?.code, body?.error?.param ?? null]

const tool = (name: string) => ({
  type: "function",
  function: { name, parameters: { type: "object", properties: {} } }
})

let chatServer: ChatTestServer
let keyed: ChatTestServer

beforeAll(async () => {
  chatServer = await ChatTestServer.open({ builtinTools: ["current_time"] })
  keyed = await ChatTestServer.open({
    chatKeys: "secret,other",
    metricsMode: "auth",
    healthDetailsMode: "auth"
  })
})

afterAll(() => Promise.all([chatServer.close(), keyed.close()]))

beforeEach(() => {
  chatServer.upstream.respondWith({ json: completion("hello") })
})

describe("keys", () => {
  it("CHAT-1 no Authorization on GET /v1/models → 401 invalid_api_key", async () => {
    const answer = await keyed.call("/v1/models", { key: "" })
    expect(answer.status).toBe(401)
    expect(answer.body.error).toEqual({
      message: expect.any(String),
      type: "invalid_request_error",
      param: null,
      code: "invalid_api_key"
    })
    expect(answer.headers.get("www-authenticate")).toBe("Bearer")
  })
  it("CHAT-2 Basic, a wrong key, a key in the query: the same answer", async () => {
    const missing = await keyed.call("/v1/models", { key: "" })
    for (const headers of [
      { authorization: "Basic c2VjcmV0" },
      { authorization: "Bearer wrong" },
      { authorization: "Bearer" }
    ]) {
      expect([
        (await keyed.call("/v1/models", { key: "", headers })).status,
        (await keyed.call("/v1/models", { key: "", headers })).body
      ]).toEqual([401, missing.body])
    }
    expect((await keyed.call("/v1/models?api_key=secret", { key: "" })).status).toBe(401)
    expect(
      (await keyed.call("/v1/models", { key: "", headers: { authorization: "  bEaReR   secret " } })).status
    ).toBe(200)
    expect((await keyed.call("/v1/models", { key: "other" })).status).toBe(200)
  })
  it("CHAT-3 no API_KEY, any Authorization → 200", async () => {
    expect((await chatServer.call("/v1/models", { key: "anything" })).status).toBe(200)
  })
  it("CHAT-4 a wrong key and invalid JSON → 401", async () => {
    expect(errorOf(await keyed.call("/v1/chat/completions", { key: "wrong", body: "{" }))).toEqual([
      401,
      "invalid_api_key",
      null
    ])
  })
  it("a large body with a wrong key is not read", async () => {
    const answer = await keyed
      .call("/v1/chat/completions", { key: "wrong", body: `{"a":"${"x".repeat(200_000)}"}` })
      .catch(() => ({ status: 401 }))
    expect(answer.status).toBe(401)
  })
})

describe("JSON and required fields", () => {
  it.each<[string, unknown, unknown]>([
    ["CHAT-5 {", "{", [400, "invalid_json", null]],
    ["CHAT-6 []", "[]", [400, "invalid_json", null]],
    ["CHAT-6 a string", '"x"', [400, "invalid_json", null]],
    ["an empty body", "", [400, "invalid_json", null]],
    ["no UTF-8", new Uint8Array([0x7b, 0xff, 0x7d]), [400, "invalid_json", null]],
    ["65 levels", `{"model":${"[".repeat(64)}${"]".repeat(64)}}`, [400, "invalid_json", null]],
    ["CHAT-7 no model", { messages: [] }, [400, "missing_required_parameter", "model"]],
    ["CHAT-8 model: 5", { model: 5, messages: [] }, [400, "invalid_type", "model"]],
    ['model: ""', { model: "", messages: [] }, [400, "invalid_value", "model"]],
    [
      "CHAT-9 unknown model",
      { model: "nope/none", messages: [{ role: "user", content: "x" }] },
      [404, "model_not_found", "model"]
    ],
    ["CHAT-10 no messages", { model: "main/m" }, [400, "missing_required_parameter", "messages"]],
    [
      "CHAT-10 messages: null",
      { model: "main/m", messages: null },
      [400, "missing_required_parameter", "messages"]
    ],
    ["CHAT-11 messages: []", { model: "main/m", messages: [] }, [400, "empty_array", "messages"]],
    ['CHAT-12 messages: "hi"', { model: "main/m", messages: "hi" }, [400, "invalid_type", "messages"]],
    [
      "a custom tool",
      {
        model: "main/m",
        messages: [{ role: "user", content: "x" }],
        tools: [{ type: "custom", custom: { name: "x" } }]
      },
      [400, "unsupported_value", "tools[0].type"]
    ],
    [
      "CHAT-13 role wizard",
      { model: "main/m", messages: [{ role: "wizard", content: "x" }] },
      [400, "invalid_value", "messages[0].role"]
    ],
    ["a message that is none", { model: "main/m", messages: [5] }, [400, "invalid_type", "messages[0]"]],
    [
      "no content",
      { model: "main/m", messages: [{ role: "user" }] },
      [400, "missing_required_parameter", "messages[0].content"]
    ],
    [
      "an unknown part",
      { model: "main/m", messages: [{ role: "user", content: [{ type: "video" }] }] },
      [400, "invalid_value", "messages[0].content[0].type"]
    ],
    [
      "CHAT-65 an image with ftp://",
      {
        model: "main/m",
        messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "ftp://x/y.png" } }] }]
      },
      [400, "invalid_value", "messages[0].content[0].image_url.url"]
    ],
    [
      "broken base64",
      {
        model: "main/m",
        messages: [
          { role: "user", content: [{ type: "image_url", image_url: { url: "data:image/png;base64,@@@" } }] }
        ]
      },
      [400, "invalid_value", "messages[0].content[0].image_url.url"]
    ]
  ])("%s", async (_, body, expected) => {
    expect(errorOf(await chatServer.call("/v1/chat/completions", { body }))).toEqual(expected)
  })
})

describe("parameters", () => {
  it.each<[string, Record<string, unknown>, string, string]>([
    ["CHAT-14 temperature 2.01", { temperature: 2.01 }, "decimal_above_max_value", "temperature"],
    ["CHAT-14 temperature -0.1", { temperature: -0.1 }, "decimal_below_min_value", "temperature"],
    ['CHAT-14 temperature "1"', { temperature: "1" }, "invalid_type", "temperature"],
    ["CHAT-16 top_p 1.5", { top_p: 1.5 }, "decimal_above_max_value", "top_p"],
    ["CHAT-17 max_tokens 0", { max_tokens: 0 }, "integer_below_min_value", "max_tokens"],
    ["CHAT-17 max_tokens 1.5", { max_tokens: 1.5 }, "invalid_type", "max_tokens"],
    ["CHAT-18 reasoning_effort ultra", { reasoning_effort: "ultra" }, "invalid_value", "reasoning_effort"],
    ["reasoning_effort 5", { reasoning_effort: 5 }, "invalid_type", "reasoning_effort"],
    [
      "CHAT-22 two tools of one name",
      { tools: [tool("a"), tool("a")] },
      "invalid_value",
      "tools[1].function.name"
    ],
    ["CHAT-23 tool name with a space", { tools: [tool("a b")] }, "invalid_value", "tools[0].function.name"],
    [
      "CHAT-23 tool name of 65 characters",
      { tools: [tool("a".repeat(65))] },
      "invalid_value",
      "tools[0].function.name"
    ],
    [
      "CHAT-24 129 tools",
      { tools: Array.from({ length: 129 }, (__, i) => tool(`t${i}`)) },
      "array_above_max_length",
      "tools"
    ],
    ["CHAT-25 required without tools", { tool_choice: "required" }, "invalid_value", "tool_choice"],
    [
      "CHAT-26 an absent tool is named",
      { tools: [tool("a")], tool_choice: { type: "function", function: { name: "b" } } },
      "invalid_value",
      "tool_choice"
    ],
    [
      "allowed_tools names an absent tool",
      {
        tools: [tool("a")],
        tool_choice: {
          type: "allowed_tools",
          allowed_tools: { mode: "auto", tools: [{ type: "function", function: { name: "b" } }] }
        }
      },
      "invalid_value",
      "tool_choice"
    ],
    [
      "CHAT-32 stream_options without stream",
      { stream_options: { include_usage: true } },
      "invalid_value",
      "stream_options"
    ],
    ["CHAT-67 n: 0", { n: 0 }, "integer_below_min_value", "n"],
    ["CHAT-67 n: 9", { n: 9 }, "integer_above_max_value", "n"],
    ["five stops", { stop: ["a", "b", "c", "d", "e"] }, "array_above_max_length", "stop"],
    ["an empty stop", { stop: "" }, "invalid_value", "stop"],
    ["a bias of 101", { logit_bias: { 5: 101 } }, "decimal_above_max_value", "logit_bias.5"],
    ["top_logprobs alone", { top_logprobs: 3 }, "invalid_value", "top_logprobs"],
    ["frequency_penalty 3", { frequency_penalty: 3 }, "decimal_above_max_value", "frequency_penalty"],
    [
      "a schema without a name",
      { response_format: { type: "json_schema", json_schema: { schema: {} } } },
      "missing_required_parameter",
      "response_format.json_schema.name"
    ],
    [
      "a bad schema name",
      { response_format: { type: "json_schema", json_schema: { name: "a b", schema: {} } } },
      "invalid_value",
      "response_format.json_schema.name"
    ],
    ["stream: 1", { stream: 1 }, "invalid_type", "stream"],
    ["modalities: audio", { modalities: ["audio"] }, "unsupported_value", "modalities"]
  ])("%s → 400", async (_, more, code, param) => {
    expect(errorOf(await chatServer.ask(more))).toEqual([400, code, param])
  })
  it("CHAT-15 the ends of the ranges → 200", async () => {
    for (const more of [
      { temperature: 0 },
      { temperature: 2 },
      { top_p: 0 },
      { top_p: 1 },
      { temperature: null, stop: null, tools: null }
    ])
      expect((await chatServer.ask(more)).status).toBe(200)
  })
  it("CHAT-19 xhigh → high, CHAT-20 minimal → none, absent → nothing", async () => {
    const sent = async (more: Record<string, unknown>): Promise<unknown> => {
      await chatServer.ask(more)
      return chatServer.upstream.last.body.reasoning_effort
    }
    expect([
      await sent({ reasoning_effort: "xhigh" }),
      await sent({ reasoning_effort: "minimal" }),
      await sent({ reasoning_effort: "max" }),
      await sent({ reasoning_effort: "medium" }),
      await sent({})
    ]).toEqual(["high", "none", "high", "medium", undefined])
  })
  it("CHAT-21 reasoning.effort wins over reasoning_effort; the answer repeats what was sent", async () => {
    const answer = await chatServer.respond({ reasoning: { effort: "low" }, reasoning_effort: "high" })
    expect(chatServer.upstream.last.body.reasoning_effort).toBe("low")
    expect(answer.body.reasoning.effort).toBe("low")
    expect((await chatServer.respond({ reasoning_effort: "xhigh" })).body.reasoning.effort).toBe("xhigh")
  })
  it("CHAT-66 logprobs on a model that lacks it", async () => {
    expect(errorOf(await chatServer.ask({ model: "local/echo", logprobs: true }))).toEqual([
      400,
      "unsupported_parameter",
      "logprobs"
    ])
  })
})

describe("tools", () => {
  it("CHAT-27 tools: [] with built-ins allowed → 200, no built-in runs", async () => {
    chatServer.upstream.respondWith(
      {
        json: completion(
          null,
          {
            tool_calls: [{ id: "c", type: "function", function: { name: "current_time", arguments: "{}" } }]
          },
          "tool_calls"
        )
      },
      { json: completion("hello") }
    )
    const answer = await chatServer.ask({ tools: [] })
    expect(chatServer.upstream.requests.map(({ body }) => body.tools)).toEqual([undefined, undefined])
    expect([answer.status, answer.body.choices[0].message.content]).toEqual([200, "hello"])
  })
  it("a built-in runs inside the turn and is no public output", async () => {
    chatServer.upstream.respondWith(
      {
        json: completion(
          null,
          {
            tool_calls: [{ id: "c", type: "function", function: { name: "current_time", arguments: "{}" } }]
          },
          "tool_calls"
        )
      },
      { json: completion("it is late") }
    )
    const answer = await chatServer.ask()
    expect(chatServer.upstream.requests[0]!.body.tools[0].function.name).toBe("current_time")
    expect(chatServer.upstream.requests[1]!.body.messages.at(-1)).toMatchObject({
      role: "tool",
      tool_call_id: "c",
      content: expect.stringMatching(/^\d{4}-/)
    })
    expect(answer.body.choices[0]).toMatchObject({
      message: { content: "it is late" },
      finish_reason: "stop"
    })
    expect(answer.body.choices[0].message.tool_calls).toBeUndefined()
    expect(answer.body.usage.total_tokens).toBe(10)
  })
  it("CHAT-28 an external tool named like an allowed built-in: the plain name comes back, the built-in did not run", async () => {
    const answer = await chatServer.ask({
      model: "local/echo",
      tools: [tool("current_time")],
      tool_choice: "required"
    })
    expect(answer.body.choices[0]).toMatchObject({
      finish_reason: "tool_calls",
      message: {
        content: null,
        tool_calls: [{ type: "function", function: { name: "current_time", arguments: "{}" } }]
      }
    })
    expect(answer.text).not.toContain("external__")
  })
  it("CHAT-29 the internal name in a text, split over three deltas: only the public name is seen", async () => {
    const own = await ChatTestServer.open({ main: { namespace: true } })
    own.upstream.respondWith({
      chunks: textStream("I call ext", "ernal__lo", "ok now, and external", "__other")
    })
    const { text } = await own.ask({ stream: true, tools: [tool("look")] })
    expect(own.upstream.last.body.tools[0].function.name).toBe("external__look")
    expect(
      frames(text)
        .slice(0, -1)
        .map(({ data }) => data.choices[0]?.delta?.content ?? "")
        .join("")
    ).toBe("I call look now, and external__other")
    expect(text).not.toContain("external__look")
    own.upstream.respondWith({
      json: completion(
        null,
        {
          tool_calls: [{ id: "c", type: "function", function: { name: "external__look", arguments: "{}" } }]
        },
        "tool_calls"
      )
    })
    expect(
      (await own.ask({ tools: [tool("look")] })).body.choices[0].message.tool_calls[0].function.name
    ).toBe("look")
    const long = "x".repeat(64)
    await own.ask({ tools: [tool(long)] })
    expect(own.upstream.last.body.tools[0].function.name).toMatch(/^external__x{45}_[0-9a-f]{8}$/)
    await own.close()
  })
  it("CHAT-30 a tool message with an unknown id, CHAT-31 calls without results", async () => {
    const call = {
      role: "assistant",
      content: null,
      tool_calls: [{ id: "c1", type: "function", function: { name: "f", arguments: "{" } }]
    }
    const ask = (...messages: ReadonlyArray<unknown>) =>
      chatServer.ask({ messages: [{ role: "user", content: "x" }, ...messages] })
    expect(errorOf(await ask({ role: "tool", tool_call_id: "c9", content: "r" }))).toEqual([
      400,
      "invalid_value",
      "messages[1]"
    ])
    expect(errorOf(await ask(call, { role: "tool", tool_call_id: "c9", content: "r" }))).toEqual([
      400,
      "invalid_value",
      "messages[2]"
    ])
    expect(errorOf(await ask(call))).toEqual([400, "invalid_value", "messages[1]"])
    expect(errorOf(await ask(call, { role: "user", content: "and?" }))).toEqual([
      400,
      "invalid_value",
      "messages[1]"
    ])
    expect(
      errorOf(
        await ask(
          call,
          { role: "tool", tool_call_id: "c1", content: "r" },
          { role: "tool", tool_call_id: "c1", content: "r" }
        )
      )
    ).toEqual([400, "invalid_value", "messages[3]"])
    expect((await ask(call, { role: "tool", tool_call_id: "c1", content: "r" })).status).toBe(200)
  })
})

describe("streams", () => {
  it("CHAT-33 include_usage: the last chunk has usage and no choice, all others usage: null", async () => {
    chatServer.upstream.respondWith({ chunks: textStream("a", "b") })
    const all = frames((await chatServer.ask({ stream: true, stream_options: { include_usage: true } })).text)
    expect(all.at(-2)!.data).toMatchObject({
      choices: [],
      usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 }
    })
    expect(all.slice(0, -2).every(({ data }) => data.usage === null)).toBe(true)
  })
  it("CHAT-34 without it there is no usage anywhere", async () => {
    chatServer.upstream.respondWith({ chunks: textStream("a", "b") })
    expect((await chatServer.ask({ stream: true })).text).not.toContain("usage")
  })
})

describe("responses", () => {
  it.each<[string, Record<string, unknown>, ReadonlyArray<unknown>]>([
    ["CHAT-45 only a model", { input: undefined }, [400, "missing_required_parameter", "input"]],
    ["input: []", { input: [] }, [400, "missing_required_parameter", "input"]],
    [
      "CHAT-46 previous_response_id: resp_bad",
      { previous_response_id: "resp_bad" },
      [400, "previous_response_not_found", "previous_response_id"]
    ],
    [
      "CHAT-53 a result of an unknown call",
      { input: [{ type: "function_call_output", call_id: "c9", output: "x" }] },
      [400, "invalid_value", "input"]
    ],
    ["CHAT-56 conversation", { conversation: "conv_1" }, [400, "unsupported_parameter", "conversation"]],
    [
      "CHAT-57 background without store",
      { background: true, store: false },
      [400, "invalid_value", "background"]
    ],
    ["a stored prompt", { prompt: { id: "pmpt_1" } }, [400, "unsupported_value", "prompt"]],
    ["a hosted tool", { tools: [{ type: "web_search" }] }, [400, "unsupported_value", "tools[0].type"]],
    ["an unknown item", { input: [{ type: "computer_call" }] }, [400, "invalid_value", "input[0].type"]],
    [
      "an unknown reference",
      { input: [{ type: "item_reference", id: "msg_x" }] },
      [400, "invalid_value", "input[0].id"]
    ],
    [
      "metadata of 17 pairs",
      { metadata: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`k${i}`, "v"])) },
      [400, "array_above_max_length", "metadata"]
    ],
    ["truncation", { truncation: "some" }, [400, "invalid_value", "truncation"]],
    ["reasoning.effort", { reasoning: { effort: "ultra" } }, [400, "invalid_value", "reasoning.effort"]],
    [
      "unknown model before unknown id",
      { model: "nope", previous_response_id: "resp_bad" },
      [404, "model_not_found", "model"]
    ]
  ])("%s", async (_, more, expected) => {
    expect(errorOf(await chatServer.respond(more))).toEqual(expected)
  })
  it("the message of CHAT-46 says invalid or expired", async () => {
    expect((await chatServer.respond({ previous_response_id: "resp_bad" })).body.error.message).toBe(
      "Previous response id 'resp_bad' is invalid or expired."
    )
  })
  it("CHAT-60 input_items?limit=0", async () => {
    const { body } = await chatServer.respond()
    expect(errorOf(await chatServer.call(`/v1/responses/${body.id}/input_items?limit=0`))).toEqual([
      400,
      "integer_below_min_value",
      "limit"
    ])
    expect((await chatServer.call(`/v1/responses/${body.id}/input_items`)).body).toMatchObject({
      object: "list",
      data: [
        { type: "message", role: "user", status: "completed", content: [{ type: "input_text", text: "hi" }] }
      ],
      has_more: false
    })
  })
})

describe("paths and bodies", () => {
  it("CHAT-61 a model by id, percent-encoded and raw", async () => {
    for (const path of [
      "/v1/models/main%2Fllama-3.1-8b",
      "/v1/models/main/llama-3.1-8b",
      "/v1/models/main/llama-3.1-8b/"
    ]) {
      const answer = await chatServer.call(path)
      expect([answer.status, answer.body]).toEqual([
        200,
        { id: "main/llama-3.1-8b", object: "model", created: 1_704_067_200, owned_by: "fake" }
      ])
    }
    expect(errorOf(await chatServer.call("/v1/models/none"))).toEqual([404, "model_not_found", "model"])
    expect((await chatServer.call("/v1/models")).body.data.map(({ id }: { id: string }) => id)).toEqual([
      "local/echo",
      "main/llama-3.1-8b",
      "main/m"
    ])
  })
  it("CHAT-62 unknown path 404, wrong method 405 with Allow, after the key", async () => {
    expect(errorOf(await chatServer.call("/v1/nothing"))).toEqual([404, "unknown_url", null])
    const wrong = await chatServer.call("/v1/models", { method: "PUT" })
    expect([wrong.status, wrong.body.error.code, wrong.headers.get("allow")]).toEqual([
      405,
      "method_not_allowed",
      "GET"
    ])
    expect(errorOf(await keyed.call("/v1/nothing", { key: "" }))).toEqual([401, "invalid_api_key", null])
    expect(errorOf(await keyed.call("/v1/models", { key: "", method: "PUT" }))).toEqual([
      401,
      "invalid_api_key",
      null
    ])
  })
  it("CHAT-63 a body of 51 MiB → 413, the connection is closed", async () => {
    const answer = await chatServer
      .call("/v1/chat/completions", { body: Buffer.alloc(51 * 1_048_576, 32) })
      .catch((cause: Error) => cause)
    // The client may still be writing when the connection closes; then it hears the reset, not the answer.
    if (!(answer instanceof Error))
      expect([...(errorOf(answer) as []), answer.headers.get("connection")]).toEqual([
        413,
        "request_too_large",
        null,
        "close"
      ])
    const small = await ChatTestServer.open({ chatBodyBytesMax: 2_048 })
    const refused = await small.call("/v1/chat/completions", { body: { model: "m", pad: "x".repeat(4_000) } })
    expect(errorOf(refused)).toEqual([413, "request_too_large", null])
    await small.close()
  })
  it("CHAT-64 text/xml → 415; other JSON types and none are taken", async () => {
    const ask = (type: string, more: Record<string, string> = {}) =>
      chatServer.call("/v1/chat/completions", {
        body: { model: "main/m", messages: [{ role: "user", content: "x" }] },
        headers: { "content-type": type, ...more }
      })
    expect(errorOf(await ask("text/xml"))).toEqual([415, "unsupported_media_type", null])
    expect(errorOf(await ask("application/json", { "content-encoding": "gzip" }))).toEqual([
      415,
      "unsupported_media_type",
      null
    ])
    expect((await ask("application/vnd.api+json; charset=utf-8")).status).toBe(200)
    expect((await ask("application/json; charset=utf-8")).status).toBe(200)
  })
  it("CHAT-71 /metrics: mode off 404, mode auth 401 without and 200 with the key", async () => {
    const closed = await ChatTestServer.open({ metricsMode: "off", healthDetailsMode: "auth" })
    expect(errorOf(await closed.call("/metrics"))).toEqual([404, "unknown_url", null])
    expect((await closed.call("/health/details")).status).toBe(404)
    await closed.close()
    expect(errorOf(await keyed.call("/metrics", { key: "" }))).toEqual([401, "invalid_api_key", null])
    expect((await keyed.call("/metrics")).status).toBe(200)
    expect((await keyed.call("/health/details", { key: "" })).status).toBe(401)
    expect((await keyed.call("/health/details")).body).toMatchObject({
      status: "ok",
      upstreams: [{ id: "main", kind: "openai-chat" }, { id: "local" }],
      sessions: { retention_seconds: 1_800 },
      storage: { ok: true },
      tools: { bridge: "proxy" }
    })
    expect((await keyed.call("/health", { key: "" })).body).toMatchObject({ status: "ok", proxy: true })
  })
  it("preflight, CORS and ids on every answer", async () => {
    // Without keys no page of another origin is answered (test/protocols/chat/access.test.ts).
    const flight = await keyed.call("/v1/chat/completions", {
      method: "OPTIONS",
      headers: { "access-control-request-headers": "authorization, x-a" }
    })
    expect([
      flight.status,
      flight.headers.get("access-control-allow-origin"),
      flight.headers.get("access-control-allow-headers")
    ]).toEqual([204, "*", "authorization, x-a"])
    const answer = await keyed.call("/v1/models", { headers: { "x-request-id": "mine-1" } })
    expect([
      answer.headers.get("x-request-id"),
      answer.headers.get("access-control-allow-origin"),
      answer.headers.get("openai-processing-ms")
    ]).toEqual(["mine-1", "*", expect.stringMatching(/^\d+$/)])
    expect(
      (await chatServer.call("/v1/models", { headers: { "x-request-id": "no good" } })).headers.get(
        "x-request-id"
      )
    ).toMatch(/^req_/)
    expect((await chatServer.fetch("/v1/models", { method: "HEAD" })).status).toBe(200)
  })
  it("a tool call of nobody: dropped beside a text, asked again alone, then 502", async () => {
    const stray = {
      tool_calls: [{ id: "c", type: "function", function: { name: "stranger", arguments: "{}" } }]
    }
    chatServer.upstream.respondWith({ json: completion("text", stray, "tool_calls") })
    expect((await chatServer.ask({ tools: [tool("a")] })).body.choices[0]).toMatchObject({
      finish_reason: "stop",
      message: { content: "text" }
    })
    chatServer.upstream.respondWith({ json: completion(null, stray, "tool_calls") })
    expect(errorOf(await chatServer.ask({ tools: [tool("a")] }))).toEqual([
      502,
      "upstream_bad_response",
      null
    ])
    expect(chatServer.upstream.requests.length).toBe(2)
    chatServer.upstream.respondWith(
      { chunks: toolCallStream("a", "") },
      { chunks: [chunk({ content: "x" }, "stop")] }
    )
    expect((await chatServer.ask({ tools: [tool("a")], stream: true })).text).toContain('"arguments":"{}"')
  })
})
