/** Token exchange: impersonation and delegation at our own resources, and upstream tokens at a Broker
 *  resource (vending.ts). `invalid_target` is never answered here.
 *  Source: docs/spec/authorization.md, sections 8.7 and 14; RFC 8693. */
import { chainLater, type Later } from "../../../../runtime/http.ts"
import { consentWanted, liveConsent } from "../../consents.ts"
import { generationsMax } from "../liveness.ts"
import { isProblem, type Problem, problemOf, wordingOf } from "../../problems.ts"
import { Consents, exchangeGrant, Issuances, type Client } from "../../records.ts"
import { namesOf, readScope, refusedScope, resourceById, resourceOf, within } from "../resources.ts"
import { depthOf, issuanceRow, mint, ownToken, type Actor } from "../tokens.ts"
import {
  accessTokenType,
  invalidGrant,
  type Body,
  type Exchange,
  type Grant,
  type GrantCall
} from "./grant.ts"
import { vend } from "./vending.ts"

const tokenTypes = [accessTokenType, "urn:ietf:params:oauth:token-type:jwt"]
const bad = (words: string): Problem => problemOf("invalid_request", words)
const denied = (words: string): Problem => problemOf("access_denied", words)

export const tokenExchange: Grant = (call) =>
  chainLater(exchanged(call), async (answer) => {
    if (isProblem(answer)) {
      const { client, ip, traceId } = call
      await call.services.audit.now("token.exchange_denied", {
        clientId: client.clientId,
        ip,
        traceId,
        detail: { error: wordingOf(answer).error }
      })
    }
    return answer
  })

const exchanged = (call: GrantCall): Later<Body | Problem> => {
  const { services, form, client, jkt } = call
  const subjectToken = form.get("subject_token")
  const subjectType = form.get("subject_token_type")
  const actorToken = form.get("actor_token")
  const actorType = form.get("actor_token_type")
  if (subjectToken === undefined || subjectType === undefined)
    return bad(`${subjectToken === undefined ? "subject_token" : "subject_token_type"} is missing`)
  if ((actorToken === undefined) !== (actorType === undefined))
    return bad("actor_token and actor_token_type belong together")
  if (!tokenTypes.includes(subjectType) || (actorType !== undefined && !tokenTypes.includes(actorType)))
    return bad("the token type is not supported")
  const wantedType = form.get("requested_token_type")
  if (wantedType !== undefined && !tokenTypes.includes(wantedType))
    return bad("requested_token_type is not supported")
  const resources = form.all("resource")
  const audiences = form.all("audience")
  if (
    resources.length > 1 ||
    audiences.length > 1 ||
    (resources.length === 1 && audiences.length === 1 && resources[0] !== audiences[0])
  )
    return bad("only one resource can be asked for")
  const requestedTarget = resources[0] ?? audiences[0]

  const subject = ownToken(services, subjectToken)
  if (subject === undefined) return invalidGrant("the subject token is not valid")
  const actor = actorToken === undefined ? undefined : ownToken(services, actorToken)
  if (actorToken !== undefined && (actor === undefined || actor.issuance.clientId !== client.clientId))
    return invalidGrant("the actor token is not valid")
  if (subject.issuance.jkt !== "" && jkt !== subject.issuance.jkt)
    return problemOf("invalid_dpop_proof", "the subject token is bound to another key")
  if (actor !== undefined && actor.issuance.jkt !== "" && jkt !== actor.issuance.jkt)
    return problemOf("invalid_dpop_proof", "the actor token is bound to another key")
  const target = requestedTarget === undefined ? undefined : resourceOf(services, requestedTarget)
  if (requestedTarget !== undefined && target === undefined)
    return problemOf("not_found", "the resource is not known")

  const held = subject.issuance.scopes
  const catalog = target === undefined ? undefined : namesOf(target)
  const asked = readScope(form.get("scope"))
  if (isProblem(asked)) return asked
  const outside = asked?.find((scope) => !held.includes(scope) || catalog?.includes(scope) === false)
  if (outside !== undefined) return refusedScope(outside)
  const scopes = asked ?? held.filter((scope) => catalog?.includes(scope) ?? true)
  if (
    scopes.length === 0 &&
    asked === undefined &&
    held.length > 0 &&
    (catalog === undefined || catalog.length > 0)
  )
    return problemOf("invalid_scope", "no scope is left")
  const exchange: Exchange = { call, subject, actor, target, scopes }
  return target?.backend === "broker" ? vend(exchange, target) : mintExchanged(exchange)
}

/** Checks step 8: whether the client may exchange this token for the target. */
const mayAct = ({
  call: { services, client },
  subject: { issuance },
  target
}: Exchange): Problem | undefined => {
  const own = issuance.clientId === client.clientId
  if (target === undefined)
    return own && services.settings.tokenExchange.allowSelfExchange
      ? undefined
      : denied("the client may not exchange this token")
  return own ||
    target.exchangeClients.includes(client.clientId) ||
    target.runtimeClients.includes(client.clientId)
    ? undefined
    : denied("the client may not exchange for this resource")
}

const actorOf = (client: Client, { subject, actor }: Exchange): Actor | undefined => {
  const before = subject.claims["act"] as Actor | undefined
  return actor === undefined
    ? before
    : {
        sub: client.clientId,
        actor_type: client.agent ? "agent" : "service",
        ...(before === undefined ? {} : { act: before })
      }
}

const mintExchanged = async (exchange: Exchange): Promise<Body | Problem> => {
  const {
    call: { services, client, jkt, ip, traceId },
    subject: { issuance: parent },
    target,
    scopes
  } = exchange
  const { settings, books, audit, nowMs } = services
  const refused = mayAct(exchange)
  if (refused !== undefined) return refused
  const resource = target ?? resourceById(services, parent.resourceId)
  const elsewhere = target !== undefined && target.id !== parent.resourceId
  const consentClientId = parent.consentClientId === "" ? parent.clientId : parent.consentClientId
  const consent =
    target === undefined || parent.userId === ""
      ? undefined
      : liveConsent(services, parent.userId, consentClientId, target.id)
  if (elsewhere && parent.userId !== "" && (consent === undefined || !within(scopes, consent.scopes)))
    return consentWanted(services, consent, parent.userId, consentClientId, target, scopes)
  const act = actorOf(client, exchange)
  if (depthOf(act) > settings.tokenExchange.maxChainDepth || parent.generation >= generationsMax)
    return denied("the chain of actors is too long")

  const { tokenMs, capToSubjectExpiry } = settings.tokenExchange
  const minted = mint(services, {
    grantType: exchangeGrant,
    sub: parent.sub,
    client,
    resource,
    ...(target === undefined ? { audience: parent.audience } : {}),
    scopes,
    lifetimeMs: capToSubjectExpiry ? Math.min(tokenMs, parent.expiresMs - nowMs()) : tokenMs,
    ...(parent.userId === ""
      ? {}
      : {
          user: {
            id: parent.userId,
            epoch: parent.userEpoch,
            authMs: Number(exchange.subject.claims["auth_time"] ?? 0) * 1_000
          }
        }),
    consentClientId,
    consentId: consent?.id ?? (elsewhere ? "" : parent.consentId),
    parent,
    jkt: jkt ?? (parent.jkt === "" ? undefined : parent.jkt),
    act
  })
  if (isProblem(minted)) return minted
  // The conditions are checked again with the write, so that a subject or consent revoked meanwhile leaves no
  // row.
  const outcome = books.commit([
    issuanceRow(minted.issuance),
    Issuances.check([parent.jti], Issuances.unchanged(parent)),
    ...(consent === undefined ? [] : [Consents.check([consent.id], Consents.unchanged(consent))])
  ])
  if (!(outcome instanceof Promise)) return invalidGrant("the subject token is not valid")
  await outcome
  audit.later("token.exchanged", {
    actorId: parent.sub,
    clientId: client.clientId,
    ip,
    traceId,
    detail: { jti: minted.issuance.jti, parent_jti: parent.jti }
  })
  return { ...minted.body, issued_token_type: accessTokenType }
}
