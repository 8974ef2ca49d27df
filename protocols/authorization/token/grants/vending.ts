/** Token exchange at a Broker resource: returns the upstream's own token, within three limits: what the
 *  operator allows, what the user has consented to for this agent, and what the user has granted upstream.
 *  Source: docs/spec/authorization.md, section 12.5. */
import { chainLater, type Later } from "../../../../runtime/http.ts"
import { consentWanted, liveConsent } from "../../consents.ts"
import { consentRequired, isProblem, type Problem, problemOf, unavailable } from "../../problems.ts"
import { upstreamScopes } from "../../upstream/providers.ts"
import type { UpstreamToken } from "../../upstream/token-broker.ts"
import {
  BrokerGrants,
  Consents,
  exchangeGrant,
  Issuances,
  Providers,
  type ConsentGrant,
  type Issuance,
  type Provider,
  type Resource
} from "../../records.ts"
import { resourceOfAudience, within } from "../resources.ts"
import { issuanceRow } from "../tokens.ts"
import { accessTokenType, invalidGrant, type Body, type Exchange } from "./grant.ts"

const denied = (words: string): Problem => problemOf("access_denied", words)

const upstreamOf = ({ scopes: catalog }: Resource, scopes: ReadonlyArray<string>): ReadonlyArray<string> =>
  upstreamScopes(catalog.filter(({ name }) => scopes.includes(name)))

/** Returns the resource at which the user's consent for this client counts. A client that merely holds
 *  another client's token has none. */
const attested = ({ call: { services, client }, subject: { issuance } }: Exchange): Resource | undefined => {
  const resource = resourceOfAudience(services, issuance.audience)
  if (issuance.clientId === client.clientId) return resource
  const acts = services.books
    .resources()
    .filter(({ backend, runtimeClients }) => backend === "mint" && runtimeClients.includes(client.clientId))
  return acts.find(({ id }) => id === resource?.id) ?? (acts.length === 1 ? acts[0] : undefined)
}

export const vend = (exchange: Exchange, target: Resource): Later<Body | Problem> => {
  const {
    call: { services, form, client },
    subject: { issuance: parent },
    scopes
  } = exchange
  const { books, settings, nowMs } = services
  if (form.has("actor_token")) return problemOf("invalid_request", "no actor_token at this resource")
  if (parent.userId === "") return invalidGrant("the subject token has no user")
  if (scopes.length === 0) return problemOf("invalid_scope", "no scope is left")
  if (target.exchangeClients.length > 0 && !target.exchangeClients.includes(client.clientId))
    return denied("the client may not exchange for this resource")
  const at = attested(exchange)
  if (at === undefined) return denied("the client does not act for a resource")

  const consentClientId = parent.consentClientId === "" ? parent.clientId : parent.consentClientId
  const consent = liveConsent(services, parent.userId, consentClientId, at.id)
  if (consent === undefined || !within(scopes, consent.scopes))
    return consentWanted(services, consent, parent.userId, consentClientId, at, scopes)
  const provider = books.get(Providers, [target.providerId])
  if (provider === undefined) return unavailable("the provider is gone", 5)
  const connect = (cause: string, words: string): Problem =>
    consentRequired(words, {
      consentUrl: `${settings.issuer}/connect/${encodeURIComponent(provider.slug)}`,
      cause
    })
  const broker =
    provider.protocol === "oauth" ? BrokerGrants.get(books.store, [parent.userId, provider.id]) : undefined
  if (provider.protocol === "oauth") {
    if (broker === undefined || broker.revokedMs !== null)
      return connect("consent_missing", `the user has not connected ${provider.slug}`)
    if (!within(upstreamOf(target, scopes), broker.scopesGranted))
      return connect("scope_insufficient", `the connection to ${provider.slug} does not cover the scopes`)
  }
  const upstream = services.vault.upstreamToken(
    { id: parent.userId },
    provider,
    nowMs(),
    upstreamOf(target, scopes)
  )
  const vending: Vending = { exchange, target, consent, provider, connect }
  return chainLater(upstream, (there) => vendedBy(vending, there))
}

/** What a vended token was found to be permitted by. */
interface Vending {
  readonly exchange: Exchange
  readonly target: Resource
  readonly consent: ConsentGrant
  readonly provider: Provider
  readonly connect: (cause: string, words: string) => Problem
}

/** Checks the limits again, writes the issuance and returns the upstream's token. */
const vendedBy = async (
  { exchange, target, consent, provider, connect }: Vending,
  upstream: UpstreamToken | Problem
): Promise<Body | Problem> => {
  const {
    call: { services, client, jkt, ip, traceId },
    subject: { issuance: parent },
    scopes
  } = exchange
  const { books, settings, audit, nowMs } = services
  const consentClientId = parent.consentClientId === "" ? parent.clientId : parent.consentClientId
  if (isProblem(upstream)) return upstream

  const nowAtMs = nowMs()
  const expiresMs =
    nowAtMs + (upstream.expiresIn === undefined ? settings.tokenExchange.tokenMs : upstream.expiresIn * 1_000)
  const issuance: Issuance = {
    jti: books.id(),
    grantType: exchangeGrant,
    sub: parent.sub,
    userId: parent.userId,
    userEpoch: parent.userEpoch,
    clientId: client.clientId,
    clientIssuedMs: client.issuedMs,
    consentClientId,
    consentId: consent.id,
    resourceId: target.id,
    audience: "",
    scopes,
    backend: "broker",
    parentJti: parent.jti,
    generation: parent.generation + 1,
    familyId: "",
    idpId: "",
    jkt: jkt ?? "",
    agentId: client.agent ? client.clientId : "",
    agentChain: [],
    revocable: false,
    issuedMs: nowAtMs,
    expiresMs,
    revokedMs: null,
    revokedReason: ""
  }
  // Time has passed while the upstream answered, so the limits are checked again before the row is written.
  const brokerNow =
    provider.protocol === "oauth" ? BrokerGrants.get(books.store, [parent.userId, provider.id]) : undefined
  if (provider.protocol === "oauth" && (brokerNow === undefined || brokerNow.revokedMs !== null))
    return connect("consent_missing", `the user has not connected ${provider.slug}`)
  if (brokerNow !== undefined && !within(upstreamOf(target, scopes), brokerNow.scopesGranted))
    return connect("scope_insufficient", `the connection to ${provider.slug} does not cover the scopes`)
  const outcome = books.commit([
    issuanceRow(issuance),
    Issuances.check([parent.jti], Issuances.unchanged(parent)),
    Consents.check([consent.id], Consents.unchanged(consent)),
    ...(brokerNow === undefined
      ? []
      : [BrokerGrants.check([parent.userId, provider.id], BrokerGrants.unchanged(brokerNow))])
  ])
  if (!(outcome instanceof Promise)) return invalidGrant("the authorization is no longer valid")
  await outcome
  audit.later("upstream.token.issued", {
    actorId: parent.userId,
    clientId: client.clientId,
    ip,
    traceId,
    detail: { provider: provider.slug, issuance: issuance.jti }
  })
  return {
    access_token: upstream.accessToken,
    issued_token_type: accessTokenType,
    token_type: "Bearer",
    ...(upstream.expiresIn === undefined ? {} : { expires_in: upstream.expiresIn }),
    scope: scopes.join(" ")
  }
}
