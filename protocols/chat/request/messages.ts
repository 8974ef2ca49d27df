/** Chat messages into the normal form, with the rules that bind calls to their results. Source: chat section
 *  7.2. */
import type { Message, Part, ToolCall } from "../../../actors/engines/chat/model.ts"
import { Fields, isObject } from "./fields.ts"
import { badValue, missing, wrongType } from "../problems.ts"

const roles = ["system", "developer", "user", "assistant", "tool", "function"] as const
const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?$/

/** https, http, or an image as a data URL; anything else is refused. */
export const checkImage = (url: string, param: string): string => {
  if (/^https?:\/\/\S+$/i.test(url)) return url
  const data = /^data:image\/[a-z0-9.+-]+;base64,/i.exec(url)
  if (data === null)
    throw badValue(param, `Invalid '${param}': an http(s) address or an image as a base64 data URL.`)
  if (!base64.test(url.slice(data[0].length)))
    throw badValue(param, `Invalid '${param}': the base64 is broken.`)
  return url
}

export const checkFile = (data: string, param: string): string => {
  const head = /^data:[^;,]+;base64,/.exec(data)
  if (!base64.test(head === null ? data : data.slice(head[0].length)))
    throw badValue(param, `Invalid '${param}': the base64 is broken.`)
  return data
}

const need = (fields: Fields, name: string): Fields => {
  const inner = fields.object(name)
  if (inner === undefined) throw missing(fields.path(name))
  return inner
}

export const readPart = (part: Fields): Part | undefined => {
  const type = part.string("type")
  if (type === undefined) throw missing(part.path("type"))
  switch (type) {
    case "text":
      return { type: "text", text: part.required("text") }
    case "refusal":
      return { type: "refusal", text: part.required("refusal") }
    case "image_url": {
      const image = need(part, "image_url")
      const detail = image.choice("detail", ["auto", "low", "high"])
      return {
        type: "image",
        url: checkImage(image.required("url"), image.path("url")),
        ...(detail === undefined ? {} : { detail })
      }
    }
    case "input_audio": {
      const audio = need(part, "input_audio")
      const data = audio.required("data")
      const format = audio.choice("format", ["wav", "mp3"])
      if (format === undefined) throw missing(audio.path("format"))
      if (!base64.test(data))
        throw badValue(audio.path("data"), `Invalid '${audio.path("data")}': the base64 is broken.`)
      return { type: "audio", data, format }
    }
    case "file": {
      const file = need(part, "file")
      return {
        type: "file",
        data: checkFile(file.required("file_data"), file.path("file_data")),
        filename: file.string("filename") ?? "file"
      }
    }
  }
  return undefined
}

const allowedParts: Record<string, ReadonlyArray<Part["type"]>> = {
  system: ["text"],
  developer: ["text"],
  tool: ["text"],
  assistant: ["text", "refusal"],
  user: ["text", "image", "audio", "file"]
}

const contentOf = (message: Fields, role: string): Message["content"] => {
  const value = message.raw("content")
  if (value === undefined) {
    if (
      role === "assistant" &&
      (message.has("tool_calls") || message.has("function_call") || message.has("refusal"))
    )
      return null
    throw missing(message.path("content"))
  }
  if (typeof value === "string") return value
  if (!Array.isArray(value)) throw wrongType(message.path("content"), "a string or an array of parts")
  return value.map((item, i) => {
    if (!isObject(item)) throw wrongType(`${message.path("content")}[${i}]`, "an object")
    const fields = new Fields(item, message, "content", i)
    const part = readPart(fields)
    if (part === undefined || !allowedParts[role]!.includes(part.type))
      throw badValue(
        fields.path("type"),
        `Invalid value for '${fields.path("type")}': not a part of a ${role} message.`
      )
    return part
  })
}

export const readCalls = (message: Fields): ReadonlyArray<ToolCall> | undefined =>
  message.each("tool_calls")?.map((call) => {
    const type = call.string("type")
    if (type !== undefined && type !== "function")
      throw badValue(call.path("type"), `Invalid value for '${call.path("type")}': supported is 'function'.`)
    const inner = need(call, "function")
    return {
      id: call.required("id", { min: 1 }),
      name: inner.required("name", { min: 1 }),
      arguments: inner.string("arguments") ?? ""
    }
  })

/** One message; the old role `function` answers the last call of its name. */
export const readMessage = (message: Fields, before: ReadonlyArray<Message>): Message => {
  const given = message.string("role")
  if (given === undefined) throw missing(message.path("role"))
  if (!roles.includes(given as (typeof roles)[number]))
    throw badValue(
      message.path("role"),
      `Invalid value for '${message.path("role")}': supported are ${roles.map((role) => `'${role}'`).join(", ")}.`
    )
  const role = given === "function" ? "tool" : (given as Message["role"])
  const content = contentOf(message, role)
  if (given === "function") {
    const name = message.required("name")
    const call = before.flatMap(({ calls }) => calls ?? []).findLast((known) => known.name === name)
    if (call === undefined)
      throw badValue(
        message.path("name"),
        `No function call '${name.slice(0, 64)}' comes before this message.`
      )
    return { role, content, callId: call.id }
  }
  if (role === "tool") return { role, content, callId: message.required("tool_call_id", { min: 1 }) }
  if (role !== "assistant") return { role, content }
  const reasoning = message.string("reasoning_content")
  const refusal = message.string("refusal")
  let calls = readCalls(message)
  const old = message.object("function_call")
  if (calls === undefined && old !== undefined)
    calls = [
      {
        id: `call_legacy_${before.length}`,
        name: old.required("name"),
        arguments: old.string("arguments") ?? ""
      }
    ]
  return {
    role,
    content: content ?? (refusal === undefined ? null : [{ type: "refusal", text: refusal }]),
    ...(calls === undefined || calls.length === 0 ? {} : { calls }),
    ...(reasoning === undefined ? {} : { reasoning })
  }
}

/** Every result follows its call, every call has one result before the talk goes on. */
export const checkCalls = (messages: ReadonlyArray<Message>, pathOf: (i: number) => string): void => {
  let open: Map<string, number> | undefined
  let opener = 0
  const close = (): void => {
    if (open === undefined) return
    const left = [...open].filter(([, answered]) => answered === 0).map(([id]) => id)
    if (left.length > 0)
      throw badValue(
        pathOf(opener),
        `These tool calls have no tool message: ${left.map((id) => id.slice(0, 64)).join(", ")}.`
      )
  }
  for (const [i, { role, calls, callId }] of messages.entries()) {
    if (role === "tool") {
      const answered = open?.get(callId!)
      if (answered === undefined)
        throw badValue(
          pathOf(i),
          `No tool call with id '${callId!.slice(0, 64)}' comes before this tool message.`
        )
      if (answered > 0)
        throw badValue(pathOf(i), `The tool call '${callId!.slice(0, 64)}' has two tool messages.`)
      open!.set(callId!, 1)
      continue
    }
    close()
    open = calls === undefined || calls.length === 0 ? undefined : new Map(calls.map(({ id }) => [id, 0]))
    opener = i
  }
  close()
}
