/** Makes a new confidential client of the authorization server, for those that this process registers
 *  itself. */
import { secretHashOf } from "../../../protocols/authorization/client/client-secrets.ts"
import type { OpenAuthorization } from "../../../protocols/authorization/open.ts"
import type { Client } from "../../../protocols/authorization/records.ts"

/** Returns a client with default values, which `fields` override. */
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
