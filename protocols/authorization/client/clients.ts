/** Client authentication: finds a client and makes it prove its identity.
 *  Source: docs/spec/authorization.md, section 5; RFC 6749 sections 2.3 and 3.2.1. */
import { mapLater, type Later } from "../../../runtime/http.ts"
import { secretMatches } from "./client-secrets.ts"
import { canBeKey } from "../fields.ts"
import { authenticationFailed, isProblem, type Problem, problemOf } from "../problems.ts"
import { Clients, type Client } from "../records.ts"
import type { AuthServices } from "../services.ts"
import { formDecoded, type Form } from "../wire.ts"

const failed = (): Problem => problemOf("invalid_client", authenticationFailed)

const basicOf = (header: string): { readonly id: string; readonly secret: string } | undefined => {
  const encoded = /^basic +([A-Za-z0-9+/_-]+={0,2}) *$/i.exec(header)?.[1]
  if (encoded === undefined) return undefined
  const text = Buffer.from(encoded, "base64").toString("utf8")
  const colon = text.indexOf(":")
  if (colon < 0) return undefined
  // Both halves are form-encoded (RFC 6749 appendix B).
  const id = formDecoded(text.slice(0, colon))
  const secret = formDecoded(text.slice(colon + 1))
  return id === undefined || secret === undefined || id === "" ? undefined : { id, secret }
}

export const isDocumentUrl = ({ settings: { clientDocuments } }: AuthServices, clientId: string): boolean =>
  clientDocuments.enabled &&
  (/^https:\/\//i.test(clientId) || (!clientDocuments.requireHttps && /^http:\/\//i.test(clientId)))

/** Finds a registered client, or one that its metadata document describes. Only a document can lead to a
 *  Problem. */
export const findClient = (
  services: AuthServices,
  clientId: string,
  ip: string
): Later<Client | Problem | undefined> => {
  if (!canBeKey(clientId)) return undefined
  return isDocumentUrl(services, clientId)
    ? services.documents.resolve(clientId, ip)
    : services.books.get(Clients, [clientId])
}

export interface Authenticated {
  readonly client: Client
  /** True when the client authenticated by a secret. */
  readonly confidential: boolean
}

/** Authenticates the client in the order of section 5. All failures read the same, so that an answer does not
 *  reveal which clients exist. */
export const authenticate = (
  services: AuthServices,
  authorization: string | undefined,
  form: Form,
  ip: string
): Later<Authenticated | Problem> => {
  const { settings } = services
  let clientId = form.get("client_id")
  let secret = form.get("client_secret")
  if (authorization !== undefined) {
    const basic = basicOf(authorization)
    if (basic === undefined) return failed()
    if (secret !== undefined) return problemOf("invalid_request", "two methods of client authentication")
    if (clientId !== undefined && clientId !== basic.id)
      return problemOf("invalid_request", "client_id differs from the Authorization header")
    clientId = basic.id
    secret = basic.secret
  } else if (secret !== undefined && clientId === undefined)
    return problemOf("invalid_request", "client_id is missing")
  if (clientId === undefined) return failed()
  const requestedId = clientId
  const limited = settings.rate.enabled ? services.limits.clientAllowed(ip, requestedId) : undefined
  return (
    limited ??
    mapLater(findClient(services, requestedId, ip), (client) =>
      proved(services, client, requestedId, secret, ip)
    )
  )
}

const proved = (
  services: AuthServices,
  client: Client | Problem | undefined,
  clientId: string,
  secret: string | undefined,
  ip: string
): Authenticated | Problem => {
  const refuse = (): Problem => {
    const locked = services.limits.clientFailed(ip, clientId)
    if (client !== undefined && !isProblem(client))
      services.audit.strangerLater("client.auth_failed", { clientId: client.clientId, ip })
    if (locked)
      services.audit.strangerLater("auth.locked_out", { clientId: client === undefined ? "" : clientId, ip })
    return failed()
  }
  if (isProblem(client)) return client
  if (client === undefined) {
    if (secret !== undefined) secretMatches(services, undefined, secret)
    return refuse()
  }
  if (client.authMethod === "none")
    return secret !== undefined || client.status !== "active" ? refuse() : { client, confidential: false }
  if (secret === undefined || !secretMatches(services, client, secret) || client.status !== "active")
    return refuse()
  return { client, confidential: true }
}
