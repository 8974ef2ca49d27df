/** The shipped program's chat, with its published client, in the scripts of the world. */
import OpenAI from "openai"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { backwards, ModelServer } from "./model-server.ts"
import { Program } from "./program.ts"
import { everyText } from "./texts.ts"

let models: ModelServer
let program: Program
let client: OpenAI

beforeAll(async () => {
  models = await ModelServer.open()
  program = await Program.start({ env: models.env })
  client = new OpenAI({ baseURL: `${program.url}/v1`, apiKey: "none", maxRetries: 0 })
})

afterAll(async () => {
  await program?.close()
  models?.close()
})

describe.each([
  ["local/echo", (text: string) => text],
  ["main/model", backwards]
] as const)("%s", (model, answerTo) => {
  it("a completion", async () => {
    for (const content of everyText) {
      const answer = await client.chat.completions.create({ model, messages: [{ role: "user", content }] })
      expect(answer.choices[0]!.message.content).toBe(answerTo(content))
    }
  })
  it("a stream", async () => {
    for (const content of everyText) {
      const stream = client.chat.completions.stream({ model, messages: [{ role: "user", content }] })
      let text = ""
      stream.on("content", (delta) => {
        text += delta
      })
      const final = await stream.finalChatCompletion()
      expect([text, final.choices[0]!.message.content]).toEqual([answerTo(content), answerTo(content)])
    }
  })
  it("a response, and the next one by previous_response_id", async () => {
    for (const input of everyText) {
      const first = await client.responses.create({ model, input, store: true })
      expect(first.output_text).toBe(answerTo(input))
      const second = await client.responses.create({ model, input: "?!", previous_response_id: first.id })
      expect(second.output_text).toBe(answerTo("?!"))
      if (model === "main/model") {
        const { messages } = JSON.parse(models.asked.at(-1)!)
        expect(messages.map(({ content }: { readonly content: string }) => content)).toEqual([
          input,
          answerTo(input),
          "?!"
        ])
      }
      const stored = await client.responses.inputItems.list(first.id)
      expect(JSON.stringify(stored.data)).toContain(JSON.stringify(input).slice(1, -1))
    }
  })
})

it("a streamed response, with a system prompt and a tool's result in other scripts", async () => {
  for (const text of everyText) {
    const stream = client.responses.stream({
      model: "main/model",
      instructions: `Отвечай: ${text}`,
      input: [
        { role: "user", content: text },
        { type: "function_call", call_id: "c1", name: "погода", arguments: JSON.stringify({ где: text }) },
        { type: "function_call_output", call_id: "c1", output: text }
      ]
    })
    expect((await stream.finalResponse()).output_text).toBe(backwards(text))
    expect(models.asked.at(-1)).toContain(JSON.stringify(`Отвечай: ${text}`))
  }
})

it("the embedded translator finds its target in the prompt", async () => {
  const answer = await client.chat.completions.create({
    model: "local/translate",
    messages: [{ role: "user", content: "Translate to German: Шапка — «мала»." }]
  })
  expect(answer.choices[0]!.message.content).toBe("ШАПКА — «МАЛА».")
})
