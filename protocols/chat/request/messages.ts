/** Converts chat messages to the normal form of the chat-model port, and checks the rules that bind calls to
 *  their results.
 *  Source: docs/spec/chat.md, section 7.2. */
import type { Message, Part, ToolCall } from "../../../actors/engines/chat/model.ts"
import { missing, notSupported, Refusal, wrongType } from "../problems.ts"
import { Fields } from "./fields.ts"
import { isObject } from "./json-body.ts"

const roles = ["system", "developer", "user", "assistant", "tool", "function"] as const
const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?$/

/** An image is at an https or http address, or a base64 data URL; anything else is refused. */
export const checkImage = (url: string, param: string): string => {
  if (/^https?:\/\/\S+$/i.test(url)) return url
  const data = /^data:image\/[a-z0-9.+-]+;base64,/i.exec(url)
  if (data === null) throw new Refusal({ _tag: "InvalidImage", param })
  if (!base64.test(url.slice(data[0].length))) throw new Refusal({ _tag: "InvalidBase64", param })
  return url
}

export const checkFile = (data: string, param: string): string => {
  const head = /^data:[^;,]+;base64,/.exec(data)
  const encoded = head === null ? data : data.slice(head[0].length)
  if (!base64.test(encoded)) throw new Refusal({ _tag: "InvalidBase64", param })
  return data
}

const imagePart = (image: Fields): Part => {
  const detail = image.choice("detail", ["auto", "low", "high"])
  const url = checkImage(image.required("url"), image.path("url"))
  return detail === undefined ? { type: "image", url } : { type: "image", url, detail }
}

const audioPart = (audio: Fields): Part => {
  const data = audio.required("data")
  const format = audio.choice("format", ["wav", "mp3"])
  if (format === undefined) throw missing(audio.path("format"))
  if (!base64.test(data)) throw new Refusal({ _tag: "InvalidBase64", param: audio.path("data") })
  return { type: "audio", data, format }
}

const filePart = (file: Fields): Part => ({
  type: "file",
  data: checkFile(file.required("file_data"), file.path("file_data")),
  filename: file.string("filename") ?? "file"
})

/** Reads a part; returns undefined for a type that chat does not have. */
export const readPart = (part: Fields): Part | undefined => {
  const type = part.string("type")
  switch (type) {
    case undefined:
      throw missing(part.path("type"))
    case "text":
      return { type: "text", text: part.required("text") }
    case "refusal":
      return { type: "refusal", text: part.required("refusal") }
    case "image_url":
      return imagePart(part.requiredObject("image_url"))
    case "input_audio":
      return audioPart(part.requiredObject("input_audio"))
    case "file":
      return filePart(part.requiredObject("file"))
    default:
      return undefined
  }
}

const allowedParts: Record<string, ReadonlyArray<Part["type"]>> = {
  system: ["text"],
  developer: ["text"],
  tool: ["text"],
  assistant: ["text", "refusal"],
  user: ["text", "image", "audio", "file"]
}

const readContentPart = (fields: Fields, role: string): Part => {
  const part = readPart(fields)
  if (part === undefined || !allowedParts[role]!.includes(part.type))
    throw new Refusal({ _tag: "PartNotAllowed", param: fields.path("type"), role })
  return part
}

const readContent = (message: Fields, role: string): Message["content"] => {
  const value = message.raw("content")
  if (value === undefined) {
    const isOptional = ["tool_calls", "function_call", "refusal"].some((name) => message.has(name))
    if (role === "assistant" && isOptional) return null
    throw missing(message.path("content"))
  }
  if (typeof value === "string") return value
  if (!Array.isArray(value)) throw wrongType(message.path("content"), "a string or an array of parts")
  return value.map((item, i) => {
    if (!isObject(item)) throw wrongType(`${message.path("content")}[${i}]`, "an object")
    return readContentPart(new Fields(item, message, "content", i), role)
  })
}

export const readCalls = (message: Fields): ReadonlyArray<ToolCall> | undefined =>
  message.each("tool_calls")?.map((call) => {
    const type = call.string("type")
    if (type !== undefined && type !== "function")
      throw new Refusal({ _tag: "NotFunction", param: call.path("type") })
    const called = call.requiredObject("function")
    return {
      id: call.required("id", { min: 1 }),
      name: called.required("name", { min: 1 }),
      arguments: called.string("arguments") ?? ""
    }
  })

/** The old member `function_call` is a call without an id of its own: its place in the conversation makes
 *  one. */
const legacyCalls = (functionCall: Fields | undefined, position: number): Message["calls"] =>
  functionCall && [
    {
      id: `call_legacy_${position}`,
      name: functionCall.required("name"),
      arguments: functionCall.string("arguments") ?? ""
    }
  ]

/** A message of the old role `function` answers the last call of its name. */
const readFunctionResult = (
  message: Fields,
  content: Message["content"],
  earlier: ReadonlyArray<Message>
): Message => {
  const name = message.required("name")
  const call = earlier.flatMap(({ calls }) => calls ?? []).findLast((candidate) => candidate.name === name)
  if (call === undefined)
    throw new Refusal({ _tag: "FunctionCallNotFound", param: message.path("name"), name })
  return { role: "tool", content, callId: call.id }
}

const readAssistant = (message: Fields, content: Message["content"], position: number): Message => {
  const reasoning = message.string("reasoning_content")
  const refusal = message.string("refusal")
  const toolCalls = readCalls(message)
  const functionCall = message.object("function_call")
  const calls = toolCalls ?? legacyCalls(functionCall, position)
  const refused: Message["content"] = refusal === undefined ? null : [{ type: "refusal", text: refusal }]
  return {
    role: "assistant",
    content: content ?? refused,
    ...(calls === undefined || calls.length === 0 ? {} : { calls }),
    ...(reasoning === undefined ? {} : { reasoning })
  }
}

export const readMessage = (message: Fields, earlier: ReadonlyArray<Message>): Message => {
  const role = message.string("role") as (typeof roles)[number] | undefined
  if (role === undefined) throw missing(message.path("role"))
  if (!roles.includes(role)) throw notSupported(message.path("role"), roles)
  const content = readContent(message, role === "function" ? "tool" : role)
  switch (role) {
    case "function":
      return readFunctionResult(message, content, earlier)
    case "tool":
      return { role, content, callId: message.required("tool_call_id", { min: 1 }) }
    case "assistant":
      return readAssistant(message, content, earlier.length)
    default:
      return { role, content }
  }
}

/** Refuses a conversation in which a result does not follow its call, or in which a call has not exactly one
 *  result before the next message. */
export const checkCalls = (messages: ReadonlyArray<Message>, pathOf: (index: number) => string): void => {
  let answered: Map<string, boolean> | undefined
  let callIndex = 0
  const checkAllAnswered = (): void => {
    if (answered === undefined) return
    const ids = [...answered].filter(([, isAnswered]) => !isAnswered).map(([id]) => id)
    if (ids.length > 0) throw new Refusal({ _tag: "ToolCallsUnanswered", param: pathOf(callIndex), ids })
  }
  for (const [i, { role, calls, callId }] of messages.entries()) {
    if (role === "tool") {
      const id = callId!
      const isAnswered = answered?.get(id)
      if (isAnswered === undefined) throw new Refusal({ _tag: "ToolCallNotFound", param: pathOf(i), id })
      if (isAnswered) throw new Refusal({ _tag: "ToolCallAnsweredTwice", param: pathOf(i), id })
      answered!.set(id, true)
      continue
    }
    checkAllAnswered()
    const hasCalls = calls !== undefined && calls.length > 0
    answered = hasCalls ? new Map(calls.map(({ id }) => [id, false])) : undefined
    callIndex = i
  }
  checkAllAnswered()
}
