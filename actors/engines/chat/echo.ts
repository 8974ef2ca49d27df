/** The model local/echo answers with the last user text, one word per step, and calls a tool when it must,
 *  with arguments made from the tool's schema. It is guaranteed that the same request always has the same
 *  answer; usage counts words. Source: docs/spec/chat.md, section 13.5. */
import type { ChatModule, Step } from "./embedded-model.ts"
import { textOf, type Finish, type Message, type ModelRequest } from "./model.ts"

const wordsOf = (text: string): ReadonlyArray<string> => text.match(/\S+\s*/g) ?? []
const depthMax = 16

/** Makes the simplest value that a schema allows, without looking at more than its shape. */
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
      if (minimum > 0) return minimum
      return maximum < 0 ? maximum : 0
    }
    case "boolean":
      return false
    case "array":
      return []
    case "null":
      return null
    default: {
      const properties = Object.entries(schema.properties ?? {})
      return Object.fromEntries(properties.map(([name, property]) => [name, sample(property, depth + 1)]))
    }
  }
}

const lastMessage = (messages: ModelRequest["messages"]): Message | undefined =>
  messages.findLast(({ role }) => role !== "system" && role !== "developer")

const requiredToolOf = ({ tools, toolChoice, messages }: ModelRequest): string | undefined => {
  // A system message after a tool's result is the gateway requesting a call again: the result still counts as
  // the last message.
  if (tools === undefined || tools.length === 0 || lastMessage(messages)?.role === "tool") return undefined
  if (typeof toolChoice === "object") return toolChoice.name
  return toolChoice === "required" ? tools[0]!.name : undefined
}

/** Makes a call's id by a digest, so that it is deterministic like the rest. */
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

const answerOf = ({ messages, format }: ModelRequest): string => {
  if (format?.type === "json_schema") return JSON.stringify(sample(format.schema))
  const last = lastMessage(messages)
  const text =
    last?.role === "tool"
      ? `tool: ${textOf(last.content)}`
      : textOf(messages.findLast(({ role }) => role === "user")?.content ?? "")
  return format?.type === "json_object" ? JSON.stringify({ text }) : text
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
    const toolName = requiredToolOf(request)
    if (toolName !== undefined) {
      const tool = request.tools!.find(({ name }) => name === toolName)
      const text = JSON.stringify(sample(tool?.parameters ?? {}))
      yield {
        toolCall: { id: idOf(`${messages.length}/${toolName}/${text}`), name: toolName, arguments: text }
      }
      yield end("tool_calls", 1)
      return
    }
    let text = answerOf(request)
    for (const word of stop ?? []) {
      const index = text.indexOf(word)
      if (index >= 0) text = text.slice(0, index)
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
