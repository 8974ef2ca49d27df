/** The one outbound HTTP client of the authorization server. Guarantee: it connects only to an address that
 *  it has itself resolved and checked, follows no redirect, stores no cookie, uses no proxy, and stops at its
 *  byte and time limits.
 *  Source: docs/spec/authorization.md, section 11.2. */
import { Data, Effect } from "effect"
import * as http from "node:http"
import * as https from "node:https"
import type { LookupAddress } from "node:dns"
import { createGunzip } from "node:zlib"
import { isBlockedAddress, literalAddress } from "../../shared/addresses.ts"

export class FetchFault extends Data.TaggedError("FetchFault")<{
  readonly reason:
    | "url"
    | "port"
    | "lookup"
    | "blocked"
    | "connect"
    | "tls"
    | "timeout"
    | "redirect"
    | "encoding"
    | "too-large"
    | "broken"
    | "busy"
}> {
  override get message(): string {
    return faultWords[this.reason]
  }
}

/** Messages of the faults; they never contain anything that was fetched. */
const faultWords: { readonly [R in FetchFault["reason"]]: string } = {
  url: "the URL is not one that may be fetched",
  port: "the port is not allowed",
  lookup: "the host does not resolve",
  blocked: "the host resolves to an address that is not allowed",
  connect: "the host could not be reached",
  tls: "the host's certificate is not valid",
  timeout: "the host took too long",
  redirect: "the host redirects",
  encoding: "the content encoding is not supported",
  "too-large": "the response is too large",
  broken: "the response is malformed or broke off",
  busy: "too many requests are in flight"
}

export interface Outbound {
  readonly url: string
  /** Sent by POST as application/x-www-form-urlencoded; without it the request is a GET. */
  readonly form?: URLSearchParams
  readonly headers?: Readonly<Record<string, string>>
  /** Limit on the body in bytes, after decoding. */
  readonly bodyBytesMax: number
  readonly timeoutMs: number
  /** Permits private addresses; every other check still applies. */
  readonly allowPrivateAddresses: boolean
  readonly allowHttp: boolean
}

export interface Fetched {
  readonly status: number
  readonly headers: http.IncomingHttpHeaders
  readonly body: Uint8Array
}

export interface Limits {
  readonly inFlightMax: number
  readonly perHostMax: number
  /** Longest wait for a free place, in ms. */
  readonly waitMs: number
  readonly connectMs: number
}

export const limitsDefault: Limits = { inFlightMax: 32, perHostMax: 4, waitMs: 2_000, connectMs: 3_000 }

/** Limits for upstreams that an operator has configured, which many users share. */
export const upstreamLimits: Partial<Limits> = { inFlightMax: 64, perHostMax: 32 }

const waitingMax = 256
const headerBytesMax = 16_384

/** Places for requests in flight, assigned in order of arrival among the requests whose host has room. */
class Places {
  private readonly limits: Limits
  private readonly perHost = new Map<string, number>()
  private inFlight = 0
  private readonly waiting: Array<{ readonly host: string; readonly start: () => void }> = []

  constructor(limits: Limits) {
    this.limits = limits
  }

  private hasRoom(host: string): boolean {
    return this.inFlight < this.limits.inFlightMax && (this.perHost.get(host) ?? 0) < this.limits.perHostMax
  }

  private enter(host: string): void {
    this.inFlight++
    this.perHost.set(host, (this.perHost.get(host) ?? 0) + 1)
  }

  /** Calls `start` once there is a place, in this turn if it is free, or `refuse` when none became free in time.
   *  Returns how to leave the queue. */
  take(host: string, start: () => void, refuse: () => void): () => void {
    if (this.hasRoom(host)) {
      this.enter(host)
      start()
      return () => {}
    }
    if (this.waiting.length >= waitingMax) {
      refuse()
      return () => {}
    }
    const waiter = {
      host,
      start: () => {
        clearTimeout(timer)
        this.enter(host)
        start()
      }
    }
    const leave = (): void => {
      clearTimeout(timer)
      const at = this.waiting.indexOf(waiter)
      if (at >= 0) this.waiting.splice(at, 1)
    }
    const timer = setTimeout(() => {
      leave()
      refuse()
    }, this.limits.waitMs)
    this.waiting.push(waiter)
    return leave
  }

  leave(host: string): void {
    this.inFlight--
    const left = this.perHost.get(host)! - 1
    if (left === 0) this.perHost.delete(host)
    else this.perHost.set(host, left)
    const next = this.waiting.findIndex((waiter) => this.hasRoom(waiter.host))
    if (next >= 0) this.waiting.splice(next, 1)[0]!.start()
  }
}

export class SafeFetch {
  private readonly lookup: (host: string) => Promise<ReadonlyArray<LookupAddress>>
  private readonly limits: Limits
  private readonly places: Places

  constructor(lookup: SafeFetch["lookup"], limits: Partial<Limits> = {}) {
    this.lookup = lookup
    this.limits = { ...limitsDefault, ...limits }
    this.places = new Places(this.limits)
  }

  /** An interruption aborts the request, or leaves the queue for a place. */
  fetch(outbound: Outbound): Effect.Effect<Fetched, FetchFault> {
    return Effect.suspend(() => {
      const url = checkedUrl(outbound)
      return url instanceof FetchFault
        ? Effect.fail(url)
        : Effect.callback<Fetched, FetchFault>((resume) => {
            const stop = this.begin(url, outbound, (outcome) =>
              resume(outcome instanceof FetchFault ? Effect.fail(outcome) : Effect.succeed(outcome))
            )
            return Effect.sync(stop)
          })
    })
  }

  /** Limits resolution, connection and body together by one timeout. Returns how to stop. */
  private begin(url: URL, outbound: Outbound, done: (outcome: Fetched | FetchFault) => void): () => void {
    let call: http.ClientRequest | undefined
    let timer: NodeJS.Timeout | undefined
    let isOver = false
    const end = (outcome: Fetched | FetchFault | undefined): void => {
      if (isOver) return
      isOver = true
      clearTimeout(timer)
      call?.destroy()
      this.places.leave(url.host)
      if (outcome !== undefined) done(outcome)
    }
    const start = (): void => {
      timer = setTimeout(() => end(new FetchFault({ reason: "timeout" })), outbound.timeoutMs)
      void this.addressOf(url, outbound.allowPrivateAddresses)
        .then((address) => {
          if (address instanceof FetchFault) end(address)
          else if (!isOver) call = send(url, address, outbound, this.limits.connectMs, end)
        })
        .catch(() => end(new FetchFault({ reason: "broken" })))
    }
    const leave = this.places.take(url.host, start, () => done(new FetchFault({ reason: "busy" })))
    return () => (timer === undefined ? leave() : end(undefined))
  }

  /** Returns one address of the host, provided that all of its addresses are allowed. */
  private async addressOf(url: URL, allowPrivate: boolean): Promise<LookupAddress | FetchFault> {
    const literal = literalAddress(url.hostname)
    let all: ReadonlyArray<LookupAddress>
    try {
      all =
        literal === undefined
          ? await this.lookup(url.hostname)
          : [{ address: literal, family: url.hostname.startsWith("[") ? 6 : 4 }]
    } catch {
      return new FetchFault({ reason: "lookup" })
    }
    if (all.length === 0) return new FetchFault({ reason: "lookup" })
    return !allowPrivate && all.some(({ address }) => isBlockedAddress(address))
      ? new FetchFault({ reason: "blocked" })
      : all[0]!
  }
}

/** Checks scheme and port; the port rule applies even where private addresses are allowed. */
const checkedUrl = ({ url: text, allowHttp }: Outbound): URL | FetchFault => {
  let url: URL
  try {
    url = new URL(text)
  } catch {
    return new FetchFault({ reason: "url" })
  }
  const secure = url.protocol === "https:"
  if (
    !(secure || (allowHttp && url.protocol === "http:")) ||
    url.hostname === "" ||
    url.username !== "" ||
    url.password !== ""
  )
    return new FetchFault({ reason: "url" })
  const defaultPort = secure ? 443 : 80
  const port = url.port === "" ? defaultPort : Number(url.port)
  return port > 1_023 || port === 443 || (port === 80 && !secure) ? url : new FetchFault({ reason: "port" })
}

const send = (
  url: URL,
  pinned: LookupAddress,
  outbound: Outbound,
  connectMs: number,
  end: (outcome: Fetched | FetchFault) => void
): http.ClientRequest => {
  const { form } = outbound
  const body = form?.toString()
  const secure = url.protocol === "https:"
  const call = (secure ? https : http).request(url, {
    method: body === undefined ? "GET" : "POST",
    // Without an agent, no pooled connection of another request is used, and no proxy from the environment.
    agent: false,
    maxHeaderSize: headerBytesMax,
    insecureHTTPParser: false,
    rejectUnauthorized: true,
    // The name remains for Host and TLS, but the connection uses the checked address without resolving it
    // again.
    lookup: (_host, options, answer) =>
      options.all === true ? answer(null, [pinned]) : answer(null, pinned.address, pinned.family),
    headers: {
      Accept: "application/json",
      "Accept-Encoding": "gzip, identity",
      "User-Agent": "authserver",
      Connection: "close",
      ...outbound.headers,
      ...(body === undefined
        ? {}
        : {
            "Content-Type": "application/x-www-form-urlencoded",
            "Content-Length": String(Buffer.byteLength(body))
          })
    }
  })
  const connecting = setTimeout(() => end(new FetchFault({ reason: "timeout" })), connectMs)
  call.once("socket", (socket) =>
    socket.once(secure ? "secureConnect" : "connect", () => clearTimeout(connecting))
  )
  let answered = false
  call.once("close", () => {
    clearTimeout(connecting)
    if (!answered) end(new FetchFault({ reason: "broken" }))
  })
  call.on("error", (error: NodeJS.ErrnoException) => end(new FetchFault({ reason: reasonOf(error) })))
  call.once("response", (response) => {
    answered = true
    receive(response, outbound.bodyBytesMax, end)
  })
  call.end(body)
  return call
}

const reasonOf = ({ code = "" }: NodeJS.ErrnoException): FetchFault["reason"] => {
  if (/^(?:ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|ETIMEDOUT|EADDRNOTAVAIL)$/.test(code)) return "connect"
  return /CERT|SELF_SIGNED|TLS|SSL|EPROTO|ISSUER|SIGNATURE/.test(code) ? "tls" : "broken"
}

const receive = (
  response: http.IncomingMessage,
  bodyBytesMax: number,
  end: (outcome: Fetched | FetchFault) => void
): void => {
  const status = response.statusCode ?? 0
  const encoding = (response.headers["content-encoding"] ?? "identity").trim().toLowerCase()
  if (status >= 300 && status < 400) return end(new FetchFault({ reason: "redirect" }))
  if (encoding !== "identity" && encoding !== "gzip") return end(new FetchFault({ reason: "encoding" }))
  if (encoding === "identity" && Number(response.headers["content-length"] ?? 0) > bodyBytesMax)
    return end(new FetchFault({ reason: "too-large" }))
  const chunks: Array<Buffer> = []
  let decodedBytes = 0
  let sentBytes = 0
  const broken = (): void => end(new FetchFault({ reason: "broken" }))
  // Empty gzip members decode to nothing, so the received bytes are limited too.
  response.on("data", (chunk: Buffer) => {
    if ((sentBytes += chunk.length) > 2 * bodyBytesMax) end(new FetchFault({ reason: "too-large" }))
  })
  response.on("error", broken).on("aborted", broken)
  const decoded = encoding === "gzip" ? response.pipe(createGunzip({ chunkSize: 65_536 })) : response
  decoded.on("error", broken)
  decoded.on("data", (chunk: Buffer) => {
    if ((decodedBytes += chunk.length) <= bodyBytesMax) {
      chunks.push(chunk)
      return
    }
    end(new FetchFault({ reason: "too-large" }))
    decoded.destroy()
  })
  decoded.on("end", () => end({ status, headers: response.headers, body: Buffer.concat(chunks) }))
}

/** True for `application/json` and `application/*+json`. */
export const isJson = ({ headers }: Fetched): boolean =>
  /^application\/(?:json|[!#$&^_.+a-z0-9-]+\+json)\s*(?:;|$)/i.test(headers["content-type"]?.trim() ?? "")
