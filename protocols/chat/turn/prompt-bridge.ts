/** Tools for models without native calls: described in a system message, answered in one fenced block,
 *  earlier calls retold as text. An answer that parses and names the tools becomes calls, anything else is
 *  text.
 *  Guarantee: in a stream, text waits only while it can still be the start of that block.
 *  Source: docs/spec/chat.md, section 11.6. */
import {
  newCallId,
  textOf,
  type Message,
  type Tool,
  type ToolCall,
  type ToolChoice
} from "../../../actors/engines/chat/model.ts"
import { parseBounded } from "../../shared/json-values.ts"
import { isObject } from "../request/json-body.ts"

const opening = '{"tool_calls"'

export interface BridgedTools {
  readonly tools: ReadonlyArray<Tool>
  readonly toolChoice: ToolChoice | undefined
  readonly parallel: boolean | undefined
}

const parseOrText = (text: string): unknown => {
  try {
    return parseBounded(text)
  } catch {
    return text
  }
}

/** The conversation with its calls and results as text. */
const retell = (messages: ReadonlyArray<Message>): ReadonlyArray<Message> => {
  const names = new Map<string, string>()
  return messages.map((message): Message => {
    if (message.role === "tool") {
      const callId = message.callId!
      const name = names.get(callId) ?? ""
      return {
        role: "user",
        content: `Result of the tool call ${name} (${callId}):\n${textOf(message.content)}`
      }
    }
    if (message.calls === undefined) return message
    for (const { id, name } of message.calls) names.set(id, name)
    const block = JSON.stringify({
      tool_calls: message.calls.map(({ name, arguments: args }) => ({ name, arguments: parseOrText(args) }))
    })
    return {
      role: "assistant",
      content: `${textOf(message.content)}\n\`\`\`json\n${block}\n\`\`\``.trimStart()
    }
  })
}

const choiceInstruction = (toolChoice: ToolChoice | undefined): string => {
  if (typeof toolChoice === "object") return `You must call the tool ${toolChoice.name}.`
  if (toolChoice === "required") return "You must call at least one tool."
  return "Call a tool only when it helps; otherwise answer in plain text."
}

const instruction = ({ tools, toolChoice, parallel }: BridgedTools): string =>
  [
    "You can call these tools:",
    ...tools.map(({ name, description, parameters }) => JSON.stringify({ name, description, parameters })),
    "To call, answer with nothing but one fenced block:",
    "```json",
    '{"tool_calls":[{"name":"<tool>","arguments":{}}]}',
    "```",
    choiceInstruction(toolChoice),
    ...(parallel === false ? ["Make at most one call."] : [])
  ].join("\n")

/** Returns the messages that a model without native calls receives instead of tools. */
export const bridgeMessages = (
  messages: ReadonlyArray<Message>,
  bridged: BridgedTools
): ReadonlyArray<Message> => {
  const retold = retell(messages)
  if (bridged.tools.length === 0 || bridged.toolChoice === "none") return retold
  return [{ role: "system", content: instruction(bridged) }, ...retold]
}

/** Returns whether a text is the block, or may still become it. */
const blockVerdict = (text: string): "yes" | "maybe" | "no" => {
  let rest = text.trimStart()
  if ("```".startsWith(rest)) return "maybe"
  const fence = /^```[A-Za-z_]*\s*/.exec(rest)
  if (fence !== null) rest = rest.slice(fence[0].length)
  const start = rest.replace(/\s+/g, "").slice(0, opening.length)
  if (start === opening) return "yes"
  return opening.startsWith(start) ? "maybe" : "no"
}

const noBlock = -1

/** Reads an answer through the prompt, as deltas come. */
export class PromptBridgeReader {
  private held = ""
  private isBlock = false

  /** Nothing but white space has come yet. */
  private atStart = true

  private readonly toolNames: ReadonlySet<string>

  constructor(tools: ReadonlyArray<Tool>) {
    this.toolNames = new Set(tools.map(({ name }) => name))
  }

  /** The part that is certainly text. */
  push(delta: string): string {
    this.held += delta
    if (this.isBlock) return ""
    let text = ""
    for (;;) {
      const start = this.blockStart()
      if (start === noBlock) {
        const waits = this.atStart && this.held.trim() === ""
        return waits ? text : text + this.take(this.held.length)
      }
      text += this.take(start)
      const verdict = blockVerdict(this.held)
      if (verdict === "yes") this.isBlock = true
      if (verdict !== "no") return text
      const passed = /^\s*`*/.exec(this.held)![0].length
      text += this.take(Math.max(1, passed))
      if (this.held === "") return text
    }
  }

  /** Returns the offset at which a block could begin: bare at the start of the answer, later only by its
   *  fence. */
  private blockStart(): number {
    const first = this.held.trimStart()[0]
    if (this.atStart && (first === "`" || first === "{")) return 0
    return this.held.search(/`(?:``|`?$)/)
  }

  private take(length: number): string {
    const taken = this.held.slice(0, length)
    this.held = this.held.slice(length)
    if (taken !== "") this.atStart = false
    return taken
  }

  /** Ends the stream and returns what was held back, as calls or as text. */
  end(): { readonly text: string; readonly calls: ReadonlyArray<ToolCall> } {
    const { held } = this
    this.held = ""
    const calls = this.isBlock ? this.callsIn(held) : undefined
    return calls === undefined ? { text: held, calls: [] } : { text: "", calls }
  }

  /** Returns the calls of a block, or undefined unless every call is one of an existing tool. */
  private callsIn(text: string): ReadonlyArray<ToolCall> | undefined {
    const block = parseOrText(text.slice(text.indexOf("{"), text.lastIndexOf("}") + 1))
    const list = isObject(block) ? block["tool_calls"] : undefined
    if (!Array.isArray(list) || list.length === 0) return undefined
    const calls: Array<ToolCall> = []
    for (const entry of list) {
      const call = this.callOf(entry)
      if (call === undefined) return undefined
      calls.push(call)
    }
    return calls
  }

  private callOf(entry: unknown): ToolCall | undefined {
    if (!isObject(entry)) return undefined
    const { name, arguments: args } = entry
    if (typeof name !== "string" || !this.toolNames.has(name) || !isObject(args ?? {})) return undefined
    return { id: newCallId(), name, arguments: JSON.stringify(args ?? {}) }
  }
}
