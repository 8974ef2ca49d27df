/** The dialects against a scripted server: what goes out, what comes back, through the whole proxy. Source:
 *  docs/spec/chat.md, section 13. */
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { FakeUpstream } from "../../../protocols/chat/fake-upstream.ts"
import { frames, ChatTestServer } from "../../../protocols/chat/chat-server.ts"

const tool = {
  type: "function",
  function: {
    name: "look",
    description: "d",
    parameters: { type: "object", properties: { city: { type: "string" } } }
  }
}

let fake: FakeUpstream
let world: ChatTestServer

beforeAll(async () => {
  fake = await FakeUpstream.open()
  fake.models = ["m", "c"]
  const root = fake.url.replace(/\/v1$/, "")
  world = await ChatTestServer.open(
    {
      chatUpstreams: [
        { id: "claude", kind: "anthropic", base_url: root, api_key: "k", models: ["c"] },
        { id: "oll", kind: "ollama", base_url: root },
        { id: "resp", kind: "openai-responses", base_url: `${root}/v1` },
        { id: "think", kind: "ollama", base_url: root, supports: { effort_levels: true } },
        {
          id: "weak",
          kind: "openai-chat",
          base_url: `${root}/v1`,
          native_tools: false,
          supports: { n: false, stream: false },
          aliases: { nick: "m" },
          effort_map: { none: "minimal", high: null },
          pass_unknown: true
        }
      ]
    },
    { upstream: fake }
  )
})

afterAll(async () => {
  await world.close()
  fake.close()
})

const deltas = (text: string): ReadonlyArray<any> =>
  frames(text)
    .flatMap(({ data }) => data.choices ?? [])
    .map(({ delta }: any) => delta)

describe("anthropic", () => {
  const events = (...blocks: ReadonlyArray<unknown>): ReadonlyArray<unknown> => [
    {
      type: "message_start",
      message: {
        usage: {
          input_tokens: 10,
          cache_read_input_tokens: 4,
          cache_creation_input_tokens: 1,
          output_tokens: 1
        }
      }
    },
    { type: "ping" },
    ...blocks
  ]
  const end = (stop_reason: string) => [
    { type: "message_delta", delta: { stop_reason }, usage: { output_tokens: 7 } },
    { type: "message_stop" }
  ]
  it("requests: system joined, roles merged, results first, limits and stops", async () => {
    fake.respondWith({
      json: {
        content: [{ type: "text", text: "ok" }],
        stop_reason: "end_turn",
        usage: { input_tokens: 1, output_tokens: 1 }
      }
    })
    const answer = await world.ask({
      model: "claude/c",
      temperature: 1.7,
      stop: ["x", "  "],
      user: "u",
      parallel_tool_calls: false,
      seed: 4,
      tools: [tool],
      messages: [
        { role: "system", content: "a" },
        { role: "assistant", content: "first" },
        { role: "developer", content: "b" },
        {
          role: "user",
          content: [
            { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } },
            { type: "image_url", image_url: { url: "https://x/y.png" } }
          ]
        },
        {
          role: "assistant",
          content: null,
          tool_calls: [{ id: "t1", type: "function", function: { name: "look", arguments: "{broken" } }]
        },
        { role: "tool", tool_call_id: "t1", content: "r" },
        { role: "user", content: "and?" }
      ]
    })
    expect(answer.body.choices[0]).toMatchObject({ message: { content: "ok" }, finish_reason: "stop" })
    expect(fake.last.path).toBe("/v1/messages")
    expect([fake.last.headers["x-api-key"], fake.last.headers["anthropic-version"]]).toEqual([
      "k",
      "2023-06-01"
    ])
    expect(fake.last.body).toEqual({
      model: "c",
      stream: false,
      system: "a\n\nb",
      max_tokens: 4_096,
      temperature: 1,
      stop_sequences: ["x"],
      metadata: { user_id: "u" },
      messages: [
        { role: "user", content: [{ type: "text", text: "." }] },
        { role: "assistant", content: [{ type: "text", text: "first" }] },
        {
          role: "user",
          content: [
            { type: "image", source: { type: "base64", media_type: "image/png", data: "AAAA" } },
            { type: "image", source: { type: "url", url: "https://x/y.png" } }
          ]
        },
        {
          role: "assistant",
          content: [{ type: "tool_use", id: "t1", name: "look", input: { _raw: "{broken" } }]
        },
        {
          role: "user",
          content: [
            { type: "tool_result", tool_use_id: "t1", content: "r" },
            { type: "text", text: "and?" }
          ]
        }
      ],
      tools: [{ name: "look", description: "d", input_schema: tool.function.parameters }],
      tool_choice: { type: "auto", disable_parallel_tool_use: true }
    })
  })
  it("streams: text, thinking, tools, usage, stop reasons", async () => {
    fake.respondWith({
      eventLines: true,
      chunks: events(
        { type: "content_block_start", index: 0, content_block: { type: "thinking", thinking: "" } },
        { type: "content_block_delta", index: 0, delta: { type: "thinking_delta", thinking: "hm" } },
        { type: "content_block_delta", index: 0, delta: { type: "signature_delta", signature: "sig" } },
        { type: "content_block_stop", index: 0 },
        { type: "content_block_start", index: 1, content_block: { type: "text", text: "" } },
        { type: "content_block_delta", index: 1, delta: { type: "text_delta", text: "hello" } },
        { type: "content_block_stop", index: 1 },
        {
          type: "content_block_start",
          index: 2,
          content_block: { type: "tool_use", id: "t1", name: "look", input: {} }
        },
        {
          type: "content_block_delta",
          index: 2,
          delta: { type: "input_json_delta", partial_json: '{"city":' }
        },
        {
          type: "content_block_delta",
          index: 2,
          delta: { type: "input_json_delta", partial_json: '"Rome"}' }
        },
        { type: "content_block_stop", index: 2 },
        ...end("tool_use")
      )
    })
    const { text } = await world.ask({
      model: "claude/c",
      stream: true,
      stream_options: { include_usage: true },
      tools: [tool]
    })
    expect(deltas(text).slice(1)).toEqual([
      { reasoning_content: "hm" },
      { content: "hello" },
      { tool_calls: [{ index: 0, id: "t1", type: "function", function: { name: "look", arguments: "" } }] },
      { tool_calls: [{ index: 0, function: { arguments: '{"city":' } }] },
      { tool_calls: [{ index: 0, function: { arguments: '"Rome"}' } }] },
      {}
    ])
    expect(frames(text).at(-2)!.data.usage).toMatchObject({
      prompt_tokens: 15,
      completion_tokens: 7,
      prompt_tokens_details: { cached_tokens: 4 }
    })
    for (const [reason, finish] of [
      ["max_tokens", "length"],
      ["refusal", "content_filter"],
      ["stop_sequence", "stop"],
      ["pause_turn", "stop"]
    ]) {
      fake.respondWith({ json: { content: [{ type: "text", text: "x" }], stop_reason: reason, usage: {} } })
      expect((await world.ask({ model: "claude/c" })).body.choices[0].finish_reason).toBe(finish)
    }
    fake.respondWith({
      eventLines: true,
      chunks: events({ type: "error", error: { type: "overloaded_error" } })
    })
    expect(frames((await world.ask({ model: "claude/c", stream: true })).text).at(-2)!.data.error.code).toBe(
      "upstream_overloaded"
    )
  })
  it("effort is a budget of thinking; its blocks go back unchanged in a tool continuation", async () => {
    fake.respondWith(
      {
        json: {
          content: [
            { type: "thinking", thinking: "hm", signature: "sig" },
            { type: "tool_use", id: "t1", name: "look", input: { city: "Rome" } }
          ],
          stop_reason: "tool_use",
          usage: {}
        }
      },
      { json: { content: [{ type: "text", text: "sunny" }], stop_reason: "end_turn", usage: {} } }
    )
    const first = await world.respond({
      model: "claude/c",
      tools: [tool],
      reasoning: { effort: "low" },
      temperature: 0.5,
      max_output_tokens: 100,
      tool_choice: "required"
    })
    expect(fake.last.body).toMatchObject({
      thinking: { type: "enabled", budget_tokens: 1_024 },
      max_tokens: 1_124
    })
    expect([fake.last.body.temperature, fake.last.body.tool_choice]).toEqual([undefined, undefined])
    await world.respond({
      model: "claude/c",
      previous_response_id: first.body.id,
      reasoning: { effort: "none" },
      input: [{ type: "function_call_output", call_id: "t1", output: "r" }]
    })
    expect(fake.last.body.messages[1].content).toEqual([
      { type: "thinking", thinking: "hm", signature: "sig" },
      { type: "tool_use", id: "t1", name: "look", input: { city: "Rome" } }
    ])
    expect(fake.last.body.thinking).toEqual({ type: "disabled" })
  })
  it("a schema is a forced tool whose input is the text", async () => {
    fake.respondWith({
      json: {
        content: [{ type: "tool_use", id: "t", name: "json_output", input: { n: 1 } }],
        stop_reason: "tool_use",
        usage: {}
      }
    })
    const answer = await world.ask({
      model: "claude/c",
      response_format: { type: "json_schema", json_schema: { name: "n", schema: { type: "object" } } }
    })
    expect(answer.body.choices[0]).toMatchObject({ message: { content: '{"n":1}' }, finish_reason: "stop" })
    expect(fake.last.body.tool_choice).toEqual({ type: "tool", name: "json_output" })
  })
})

describe("ollama", () => {
  it("requests and streams", async () => {
    fake.respondWith({
      lines: true,
      chunks: [
        { message: { role: "assistant", thinking: "hm" }, done: false },
        { message: { content: "Grüße" }, done: false },
        {
          message: { content: "", tool_calls: [{ function: { name: "look", arguments: { city: "Rome" } } }] },
          done: false
        },
        { done: true, done_reason: "stop", prompt_eval_count: 5, eval_count: 6, message: { content: "" } }
      ],
      pieceBytes: 3
    })
    const { text } = await world.ask({
      model: "oll/m",
      stream: true,
      stream_options: { include_usage: true },
      tools: [tool],
      max_tokens: 9,
      stop: "x",
      seed: 3,
      reasoning_effort: "low",
      response_format: { type: "json_schema", json_schema: { name: "n", schema: { type: "object" } } },
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "see" },
            { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } }
          ]
        },
        {
          role: "assistant",
          tool_calls: [{ id: "c", type: "function", function: { name: "look", arguments: '{"a":1}' } }]
        },
        { role: "tool", tool_call_id: "c", content: "r" }
      ]
    })
    expect(fake.last.path).toBe("/api/chat")
    expect(fake.last.body).toMatchObject({
      model: "m",
      stream: true,
      options: { num_predict: 9, stop: ["x"], seed: 3 },
      format: { type: "object" },
      think: true,
      tools: [{ function: { name: "look" } }],
      messages: [
        { role: "user", content: "see", images: ["AAAA"] },
        { role: "assistant", tool_calls: [{ function: { name: "look", arguments: { a: 1 } } }] },
        { role: "tool", content: "r", tool_name: "look" }
      ]
    })
    expect(deltas(text).slice(1)).toMatchObject([
      { reasoning_content: "hm" },
      { content: "Grüße" },
      { tool_calls: [{ id: expect.stringMatching(/^call_\w{24}$/), function: { name: "look" } }] },
      { tool_calls: [{ function: { arguments: '{"city":"Rome"}' } }] },
      {}
    ])
    expect(frames(text).at(-2)!.data.usage).toMatchObject({ prompt_tokens: 5, completion_tokens: 6 })
  })
  it("levels of thinking, none; a remote image is refused; an error line", async () => {
    const done = { lines: true, chunks: [{ message: { content: "x" }, done: true, done_reason: "length" }] }
    fake.respondWith(done)
    expect(
      (await world.ask({ model: "think/m", reasoning_effort: "xhigh" })).body.choices[0].finish_reason
    ).toBe("length")
    expect(fake.last.body.think).toBe("high")
    await world.ask({ model: "oll/m", reasoning_effort: "minimal" })
    expect(fake.last.body.think).toBe(false)
    const refused = await world.ask({
      model: "oll/m",
      messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "https://x/y.png" } }] }]
    })
    expect([refused.status, refused.body.error.code]).toEqual([400, "unsupported_value"])
    fake.respondWith({ lines: true, chunks: [{ error: "no" }] })
    expect((await world.ask({ model: "oll/m" })).status).toBe(502)
  })
})

describe("openai-responses", () => {
  it("chat towards it: items out, events back", async () => {
    fake.respondWith({
      eventLines: true,
      chunks: [
        { type: "response.created", response: {} },
        { type: "response.output_item.added", output_index: 0, item: { type: "message" } },
        { type: "response.output_text.delta", delta: "hey" },
        {
          type: "response.output_item.added",
          output_index: 1,
          item: { type: "function_call", call_id: "c7", name: "look", arguments: "" }
        },
        { type: "response.function_call_arguments.delta", output_index: 1, delta: "{}" },
        {
          type: "response.completed",
          response: { status: "completed", usage: { input_tokens: 2, output_tokens: 3 } }
        }
      ]
    })
    const { text } = await world.ask({
      model: "resp/m",
      stream: true,
      tools: [tool],
      reasoning_effort: "low",
      messages: [
        { role: "system", content: "s" },
        { role: "user", content: "x" }
      ]
    })
    expect(fake.last.body).toMatchObject({
      model: "m",
      stream: true,
      reasoning: { effort: "low" },
      tools: [{ type: "function", name: "look" }],
      input: [
        { type: "message", role: "system", content: [{ type: "input_text", text: "s" }] },
        { role: "user" }
      ]
    })
    expect(deltas(text).slice(1)).toEqual([
      { content: "hey" },
      { tool_calls: [{ index: 0, id: "c7", type: "function", function: { name: "look", arguments: "" } }] },
      { tool_calls: [{ index: 0, function: { arguments: "{}" } }] },
      {}
    ])
  })
  const said = (id: string, text: string) => ({
    json: {
      id,
      status: "completed",
      output: [{ type: "message", content: [{ type: "output_text", text }] }],
      usage: { input_tokens: 1, output_tokens: 1 }
    }
  })
  it("verbosity goes where this interface has it, a prediction nowhere; stop would be ignored and is refused", async () => {
    fake.respondWith(said("r", "ok"))
    expect(
      (
        await world.ask({
          model: "resp/m",
          verbosity: "low",
          prediction: { type: "content", content: "x" },
          service_tier: "flex"
        })
      ).status
    ).toBe(200)
    expect([
      fake.last.body.text,
      fake.last.body.service_tier,
      "verbosity" in fake.last.body,
      "prediction" in fake.last.body
    ]).toEqual([{ verbosity: "low" }, "flex", false, false])
    await world.respond({ model: "resp/m", text: { format: { type: "json_object" }, verbosity: "high" } })
    expect(fake.last.body.text).toEqual({ format: { type: "json_object" }, verbosity: "high" })
    const refused = await world.ask({ model: "resp/m", stop: "x" })
    expect([refused.status, refused.body.error.code, refused.body.error.param]).toEqual([
      400,
      "unsupported_parameter",
      "stop"
    ])
  })
  it("a model that encrypts no reasoning is asked again without, and never with it from then on", async () => {
    const own = await ChatTestServer.open({ main: { kind: "openai-responses" } })
    own.upstream.respondWith(
      {
        status: 400,
        json: {
          error: {
            message: "Encrypted content is not supported with this model.",
            code: null,
            param: "include"
          }
        }
      },
      said("r", "a")
    )
    expect([
      (await own.respond()).status,
      (await own.respond({ include: ["message.output_text.logprobs"] })).status
    ]).toEqual([200, 200])
    expect(own.upstream.requests.map(({ body }) => body.include)).toEqual([
      ["reasoning.encrypted_content"],
      undefined,
      ["message.output_text.logprobs"]
    ])
    await own.close()
  })
  it("a session that its upstream lost is played back in full, once", async () => {
    const own = await ChatTestServer.open({ main: { kind: "openai-responses", upstream_sessions: true } })
    own.upstream.respondWith(
      said("up1", "a"),
      {
        status: 400,
        json: {
          error: {
            message: "Previous response with id 'up1' not found.",
            code: "previous_response_not_found"
          }
        }
      },
      said("up2", "b")
    )
    const first = await own.respond({ input: "A" })
    const second = await own.respond({ input: "B", previous_response_id: first.body.id })
    expect(second.body.output[0].content[0].text).toBe("b")
    expect(own.upstream.requests.map(({ body }) => [body.previous_response_id, body.input.length])).toEqual([
      [undefined, 1],
      ["up1", 1],
      [undefined, 3]
    ])
    await own.close()
  })
})

it("openai-chat: a model that wants the limit by its newer name gets it, in the same turn and from then on", async () => {
  const own = await ChatTestServer.open()
  own.upstream.respondWith(({ body }) =>
    "max_tokens" in body
      ? {
          status: 400,
          json: {
            error: {
              message:
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
              param: "max_tokens",
              code: "unsupported_parameter"
            }
          }
        }
      : { json: { choices: [{ message: { content: "ok" }, finish_reason: "stop" }] } }
  )
  for (const limit of [{ max_completion_tokens: 9 }, { max_tokens: 9 }, {}])
    expect((await own.ask(limit)).status).toBe(200)
  expect(own.upstream.requests.map(({ body }) => [body.max_tokens, body.max_completion_tokens])).toEqual([
    [9, undefined],
    [undefined, 9],
    [undefined, 9],
    [undefined, undefined]
  ])
  await own.close()
})

describe("an upstream that can little", () => {
  it("no streaming: pieces of 2048 characters; an alias; effort words mapped; unknown fields passed", async () => {
    fake.respondWith({ json: { choices: [{ message: { content: "é".repeat(5_000) } }] } })
    const { text } = await world.ask({
      model: "nick",
      stream: true,
      reasoning_effort: "minimal",
      vendor: { x: 1 }
    })
    expect(deltas(text).map(({ content }) => content?.length)).toEqual([0, 2_048, 2_048, 904, undefined])
    expect(fake.last.body).toMatchObject({ model: "m", reasoning_effort: "minimal", vendor: { x: 1 } })
    await world.ask({ model: "nick", reasoning_effort: "high" })
    expect(fake.last.body.reasoning_effort).toBeUndefined()
  })
  it("n by as many calls: sorted, prompt counted once, completions summed", async () => {
    let turn = 0
    fake.respondWith(() => ({
      json: {
        choices: [{ message: { content: `answer ${turn++}` } }],
        usage: { prompt_tokens: 4, completion_tokens: 2 }
      }
    }))
    const answer = await world.ask({ model: "weak/m", n: 3 })
    expect(
      answer.body.choices.map(({ index, message }: any) => [index, /^answer \d$/.test(message.content)])
    ).toEqual([
      [0, true],
      [1, true],
      [2, true]
    ])
    expect(answer.body.usage).toMatchObject({ prompt_tokens: 4, completion_tokens: 6 })
    expect(fake.requests.length).toBe(3)
    fake.respondWith({ json: { choices: [{ message: { content: "x" } }] } }, { status: 500 })
    expect((await world.ask({ model: "weak/m", n: 2 })).status).toBe(502)
  })
  it("tools by the prompt: a block becomes calls, other text stays text", async () => {
    fake.respondWith({
      json: {
        choices: [
          {
            message: { content: '```json\n{"tool_calls":[{"name":"look","arguments":{"city":"Rome"}}]}\n```' }
          }
        ]
      }
    })
    const answer = await world.ask({ model: "weak/m", tools: [tool] })
    expect(answer.body.choices[0]).toMatchObject({
      finish_reason: "tool_calls",
      message: { content: null, tool_calls: [{ function: { name: "look", arguments: '{"city":"Rome"}' } }] }
    })
    expect([fake.last.body.tools, fake.last.body.messages[0].role]).toEqual([undefined, "system"])
    fake.respondWith({
      json: {
        choices: [{ message: { content: '```json\n{"tool_calls":[{"name":"other","arguments":{}}]}\n```' } }]
      }
    })
    expect((await world.ask({ model: "weak/m", tools: [tool] })).body.choices[0]).toMatchObject({
      finish_reason: "stop",
      message: { content: expect.stringContaining("other") }
    })
  })
})

it("hints that a model lacks are dropped, or refused where so configured", async () => {
  const own = await ChatTestServer.open(
    {
      unsupportedParams: "error",
      chatUpstreams: [
        { id: "c", kind: "anthropic", base_url: fake.url, models: ["c"] },
        { id: "o", kind: "ollama", base_url: fake.url, open_models: true },
        { id: "r", kind: "openai-responses", base_url: fake.url, open_models: true },
        { id: "local", kind: "embedded" }
      ]
    },
    { upstream: fake }
  )
  for (const [model, param, value] of [
    ["c/c", "seed", 4],
    ["c/c", "verbosity", "low"],
    ["o/o", "logit_bias", { 1: 2 }],
    ["r/r", "presence_penalty", 1],
    ["local/echo", "seed", 4]
  ] as const) {
    const answer = await own.ask({ model, [param]: value })
    expect([model, answer.status, answer.body.error?.code, answer.body.error?.param]).toEqual([
      model,
      400,
      "unsupported_parameter",
      param
    ])
  }
  await own.close()
})

it("arguments by the prompt that break the schema are asked for once more, then passed as they are", async () => {
  const strictTool = {
    type: "function",
    function: {
      name: "look",
      parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] }
    }
  }
  const block = (args: unknown) => ({
    json: {
      choices: [{ message: { content: JSON.stringify({ tool_calls: [{ name: "look", arguments: args }] }) } }]
    }
  })
  fake.respondWith(block({ town: 1 }), block({ city: "Rome" }))
  expect(
    (await world.ask({ model: "weak/m", tools: [strictTool] })).body.choices[0].message.tool_calls[0].function
      .arguments
  ).toBe('{"city":"Rome"}')
  fake.respondWith(block({ town: 1 }))
  expect(
    (await world.ask({ model: "weak/m", tools: [strictTool] })).body.choices[0].message.tool_calls[0].function
      .arguments
  ).toBe('{"town":1}')
  expect(fake.requests.length).toBe(2)
})
