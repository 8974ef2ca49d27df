/** The names of tools between a client and a model that has tools of its own: outside as the client wrote
 *  them, towards the model with a prefix.
 *  Guarantee: no internal name is ever in a public answer.
 *  Source: docs/spec/chat.md, section 11.3. */
import { createHash } from "node:crypto"
import type { Message, Tool } from "../../../actors/engines/chat/model.ts"

const prefix = "external__"
const internalMax = 64

/** Prefixes a name. One that becomes too long is truncated, and made unique by a part of its digest. */
export const internalName = (name: string): string => {
  if (prefix.length + name.length <= internalMax) return prefix + name
  const digest = createHash("sha256").update(name).digest("hex").slice(0, 8)
  return `${prefix}${name.slice(0, 45)}_${digest}`
}

const noNames = new Map<string, string>()

/** The names of one request. `plain` where nothing can collide: names pass unchanged. */
export class ToolNames {
  readonly plain: boolean
  private readonly publicNames: Map<string, string> = noNames
  private readonly internalNames: ReadonlyArray<string> = []
  private readonly pattern: RegExp | undefined = undefined

  constructor(tools: ReadonlyArray<Tool>, messages: ReadonlyArray<Message>, plain: boolean) {
    this.plain = plain
    if (plain) return
    this.publicNames = new Map()
    const names = new Set(tools.map(({ name }) => name))
    for (const { calls } of messages) for (const call of calls ?? []) names.add(call.name)
    for (const name of names) this.publicNames.set(internalName(name), name)
    // Longer names come first, so that one which begins with another is not cut in two.
    this.internalNames = [...this.publicNames.keys()].sort((a, b) => b.length - a.length)
    if (this.internalNames.length === 0) return
    const escaped = this.internalNames.map((name) => name.replace(/[^A-Za-z0-9_]/g, "\\$&"))
    this.pattern = new RegExp(escaped.join("|"), "g")
  }

  toInternal(name: string): string {
    return this.plain ? name : internalName(name)
  }

  /** Returns the public name, or undefined when the request has no such name. */
  toPublic(name: string): string | undefined {
    return this.plain ? name : this.publicNames.get(name)
  }

  tool(tool: Tool): Tool {
    return this.plain ? tool : { ...tool, name: internalName(tool.name) }
  }

  message(message: Message): Message {
    if (this.plain || message.calls === undefined) return message
    return { ...message, calls: message.calls.map((call) => ({ ...call, name: internalName(call.name) })) }
  }

  /** The text with every internal name as its public one. */
  restore(text: string): string {
    if (this.pattern === undefined) return text
    return text.replace(this.pattern, (name) => this.publicNames.get(name)!)
  }

  /** True when an answer has to be searched for internal names. */
  get hasInternal(): boolean {
    return this.pattern !== undefined
  }

  /** How many characters at the end of the text could still become an internal name. */
  undecidedLength(text: string): number {
    let longest = 0
    for (const name of this.internalNames)
      for (let length = Math.min(name.length - 1, text.length); length > longest; length--) {
        if (name.startsWith(text.slice(text.length - length))) {
          longest = length
          break
        }
      }
    // A whole name that may grow into a longer one waits too.
    for (const name of this.internalNames)
      if (text.endsWith(name) && this.isPrefix(name)) longest = Math.max(longest, name.length)
    return longest
  }

  private isPrefix(name: string): boolean {
    return this.internalNames.some((longer) => longer.length > name.length && longer.startsWith(name))
  }
}

/** Text deltas with the internal names taken out; what is undecided is held back. */
export class ToolNameRestorer {
  private held = ""
  private readonly names: ToolNames

  constructor(names: ToolNames) {
    this.names = names
  }

  push(delta: string): string {
    const text = this.held + delta
    const decided = text.length - this.names.undecidedLength(text)
    this.held = text.slice(decided)
    return this.names.restore(text.slice(0, decided))
  }

  end(): string {
    const rest = this.names.restore(this.held)
    this.held = ""
    return rest
  }
}
