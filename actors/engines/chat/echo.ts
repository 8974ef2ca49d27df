/** local/echo: answers with the last user text, one word a step; calls a tool when it must, with arguments
 *  made from the tool's schema. The same request always gives the same answer; usage counts words. Source:
 *  chat section 13.5. */
import type { ChatModule, Step } from "./embedded-model.ts"
import { textOf, type Finish, type Message, type ModelRequest } from "./model.ts"

const wordsOf = (text: string): ReadonlyArray<string> => text.match(/\S+\s*/g) ?? []
const depthMax = 16

/** The simplest value a schema allows, without looking at more than its shape. */
export const sample = (schema: any, depth = 0): unknown => {
  if (typeof schema !== "object" || schema === null || depth > depthMax) return {}
  if ("const" in schema) return schema.const
  if (Array.isArray(schema.enum) && schema.enum.length > 0) return schema.enum[0]
  const [choice] = schema.anyOf ?? schema.oneOf ?? schema.allOf ?? []
  if (choice !== undefined && schema.type === undefined) return sample(choice, depth + 1)
  switch (Array.isArray(schema.type) ? schema.type[0] : schema.type) {
    case "string":
      return ""
    case "number":
    case "integer": {
      const { minimum, maximum } = schema
      return minimum > 0 ? minimum : maximum < 0 ? maximum : 0
    }
    case "boolean":
      return false
    case "array":
      return []
    case "null":
      return null
    default: {
      const properties = Object.entries(schema.properties ?? {})
      return Object.fromEntries(properties.map(([name, of]) => [name, sample(of, depth + 1)]))
    }
  }
}

const lastSaid = (messages: ModelRequest["messages"]): Message | undefined =>
  messages.findLast(({ role }) => role !== "system" && role !== "developer")

const asks = ({ tools, toolChoice, messages }: ModelRequest): string | undefined => {
  // What follows a tool's result from the system is the gateway asking again for a call: the result is still
  // the last word.
  if (tools === undefined || tools.length === 0 || lastSaid(messages)?.role === "tool") return undefined
  if (typeof toolChoice === "object") return toolChoice.name
  return toolChoice === "required" ? tools[0]!.name : undefined
}

/** A digest for the call's id: deterministic like the rest. */
const idOf = (text: string): string => {
  let id = ""
  let hash = 0x811c9dc5
  for (let i = 0; i < 24; i++) {
    for (let j = 0; j < text.length; j++) hash = Math.imul(hash ^ text.charCodeAt(j), 0x01000193)
    hash = Math.imul(hash ^ i, 0x01000193)
    id += "abcdefghijklmnopqrstuvwxyz012345"[(hash >>> 11) & 31]
  }
  return `call_${id}`
}

export const echo: ChatModule = {
  id: "echo",
  contextTokens: 1_000_000,
  async *generate(request): AsyncIterable<Step> {
    const { messages, maxTokens, format, stop } = request
    const input = messages.reduce((sum, { content }) => sum + wordsOf(textOf(content)).length, 0)
    const end = (finish: Finish, output: number): Step => ({
      finish,
      usage: { input, output, cached: 0, reasoning: 0 }
    })
    const called = asks(request)
    if (called !== undefined) {
      const tool = request.tools!.find(({ name }) => name === called)
      const made = JSON.stringify(sample(tool?.parameters ?? {}))
      yield { toolCall: { id: idOf(`${messages.length}/${called}/${made}`), name: called, arguments: made } }
      yield end("tool_calls", 1)
      return
    }
    const last = lastSaid(messages)
    const said =
      last?.role === "tool"
        ? `tool: ${textOf(last.content)}`
        : textOf(messages.findLast(({ role }) => role === "user")?.content ?? "")
    let text =
      format?.type === "json_schema"
        ? JSON.stringify(sample(format.schema))
        : format?.type === "json_object"
          ? JSON.stringify({ text: said })
          : said
    for (const word of stop ?? []) {
      const at = text.indexOf(word)
      if (at >= 0) text = text.slice(0, at)
    }
    const words = format === undefined ? wordsOf(text) : [text]
    let output = 0
    for (const word of words) {
      if (maxTokens !== undefined && output >= maxTokens) {
        yield end("length", output)
        return
      }
      const final = output + 1 === maxTokens && output + 1 < words.length
      yield { text: final ? word.trimEnd() : word }
      output++
    }
    yield end("stop", output)
  }
}
