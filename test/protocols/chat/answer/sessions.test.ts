/** Stored responses: continuing, branching, expiry, deletion, background, and what happens when the disk does
 *  not take them. */
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { openMemory } from "../../../../storage/memory.ts"
import { StorageFault, type Store } from "../../../../storage/store.ts"
import {
  toolCallStream,
  completion,
  FakeUpstream,
  textStream,
  type UpstreamRequest
} from "../fake-upstream.ts"
import { frames, until, ChatTestServer, type Answer } from "../chat-server.ts"

const errorOf = ({ status, body }: Answer): unknown => [status, body?.error?.code]

const textsOf = (seen: UpstreamRequest): ReadonlyArray<string> =>
  seen.body.messages.map(({ content }: { content: string }) => content)

const tool = {
  type: "function",
  name: "look",
  parameters: { type: "object", properties: { city: { type: "string" } } }
}

let chatServer: ChatTestServer

beforeAll(async () => {
  chatServer = await ChatTestServer.open({ chatKeys: "one,two" })
})

afterAll(() => chatServer.close())

const say = (text: string): void => {
  chatServer.upstream.respondWith({ json: completion(text) })
}

describe("continuing", () => {
  it("the shape of a response; a turn hears its ancestors, not their instructions", async () => {
    say("first")
    const first = await chatServer.respond({ input: "A", instructions: "be kind", metadata: { a: "b" } })
    expect(first.body).toMatchObject({
      object: "response",
      status: "completed",
      error: null,
      incomplete_details: null,
      instructions: "be kind",
      model: "main/m",
      previous_response_id: null,
      store: true,
      metadata: { a: "b" },
      output: [
        {
          type: "message",
          role: "assistant",
          status: "completed",
          content: [{ type: "output_text", text: "first", annotations: [], logprobs: [] }]
        }
      ],
      usage: { input_tokens: 3, output_tokens: 2, total_tokens: 5 },
      tool_choice: "auto",
      tools: [],
      truncation: "disabled",
      text: { format: { type: "text" } }
    })
    expect(first.body.id).toMatch(/^resp_[0-9a-f]{48}$/)
    expect(textsOf(chatServer.upstream.last)).toEqual(["be kind", "A"])
    say("second")
    const second = await chatServer.respond({
      input: "B",
      previous_response_id: first.body.id,
      instructions: "be brief"
    })
    expect(textsOf(chatServer.upstream.last)).toEqual(["A", "first", "be brief", "B"])
    expect(second.body.previous_response_id).toBe(first.body.id)
    expect((await chatServer.call(`/v1/responses/${second.body.id}`)).body).toEqual(second.body)
  })
  it("CHAT-47 29 min 59 s after the last turn → 200, which renews; CHAT-48 at 30 min → 400, and the upstream's session is forgotten", async () => {
    const deleted: Array<string> = []
    const upstream = await FakeUpstream.open()
    const own = await ChatTestServer.open(
      { main: { kind: "openai-responses", upstream_sessions: true } },
      { upstream }
    )
    upstream.respondWith(
      {
        json: {
          id: "resp_up1",
          status: "completed",
          output: [{ type: "message", content: [{ type: "output_text", text: "a" }] }],
          usage: { input_tokens: 1, output_tokens: 1 }
        }
      },
      {
        json: {
          id: "resp_up2",
          status: "completed",
          output: [{ type: "message", content: [{ type: "output_text", text: "b" }] }],
          usage: { input_tokens: 1, output_tokens: 1 }
        }
      },
      (seen) => {
        deleted.push(`${seen.method} ${seen.path}`)
        return { json: {} }
      }
    )
    const first = await own.respond({ input: "A" })
    own.clockOffsetMs += 1_799_000
    const second = await own.respond({ input: "B", previous_response_id: first.body.id })
    expect(second.status).toBe(200)
    expect(upstream.last.body).toMatchObject({ previous_response_id: "resp_up1", input: [{ role: "user" }] })
    own.clockOffsetMs += 1_800_000
    const late = await own.respond({ input: "C", previous_response_id: second.body.id })
    expect(errorOf(late)).toEqual([400, "previous_response_not_found"])
    expect(late.body.error.message).toContain("invalid or expired")
    expect((await own.call(`/v1/responses/${second.body.id}`)).status).toBe(404)
    own.clockOffsetMs += 5_000
    await until(() => deleted.length === 2)
    expect(deleted.sort()).toEqual(["DELETE /v1/responses/resp_up1", "DELETE /v1/responses/resp_up2"])
    await own.close()
    upstream.close()
  })
  it("CHAT-49 right after response.completed was read → 200 with the context", async () => {
    for (let i = 0; i < 20; i++) {
      chatServer.upstream.respondWith({ chunks: textStream("first") }, { json: completion("second") })
      const response = await chatServer.fetch("/v1/responses", {
        body: { model: "main/m", input: "A", stream: true }
      })
      const reader = response.body!.getReader()
      let text = ""
      while (!text.includes("event: response.completed"))
        text += new TextDecoder().decode((await reader.read()).value)
      const id = /"id":"(resp_[0-9a-f]+)"/.exec(text)![1]!
      expect((await chatServer.respond({ input: "B", previous_response_id: id })).status).toBe(200)
      expect(textsOf(chatServer.upstream.last)).toEqual(["A", "first", "B"])
    }
  })
  it("CHAT-51 store: false, then continue or GET → 400, 404", async () => {
    say("x")
    const { body } = await chatServer.respond({ store: false })
    expect(errorOf(await chatServer.respond({ previous_response_id: body.id }))).toEqual([
      400,
      "previous_response_not_found"
    ])
    expect(errorOf(await chatServer.call(`/v1/responses/${body.id}`))).toEqual([404, "response_not_found"])
  })
  it("CHAT-52 two branches from one id at once: each third turn sees only its branch", async () => {
    chatServer.upstream.respondWith((seen) => ({ json: completion(`re ${textsOf(seen).at(-1)!}`) }))
    const root = await chatServer.respond({ input: "root" })
    const [left, right] = await Promise.all(
      ["L", "R"].map((input) => chatServer.respond({ input, previous_response_id: root.body.id }))
    )
    expect([left!.status, right!.status]).toEqual([200, 200])
    await chatServer.respond({ input: "L2", previous_response_id: left!.body.id })
    expect(textsOf(chatServer.upstream.last)).toEqual(["root", "re root", "L", "re L", "L2"])
    await chatServer.respond({ input: "R2", previous_response_id: right!.body.id })
    expect(textsOf(chatServer.upstream.last)).toEqual(["root", "re root", "R", "re R", "R2"])
  })
  it("two hops: calls, then their results; CHAT-54 without the result → 400; CHAT-53 with a strange one", async () => {
    chatServer.upstream.respondWith(
      { chunks: toolCallStream("look", '{"city":"Rome"}', "call_7") },
      { json: completion("sunny") }
    )
    const all = frames((await chatServer.respond({ stream: true, tools: [tool] })).text)
    const id = all[0]!.data.response.id
    expect(errorOf(await chatServer.respond({ previous_response_id: id, input: "go on" }))).toEqual([
      400,
      "invalid_value"
    ])
    const strange = await chatServer.respond({
      previous_response_id: id,
      input: [{ type: "function_call_output", call_id: "call_9", output: "x" }]
    })
    expect(strange.body.error.message).toContain(
      "No tool call found for function call output with call_id call_9"
    )
    const second = await chatServer.respond({
      previous_response_id: id,
      input: [{ type: "function_call_output", call_id: "call_7", output: "22 °C" }]
    })
    expect(second.body.output[0].content[0].text).toBe("sunny")
    expect(chatServer.upstream.last.body.messages.slice(1)).toEqual([
      {
        role: "assistant",
        content: null,
        tool_calls: [
          { id: "call_7", type: "function", function: { name: "look", arguments: '{"city":"Rome"}' } }
        ]
      },
      { role: "tool", content: "22 °C", tool_call_id: "call_7" }
    ])
    expect(chatServer.upstream.last.body.tools).toBeUndefined()
  })
  it("CHAT-55 another key's response id → 400 on continue, 404 on GET, cancel, delete", async () => {
    say("x")
    const { body } = await chatServer.respond()
    expect(errorOf(await chatServer.respond({ previous_response_id: body.id }, { key: "two" }))).toEqual([
      400,
      "previous_response_not_found"
    ])
    for (const [path, method] of [
      ["", "GET"],
      ["", "DELETE"],
      ["/cancel", "POST"],
      ["/input_items", "GET"]
    ] as const)
      expect((await chatServer.call(`/v1/responses/${body.id}${path}`, { key: "two", method })).status).toBe(
        404
      )
    expect((await chatServer.call(`/v1/responses/${body.id}`)).status).toBe(200)
  })
  it("CHAT-59 DELETE twice → 200, then 404; descendants go on with its turns", async () => {
    chatServer.upstream.respondWith(
      { json: completion("a") },
      { json: completion("b") },
      { json: completion("c") }
    )
    const first = await chatServer.respond({ input: "A" })
    const second = await chatServer.respond({ input: "B", previous_response_id: first.body.id })
    expect((await chatServer.call(`/v1/responses/${first.body.id}`, { method: "DELETE" })).body).toEqual({
      id: first.body.id,
      object: "response",
      deleted: true
    })
    expect(errorOf(await chatServer.call(`/v1/responses/${first.body.id}`, { method: "DELETE" }))).toEqual([
      404,
      "response_not_found"
    ])
    expect(errorOf(await chatServer.respond({ previous_response_id: first.body.id }))).toEqual([
      400,
      "previous_response_not_found"
    ])
    expect((await chatServer.respond({ input: "C", previous_response_id: second.body.id })).status).toBe(200)
    expect(textsOf(chatServer.upstream.last)).toEqual(["A", "a", "B", "b", "C"])
  })
  it("an item is taken by reference, by its owner only", async () => {
    chatServer.upstream.respondWith({ json: completion("wise words") })
    const { body } = await chatServer.respond()
    const [{ id }] = body.output
    await chatServer.respond({
      input: [
        { type: "item_reference", id },
        { role: "user", content: "and?" }
      ]
    })
    expect(textsOf(chatServer.upstream.last)).toEqual(["wise words", "and?"])
    expect(
      errorOf(await chatServer.respond({ input: [{ type: "item_reference", id }] }, { key: "two" }))
    ).toEqual([400, "invalid_value"])
  })
  it("the last response deleted ends the session", async () => {
    const own = await ChatTestServer.open()
    own.upstream.respondWith({ json: completion("a") })
    const { body } = await own.respond()
    expect(own.metrics()).toContain("proxy_sessions_active 1")
    await own.call(`/v1/responses/${body.id}`, { method: "DELETE" })
    expect(own.metrics()).toContain("proxy_sessions_active 0")
    expect(own.store.range("chat-responses", { limit: 10 })).toEqual([])
    await own.close()
  })
  it("beyond MAX_SESSIONS the one that would expire first leaves", async () => {
    const own = await ChatTestServer.open({ sessionsMax: 2 })
    own.upstream.respondWith({ json: completion("a") })
    const ids: Array<string> = []
    for (let i = 0; i < 3; i++) {
      ids.push((await own.respond()).body.id)
      own.clockOffsetMs += 10
    }
    await until(() => own.metrics().includes("proxy_sessions_active 2"))
    expect(await Promise.all(ids.map(async (id) => (await own.call(`/v1/responses/${id}`)).status))).toEqual([
      404, 200, 200
    ])
    await own.close()
  })
})

describe("limits and failures", () => {
  it("CHAT-68 the 17th turn of a session at once → 429 session_busy", async () => {
    const own = await ChatTestServer.open()
    own.upstream.respondWith({ json: completion("root") }, { silent: true })
    const { body } = await own.respond()
    const controller = new AbortController()
    for (let i = 0; i < 16; i++)
      own
        .fetch("/v1/responses", {
          body: { model: "main/m", input: "x", previous_response_id: body.id },
          signal: controller.signal
        })
        .catch(() => {})
    await until(() => own.upstream.requests.length === 17)
    const busy = await own.respond({ previous_response_id: body.id })
    expect([...(errorOf(busy) as []), busy.headers.get("retry-after")]).toEqual([429, "session_busy", "1"])
    controller.abort()
    await until(() => own.metrics().includes("proxy_inflight_turns 0"))
    own.upstream.respondWith({ json: completion("free") })
    expect((await own.respond({ previous_response_id: body.id })).status).toBe(200)
    await own.close()
  })
  it("CHAT-69, G-3 the disk is full at the commit → 503 storage_unavailable, nothing is known afterwards; on a stream response.failed", async () => {
    const inner = openMemory()
    let full = false
    const store: Store = new Proxy(inner, {
      get: (target: any, name) => {
        const member = target[name]
        if (name !== "commit") return typeof member === "function" ? member.bind(target) : member
        return (writes: any, settled: any) => {
          if (!full) return target.commit(writes, settled)
          queueMicrotask(() => settled(new StorageFault({ reason: "full", detail: "no space" })))
          return undefined
        }
      }
    })
    const own = await ChatTestServer.open({}, { store })
    own.upstream.respondWith({ chunks: textStream("x") })
    full = true
    const failed = await own.respond({ stream: true })
    const last = frames(failed.text).at(-2)!
    expect([last.event, last.data.response.status, last.data.response.error.code]).toEqual([
      "response.failed",
      "failed",
      "server_error"
    ])
    own.upstream.respondWith({ json: completion("x") })
    expect(errorOf(await own.respond())).toEqual([503, "storage_unavailable"])
    full = false
    const id = frames(failed.text)[0]!.data.response.id
    expect(errorOf(await own.call(`/v1/responses/${id}`))).toEqual([404, "response_not_found"])
    expect(errorOf(await own.respond({ previous_response_id: id }))).toEqual([
      400,
      "previous_response_not_found"
    ])
    expect((await own.respond()).status).toBe(200)
    await own.close()
  })
  it("a client that goes in the middle leaves a cancelled response that can be continued with its partial text", async () => {
    chatServer.upstream.respondWith(
      { chunks: textStream("half ", "done").slice(0, 2), hang: true },
      { json: completion("whole") }
    )
    const controller = new AbortController()
    const response = await chatServer.fetch("/v1/responses", {
      body: { model: "main/m", input: "A", stream: true },
      signal: controller.signal
    })
    const reader = response.body!.getReader()
    let text = ""
    while (!text.includes("half ")) text += new TextDecoder().decode((await reader.read()).value)
    const id = /"id":"(resp_[0-9a-f]+)"/.exec(text)![1]!
    expect((await chatServer.call(`/v1/responses/${id}`)).body.status).toBe("in_progress")
    expect(errorOf(await chatServer.respond({ previous_response_id: id }))).toEqual([
      400,
      "previous_response_not_ready"
    ])
    expect((await chatServer.call(`/v1/responses/${id}/cancel`, { method: "POST" })).status).toBe(400)
    controller.abort()
    for (let status = ""; status !== "cancelled";)
      status = (await chatServer.call(`/v1/responses/${id}`)).body.status
    await chatServer.respond({ input: "B", previous_response_id: id })
    expect(textsOf(chatServer.upstream.last)).toEqual(["A", "half ", "B"])
  })
  it("a stream that breaks ends with response.failed; its id cannot be continued", async () => {
    chatServer.upstream.respondWith({ chunks: textStream("a", "b"), dieAfter: 2 })
    const all = frames((await chatServer.respond({ stream: true })).text)
    const last = all.at(-2)!
    expect([
      all[0]!.event,
      last.event,
      last.data.response.status,
      last.data.response.error.code,
      all.at(-1)!.data
    ]).toEqual(["response.created", "response.failed", "failed", "server_error", "[DONE]"])
    expect(last.data.response.output).toMatchObject([{ type: "message", status: "incomplete" }])
    expect(errorOf(await chatServer.respond({ previous_response_id: last.data.response.id }))).toEqual([
      400,
      "previous_response_not_found"
    ])
  })
  it("truncation auto drops the oldest turns and tries once more; disabled → 400", async () => {
    const long = {
      status: 400,
      json: { error: { message: "maximum context length exceeded", code: "context_length_exceeded" } }
    }
    chatServer.upstream.respondWith({ json: completion("a") }, long, { json: completion("b") })
    const first = await chatServer.respond({ input: `A ${"x".repeat(500)}` })
    const second = await chatServer.respond({
      input: "B",
      previous_response_id: first.body.id,
      truncation: "auto"
    })
    expect(second.status).toBe(200)
    expect(textsOf(chatServer.upstream.last)).toEqual(["B"])
    chatServer.upstream.respondWith(long)
    expect(errorOf(await chatServer.respond({ input: "C", previous_response_id: first.body.id }))).toEqual([
      400,
      "context_length_exceeded"
    ])
  })
})

describe("events", () => {
  it("a text: the events of section 10 in order, sequence numbers without a gap, one id", async () => {
    chatServer.upstream.respondWith({ chunks: textStream("Hel", "lo") })
    const all = frames((await chatServer.respond({ stream: true })).text)
    expect(all.map(({ event }) => event)).toEqual([
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      "response.content_part.added",
      "response.output_text.delta",
      "response.output_text.delta",
      "response.output_text.done",
      "response.content_part.done",
      "response.output_item.done",
      "response.completed",
      undefined
    ])
    const events = all.slice(0, -1)
    expect(events.map(({ data }) => data.sequence_number)).toEqual(events.map((_, i) => i))
    expect(events.every(({ event, data }) => data.type === event)).toBe(true)
    expect(new Set(events.flatMap(({ data }) => data.response?.id ?? [])).size).toBe(1)
    expect(events[6]!.data.text).toBe("Hello")
    expect(events.at(-1)!.data.response).toMatchObject({
      status: "completed",
      usage: { output_tokens: 2 },
      output: [{ content: [{ text: "Hello" }] }]
    })
  })
  it("reasoning, then calls: items in order, joined deltas equal done", async () => {
    const c = (delta: unknown, finish: string | null = null) => ({
      choices: [{ index: 0, delta, finish_reason: finish }]
    })
    chatServer.upstream.respondWith({
      chunks: [
        c({ reasoning_content: "let me " }),
        c({ reasoning_content: "see" }),
        ...toolCallStream("look", '{"city":"Rome"}')
      ]
    })
    const events = frames((await chatServer.respond({ stream: true, tools: [tool] })).text).slice(0, -1)
    expect(events.map(({ event }) => event!.slice(9))).toEqual([
      "created",
      "in_progress",
      "output_item.added",
      "content_part.added",
      "reasoning_text.delta",
      "reasoning_text.delta",
      "reasoning_text.done",
      "content_part.done",
      "output_item.done",
      "output_item.added",
      "function_call_arguments.delta",
      "function_call_arguments.delta",
      "function_call_arguments.done",
      "output_item.done",
      "completed"
    ])
    expect(
      events
        .filter(({ event }) => event === "response.function_call_arguments.delta")
        .map(({ data }) => data.delta)
        .join("")
    ).toBe(events.find(({ event }) => event === "response.function_call_arguments.done")!.data.arguments)
    expect(events.at(-1)!.data.response.output.map(({ type }: { type: string }) => type)).toEqual([
      "reasoning",
      "function_call"
    ])
    expect(
      events
        .filter(({ event }) => event === "response.output_item.added")
        .map(({ data }) => data.output_index)
    ).toEqual([0, 1])
  })
})

describe("background", () => {
  it("queued at once, completed later, with a replay of its events", async () => {
    chatServer.upstream.respondWith({ chunks: textStream("a", "b") })
    const live = frames((await chatServer.respond({ background: true, stream: true })).text)
    expect(live.slice(0, 3).map(({ event, data }) => [event, data.response.status])).toEqual([
      ["response.created", "queued"],
      ["response.queued", "queued"],
      ["response.in_progress", "in_progress"]
    ])
    expect(live.at(-2)!.event).toBe("response.completed")
    const id = live[0]!.data.response.id
    const replay = frames((await chatServer.call(`/v1/responses/${id}?stream=true&starting_after=3`)).text)
    expect(replay).toEqual(live.slice(4))
    chatServer.upstream.respondWith({ json: completion("x") })
    const plain = await chatServer.respond({ background: true })
    expect([plain.status, plain.body.status, plain.body.background]).toEqual([200, "queued", true])
    for (let status = ""; status !== "completed";)
      status = (await chatServer.call(`/v1/responses/${plain.body.id}`)).body.status
    expect(errorOf(await chatServer.call(`/v1/responses/${plain.body.id}?stream=true`))).toEqual([
      400,
      "invalid_value"
    ])
  })
  it("a listener that goes stops nothing; CHAT-58 cancel: background → cancelled, again unchanged; foreground → 400", async () => {
    chatServer.upstream.respondWith({ chunks: textStream("a", "b").slice(0, 2), hang: true })
    const controller = new AbortController()
    const response = await chatServer.fetch("/v1/responses", {
      body: { model: "main/m", input: "x", background: true, stream: true },
      signal: controller.signal
    })
    const reader = response.body!.getReader()
    let text = ""
    while (!text.includes('"delta":"a"')) text += new TextDecoder().decode((await reader.read()).value)
    const id = /"id":"(resp_[0-9a-f]+)"/.exec(text)![1]!
    controller.abort()
    expect((await chatServer.call(`/v1/responses/${id}`)).body.status).toBe("in_progress")
    expect(errorOf(await chatServer.respond({ previous_response_id: id }))).toEqual([
      400,
      "previous_response_not_ready"
    ])
    const cancelled = await chatServer.call(`/v1/responses/${id}/cancel`, { method: "POST" })
    expect([cancelled.status, cancelled.body.status]).toEqual([200, "cancelled"])
    expect((await chatServer.call(`/v1/responses/${id}/cancel`, { method: "POST" })).body.status).toBe(
      "cancelled"
    )
    expect(chatServer.upstream.last.aborted).toBe(true)
    const replay = frames((await chatServer.call(`/v1/responses/${id}?stream=true`)).text)
    expect([replay.at(-2)!.event, replay.at(-2)!.data.response.status]).toEqual([
      "response.incomplete",
      "cancelled"
    ])
    chatServer.upstream.respondWith({ json: completion("x") })
    const { body } = await chatServer.respond()
    const refused = await chatServer.call(`/v1/responses/${body.id}/cancel`, { method: "POST" })
    expect([...(errorOf(refused) as []), refused.body.error.message]).toEqual([
      400,
      "invalid_value",
      "Cannot cancel a synchronous response."
    ])
  })
})
