/** Whatever JSON comes: a turn, or a refusal with a code; never another throw. Seeded. */
import { expect, it } from "vitest"
import { Deadlines } from "../../../../actors/engines/chat/deadlines.ts"
import { chatBody } from "../../../../actors/engines/chat/openai-chat.ts"
import { readCompletions } from "../../../../protocols/chat/request/completions-request.ts"
import { readBody } from "../../../../protocols/chat/request/json-body.ts"
import { errorBodyOf, problemResponse, Refusal } from "../../../../protocols/chat/problems.ts"
import { readResponses } from "../../../../protocols/chat/request/responses-request.ts"

const random = (seed: number) => () => {
  seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff
  return seed / 0x7fffffff
}

const chat = {
  model: "m",
  messages: [
    { role: "system", content: "s" },
    {
      role: "user",
      content: [
        { type: "text", text: "x" },
        { type: "image_url", image_url: { url: "https://x/y", detail: "low" } },
        { type: "input_audio", input_audio: { data: "AAAA", format: "wav" } },
        { type: "file", file: { file_data: "AAAA", filename: "f" } }
      ]
    },
    {
      role: "assistant",
      content: null,
      tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: "{}" } }]
    },
    { role: "tool", tool_call_id: "c", content: "r" }
  ],
  tools: [{ type: "function", function: { name: "f", description: "d", parameters: {}, strict: true } }],
  tool_choice: {
    type: "allowed_tools",
    allowed_tools: { mode: "auto", tools: [{ type: "function", function: { name: "f" } }] }
  },
  parallel_tool_calls: true,
  stream: true,
  stream_options: { include_usage: true },
  temperature: 1,
  top_p: 1,
  max_tokens: 5,
  reasoning_effort: "low",
  n: 2,
  stop: ["a"],
  seed: 1,
  frequency_penalty: 0,
  logit_bias: { 5: 1 },
  logprobs: true,
  top_logprobs: 2,
  response_format: { type: "json_schema", json_schema: { name: "n", schema: {} } },
  modalities: ["text"],
  functions: [{ name: "g" }],
  function_call: { name: "g" },
  user: "u"
}

const responses = {
  model: "m",
  input: [
    {
      role: "user",
      content: [
        { type: "input_text", text: "x" },
        { type: "input_image", image_url: "data:image/png;base64,AAAA" },
        { type: "input_file", file_data: "AAAA" }
      ]
    },
    { type: "function_call", call_id: "c", name: "f", arguments: "{}" },
    { type: "function_call_output", call_id: "c", output: [{ type: "input_text", text: "x" }] },
    { type: "reasoning", id: "rs_1", summary: [], content: [{ type: "reasoning_text", text: "x" }] },
    { type: "item_reference", id: "msg_1" },
    { role: "tool", tool_call_id: "c", content: "x" },
    { role: "assistant", tool_calls: chat.messages[2]!.tool_calls }
  ],
  instructions: "i",
  tools: [{ type: "function", name: "f", parameters: {} }],
  tool_choice: { type: "function", name: "f" },
  reasoning: { effort: "low", summary: "auto" },
  text: { format: { type: "json_schema", name: "n", schema: {} }, verbosity: "low" },
  store: true,
  background: false,
  metadata: { a: "b" },
  truncation: "auto",
  include: ["reasoning.encrypted_content"],
  max_output_tokens: 3,
  top_logprobs: 1,
  previous_response_id: null
}

const strange: ReadonlyArray<unknown> = [
  null,
  0,
  -1,
  1.5,
  1e308,
  "",
  "x",
  true,
  [],
  {},
  [null],
  [[]],
  { type: null },
  { type: 5 },
  "\u0000",
  "__proto__",
  Number.MAX_SAFE_INTEGER
]

const mutated = (value: any, next: () => number): any => {
  if (next() < 0.015) return strange[Math.floor(next() * strange.length)]
  if (Array.isArray(value))
    return value.flatMap((item) => {
      if (next() < 0.01) return []
      const isDoubled = next() < 0.01
      return isDoubled ? [mutated(item, next), mutated(item, next)] : [mutated(item, next)]
    })
  if (typeof value === "object" && value !== null)
    return Object.fromEntries(
      Object.entries(value).flatMap(([name, member]) =>
        next() < 0.01 ? [] : [[next() < 0.005 ? "__proto__" : name, mutated(member, next)]]
      )
    )
  return value
}

it.each<[string, object, (body: any, text: string) => unknown]>([
  ["chat", chat, readCompletions],
  [
    "responses",
    responses,
    (body) =>
      readResponses(body, {
        findItem: (id) =>
          id === "msg_1"
            ? { type: "message", id, role: "assistant", content: [{ type: "output_text", text: "x" }] }
            : undefined,
        hasHostedTools: () => false
      })
  ]
])("%s bodies", (_, whole, read) => {
  let taken = 0
  let refused = 0
  for (let seed = 1; seed <= 4_000; seed++) {
    const body = JSON.stringify(mutated(whole, random(seed))) ?? "null"
    try {
      const { object, text } = readBody(Buffer.from(body))
      read(object, text)
      taken++
    } catch (cause) {
      expect(cause instanceof Refusal, `${seed}: ${String(cause)} ${body}`).toBe(true)
      const { problem } = cause as Refusal
      expect(errorBodyOf(problem).code ?? "").not.toBe("")
      expect(problemResponse(problem).status).toBeLessThan(500)
      refused++
    }
  }
  expect(taken).toBeGreaterThan(10)
  expect(refused).toBeGreaterThan(1_000)
})

it("messages that pass as they are written say what they would say written anew", () => {
  const options = {
    id: "x",
    supports: {},
    http: {
      base: "http://x",
      headers: {},
      limits: { connectMs: 1, firstMs: 1, idleMs: 1 },
      deadlines: new Deadlines({ monotonicMs: () => 0, timers: { after: () => {} } })
    }
  }
  const plain = {
    stream: true,
    messages: [
      { role: "system", content: "s" },
      { content: '"},{\\ü\ud800 漢', role: "user" },
      { role: "assistant", content: "a" },
      { role: "developer", content: "" }
    ],
    model: "m",
    temperature: 1
  }
  let passed = 0
  let written = 0
  for (let seed = 1; seed <= 3_000; seed++) {
    const next = random(seed)
    const body = JSON.stringify(
      mutated(
        seed % 2 === 0
          ? plain
          : { ...plain, messages: [...plain.messages, { role: "user", content: "u", name: "n" }] },
        next
      ),
      null,
      seed % 3
    )
    try {
      const { object, text } = readBody(Buffer.from(body))
      const { request } = readCompletions(object, text)
      if (request.verbatim === undefined) {
        written++
        continue
      }
      passed++
      expect(JSON.parse(chatBody(request, options)), body).toEqual(
        JSON.parse(chatBody({ ...request, verbatim: undefined }, options))
      )
    } catch (cause) {
      if (!(cause instanceof Refusal)) throw cause
    }
  }
  expect(passed).toBeGreaterThan(500)
  expect(written).toBeGreaterThan(500)
})

it("bytes that are no JSON, and nesting", () => {
  const next = random(9)
  const text = JSON.stringify(chat)
  for (let i = 0; i < 2_000; i++) {
    const at = Math.floor(next() * text.length)
    try {
      readBody(
        Buffer.from(
          `${text.slice(0, at)}${String.fromCharCode(Math.floor(next() * 256))}${text.slice(at + 1)}`,
          "latin1"
        )
      )
    } catch (cause) {
      expect(errorBodyOf((cause as Refusal).problem).code).toBe("invalid_json")
    }
  }
  expect(() => readBody(Buffer.from(`{"a":${"[".repeat(100_000)}`))).toThrow(Refusal)
  expect(
    readBody(Buffer.from(`{"a":${"[".repeat(63)}${"]".repeat(63)},"b":"${"[".repeat(99)}","a":1}`)).object[
      "a"
    ]
  ).toBe(1)
})
