/** External tools: their definitions, the choice among them, and the namespace that keeps them apart from a
 *  model's own. Guarantee: no internal name is ever in a public answer. Source: chat sections 11.2, 11.3,
 *  11.4. */
import { createHash } from "node:crypto"
import type { Message, Tool, ToolChoice } from "../../../actors/engines/chat/model.ts"
import { Fields, isObject, type Json } from "./fields.ts"
import { badValue, missing, unsupportedValue, wrongType } from "../problems.ts"

export const toolsMax = 128
const namePattern = /^[A-Za-z0-9_-]{1,64}$/
export const emptyParameters: Json = { type: "object", properties: {} }

/** Chat's nested shape, and in responses also the flat one. `native`: hosted tool types pass as they are. */
export const readTools = (
  fields: Fields,
  { flat = false, native = false }: { readonly flat?: boolean; readonly native?: boolean } = {}
): { readonly tools: ReadonlyArray<Tool>; readonly hosted: ReadonlyArray<Json> } | undefined => {
  const given = fields.each("tools", { max: toolsMax })
  if (given === undefined) return undefined
  const names = new Set<string>()
  const tools: Array<Tool> = []
  const hosted: Array<Json> = []
  for (const [i, tool] of given.entries()) {
    const type = tool.string("type")
    if (type === undefined) throw missing(tool.path("type"))
    if (type !== "function") {
      if (native && flat) {
        hosted.push(fields.array("tools")![i] as Json)
        continue
      }
      // Custom tools exist in OpenAI's chat too: not a wrong word, but one that is not served here.
      throw flat || type === "custom"
        ? unsupportedValue(tool.path("type"), `Tools of type '${type.slice(0, 64)}' are not supported.`)
        : badValue(tool.path("type"), `Invalid value for '${tool.path("type")}': supported is 'function'.`)
    }
    const nested = !flat || tool.has("function") ? tool.object("function") : tool
    if (nested === undefined) throw missing(tool.path("function"))
    const name = nested.required("name", { pattern: namePattern })
    if (names.has(name)) throw badValue(nested.path("name"), `Two tools are called '${name}'.`)
    names.add(name)
    tools.push(toolOf(nested, name))
  }
  return { tools, hosted }
}

const toolOf = (fields: Fields, name: string): Tool => {
  const description = fields.string("description")
  const strict = fields.boolean("strict")
  return {
    name,
    ...(description === undefined ? {} : { description }),
    parameters: fields.plain("parameters") ?? emptyParameters,
    ...(strict === undefined ? {} : { strict })
  }
}

/** The old form: `functions` and `function_call`. */
export const readFunctions = (fields: Fields): ReadonlyArray<Tool> | undefined => {
  const names = new Set<string>()
  return fields.each("functions", { max: toolsMax })?.map((item) => {
    const name = item.required("name", { pattern: namePattern })
    if (names.has(name)) throw badValue(item.path("name"), `Two functions are called '${name}'.`)
    names.add(name)
    return toolOf(item, name)
  })
}

export interface ToolChoiceSpec {
  readonly choice: ToolChoice | undefined
  /** Only these are offered. */
  readonly allowed?: ReadonlySet<string>
}

/** `flat`: responses name the function beside the type. Checked against the tools afterwards, by
 *  `checkChoice`. */
export const readChoice = (fields: Fields, name: string, flat: boolean): ToolChoiceSpec => {
  const value = fields.raw(name)
  if (value === undefined) return { choice: undefined }
  if (typeof value === "string") {
    if (value !== "none" && value !== "auto" && value !== "required")
      throw badValue(
        fields.path(name),
        `Invalid value for '${fields.path(name)}': supported are 'none', 'auto', 'required' or an object.`
      )
    return { choice: value }
  }
  if (!isObject(value)) throw wrongType(fields.path(name), "a string or an object")
  const choice = new Fields(value, fields, name)
  const type = name === "function_call" ? "function" : choice.string("type")
  if (type === "function") {
    const inner =
      name === "function_call" || (flat && !choice.has("function")) ? choice : choice.object("function")
    if (inner === undefined) throw missing(choice.path("function"))
    return { choice: { name: inner.required("name") } }
  }
  if (type === "allowed_tools") {
    const inner = flat && !choice.has("allowed_tools") ? choice : choice.object("allowed_tools")
    if (inner === undefined) throw missing(choice.path("allowed_tools"))
    const mode = inner.choice("mode", ["auto", "required"]) ?? "auto"
    const allowed = inner
      .each("tools", { min: 1, max: toolsMax })
      ?.map((tool) => (tool.object("function") ?? tool).required("name"))
    if (allowed === undefined) throw missing(inner.path("tools"))
    return { choice: mode, allowed: new Set(allowed) }
  }
  throw badValue(
    choice.path("type"),
    `Invalid value for '${choice.path("type")}': supported are 'function' and 'allowed_tools'.`
  )
}

export const checkChoice = (
  { choice, allowed }: ToolChoiceSpec,
  tools: ReadonlyArray<Tool> | undefined,
  param = "tool_choice"
): void => {
  const none = tools === undefined || tools.length === 0
  if (none && (choice === "required" || typeof choice === "object" || allowed !== undefined))
    throw badValue(param, `'${param}' asks for a tool but there are no 'tools'.`)
  const named = [...(typeof choice === "object" ? [choice.name] : []), ...(allowed ?? [])]
  for (const name of named)
    if (!tools!.some((tool) => tool.name === name))
      throw badValue(param, `'${param}' names '${name.slice(0, 64)}', which is not among the tools.`)
}

const prefix = "external__"
const internalMax = 64

export const internalName = (name: string): string =>
  prefix.length + name.length <= internalMax
    ? prefix + name
    : `${prefix}${name.slice(0, 45)}_${createHash("sha256").update(name).digest("hex").slice(0, 8)}`

const nothing = new Map<string, string>()

/** The map of one request. `plain` where nothing can collide: names pass unchanged. */
export class ToolNames {
  readonly plain: boolean
  private readonly publicNames: Map<string, string> = nothing
  private readonly internals: ReadonlyArray<string> = []
  private readonly pattern: RegExp | undefined = undefined

  constructor(tools: ReadonlyArray<Tool>, messages: ReadonlyArray<Message>, plain: boolean) {
    this.plain = plain
    if (plain) return
    this.publicNames = new Map()
    const names = new Set(tools.map(({ name }) => name))
    for (const { calls } of messages) for (const call of calls ?? []) names.add(call.name)
    for (const name of names) this.publicNames.set(internalName(name), name)
    // Longer names first, so that one which begins with another is not cut in two.
    this.internals = [...this.publicNames.keys()].sort((a, b) => b.length - a.length)
    this.pattern =
      this.internals.length === 0
        ? undefined
        : new RegExp(this.internals.map((name) => name.replace(/[^A-Za-z0-9_]/g, "\\$&")).join("|"), "g")
  }

  inward(name: string): string {
    return this.plain ? name : internalName(name)
  }

  /** undefined: no name of this request. */
  outward(name: string): string | undefined {
    return this.plain ? name : this.publicNames.get(name)
  }

  tool(tool: Tool): Tool {
    return this.plain ? tool : { ...tool, name: internalName(tool.name) }
  }

  message(message: Message): Message {
    return this.plain || message.calls === undefined
      ? message
      : { ...message, calls: message.calls.map((call) => ({ ...call, name: internalName(call.name) })) }
  }

  reveal(text: string): string {
    return this.pattern === undefined
      ? text
      : text.replace(this.pattern, (name) => this.publicNames.get(name)!)
  }

  get hides(): boolean {
    return this.pattern !== undefined
  }

  /** How many characters at the end could still become an internal name. */
  undecided(text: string): number {
    let most = 0
    for (const name of this.internals)
      for (let length = Math.min(name.length - 1, text.length); length > most; length--) {
        if (name.startsWith(text.slice(text.length - length))) {
          most = length
          break
        }
      }
    // A whole name that may go on into a longer one waits too.
    for (const name of this.internals)
      if (
        text.endsWith(name) &&
        this.internals.some((longer) => longer.length > name.length && longer.startsWith(name))
      )
        most = Math.max(most, name.length)
    return most
  }
}

/** Text deltas with the internal names taken out, held back while undecided. */
export class ToolNameRestorer {
  private held = ""
  private readonly names: ToolNames

  constructor(names: ToolNames) {
    this.names = names
  }

  push(text: string): string {
    const all = this.held + text
    const keep = this.names.undecided(all)
    this.held = keep === 0 ? "" : all.slice(all.length - keep)
    return this.names.reveal(keep === 0 ? all : all.slice(0, all.length - keep))
  }

  end(): string {
    const rest = this.names.reveal(this.held)
    this.held = ""
    return rest
  }
}
