/** The published clients over a real socket: openai, the AI SDK (two providers), the OpenAI agents SDK,
 *  LangChain. */
import { createOpenAI } from "@ai-sdk/openai"
import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import { HumanMessage, ToolMessage } from "@langchain/core/messages"
import { tool as langTool } from "@langchain/core/tools"
import { ChatOpenAI } from "@langchain/openai"
import { Agent, OpenAIProvider, Runner, setTracingDisabled, tool as agentTool } from "@openai/agents"
import { generateObject, generateText, stepCountIs, streamText, tool as aiTool } from "ai"
import OpenAI, { APIError, AuthenticationError, NotFoundError } from "openai"
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { z } from "zod"
import { completion, toolCallStream, textStream, type Step } from "../protocols/chat/fake-upstream.ts"
import { until, ChatTestServer } from "../protocols/chat/chat-server.ts"

setTracingDisabled(true)

const schema = {
  type: "object" as const,
  properties: { city: { type: "string" as const } },
  required: ["city"],
  additionalProperties: false
}

describe.each(["uws", "node"] as const)("published clients over %s", (adapter) => {
  let chatServer: ChatTestServer
  let client: OpenAI
  beforeAll(async () => {
    chatServer = await ChatTestServer.open({ chatKeys: "secret" }, { adapter })
    client = new OpenAI({ baseURL: `${chatServer.url}/v1`, apiKey: "secret", maxRetries: 0 })
  })
  afterAll(() => chatServer.close())
  /** The upstream's call of the tool, each with an id of its own. */
  const toolCall = (callId: string, stream: boolean): Step => {
    const args = '{"city":"Rome"}'
    if (stream) return { chunks: toolCallStream("weather", args, callId) }
    const call = { id: callId, type: "function", function: { name: "weather", arguments: args } }
    return { json: completion(null, { tool_calls: [call] }, "tool_calls") }
  }
  const answer = (stream: boolean): Step =>
    stream ? { chunks: textStream("It is ", "22 degrees.") } : { json: completion("It is 22 degrees.") }
  /** First the tool is called, then its result is answered. */
  const twoHops = (): void => {
    chatServer.upstream.respondWith(({ body }) => {
      const stream = body.stream === true
      const hasResult = JSON.stringify(body.messages).includes("22 degrees")
      return hasResult ? answer(stream) : toolCall(`call_${body.messages.length}`, stream)
    })
  }
  const weather = ({ city }: { readonly city: string }): string => `22 degrees in ${city}`

  describe("openai", () => {
    it("chat.completions.create, models.list, models.retrieve", async () => {
      const answer = await client.chat.completions.create({
        model: "local/echo",
        messages: [{ role: "user", content: "hello there" }]
      })
      expect([answer.choices[0]!.message.content, answer.usage!.total_tokens]).toEqual(["hello there", 4])
      const ids: Array<string> = []
      for await (const model of client.models.list()) ids.push(model.id)
      expect(ids).toEqual(["local/echo", "main/llama-3.1-8b", "main/m"])
      expect((await client.models.retrieve("main/m")).owned_by).toBe("fake")
    })
    it("runTools that keeps tool_choice required ends with the tool's result on local/echo", async () => {
      const runner = client.chat.completions.runTools(
        {
          model: "local/echo",
          messages: [{ role: "user", content: "Rome?" }],
          tool_choice: "required",
          tools: [
            {
              type: "function",
              function: {
                name: "weather",
                description: "",
                parse: JSON.parse,
                parameters: schema,
                function: () => "sunny"
              }
            }
          ]
        },
        { maxChatCompletions: 3 }
      )
      expect(await runner.finalContent()).toBe("tool: sunny")
    })
    it("a stream, and its helper's final completion", async () => {
      chatServer.upstream.respondWith({ chunks: textStream("a ", "b") })
      const stream = client.chat.completions.stream({
        model: "main/m",
        messages: [{ role: "user", content: "x" }],
        stream_options: { include_usage: true }
      })
      const deltas: Array<string> = []
      stream.on("content", (delta) => deltas.push(delta))
      expect((await stream.finalChatCompletion()).choices[0]!.message.content).toBe("a b")
      expect([deltas, (await stream.totalUsage()).completion_tokens]).toEqual([["a ", "b"], 2])
    })
    it("a stream that breaks throws; errors are typed", async () => {
      chatServer.upstream.respondWith({ chunks: textStream("a", "b"), dieAfter: 2 })
      const stream = await client.chat.completions.create({
        model: "main/m",
        stream: true,
        messages: [{ role: "user", content: "x" }]
      })
      await expect(
        (async () => {
          for await (const part of stream) expect(part.object).toBe("chat.completion.chunk")
        })()
      ).rejects.toThrow(APIError)
      await expect(
        client.chat.completions.create({ model: "none", messages: [{ role: "user", content: "x" }] })
      ).rejects.toThrow(NotFoundError)
      await expect(
        new OpenAI({ baseURL: `${chatServer.url}/v1`, apiKey: "wrong", maxRetries: 0 }).models.list()
      ).rejects.toThrow(AuthenticationError)
      await expect(
        client.responses.create({ model: "main/m", input: "x", previous_response_id: "resp_none" })
      ).rejects.toMatchObject({ status: 400, code: "previous_response_not_found" })
    })
    it("its own retries: 429 with retry-after-ms, then 200", async () => {
      const retrying = new OpenAI({ baseURL: `${chatServer.url}/v1`, apiKey: "secret", maxRetries: 1 })
      chatServer.upstream.respondWith(
        { status: 429, headers: { "retry-after": "6" } },
        { json: completion("ok") }
      )
      const withFetch = new OpenAI({
        baseURL: `${chatServer.url}/v1`,
        apiKey: "secret",
        maxRetries: 1,
        fetch: async (url, init) => {
          const response = await fetch(url as string, init as RequestInit)
          if (response.status !== 429) return response as never
          expect(response.headers.get("retry-after-ms")).toBe("6000")
          return new Response(await response.text(), {
            status: 429,
            headers: { "retry-after-ms": "1" }
          }) as never
        }
      })
      expect(
        (
          await withFetch.chat.completions.create({
            model: "main/m",
            messages: [{ role: "user", content: "x" }]
          })
        ).choices[0]!.message.content
      ).toBe("ok")
      expect(retrying.maxRetries).toBe(1)
    })
    it("runTools, whole and streamed", async () => {
      for (const stream of [false, true] as const) {
        twoHops()
        const runner = client.chat.completions.runTools({
          model: "main/m",
          stream: stream as false,
          messages: [{ role: "user", content: "Weather in Rome?" }],
          tools: [
            {
              type: "function",
              function: {
                name: "weather",
                description: "w",
                parameters: schema,
                parse: JSON.parse,
                function: weather
              }
            }
          ]
        })
        expect(await runner.finalContent()).toBe("It is 22 degrees.")
      }
    })
    it("parse: chat and responses", async () => {
      const City = z.object({ city: z.string() })
      const chat = await client.chat.completions.parse({
        model: "local/echo",
        messages: [{ role: "user", content: "x" }],
        response_format: zodResponseFormat(City, "city")
      })
      expect(chat.choices[0]!.message.parsed).toEqual({ city: "" })
      const answer = await client.responses.parse({
        model: "local/echo",
        input: "x",
        text: { format: zodTextFormat(City, "city") }
      })
      expect(answer.output_parsed).toEqual({ city: "" })
    })
    it("responses: create, stream, retrieve, input items by pages, delete", async () => {
      const first = await client.responses.create({
        model: "local/echo",
        input: [
          { role: "user", content: "one" },
          { role: "user", content: "two" },
          { role: "user", content: "three" }
        ]
      })
      expect(first.output_text).toBe("three")
      const pages: Array<string> = []
      for await (const item of client.responses.inputItems.list(first.id, { limit: 2, order: "asc" }))
        pages.push(JSON.stringify((item as { content: unknown }).content))
      expect(pages.map((text) => /"text":"(\w+)"/.exec(text)![1])).toEqual(["one", "two", "three"])
      chatServer.upstream.respondWith({ chunks: textStream("Hel", "lo") })
      const stream = client.responses.stream({ model: "main/m", input: "x", previous_response_id: first.id })
      const deltas: Array<string> = []
      stream.on("response.output_text.delta", ({ delta }) => deltas.push(delta))
      const final = await stream.finalResponse()
      expect([deltas, final.output_text, final.previous_response_id]).toEqual([
        ["Hel", "lo"],
        "Hello",
        first.id
      ])
      expect((await client.responses.retrieve(final.id)).output_text).toBe("Hello")
      await client.responses.delete(final.id)
      await expect(client.responses.retrieve(final.id)).rejects.toThrow(NotFoundError)
    })
    it("responses: background, cancel, and resuming a stream", async () => {
      chatServer.upstream.respondWith({ chunks: textStream("a", "b").slice(0, 2), hang: true })
      const stream = await client.responses.create({
        model: "main/m",
        input: "x",
        background: true,
        stream: true
      })
      let id = ""
      let last = 0
      for await (const event of stream) {
        if (event.type === "response.created") id = event.response.id
        last = event.sequence_number
        if (event.type === "response.output_text.delta") break
      }
      expect((await client.responses.cancel(id)).status).toBe("cancelled")
      const types: Array<string> = []
      for await (const event of await client.responses.retrieve(id, { stream: true, starting_after: last }))
        types.push(event.type)
      expect(types.at(-1)).toBe("response.incomplete")
    })
    it("a request that is aborted ends upstream", async () => {
      chatServer.upstream.respondWith({ chunks: textStream("a").slice(0, 2), hang: true })
      const stream = await client.chat.completions.create({
        model: "main/m",
        stream: true,
        messages: [{ role: "user", content: "x" }]
      })
      for await (const part of stream) if (part.choices[0]?.delta.content === "a") stream.controller.abort()
      await until(() => chatServer.upstream.last.aborted)
    })
  })

  describe("ai", () => {
    const compatible = () =>
      createOpenAICompatible({
        name: "troupe",
        baseURL: `${chatServer.url}/v1`,
        apiKey: "secret",
        supportsStructuredOutputs: true
      })
    const openai = () => createOpenAI({ baseURL: `${chatServer.url}/v1`, apiKey: "secret" })
    it("@ai-sdk/openai-compatible: text, stream, tools, object", async () => {
      expect((await generateText({ model: compatible()("local/echo"), prompt: "hello there" })).text).toBe(
        "hello there"
      )
      chatServer.upstream.respondWith({ chunks: textStream("a ", "b") })
      expect(await streamText({ model: compatible()("main/m"), prompt: "x" }).text).toBe("a b")
      twoHops()
      const tools = {
        weather: aiTool({
          inputSchema: z.object({ city: z.string() }),
          execute: (args) => Promise.resolve(weather(args))
        })
      }
      expect(
        (
          await generateText({
            model: compatible()("main/m"),
            prompt: "Weather?",
            tools,
            stopWhen: stepCountIs(3)
          })
        ).text
      ).toBe("It is 22 degrees.")
      twoHops()
      expect(
        await streamText({
          model: compatible()("main/m"),
          prompt: "Weather?",
          tools,
          stopWhen: stepCountIs(3)
        }).text
      ).toBe("It is 22 degrees.")
      expect(
        (
          await generateObject({
            model: compatible()("local/echo"),
            prompt: "x",
            schema: z.object({ n: z.number() })
          })
        ).object
      ).toEqual({ n: 0 })
    })
    it("@ai-sdk/openai: responses and chat, tools over both", async () => {
      const tools = {
        weather: aiTool({
          inputSchema: z.object({ city: z.string() }),
          execute: (args) => Promise.resolve(weather(args))
        })
      }
      for (const model of [openai().responses("main/m"), openai().chat("main/m")]) {
        twoHops()
        expect(
          (await generateText({ model, prompt: "Weather?", tools, stopWhen: stepCountIs(3) })).text
        ).toBe("It is 22 degrees.")
        twoHops()
        expect(await streamText({ model, prompt: "Weather?", tools, stopWhen: stepCountIs(3) }).text).toBe(
          "It is 22 degrees."
        )
      }
      chatServer.upstream.respondWith({ json: completion("one") }, { json: completion("two") })
      const first = await generateText({ model: openai().responses("main/m"), prompt: "A" })
      await generateText({
        model: openai().responses("main/m"),
        prompt: "B",
        providerOptions: {
          openai: { previousResponseId: first.providerMetadata!["openai"]!["responseId"] as string }
        }
      })
      expect(
        chatServer.upstream.last.body.messages.map(({ content }: { content: string }) => content)
      ).toEqual(["A", "one", "B"])
    })
  })

  it("@openai/agents: tools, streaming, previousResponseId", async () => {
    const runner = new Runner({
      modelProvider: new OpenAIProvider({ openAIClient: client as never, useResponses: true }),
      tracingDisabled: true
    })
    const agent = new Agent({
      name: "a",
      instructions: "Answer.",
      model: "main/m",
      tools: [
        agentTool({
          name: "weather",
          description: "w",
          parameters: z.object({ city: z.string() }),
          execute: (args) => Promise.resolve(weather(args))
        })
      ]
    })
    twoHops()
    const first = await runner.run(agent, "Weather in Rome?")
    expect(first.finalOutput).toBe("It is 22 degrees.")
    chatServer.upstream.respondWith({ chunks: textStream("As ", "I said.") })
    const second = await runner.run(agent, "Again?", {
      previousResponseId: first.lastResponseId!,
      stream: true
    })
    await second.completed
    expect(second.finalOutput).toBe("As I said.")
    expect(JSON.stringify(chatServer.upstream.last.body.messages)).toContain("It is 22 degrees.")
  })

  it("@langchain/openai: invoke, stream, tools, structured output", async () => {
    const model = (name: string) =>
      new ChatOpenAI({
        model: name,
        apiKey: "secret",
        configuration: { baseURL: `${chatServer.url}/v1` },
        maxRetries: 0
      })
    expect((await model("local/echo").invoke("hello there")).text).toBe("hello there")
    chatServer.upstream.respondWith({ chunks: textStream("a ", "b") })
    let text = ""
    for await (const part of await model("main/m").stream("x")) text += part.text
    expect(text).toBe("a b")
    twoHops()
    const look = langTool((args: { city: string }) => Promise.resolve(weather(args)), {
      name: "weather",
      description: "w",
      schema: z.object({ city: z.string() })
    })
    const bound = model("main/m").bindTools([look])
    const question = new HumanMessage("Weather?")
    const asked = await bound.invoke([question])
    const [call] = asked.tool_calls!
    const told = await bound.invoke([
      question,
      asked,
      new ToolMessage({ content: weather(call!.args as { city: string }), tool_call_id: call!.id! })
    ])
    expect(told.text).toBe("It is 22 degrees.")
    expect(
      await model("local/echo")
        .withStructuredOutput(z.object({ ok: z.boolean() }), { name: "out", method: "jsonSchema" })
        .invoke("x")
    ).toEqual({ ok: false })
  })
})
