/** Clients that are identified by the URL of a metadata document about them. Guarantee: nothing is fetched
 *  for an identifier that breaks a rule, one URL has one fetch in flight, which stops with the last request
 *  that waits for it, and a stale document is never used when it could not be fetched again.
 *  Source: docs/spec/authorization.md, section 11. */
import { Effect } from "effect"
import type { Later } from "../../../runtime/http.ts"
import { Flights } from "../../shared/flights.ts"
import { literalAddress, sourceOf } from "../../shared/addresses.ts"
import type { AuthContext } from "../auth-context.ts"
import { Documents, freshMs } from "../upstream/document-cache.ts"
import { Fields } from "../fields.ts"
import { CallCounts } from "../identity-counts.ts"
import {
  authenticationFailed,
  isProblem,
  type Problem,
  problemOf,
  quoted,
  slowDown,
  unavailable
} from "../problems.ts"
import { bearerGrant, Clients, grantTypes, type Client } from "../records.ts"
import { redirectUriFault } from "../redirect-uris.ts"
import { isJson, type Fetched, type FetchFault, type SafeFetch } from "../upstream/safe-fetch.ts"
import type { Settings } from "../settings.ts"
import { isWireFault, parseObject, type Members } from "../wire.ts"

type Rules = Settings["clientDocuments"]
const urlLengthMax = 2_048
const nameLengthMax = 200
const redirectUrisMax = 20
const documentBytesMax = 1_048_576
const failedKeptMs = 30_000
const newUrls = { limit: 20, windowMs: 60_000 }

/** Checks the rules of section 11.1 on the text as sent, because the URL parser would silently repair most of
 *  what they forbid. Returns the rule that is broken, or undefined. */
export const documentUrlFault = (
  id: string,
  { allowPrivateAddresses }: Pick<Rules, "allowPrivateAddresses">
): string | undefined => {
  if (id.length > urlLengthMax) return "the URL is too long"
  if (/[^\x21-\x7e]|\\/.test(id)) return "the URL holds a character that is not allowed"
  if (id.includes("#")) return "the URL has a fragment"
  const [, authority = "", path = ""] = /^https?:\/\/([^/?]*)([^?]*)/.exec(id) ?? []
  if (authority === "") return "the URL has no host"
  if (authority.includes("@")) return "the URL has user information"
  let host: string
  try {
    host = new URL(id).hostname
  } catch {
    return "the URL is malformed"
  }
  if (path === "" || path === "/") return "the URL has no path"
  if (path.includes("//")) return "the URL has an empty path segment"
  if (path.split("/").some((segment) => /^(?:\.|%2e){1,2}$/i.test(segment))) return "the URL has dot segments"
  return literalAddress(host) !== undefined && !allowPrivateAddresses
    ? "the URL's host is an address"
    : undefined
}

const readable = new Set<string>(grantTypes)
const permitted = new Set<string>([grantTypes[0], grantTypes[1], bearerGrant])

const isTexts = (value: unknown): value is ReadonlyArray<string> =>
  Array.isArray(value) && value.every((item) => typeof item === "string")

type Described = Pick<
  Client,
  "redirectUris" | "clientName" | "grantTypes" | "responseTypes" | "applicationType"
>

/** Checks the rules of section 11.3, and returns the client or the rule that is broken. */
export const describedBy = (url: string, document: Members): Described | string => {
  if (document["client_id"] !== url) return "client_id is not the document's URL"
  const name = new Fields(document, "invalid_client").text("client_name", nameLengthMax)
  const {
    redirect_uris: uris,
    token_endpoint_auth_method: method,
    grant_types: grants,
    response_types: responses
  } = document
  if (name === undefined) return "client_name is missing or not acceptable"
  if (!isTexts(uris) || uris.length === 0) return "redirect_uris is missing or empty"
  if (uris.length > redirectUrisMax) return "redirect_uris has too many entries"
  for (const uri of uris) {
    const fault = redirectUriFault(uri)
    if (fault !== undefined) return `redirect_uris: ${quoted(uri)} ${fault}`
  }
  if (method !== undefined && method !== "none") return "token_endpoint_auth_method is not none"
  if ("client_secret" in document || "client_secret_expires_at" in document) return "client_secret is present"
  if (grants !== undefined && !isTexts(grants)) return "grant_types is not a list of strings"
  const requestedGrants =
    grants === undefined
      ? [grantTypes[0], grantTypes[1]]
      : [...new Set(grants)].filter((grant) => readable.has(grant))
  const forbidden = requestedGrants.find((grant) => !permitted.has(grant))
  if (forbidden !== undefined) return `grant_types: ${quoted(forbidden)} is not for public clients`
  if (requestedGrants.length === 0) return "grant_types holds none that is supported"
  if (responses !== undefined && !(isTexts(responses) && responses.includes("code")))
    return "response_types does not hold code"
  return {
    redirectUris: uris,
    clientName: name,
    grantTypes: requestedGrants,
    responseTypes: requestedGrants.includes(grantTypes[0]) ? ["code"] : [],
    applicationType: document["application_type"] === "native" ? "native" : "web"
  }
}

const refused = (rule: string): Problem => problemOf("invalid_client", `${authenticationFailed}: ${rule}`)

/** What is not told apart to a stranger: it would say which names resolve inside, and what listens there. The
 *  counts by reason are the operator's. */
const unreachable: ReadonlySet<FetchFault["reason"]> = new Set([
  "lookup",
  "blocked",
  "connect",
  "tls",
  "timeout",
  "broken"
])

const wordsOf = (fault: FetchFault): string =>
  unreachable.has(fault.reason) ? "the document could not be fetched" : fault.message

const busy = unavailable("too many documents are being fetched")

/** Result of one fetch. `keptMs` is how long it may be cached; when undefined, it answers only the requests
 *  that waited for it. */
interface Outcome {
  readonly client: Client | Problem
  readonly keptMs: number | undefined
  readonly bytes: number
}

export class ClientDocuments {
  private readonly authority: AuthContext
  private readonly fetcher: SafeFetch
  private readonly documents = new Documents<Client | Problem>()
  private readonly inFlight = new Flights<Client | Problem>({ withLastWaiter: true })
  private readonly newUrls: CallCounts

  /** Counts fetches by outcome ("ok", "document", or the fetch fault's reason), for /metrics. */
  readonly counts = new Map<string, number>()

  constructor(authority: AuthContext, fetcher: SafeFetch) {
    this.authority = authority
    this.fetcher = fetcher
    this.newUrls = new CallCounts(newUrls, authority.settings.rate.identitiesMax, authority.nowMs)
  }

  /** Returns a client of source "cimd", which need not be active. `sourceIp` is the address whose rate limit
   *  a new URL counts against. */
  resolve(url: string, sourceIp?: string): Later<Client | Problem> {
    const cached = this.documents.get(url)
    const nowMs = this.authority.nowMs()
    if (cached !== undefined && cached.freshUntilMs > nowMs) return this.asStored(url, cached.value)
    const fault = documentUrlFault(url, this.authority.settings.clientDocuments)
    if (fault !== undefined) return refused(fault)
    return Effect.map(
      Effect.suspend(() => this.flight(url, cached?.firstMs, sourceIp)),
      (client) => this.asStored(url, client)
    )
  }

  /** Joins the fetch in flight, or begins one if the source may name another new URL. */
  private flight(
    url: string,
    firstMs: number | undefined,
    sourceIp: string | undefined
  ): Effect.Effect<Client | Problem> {
    const isNew = firstMs === undefined && this.authority.books.get(Clients, [url]) === undefined
    if (isNew && sourceIp !== undefined && !this.inFlight.has(url)) {
      const waitMs = this.newUrls.take(sourceOf(sourceIp))
      if (waitMs > 0) return Effect.succeed(slowDown(waitMs))
    }
    const issuedMs = firstMs ?? this.authority.nowMs()
    return this.inFlight.join(url, () =>
      Effect.map(this.fetch(url, issuedMs), ({ client, keptMs, bytes }) => {
        this.documents.put(url, {
          value: client,
          firstMs: issuedMs,
          freshUntilMs: keptMs === undefined ? 0 : this.authority.nowMs() + keptMs,
          bytes
        })
        return client
      })
    )
  }

  /** Takes the members that the server itself decides from the client's row, whatever the document says, so
   *  that a suspended client stays suspended. */
  private asStored(url: string, client: Client | Problem): Client | Problem {
    if (isProblem(client)) return client
    const stored = this.authority.books.get(Clients, [url])
    return stored === undefined
      ? client
      : {
          ...client,
          status: stored.status,
          scopes: stored.scopes,
          issuedMs: stored.issuedMs,
          updatedMs: stored.updatedMs,
          used: stored.used,
          agent: stored.agent,
          agentDescription: stored.agentDescription
        }
  }

  private fetch(url: string, issuedMs: number): Effect.Effect<Outcome> {
    const { fetchTimeoutMs, allowPrivateAddresses, requireHttps } = this.authority.settings.clientDocuments
    const fetching = this.fetcher.fetch({
      url,
      bodyBytesMax: documentBytesMax,
      timeoutMs: fetchTimeoutMs,
      allowPrivateAddresses,
      allowHttp: !requireHttps
    })
    return Effect.match(fetching, {
      onFailure: (fault) => this.failed(fault),
      onSuccess: (fetched) => this.outcomeOf(url, issuedMs, fetched)
    })
  }

  private failed(fault: FetchFault): Outcome {
    this.count(fault.reason)
    // The document itself did not fail, so the next request may try at once.
    return fault.reason === "busy"
      ? { client: busy, keptMs: undefined, bytes: 0 }
      : { client: refused(wordsOf(fault)), keptMs: failedKeptMs, bytes: 0 }
  }

  private outcomeOf(url: string, issuedMs: number, fetched: Fetched): Outcome {
    const { settings } = this.authority
    const { cacheMs } = settings.clientDocuments
    const described = read(url, fetched)
    this.count(typeof described === "string" ? "document" : "ok")
    if (typeof described === "string") return { client: refused(described), keptMs: failedKeptMs, bytes: 0 }
    const scopes = described.grantTypes.includes(bearerGrant)
      ? []
      : settings.defaultClientScope.split(" ").filter((scope) => scope !== "")
    const client: Client = {
      clientId: url,
      secretHash: null,
      previousHash: null,
      previousUntilMs: 0,
      ...described,
      authMethod: "none",
      scopes,
      agent: false,
      agentDescription: "",
      status: "active",
      source: "cimd",
      documentUrl: url,
      issuedMs,
      updatedMs: issuedMs,
      used: false
    }
    return {
      client,
      keptMs: freshMs(fetched.headers, cacheMs, this.authority.nowMs()),
      bytes: Buffer.byteLength(JSON.stringify(client))
    }
  }

  private count(outcome: string): void {
    this.counts.set(outcome, (this.counts.get(outcome) ?? 0) + 1)
  }
}

const read = (url: string, fetched: Fetched): Described | string => {
  if (fetched.status !== 200) return `the host answered with status ${fetched.status}`
  if (!isJson(fetched)) return "the document is not served as JSON"
  const document = parseObject(fetched.body)
  return isWireFault(document)
    ? document.detail.replace("the body", "the document")
    : describedBy(url, document)
}
