/** /admin/clients: client rows and their states. Revoking a client writes one row, because every token,
 *  family and code of the client reads that row.
 *  Source: docs/spec/authorization.md, sections 16.1 and 18.3. */
import {
  clientView,
  isConfidential,
  metadataNames,
  newClient,
  readAgentDescription,
  readAuthMethod,
  readClientMetadata,
  readClientName,
  readGrantTypes,
  readRedirectUris,
  readScope,
  refuseContradictions,
  responseTypesOf
} from "../client/client-metadata.ts"
import { secretHashOf } from "../client/client-secrets.ts"
import type { AuthContext } from "../auth-context.ts"
import { Fields } from "../fields.ts"
import { isProblem, type Problem } from "../problems.ts"
import { Clients, type Client } from "../records.ts"
import type { Members } from "../wire.ts"
import {
  conflict,
  durationMs,
  fieldsOf,
  noContent,
  idOf,
  invalid,
  missing,
  ok,
  type Answer,
  type AdminCall,
  type Outcome
} from "./call.ts"
import { list, matching } from "./lists.ts"

const keptSecretMsMax = 86_400_000
const givenId = /^[A-Za-z0-9._~-]{3,64}$/

const clientOf = (call: AdminCall): Client | Problem => {
  const id = idOf(call)
  return (id === "" ? undefined : call.authority.books.get(Clients, [id])) ?? missing("client")
}

const changed = (
  { authority }: AdminCall,
  client: Client,
  action: string,
  answer: Pick<Answer, "body">,
  detail: Readonly<Record<string, string>> = {}
): Answer => ({
  status: 200,
  ...answer,
  writes: [Clients.put([client.clientId], { ...client, updatedMs: authority.nowMs() })],
  audit: { action, clientId: client.clientId, detail }
})

/** Creates a client from a request body; the seed calls it too. */
export const createClient = (authority: AuthContext, members: Members): Outcome => {
  const { books, settings } = authority
  const fields = new Fields(members, "invalid_request", [...metadataNames, "scope", "client_id"]).required(
    "client_name"
  )
  if (members["client_name"] === "") fields.refuse("client_name", "must be 1 to 200 characters")
  const metadata = readClientMetadata(fields, settings)
  const scopes = readScope(fields) ?? []
  const id = fields.token("client_id", 64)
  if (id !== undefined && !givenId.test(id))
    fields.refuse("client_id", "must be 3 to 64 letters, digits, '.', '_', '~' or '-'")
  if (fields.problem !== undefined) return fields.problem
  if (id !== undefined && books.get(Clients, [id]) !== undefined)
    return conflict("a client of this id exists")
  const { client, secret } = newClient(authority, metadata, {
    clientId: id ?? books.id(),
    source: "admin",
    scopes
  })
  return {
    status: 201,
    body: { ...clientView(client), ...(secret === undefined ? {} : { client_secret: secret }) },
    writes: [Clients.put([client.clientId], client, "absent")],
    audit: { action: "client.created_admin", clientId: client.clientId }
  }
}

export const postClient = ({ authority, members }: AdminCall): Outcome => createClient(authority, members)

export const listClients = (call: AdminCall): Promise<Outcome> => {
  const prefix = call.query.get("name_prefix") ?? ""
  const matches = matching<Client>(call, {
    source: (row) => row.source,
    status: (row) => row.status,
    agent: (row) => String(row.agent)
  })
  return list(call, "clients", {
    table: Clients,
    view: clientView,
    keep: (row) => matches(row) && row.clientName.startsWith(prefix)
  })
}

export const getClient = (call: AdminCall): Outcome => {
  const client = clientOf(call)
  return isProblem(client) ? client : ok(clientView(client))
}

export const patchClient = (call: AdminCall): Outcome => {
  const client = clientOf(call)
  if (isProblem(client)) return client
  const { settings } = call.authority
  const fields = fieldsOf(call, [
    "client_name",
    "redirect_uris",
    "grant_types",
    "token_endpoint_auth_method",
    "scope",
    "agent_description"
  ])
  const grants = readGrantTypes(fields, settings) ?? client.grantTypes
  const after: Client = {
    ...client,
    grantTypes: grants,
    responseTypes: responseTypesOf(grants),
    clientName: readClientName(fields) ?? client.clientName,
    redirectUris: readRedirectUris(fields) ?? client.redirectUris,
    authMethod: readAuthMethod(fields) ?? client.authMethod,
    scopes: readScope(fields) ?? client.scopes,
    agentDescription: readAgentDescription(fields) ?? client.agentDescription
  }
  if (isConfidential(after) !== isConfidential(client))
    fields.refuse("token_endpoint_auth_method", "cannot change between public and confidential")
  if (["redirect_uris", "grant_types", "token_endpoint_auth_method"].some((name) => fields.has(name)))
    refuseContradictions(fields, after, settings)
  if (fields.problem !== undefined) return fields.problem
  const updated = { ...after, updatedMs: call.authority.nowMs() }
  return changed(
    call,
    updated,
    "client.updated",
    { body: clientView(updated) },
    { members: Object.keys(call.members).join(",") }
  )
}

/** Moves a client to another status. Suspending can be undone, revoking cannot. */
const become =
  (status: Client["status"], action: string) =>
  (call: AdminCall): Outcome => {
    const client = clientOf(call)
    if (isProblem(client)) return client
    const fields = fieldsOf(call, [])
    if (fields.problem !== undefined) return fields.problem
    const body = { status }
    if (client.status === status) return ok(body)
    if (client.status === "revoked") return conflict("the client is revoked")
    return changed(
      call,
      { ...client, status, ...(status === "revoked" ? { previousHash: null, previousUntilMs: 0 } : {}) },
      action,
      { body }
    )
  }

export const suspendClient = become("suspended", "client.suspended")
export const reactivateClient = become("active", "client.reactivated")
export const revokeClient = become("revoked", "client.revoked")

export const rotateSecret = (call: AdminCall): Outcome => {
  const client = clientOf(call)
  if (isProblem(client)) return client
  const { authority } = call
  const fields = fieldsOf(call, ["keep_previous_for"])
  const text = fields.string("keep_previous_for", 32)
  const keepMs = text === undefined ? 0 : durationMs(text)
  if (keepMs === undefined || keepMs > keptSecretMsMax)
    fields.refuse("keep_previous_for", "must be a duration of at most 24h")
  if (fields.problem !== undefined) return fields.problem
  if (!isConfidential(client)) return invalid("a public client has no secret")
  if (client.status === "revoked") return conflict("the client is revoked")
  const secret = authority.newToken()
  const previousSecret =
    keepMs! > 0
      ? { previousHash: client.secretHash, previousUntilMs: authority.nowMs() + keepMs! }
      : { previousHash: null, previousUntilMs: 0 }
  return changed(
    call,
    { ...client, secretHash: secretHashOf(authority, secret), ...previousSecret },
    "client.secret_rotated",
    { body: { client_id: client.clientId, client_secret: secret } },
    { keep_ms: String(keepMs) }
  )
}

export const deleteClient = (call: AdminCall): Outcome => {
  const client = clientOf(call)
  if (isProblem(client)) return client
  if (call.query.get("force") !== "true" && call.ports.live.ofClient(client.clientId))
    return conflict("the client has live tokens; force=true deletes it all the same")
  return {
    ...noContent,
    writes: [Clients.delete([client.clientId])],
    audit: { action: "client.deleted", clientId: client.clientId }
  }
}
