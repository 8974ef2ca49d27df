/** External tools as a request defines them, and the choice among them.
 *  Source: docs/spec/chat.md, sections 9.3, 11.2 and 11.4. */
import type { Tool, ToolChoice } from "../../../actors/engines/chat/model.ts"
import { missing, Refusal, wrongType } from "../problems.ts"
import { Fields } from "./fields.ts"
import { isObject, type Json } from "./json-body.ts"

const toolsMax = 128
const namePattern = /^[A-Za-z0-9_-]{1,64}$/
const emptyParameters: Json = { type: "object", properties: {} }

export interface RequestTools {
  readonly tools: ReadonlyArray<Tool>
  /** Hosted tools of the upstream, as the client wrote them. */
  readonly hosted: ReadonlyArray<Json>
}

export interface ToolRules {
  /** The name may be beside the type, as in responses, and not only in `function`, as in chat. */
  readonly flat?: boolean
  /** The upstream has hosted tools: their definitions pass as they are. */
  readonly hosted?: boolean
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

const functionTool = (tool: Fields, flat: boolean): Fields =>
  !flat || tool.has("function") ? tool.requiredObject("function") : tool

/** Custom tools exist in OpenAI's chat too: theirs is not a wrong word, but one that is not served here. */
const unsupportedTool = (param: string, type: string, flat: boolean): Refusal =>
  new Refusal(
    flat || type === "custom" ? { _tag: "UnsupportedToolType", param, type } : { _tag: "NotFunction", param }
  )

export const readTools = (
  fields: Fields,
  { flat = false, hosted: allowsHosted = false }: ToolRules = {}
): RequestTools | undefined => {
  const definitions = fields.each("tools", { max: toolsMax })
  if (definitions === undefined) return undefined
  const names = new Set<string>()
  const tools: Array<Tool> = []
  const hosted: Array<Json> = []
  for (const [i, definition] of definitions.entries()) {
    const type = definition.string("type")
    if (type === undefined) throw missing(definition.path("type"))
    if (type === "function") {
      const tool = functionTool(definition, flat)
      const name = tool.required("name", { pattern: namePattern })
      if (names.has(name)) throw new Refusal({ _tag: "DuplicateTool", param: tool.path("name"), name })
      names.add(name)
      tools.push(toolOf(tool, name))
    } else if (allowsHosted && flat) hosted.push(fields.array("tools")![i] as Json)
    else throw unsupportedTool(definition.path("type"), type, flat)
  }
  return { tools, hosted }
}

/** The old form of tools: `functions`. */
export const readFunctions = (fields: Fields): ReadonlyArray<Tool> | undefined => {
  const names = new Set<string>()
  return fields.each("functions", { max: toolsMax })?.map((item) => {
    const name = item.required("name", { pattern: namePattern })
    if (names.has(name)) throw new Refusal({ _tag: "DuplicateFunction", param: item.path("name"), name })
    names.add(name)
    return toolOf(item, name)
  })
}

export interface ToolChoiceSpec {
  readonly choice: ToolChoice | undefined
  /** Only these tools are offered. */
  readonly allowed?: ReadonlySet<string>
}

const choiceWords: ReadonlyArray<unknown> = ["none", "auto", "required"]

/** Returns the content of a choice of this type, which is beside the type, or in a member named like the
 *  type. */
const choiceMember = (choice: Fields, type: string, beside: boolean): Fields =>
  beside ? choice : choice.requiredObject(type)

const readAllowedTools = (fields: Fields): ToolChoiceSpec => {
  const mode = fields.choice("mode", ["auto", "required"]) ?? "auto"
  const names = fields
    .each("tools", { min: 1, max: toolsMax })
    ?.map((tool) => (tool.object("function") ?? tool).required("name"))
  if (names === undefined) throw missing(fields.path("tools"))
  return { choice: mode, allowed: new Set(names) }
}

/** Reads `tool_choice`, or the old `function_call`, which is the function's name alone. `flat`: responses
 *  name the function beside the type. Whether the tools exist is checked by `checkChoice`, when they are
 *  read. */
export const readChoice = (
  fields: Fields,
  name: "tool_choice" | "function_call",
  flat: boolean
): ToolChoiceSpec => {
  const value = fields.raw(name)
  if (value === undefined) return { choice: undefined }
  const param = fields.path(name)
  if (typeof value === "string") {
    if (!choiceWords.includes(value)) throw new Refusal({ _tag: "InvalidToolChoice", param })
    return { choice: value as ToolChoice }
  }
  if (!isObject(value)) throw wrongType(param, "a string or an object")
  const choice = new Fields(value, fields, name)
  const isLegacy = name === "function_call"
  const type = isLegacy ? "function" : choice.string("type")
  if (type === "function") {
    const chosen = choiceMember(choice, type, isLegacy || (flat && !choice.has(type)))
    return { choice: { name: chosen.required("name") } }
  }
  if (type === "allowed_tools") return readAllowedTools(choiceMember(choice, type, flat && !choice.has(type)))
  throw new Refusal({ _tag: "InvalidToolChoiceType", param: choice.path("type") })
}

export const checkChoice = (
  { choice, allowed }: ToolChoiceSpec,
  tools: ReadonlyArray<Tool> | undefined,
  param = "tool_choice"
): void => {
  const noTools = tools === undefined || tools.length === 0
  const isSpecific = typeof choice === "object"
  if (noTools && (choice === "required" || isSpecific || allowed !== undefined))
    throw new Refusal({ _tag: "ToolChoiceWithoutTools", param })
  const chosen = [...(isSpecific ? [choice.name] : []), ...(allowed ?? [])]
  for (const name of chosen)
    if (!tools!.some((tool) => tool.name === name)) throw new Refusal({ _tag: "ToolNotOffered", param, name })
}
