/** The proxy's own tools, which run inside a turn when a request names no tools and the operator allows them:
 *  `current_time`, and `web_fetch` towards public addresses only, each redirect checked anew and the
 *  connection made to the very address that was checked.
 *  Source: chat section 11.7. */
import { lookup } from "node:dns/promises"
import { request as httpRequest, type IncomingMessage } from "node:http"
import { request as httpsRequest } from "node:https"
import { isIP } from "node:net"
import type { Tool, ToolCall } from "../../../actors/engines/chat/model.ts"
import { isBlockedAddress } from "../../shared/addresses.ts"

export interface BuiltinTools {
  readonly allowed: ReadonlyArray<Tool>
  readonly roundsMax: number
  run(call: ToolCall, signal: AbortSignal): Promise<string>
}

const callMs = 30_000
const fetchMs = 10_000
const fetchBytesMax = 1_048_576
const redirectsMax = 5

/** Not this machine, its neighbours, or any range set aside. */
export const isPublicAddress = (address: string): boolean => !isBlockedAddress(address)

export type Resolve = (
  host: string
) => Promise<ReadonlyArray<{ readonly address: string; readonly family: number }>>

const resolveAll: Resolve = (host) => lookup(host, { all: true })

const textType = /^(?:text\/|application\/(?:json|xml|xhtml\+xml|javascript|[a-z0-9.+-]+\+(?:json|xml))\b)/i

const once = async (
  url: URL,
  signal: AbortSignal,
  resolve: Resolve,
  allow: (address: string) => boolean
): Promise<IncomingMessage> => {
  if (url.protocol !== "http:" && url.protocol !== "https:") throw new Error("only http and https")
  if (url.username !== "" || url.password !== "") throw new Error("no credentials in addresses")
  const host = url.hostname.replace(/^\[|\]$/g, "")
  const addresses = isIP(host) !== 0 ? [{ address: host, family: isIP(host) }] : await resolve(host)
  if (addresses.length === 0 || !addresses.every(({ address }) => allow(address)))
    throw new Error("not a public address")
  const [{ address, family }] = addresses as [{ address: string; family: number }]
  return new Promise((take, reject) => {
    const request = (url.protocol === "https:" ? httpsRequest : httpRequest)(
      {
        host,
        port: url.port === "" ? undefined : Number(url.port),
        path: url.pathname + url.search,
        method: "GET",
        signal,
        agent: false,
        headers: { Host: url.host, Accept: "text/*, application/json", "User-Agent": "troupe" },
        lookup: (_, options, done) => {
          if (options.all === true) (done as any)(null, [{ address, family }])
          else (done as any)(null, address, family)
        }
      },
      take
    )
    request.on("error", reject)
    request.end()
  })
}

export interface FetchOptions {
  readonly resolve?: Resolve
  readonly allow?: (address: string) => boolean
  readonly types?: RegExp
  /** What is larger than the limit is a failure, not cut. */
  readonly whole?: boolean
}

/** For a model that takes pictures as bytes only. The addresses are checked as those of `web_fetch`; half a
 *  picture is none. */
export const fetchImage = async (
  address: string,
  signal: AbortSignal,
  options: FetchOptions = {}
): Promise<Uint8Array> => {
  const { status, body } = await fetchPublic(
    address,
    AbortSignal.any([signal, AbortSignal.timeout(fetchMs)]),
    { ...options, types: /^image\//i, whole: true }
  )
  if (status < 200 || status > 299) throw new Error(`status ${status}`)
  return body
}

export const webFetch = async (
  address: string,
  signal: AbortSignal,
  options: FetchOptions = {}
): Promise<string> => {
  const { status, body } = await fetchPublic(address, signal, options)
  return `HTTP ${status}\n${body.toString("utf8")}`
}

export const fetchPublic = async (
  address: string,
  signal: AbortSignal,
  { resolve = resolveAll, allow = isPublicAddress, types = textType, whole = false }: FetchOptions = {}
): Promise<{ readonly status: number; readonly body: Buffer }> => {
  let url = new URL(address)
  for (let hop = 0; hop <= redirectsMax; hop++) {
    const answer = await once(url, signal, resolve, allow)
    const status = answer.statusCode ?? 0
    const { location } = answer.headers
    if (status >= 300 && status < 400 && location !== undefined) {
      answer.destroy()
      url = new URL(location, url)
      continue
    }
    if (!types.test(answer.headers["content-type"] ?? "text/plain")) {
      answer.destroy()
      throw new Error("not a type that is read")
    }
    const parts: Array<Buffer> = []
    let bytes = 0
    for await (const part of answer as AsyncIterable<Buffer>) {
      parts.push(part)
      if ((bytes += part.length) > fetchBytesMax) {
        answer.destroy()
        if (whole) throw new Error("too large")
        break
      }
    }
    return { status, body: Buffer.concat(parts).subarray(0, fetchBytesMax) }
  }
  throw new Error("too many redirects")
}

interface Builtin extends Tool {
  readonly run: (given: Record<string, unknown>, signal: AbortSignal) => Promise<string>
}

const own = (nowMs: () => number, options: FetchOptions): ReadonlyArray<Builtin> => [
  {
    name: "web_fetch",
    description: "Reads a web page or other text over http(s).",
    parameters: {
      type: "object",
      properties: { url: { type: "string" } },
      required: ["url"],
      additionalProperties: false
    },
    run: (given, signal) =>
      webFetch(String(given["url"]), AbortSignal.any([signal, AbortSignal.timeout(fetchMs)]), options)
  },
  {
    name: "current_time",
    description: "The time now, UTC.",
    parameters: { type: "object", properties: {} },
    run: () => Promise.resolve(new Date(nowMs()).toISOString())
  }
]

/** A listed name matches exactly, or by the suffix `.name` or `/name`; when nothing matches, all are off. */
export const builtinTools = (
  listed: ReadonlyArray<string>,
  roundsMax: number,
  nowMs: () => number,
  options: FetchOptions = {}
): BuiltinTools => {
  const chosen = own(nowMs, options).filter(({ name }) =>
    listed.some((word) => word === name || word.endsWith(`.${name}`) || word.endsWith(`/${name}`))
  )
  return {
    allowed: chosen.map(({ name, parameters, description }) => ({
      name,
      parameters,
      ...(description === undefined ? {} : { description })
    })),
    roundsMax,
    run: async ({ name, arguments: text }, signal) => {
      const tool = chosen.find((known) => known.name === name)
      try {
        const given: unknown = JSON.parse(text === "" ? "{}" : text)
        return await tool!.run(
          given as Record<string, unknown>,
          AbortSignal.any([signal, AbortSignal.timeout(callMs)])
        )
      } catch (cause) {
        return `error: ${cause instanceof Error ? cause.message : "failed"}`
      }
    }
  }
}
