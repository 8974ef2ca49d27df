/** Consent: the page that says which client asks for which access, and its answer. It serves authorization
 *  requests and the consent prompts of token exchange.
 *  Source: docs/spec/authorization.md, sections 7.6 and 12.6. */
import { chainLater, mapLater, type Later, type Request, type Response } from "../../../runtime/http.ts"
import { Conflict } from "../../../storage/store.ts"
import {
  giveCode,
  goTo,
  mayGoOn,
  refusedTo,
  requestOf,
  sessionExpired,
  type PendingRequest
} from "./authorize.ts"
import { findClient } from "../client/clients.ts"
import { allowing, liveConsent } from "../consents.ts"
import { problemPageOrJson } from "./login.ts"
import { consentPage, donePage, errorPage, type ConsentView } from "./pages/pages.ts"
import { isProblem, type Problem, problemOf } from "../problems.ts"
import { Clients, Prompts, Requests, Users, type Client, type Prompt, type Resource } from "../records.ts"
import { formTargetOf, isLoopbackUri } from "../redirect-uris.ts"
import { resourceById, resourceOf } from "../token/resources.ts"
import type { AuthServices } from "../services.ts"
import type { BrowserSessions, SignedIn } from "./sessions.ts"
import { isWireFault, readForm, readPairs } from "../wire.ts"

const promptsMax = 1_000

const foreign = (): Problem =>
  problemOf("access_denied", "the form is not from this browser; open the page again")

const about = (
  services: AuthServices,
  client: Client,
  userId: string,
  resource: Resource | undefined,
  scopes: ReadonlyArray<string>
): Omit<ConsentView, "action" | "csrf" | "hidden" | "destination" | "loopback" | "email"> => {
  const consent = liveConsent(services, userId, client.clientId, resource?.id ?? "")
  return {
    clientName: client.clientName,
    selfDeclared: client.source !== "admin",
    clientHost: client.source === "cimd" ? new URL(client.clientId).host : undefined,
    resourceName: resource?.displayName,
    resourceUri: resource?.uri ?? "",
    scopes: scopes.map((name) => ({
      name,
      description: resource?.scopes.find((scope) => scope.name === name)?.description ?? "",
      granted: consent?.scopes.includes(name) === true
    }))
  }
}

export const showConsent = (
  services: AuthServices,
  sessions: BrowserSessions,
  request: Request
): Later<Response> => {
  const query = readPairs(request.query)
  const req = isWireFault(query) ? undefined : query.get("req")
  const pending = requestOf(services, req)
  const signedIn = sessions.of(request)
  if (pending === undefined || pending.request.phase === "done")
    return errorPage(sessionExpired(), request.traceId)
  const { request: row } = pending
  if (
    row.userId !== null &&
    signedIn === undefined &&
    services.books.get(Users, [row.userId])?.status !== "active"
  )
    return refusedTo(services, row, problemOf("access_denied", "the user is disabled"))
  if (signedIn === undefined || !mayGoOn(services, row, signedIn)) return goTo(`/login?req=${req}`)
  return mapLater(findClient(services, row.clientId, request.client), (client) => {
    if (client === undefined || isProblem(client) || client.status !== "active")
      return errorPage(problemOf("invalid_client", "the client is no longer known"), request.traceId)
    return consentPage(
      {
        ...about(services, client, signedIn.user.id, resourceById(services, row.resourceId), row.scopes),
        action: "consent",
        csrf: sessions.csrf("consent", row.sessionHash!, req!),
        hidden: { req: req! },
        destination: new URL(row.redirectUri).host,
        loopback: isLoopbackUri(row.redirectUri),
        email: signedIn.user.email
      },
      {
        // Browsers apply form-action to the whole chain of redirects, and an application may redirect its user
        // to another of its hosts.
        formTargets: [formTargetOf(row.redirectUri), "https:"]
      }
    )
  })
}

export const consent = (
  services: AuthServices,
  sessions: BrowserSessions,
  request: Request
): Later<Response> => {
  const form = readForm(request.headers.get("content-type"), request.query, request.body)
  if (isWireFault(form))
    return problemPageOrJson(services, request, problemOf("invalid_request", form.detail))
  const req = form.get("req") ?? ""
  const pending = requestOf(services, req)
  const signedIn = sessions.of(request)
  if (
    signedIn === undefined &&
    pending?.request.userId != null &&
    services.books.get(Users, [pending.request.userId])?.status !== "active"
  )
    return refusedTo(services, pending.request, problemOf("access_denied", "the user is disabled"), 303)
  const presented = form.get("csrf")
  if (signedIn === undefined || presented === undefined)
    return problemPageOrJson(services, request, foreign())
  if (pending === undefined) return problemPageOrJson(services, request, sessionExpired())
  const { request: row } = pending
  if (!sessions.isCsrf(presented, "consent", row.sessionHash ?? "", req))
    return problemPageOrJson(services, request, foreign())
  if (!mayGoOn(services, row, signedIn)) return problemPageOrJson(services, request, sessionExpired())
  const decision = form.get("decision")
  if (decision !== "allow" && decision !== "deny")
    return problemPageOrJson(services, request, problemOf("invalid_request", "decision is missing"))
  return chainLater(findClient(services, row.clientId, request.client), (client) =>
    decided(services, request, { req, pending, signedIn, decision, client })
  )
}

/** The answer of a signed-in user to the page of their request. */
interface Decision {
  readonly req: string
  readonly pending: PendingRequest
  readonly signedIn: SignedIn
  readonly decision: "allow" | "deny"
  readonly client: Client | Problem | undefined
}

const decided = async (
  services: AuthServices,
  request: Request,
  { req, pending, signedIn, decision, client }: Decision
): Promise<Response> => {
  const { books, audit } = services
  const { request: row } = pending
  if (client === undefined || isProblem(client) || client.status !== "active")
    return problemPageOrJson(services, request, problemOf("invalid_client", "the client is no longer known"))
  if (row.resourceId !== "" && resourceById(services, row.resourceId) === undefined)
    return problemPageOrJson(
      services,
      request,
      problemOf("invalid_target", "the resource is no longer known")
    )
  if (decision === "deny") {
    const outcome = books.commit([
      ...books.ended(Requests, [pending.key], row),
      audit.event("consent.denied", {
        actorId: signedIn.user.id,
        clientId: client.clientId,
        ip: request.client,
        traceId: request.traceId
      })
    ])
    if (outcome instanceof Conflict) return problemPageOrJson(services, request, sessionExpired())
    await outcome
    return refusedTo(services, row, problemOf("access_denied", "the user has denied access"), 303)
  }
  const { consent: granted, rows } = allowing(services, signedIn.user.id, client, row.resourceId, row.scopes)
  return giveCode(services, client, req, row, signedIn, granted, rows, 303)
}

/** `GET /authorize`: the page to which a `consent_url` points. */
export const showPrompt = (services: AuthServices, sessions: BrowserSessions, request: Request): Response => {
  const query = readPairs(request.query)
  if (isWireFault(query)) return errorPage(problemOf("invalid_request", query.detail), request.traceId)
  if (query.has("client_id")) return goTo(`/oauth/authorize?${request.query}`)
  const signedIn = sessions.of(request)
  if (signedIn === undefined) return goTo(`/login?next=${encodeURIComponent(`/authorize?${request.query}`)}`)
  const found = promptOf(services, signedIn.user.id, query.get("resource"), query.get("scope"))
  if (found === undefined)
    return errorPage(
      problemOf("not_found", "there is nothing to consent to; try again in the application"),
      request.traceId
    )
  const client = services.books.get(Clients, [found.prompt.clientId])
  if (client === undefined || client.status !== "active")
    return errorPage(problemOf("invalid_client", "the client is no longer known"), request.traceId)
  return consentPage(
    {
      ...about(services, client, signedIn.user.id, found.resource, found.prompt.scopes),
      action: "authorize",
      csrf: sessions.csrf("prompt", signedIn.sessionHash, found.resource.id, client.clientId),
      hidden: {
        resource: found.resource.slug,
        client: client.clientId,
        return_url: query.get("return_url") ?? ""
      },
      destination: undefined,
      loopback: false,
      email: signedIn.user.email
    },
    {
      formTargets: [allowedReturn(services, found.resource, query.get("return_url"))]
        .filter((url) => url !== undefined)
        .map(formTargetOf)
    }
  )
}

const allowedReturn = (
  { settings }: AuthServices,
  { returnUrls }: Resource,
  url: string | undefined
): string | undefined =>
  url !== undefined && (settings.connect.allowedReturnUrls.includes(url) || returnUrls.includes(url))
    ? url
    : undefined

const promptOf = (
  services: AuthServices,
  userId: string,
  requested: string | undefined,
  scope: string | undefined,
  clientId?: string
): { readonly prompt: Prompt; readonly resource: Resource } | undefined => {
  const resource = requested === undefined ? undefined : resourceOf(services, requested)
  if (resource === undefined) return undefined
  const wanted = (scope ?? "").split(" ").filter((part) => part !== "")
  const [prompt] = Prompts.range(services.books.store, { prefix: [userId], limit: promptsMax })
    .map(({ value }) => value)
    .filter(
      (prompt) =>
        prompt.resourceId === resource.id &&
        prompt.expiresMs > services.nowMs() &&
        (clientId === undefined || prompt.clientId === clientId) &&
        wanted.every((part) => prompt.scopes.includes(part))
    )
    .sort((a, b) => b.createdMs - a.createdMs)
  return prompt === undefined ? undefined : { prompt, resource }
}

export const answerPrompt = async (
  services: AuthServices,
  sessions: BrowserSessions,
  request: Request
): Promise<Response> => {
  const form = readForm(request.headers.get("content-type"), request.query, request.body)
  const { books, audit } = services
  if (isWireFault(form))
    return problemPageOrJson(services, request, problemOf("invalid_request", form.detail))
  const signedIn = sessions.of(request)
  const clientId = form.get("client")
  const resource = resourceOf(services, form.get("resource") ?? "")
  if (
    signedIn === undefined ||
    clientId === undefined ||
    resource === undefined ||
    !sessions.isCsrf(form.get("csrf"), "prompt", signedIn.sessionHash, resource.id, clientId)
  )
    return problemPageOrJson(services, request, foreign())
  const found = promptOf(services, signedIn.user.id, resource.slug, undefined, clientId)
  const client = books.get(Clients, [clientId])
  if (found === undefined || client?.status !== "active")
    return problemPageOrJson(services, request, sessionExpired())
  const allowed = form.get("decision") === "allow"
  const { rows } = allowing(services, signedIn.user.id, client, resource.id, found.prompt.scopes)
  await books.write([
    ...(allowed ? rows : []),
    Prompts.delete([signedIn.user.id, clientId, resource.id]),
    audit.event(allowed ? "consent.granted" : "consent.denied", {
      actorId: signedIn.user.id,
      clientId,
      ip: request.client,
      traceId: request.traceId
    })
  ])
  const returnUrl = allowedReturn(services, resource, form.get("return_url"))
  if (returnUrl !== undefined) return goTo(returnUrl, 303)
  return donePage(allowed ? `${client.clientName} may go on.` : `${client.clientName} gets no access.`)
}
