/** Items of the responses interface: converts input of any accepted shape to the normal form that is stored
 *  and listed, and that form to messages. Guarantee: a model receives each call before its result, and each
 *  result directly after its call where chat upstreams require it.
 *  Source: docs/spec/chat.md, sections 9.2 and 15.3. */
import type { Message, Part, ToolCall } from "../../../actors/engines/chat/model.ts"
import { defined } from "../../../runtime/defined.ts"
import { missing, notSupported, Refusal, wrongType } from "../problems.ts"
import { newId } from "../wire.ts"
import { type Fields } from "./fields.ts"
import { isObject } from "./json-body.ts"
import { checkFile, checkImage, readCalls, readPart } from "./messages.ts"

export type Item = {
  readonly type: "message" | "function_call" | "function_call_output" | "reasoning"
  readonly id: string
  readonly [name: string]: unknown
}

/** Finds an output item of a stored response of the same owner. */
export type FindItem = (id: string) => Item | undefined

const roles = ["user", "assistant", "system", "developer"] as const
const itemsMax = 4_096

const readInputPart = (part: Fields): Part => {
  const type = part.string("type")
  switch (type) {
    case "input_text":
    case "output_text":
      return { type: "text", text: part.required("text") }
    case "input_image": {
      const address = part.required("image_url")
      const detail = part.choice("detail", ["auto", "low", "high"])
      const url = checkImage(address, part.path("image_url"))
      return { type: "image", url, ...defined({ detail }) }
    }
    case "input_file":
      return {
        type: "file",
        data: checkFile(part.required("file_data"), part.path("file_data")),
        filename: part.string("filename") ?? "file"
      }
  }
  const chatPart = readPart(part)
  if (chatPart === undefined) throw new Refusal({ _tag: "UnknownPartType", param: part.path("type") })
  return chatPart
}

const readParts = (fields: Fields, name: string): ReadonlyArray<Part> => {
  const value = fields.raw(name)
  if (value === undefined) throw missing(fields.path(name))
  if (typeof value === "string") return [{ type: "text", text: value }]
  if (!Array.isArray(value)) throw wrongType(fields.path(name), "a string or an array of parts")
  return fields.each(name)!.map(readInputPart)
}

const partItem = (part: Part, role: string): unknown => {
  switch (part.type) {
    case "text":
      return role === "assistant"
        ? { type: "output_text", text: part.text, annotations: [] }
        : { type: "input_text", text: part.text }
    case "refusal":
      return { type: "refusal", refusal: part.text }
    case "image":
      return { type: "input_image", image_url: part.url, detail: part.detail ?? "auto" }
    case "audio":
      return { type: "input_audio", input_audio: { data: part.data, format: part.format } }
    case "file":
      return { type: "input_file", file_data: part.data, filename: part.filename }
  }
}

const messageItem = (role: string, parts: ReadonlyArray<Part>): Item => ({
  type: "message",
  id: newId("msg"),
  role,
  status: "completed",
  content: parts.map((part) => partItem(part, role))
})

const callItem = ({ id, name, arguments: text }: ToolCall): Item => ({
  type: "function_call",
  id: newId("fc"),
  status: "completed",
  call_id: id,
  name,
  arguments: text
})

const outputItem = (callId: string, output: unknown): Item => ({
  type: "function_call_output",
  id: newId("fc"),
  status: "completed",
  call_id: callId,
  output
})

const readOutput = (item: Fields): Item => {
  const callId = item.required("call_id", { min: 1 })
  const output = item.raw("output")
  if (output === undefined) throw missing(item.path("output"))
  if (typeof output === "string") return outputItem(callId, output)
  return outputItem(
    callId,
    readParts(item, "output").map((part) => partItem(part, "user"))
  )
}

const readReasoning = (item: Fields): Item => ({
  type: "reasoning",
  id: item.string("id") ?? newId("rs"),
  summary: item.array("summary") ?? [],
  ...(item.has("content") ? { content: item.array("content") } : {}),
  ...(item.has("encrypted_content") ? { encrypted_content: item.string("encrypted_content") } : {})
})

const readReference = (item: Fields, find: FindItem): Item => {
  const id = item.required("id")
  const found = find(id)
  if (found === undefined) throw new Refusal({ _tag: "ItemNotFound", param: item.path("id"), id })
  return found
}

const joinedText = (parts: ReadonlyArray<Part>): string =>
  parts.map((part) => (part.type === "text" ? part.text : "")).join("")

/** A message of chat's shapes too: one of role `tool` is an output, one with calls is several items. */
const readMessageItem = (item: Fields): ReadonlyArray<Item> => {
  const role = item.string("role")
  if (role === undefined) throw missing(item.path("role"))
  if (role === "tool") {
    const callId = item.required("tool_call_id", { min: 1 })
    return [outputItem(callId, joinedText(readParts(item, "content")))]
  }
  if (!roles.includes(role as (typeof roles)[number])) throw notSupported(item.path("role"), roles)
  const calls = role === "assistant" ? (readCalls(item) ?? []) : []
  const parts = calls.length > 0 && !item.has("content") ? [] : readParts(item, "content")
  const hasMessage = parts.length > 0 || calls.length === 0
  return [...(hasMessage ? [messageItem(role, parts)] : []), ...calls.map(callItem)]
}

const readItem = (item: Fields, find: FindItem): ReadonlyArray<Item> => {
  const type = item.string("type") ?? (item.has("role") ? "message" : undefined)
  switch (type) {
    case "message":
      return readMessageItem(item)
    case "function_call":
      return [
        callItem({
          id: item.required("call_id", { min: 1 }),
          name: item.required("name", { min: 1 }),
          arguments: item.string("arguments") ?? ""
        })
      ]
    case "function_call_output":
      return [readOutput(item)]
    case "reasoning":
      return [readReasoning(item)]
    case "item_reference":
      return [readReference(item, find)]
    case undefined:
      throw missing(item.path("type"))
    default:
      throw new Refusal({ _tag: "UnsupportedItemType", param: item.path("type"), type })
  }
}

/** Reads the items of an input; `name` is which of the three inputs it is. */
export const readItems = (fields: Fields, name: string, find: FindItem): ReadonlyArray<Item> => {
  const value = fields.raw(name)
  if (typeof value === "string") return [messageItem("user", [{ type: "text", text: value }])]
  if (!Array.isArray(value)) throw wrongType(name, "a string or an array")
  return fields.each(name, { max: itemsMax })!.flatMap((item) => readItem(item, find))
}

/** A part of a stored item. */
const partOf = (stored: any): Part => {
  switch (stored.type) {
    case "refusal":
      return { type: "refusal", text: stored.refusal }
    case "input_image":
      return { type: "image", url: stored.image_url, detail: stored.detail }
    case "input_audio":
      return { type: "audio", ...stored.input_audio }
    case "input_file":
      return { type: "file", data: stored.file_data, filename: stored.filename }
    default:
      return { type: "text", text: stored.text }
  }
}

/** A content of text alone becomes a string, which every upstream accepts. */
const contentOf = (stored: ReadonlyArray<unknown>): Message["content"] => {
  const parts = stored.map(partOf)
  return parts.every(({ type }) => type === "text") ? joinedText(parts) : parts
}

const outputMessage = (item: any): Message => ({
  role: "tool",
  callId: item.call_id,
  content: typeof item.output === "string" ? item.output : contentOf(item.output)
})

const reasoningMessage = (item: any): Message => {
  const content: ReadonlyArray<unknown> = Array.isArray(item.content) ? item.content : []
  const text = content.map((part) => (isObject(part) ? part["text"] : "")).join("")
  return {
    role: "assistant",
    content: null,
    ...(text === "" ? {} : { reasoning: text }),
    ...(item.encrypted_content === undefined ? {} : { bound: [{ upstream: "*", value: item }] })
  }
}

/** Converts items to messages. Consecutive calls become one assistant message, with the text before them. */
export const messagesOf = (items: ReadonlyArray<Item>): ReadonlyArray<Message> => {
  const messages: Array<Message> = []
  for (const item of items as ReadonlyArray<any>) {
    switch (item.type as Item["type"]) {
      case "message":
        messages.push({ role: item.role, content: contentOf(item.content) })
        break
      case "function_call_output":
        messages.push(outputMessage(item))
        break
      case "reasoning":
        messages.push(reasoningMessage(item))
        break
      case "function_call": {
        const call: ToolCall = { id: item.call_id, name: item.name, arguments: item.arguments }
        const last = messages.at(-1)
        if (last?.role === "assistant")
          messages[messages.length - 1] = { ...last, calls: [...(last.calls ?? []), call] }
        else messages.push({ role: "assistant", content: null, calls: [call] })
      }
    }
  }
  return messages
}

/** Returns false for reasoning alone and for empty answers, which say nothing to a model. */
export const hasContent = (message: Message): boolean =>
  message.role !== "assistant" ||
  message.content !== null ||
  message.calls !== undefined ||
  message.bound !== undefined

/** The results by the id of their call; a result without a call before it is refused. */
const resultsByCall = (context: ReadonlyArray<Message>): ReadonlyMap<string, Message> => {
  const results = new Map<string, Message>()
  const callIds = new Set<string>()
  for (const message of context) {
    for (const { id } of message.calls ?? []) callIds.add(id)
    if (message.role !== "tool") continue
    const callId = message.callId!
    if (!callIds.has(callId)) throw new Refusal({ _tag: "OutputWithoutCall", callId })
    results.set(callId, message)
  }
  return results
}

/** The context with each result right behind its call; a call without a result is refused. */
export const pairCallsWithResults = (context: ReadonlyArray<Message>): ReadonlyArray<Message> => {
  const results = resultsByCall(context)
  const ordered: Array<Message> = []
  for (const message of context) {
    if (message.role === "tool" || !hasContent(message)) continue
    ordered.push(message)
    for (const { id } of message.calls ?? []) {
      const result = results.get(id)
      if (result === undefined) throw new Refusal({ _tag: "CallWithoutOutput", callId: id })
      ordered.push(result)
    }
  }
  return ordered
}
