/** A new confidential client of the authorization server, for what this process registers there itself. */
import { secretHashOf } from "../../../protocols/authorization/client/client-secrets.ts"
import type { OpenAuthorization } from "../../../protocols/authorization/open.ts"
import type { Client } from "../../../protocols/authorization/records.ts"

/** The defaults of a client, with `fields` in their place where there are some. */
export const newClient = (
  open: OpenAuthorization,
  clientId: string,
  secret: string,
  fields: Partial<Client>
): Client => {
  const { services } = open
  const nowMs = services.nowMs()
  return {
    clientId,
    secretHash: secretHashOf(services, secret),
    previousHash: null,
    previousUntilMs: 0,
    redirectUris: [],
    clientName: clientId,
    authMethod: "client_secret_basic",
    grantTypes: [],
    responseTypes: [],
    applicationType: "web",
    scopes: [],
    agent: false,
    agentDescription: "",
    status: "active",
    source: "admin",
    documentUrl: "",
    issuedMs: nowMs,
    updatedMs: nowMs,
    used: true,
    ...fields
  }
}
