/** Items of the responses interface: input of any accepted shape into the normal form that is stored and
 *  listed, and that into messages.
 *  Source: chat sections 9.2, 15.3. */
import type { Message, Part, ToolCall } from "../../../actors/engines/chat/model.ts"
import { type Fields, isObject } from "./fields.ts"
import { checkFile, checkImage, readCalls, readPart } from "./messages.ts"
import { badValue, missing, wrongType } from "../problems.ts"
import { newId } from "../wire.ts"

export type Item = {
  readonly type: "message" | "function_call" | "function_call_output" | "reasoning"
  readonly id: string
  readonly [name: string]: unknown
}

/** Finds an output item of a stored response of the same owner. */
export type FindItem = (id: string) => Item | undefined

const roles = ["user", "assistant", "system", "developer"] as const
const itemsMax = 4_096

const inputPart = (part: Fields): Part => {
  const type = part.string("type")
  switch (type) {
    case "input_text":
    case "output_text":
      return { type: "text", text: part.required("text") }
    case "input_image": {
      const url = part.required("image_url")
      const detail = part.choice("detail", ["auto", "low", "high"])
      return {
        type: "image",
        url: checkImage(url, part.path("image_url")),
        ...(detail === undefined ? {} : { detail })
      }
    }
    case "input_file":
      return {
        type: "file",
        data: checkFile(part.required("file_data"), part.path("file_data")),
        filename: part.string("filename") ?? "file"
      }
  }
  const read = readPart(part)
  if (read === undefined) throw badValue(part.path("type"), `Invalid value for '${part.path("type")}'.`)
  return read
}

const partsOf = (fields: Fields, name: string): ReadonlyArray<Part> => {
  const value = fields.raw(name)
  if (value === undefined) throw missing(fields.path(name))
  if (typeof value === "string") return [{ type: "text", text: value }]
  if (!Array.isArray(value)) throw wrongType(fields.path(name), "a string or an array of parts")
  return fields.each(name)!.map(inputPart)
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

const message = (role: string, parts: ReadonlyArray<Part>): Item => ({
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

const resultItem = (callId: string, output: unknown): Item => ({
  type: "function_call_output",
  id: newId("fc"),
  status: "completed",
  call_id: callId,
  output
})

const readItem = (item: Fields, find: FindItem): ReadonlyArray<Item> => {
  const type = item.string("type") ?? (item.has("role") ? "message" : undefined)
  switch (type) {
    case "function_call":
      return [
        callItem({
          id: item.required("call_id", { min: 1 }),
          name: item.required("name", { min: 1 }),
          arguments: item.string("arguments") ?? ""
        })
      ]
    case "function_call_output": {
      const callId = item.required("call_id", { min: 1 })
      const output = item.raw("output")
      if (output === undefined) throw missing(item.path("output"))
      return [
        resultItem(
          callId,
          typeof output === "string" ? output : partsOf(item, "output").map((part) => partItem(part, "user"))
        )
      ]
    }
    case "reasoning":
      return [
        {
          type: "reasoning",
          id: item.string("id") ?? newId("rs"),
          summary: item.array("summary") ?? [],
          ...(item.has("content") ? { content: item.array("content") } : {}),
          ...(item.has("encrypted_content") ? { encrypted_content: item.string("encrypted_content") } : {})
        }
      ]
    case "item_reference": {
      const id = item.required("id")
      const found = find(id)
      if (found === undefined) throw badValue(item.path("id"), `Item '${id.slice(0, 64)}' not found.`)
      return [found]
    }
    case "message":
      break
    default:
      throw type === undefined
        ? missing(item.path("type"))
        : badValue(
            item.path("type"),
            `Invalid value for '${item.path("type")}': '${type.slice(0, 64)}' is not supported.`
          )
  }
  const role = item.string("role")
  if (role === undefined) throw missing(item.path("role"))
  if (role === "tool") {
    const callId = item.required("tool_call_id", { min: 1 })
    return [
      resultItem(
        callId,
        partsOf(item, "content")
          .map((part) => (part.type === "text" ? part.text : ""))
          .join("")
      )
    ]
  }
  if (!roles.includes(role as (typeof roles)[number]))
    throw badValue(
      item.path("role"),
      `Invalid value for '${item.path("role")}': supported are ${roles.map((one) => `'${one}'`).join(", ")}.`
    )
  const calls = role === "assistant" ? (readCalls(item) ?? []) : []
  const parts = calls.length > 0 && !item.has("content") ? [] : partsOf(item, "content")
  return [...(parts.length === 0 && calls.length > 0 ? [] : [message(role, parts)]), ...calls.map(callItem)]
}

/** `name`: which of the three inputs it is. */
export const readItems = (fields: Fields, name: string, find: FindItem): ReadonlyArray<Item> => {
  const value = fields.raw(name)
  if (typeof value === "string") return [message("user", [{ type: "text", text: value }])]
  if (!Array.isArray(value)) throw wrongType(name, "a string or an array")
  return fields.each(name, { max: itemsMax })!.flatMap((item) => readItem(item, find))
}

const part = (given: any): Part => {
  switch (given.type) {
    case "refusal":
      return { type: "refusal", text: given.refusal }
    case "input_image":
      return { type: "image", url: given.image_url, detail: given.detail }
    case "input_audio":
      return { type: "audio", ...given.input_audio }
    case "input_file":
      return { type: "file", data: given.file_data, filename: given.filename }
    default:
      return { type: "text", text: given.text }
  }
}

const plain = (parts: ReadonlyArray<Part>): Message["content"] =>
  parts.every(({ type }) => type === "text")
    ? parts.map((one) => (one.type === "text" ? one.text : "")).join("")
    : parts

/** Calls that stand together are one assistant message, with the text before them. */
export const messagesOf = (items: ReadonlyArray<Item>): ReadonlyArray<Message> => {
  const messages: Array<Message> = []
  for (const item of items) {
    const given = item as any
    const last = messages.at(-1)
    if (item.type === "message") {
      messages.push({ role: given.role, content: plain(given.content.map(part)) })
      continue
    }
    if (item.type === "function_call_output") {
      messages.push({
        role: "tool",
        callId: given.call_id,
        content: typeof given.output === "string" ? given.output : plain(given.output.map(part))
      })
      continue
    }
    if (item.type === "reasoning") {
      const text = (Array.isArray(given.content) ? given.content : [])
        .map((one: unknown) => (isObject(one) ? one["text"] : ""))
        .join("")
      messages.push({
        role: "assistant",
        content: null,
        ...(text === "" ? {} : { reasoning: text }),
        ...(given.encrypted_content === undefined ? {} : { bound: [{ upstream: "*", value: item }] })
      })
      continue
    }
    const call: ToolCall = { id: given.call_id, name: given.name, arguments: given.arguments }
    if (last?.role === "assistant")
      messages[messages.length - 1] = { ...last, calls: [...(last.calls ?? []), call] }
    else messages.push({ role: "assistant", content: null, calls: [call] })
  }
  return messages
}

/** Reasoning alone and empty answers say nothing to a model. */
export const hasContent = (message: Message): boolean =>
  message.role !== "assistant" ||
  message.content !== null ||
  message.calls !== undefined ||
  message.bound !== undefined

/** Every result has its call before it, every call its result; results stand right behind their calls, where
 *  chat upstreams want them. */
export const pairCallsWithResults = (context: ReadonlyArray<Message>): ReadonlyArray<Message> => {
  const results = new Map<string, Message>()
  const calls = new Set<string>()
  for (const message of context) {
    for (const { id } of message.calls ?? []) calls.add(id)
    if (message.role !== "tool") continue
    if (!calls.has(message.callId!))
      throw badValue(
        "input",
        `No tool call found for function call output with call_id ${message.callId!.slice(0, 64)}.`
      )
    results.set(message.callId!, message)
  }
  const ordered: Array<Message> = []
  for (const message of context) {
    if (message.role === "tool") continue
    if (!hasContent(message)) continue
    ordered.push(message)
    for (const { id } of message.calls ?? []) {
      const result = results.get(id)
      if (result === undefined)
        throw badValue("input", `No tool output found for function call ${id.slice(0, 64)}.`)
      ordered.push(result)
    }
  }
  return ordered
}
