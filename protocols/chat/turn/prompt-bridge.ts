/** Tools for models without native calls: described in a system message, answered in one fenced block,
 *  history told as text. What parses and validates becomes calls, anything else is text; in a stream text
 *  waits only while it can still be the start of that block.
 *  Source: chat section 11.6. */
import {
  newCallId,
  textOf,
  type Message,
  type Tool,
  type ToolCall,
  type ToolChoice
} from "../../../actors/engines/chat/model.ts"
import { isObject } from "../request/fields.ts"

const opening = '{"tool_calls"'

export const bridgeMessages = (
  messages: ReadonlyArray<Message>,
  tools: ReadonlyArray<Tool>,
  choice: ToolChoice | undefined,
  parallel: boolean | undefined
): ReadonlyArray<Message> => {
  const names = new Map<string, string>()
  const told = messages.map((message): Message => {
    if (message.role === "tool")
      return {
        role: "user",
        content: `Result of the tool call ${names.get(message.callId!) ?? ""} (${message.callId!}):\n${textOf(message.content)}`
      }
    if (message.calls === undefined) return message
    for (const { id, name } of message.calls) names.set(id, name)
    const block = JSON.stringify({
      tool_calls: message.calls.map(({ name, arguments: args }) => ({ name, arguments: parsed(args) }))
    })
    return {
      role: "assistant",
      content: `${textOf(message.content)}\n\`\`\`json\n${block}\n\`\`\``.trimStart()
    }
  })
  if (tools.length === 0 || choice === "none") return told
  const wanted =
    typeof choice === "object"
      ? `You must call the tool ${choice.name}.`
      : choice === "required"
        ? "You must call at least one tool."
        : "Call a tool only when it helps; otherwise answer in plain text."
  const instruction = [
    "You can call these tools:",
    ...tools.map(({ name, description, parameters }) => JSON.stringify({ name, description, parameters })),
    "To call, answer with nothing but one fenced block:",
    "```json",
    '{"tool_calls":[{"name":"<tool>","arguments":{}}]}',
    "```",
    wanted,
    ...(parallel === false ? ["Make at most one call."] : [])
  ].join("\n")
  return [{ role: "system", content: instruction }, ...told]
}

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** Whether the text is, or may still become, the block. */
const couldBeBlock = (text: string): "yes" | "maybe" | "no" => {
  let rest = text.trimStart()
  if ("```".startsWith(rest)) return "maybe"
  const fence = /^```[A-Za-z_]*\s*/.exec(rest)
  if (fence !== null) rest = rest.slice(fence[0].length)
  const compact = rest.replace(/\s+/g, "").slice(0, opening.length)
  return compact.length < opening.length
    ? opening.startsWith(compact)
      ? "maybe"
      : "no"
    : compact === opening
      ? "yes"
      : "no"
}

export class BridgeReader {
  private held = ""
  private block = false
  private fresh = true
  private readonly known: ReadonlySet<string>

  constructor(tools: ReadonlyArray<Tool>) {
    this.known = new Set(tools.map(({ name }) => name))
  }

  /** The part that is certainly text. */
  push(text: string): string {
    this.held += text
    if (this.block) return ""
    let out = ""
    for (;;) {
      // A block may begin the answer bare, later only by its fence.
      const at =
        this.fresh && this.held.trimStart() !== "" && "`{".includes(this.held.trimStart()[0]!)
          ? 0
          : this.held.search(/`(?:``|`?$)/)
      if (at < 0) {
        if (this.fresh && this.held.trim() === "") return out
        out += this.take(this.held.length)
        return out
      }
      if (at > 0) out += this.take(at)
      const verdict = couldBeBlock(this.held)
      if (verdict === "yes") this.block = true
      if (verdict !== "no") return out
      const skip = /^\s*`*/.exec(this.held)![0].length
      out += this.take(Math.max(1, skip))
      if (this.held === "") return out
    }
  }

  private take(length: number): string {
    const taken = this.held.slice(0, length)
    this.held = this.held.slice(length)
    if (taken !== "") this.fresh = false
    return taken
  }

  /** What was held: calls, or text after all. */
  end(): { readonly text: string; readonly calls: ReadonlyArray<ToolCall> } {
    const { held } = this
    this.held = ""
    if (!this.block) return { text: held, calls: [] }
    try {
      const value: unknown = JSON.parse(held.slice(held.indexOf("{"), held.lastIndexOf("}") + 1))
      if (isObject(value) && Array.isArray(value["tool_calls"]) && value["tool_calls"].length > 0) {
        const calls = value["tool_calls"].map((call: unknown): ToolCall | undefined =>
          isObject(call) &&
          typeof call["name"] === "string" &&
          this.known.has(call["name"]) &&
          isObject(call["arguments"] ?? {})
            ? { id: newCallId(), name: call["name"], arguments: JSON.stringify(call["arguments"] ?? {}) }
            : undefined
        )
        if (calls.every((call) => call !== undefined))
          return { text: "", calls: calls as ReadonlyArray<ToolCall> }
      }
    } catch {
      /* text */
    }
    return { text: held, calls: [] }
  }
}
