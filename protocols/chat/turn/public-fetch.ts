/** GET requests to public addresses only. Guarantee: each redirect is checked again, and the connection goes
 *  to exactly the address that was checked, so a DNS name cannot change its address in between.
 *  Source: docs/spec/chat.md, section 11.7. */
import { lookup } from "node:dns/promises"
import { request as httpRequest, type IncomingMessage } from "node:http"
import { request as httpsRequest } from "node:https"
import { isIP } from "node:net"
import { isBlockedAddress } from "../../shared/addresses.ts"

export const fetchMs = 10_000
const fetchBytesMax = 1_048_576
const redirectsMax = 5

/** Returns false for this machine, its private networks, and any reserved range. */
export const isPublicAddress = (address: string): boolean => !isBlockedAddress(address)

interface ResolvedAddress {
  readonly address: string
  readonly family: number
}

export type Resolve = (host: string) => Promise<ReadonlyArray<ResolvedAddress>>

export interface FetchOptions {
  readonly resolve?: Resolve
  /** Decides whether an address may be connected to. */
  readonly allow?: (address: string) => boolean
  /** The content types that are read. */
  readonly types?: RegExp
  /** A body larger than the limit is a failure instead of being cut. */
  readonly whole?: boolean
}

interface FetchedBody {
  readonly status: number
  readonly body: Buffer
}

const resolveAll: Resolve = (host) => lookup(host, { all: true })

const textType = /^(?:text\/|application\/(?:json|xml|xhtml\+xml|javascript|[a-z0-9.+-]+\+(?:json|xml))\b)/i

/** The first of a URL's addresses, of which every one must be allowed. */
const resolveAllowed = async (
  url: URL,
  { resolve = resolveAll, allow = isPublicAddress }: FetchOptions
): Promise<ResolvedAddress> => {
  if (url.protocol !== "http:" && url.protocol !== "https:") throw new Error("only http and https")
  if (url.username !== "" || url.password !== "") throw new Error("no credentials in addresses")
  const host = hostOf(url)
  const family = isIP(host)
  const addresses = family === 0 ? await resolve(host) : [{ address: host, family }]
  const [first] = addresses
  if (first === undefined || !addresses.every(({ address }) => allow(address)))
    throw new Error("not a public address")
  return first
}

/** An IPv6 address without its brackets. */
const hostOf = (url: URL): string => url.hostname.replace(/^\[|\]$/g, "")

const get = (url: URL, to: ResolvedAddress, signal: AbortSignal): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => {
    const send = url.protocol === "https:" ? httpsRequest : httpRequest
    const request = send(
      {
        host: hostOf(url),
        port: url.port === "" ? undefined : Number(url.port),
        path: url.pathname + url.search,
        method: "GET",
        signal,
        agent: false,
        headers: { Host: url.host, Accept: "text/*, application/json", "User-Agent": "troupe" },
        lookup: (_, options, done) => {
          if (options.all === true) done(null, [to])
          else done(null, to.address, to.family)
        }
      },
      resolve
    )
    request.on("error", reject)
    request.end()
  })

const readLimited = async (answer: IncomingMessage, whole: boolean): Promise<Buffer> => {
  const parts: Array<Buffer> = []
  let bytes = 0
  for await (const part of answer as AsyncIterable<Buffer>) {
    parts.push(part)
    bytes += part.length
    if (bytes <= fetchBytesMax) continue
    answer.destroy()
    if (whole) throw new Error("too large")
    break
  }
  return Buffer.concat(parts).subarray(0, fetchBytesMax)
}

export const fetchPublic = async (
  address: string,
  signal: AbortSignal,
  options: FetchOptions = {}
): Promise<FetchedBody> => {
  const { types = textType, whole = false } = options
  let url = new URL(address)
  for (let hop = 0; hop <= redirectsMax; hop++) {
    const answer = await get(url, await resolveAllowed(url, options), signal)
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
    return { status, body: await readLimited(answer, whole) }
  }
  throw new Error("too many redirects")
}

/** An image for a model that takes images as bytes only. Half an image is none: one that is too large
 *  fails. */
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
