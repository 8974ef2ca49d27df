/** The proxy's own tools, which run inside a turn when a request names no tools and the operator allows them:
 *  `current_time`, and `web_fetch` towards public addresses only. Guarantee: a tool that fails answers the
 *  model with its failure; it never ends the turn.
 *  Source: docs/spec/chat.md, section 11.7. */
import type { Tool, ToolCall } from "../../../actors/engines/chat/model.ts"
import { defined } from "../../../runtime/defined.ts"
import { parseBounded } from "../../shared/json-values.ts"
import { fetchMs, webFetch, type FetchOptions } from "./public-fetch.ts"

export interface BuiltinTools {
  readonly allowed: ReadonlyArray<Tool>
  /** Maximum rounds of calls; after them the tools are no longer offered. */
  readonly roundsMax: number
  run(call: ToolCall, signal: AbortSignal): Promise<string>
}

export interface BuiltinToolOptions {
  /** The operator's list. A name matches exactly, or by the suffix `.name` or `/name`. */
  readonly allowlist: ReadonlyArray<string>
  readonly roundsMax: number
  readonly nowMs: () => number
  readonly fetch?: FetchOptions
}

type Arguments = Record<string, unknown>

interface BuiltinTool extends Tool {
  readonly run: (args: Arguments, signal: AbortSignal) => Promise<string>
}

const callMs = 30_000

const toolsOf = (nowMs: () => number, fetch: FetchOptions): ReadonlyArray<BuiltinTool> => [
  {
    name: "web_fetch",
    description: "Reads a web page or other text over http(s).",
    parameters: {
      type: "object",
      properties: { url: { type: "string" } },
      required: ["url"],
      additionalProperties: false
    },
    run: (args, signal) =>
      webFetch(String(args["url"]), AbortSignal.any([signal, AbortSignal.timeout(fetchMs)]), fetch)
  },
  {
    name: "current_time",
    description: "The time now, UTC.",
    parameters: { type: "object", properties: {} },
    run: () => Promise.resolve(new Date(nowMs()).toISOString())
  }
]

/** The tools on the operator's list; when nothing matches, all are off. */
export const builtinTools = ({
  allowlist,
  roundsMax,
  nowMs,
  fetch = {}
}: BuiltinToolOptions): BuiltinTools => {
  const isAllowed = ({ name }: Tool): boolean =>
    allowlist.some((word) => word === name || word.endsWith(`.${name}`) || word.endsWith(`/${name}`))
  const tools = toolsOf(nowMs, fetch).filter(isAllowed)
  return {
    allowed: tools.map(({ name, parameters, description }) => ({
      name,
      parameters,
      ...defined({ description })
    })),
    roundsMax,
    run: async ({ name, arguments: text }, signal) => {
      const tool = tools.find((candidate) => candidate.name === name)
      try {
        const args = parseBounded(text === "" ? "{}" : text) as Arguments
        return await tool!.run(args, AbortSignal.any([signal, AbortSignal.timeout(callMs)]))
      } catch (cause) {
        return `error: ${cause instanceof Error ? cause.message : "failed"}`
      }
    }
  }
}
