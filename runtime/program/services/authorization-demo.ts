/** Creates the demo of a first start on this machine: a resource, a client and a user of the authorization
 *  server. Part of the composition root. */
import { Effect } from "effect"
import { audienceName, uniqueName } from "../../../protocols/authorization/client/unique-names.ts"
import type { OpenAuthorization } from "../../../protocols/authorization/open.ts"
import {
  Clients,
  Resources,
  UniqueNames,
  UserEmails,
  Users
} from "../../../protocols/authorization/records.ts"
import { randomToken } from "../../../storage/seal.ts"
import { newClient } from "./authorization-client.ts"

/** The secrets that a first start creates; they are printed once. */
export interface DemoAuthorization {
  readonly oauthAdminKey: string
  readonly oauthClientId: string
  readonly oauthClientSecret: string
  readonly oauthUser: string
  readonly oauthPassword: string
  readonly oauthUserId: string
}

const demoUser = "demo@localhost"
const demoGrants = ["client_credentials", "urn:ietf:params:oauth:grant-type:token-exchange"]

export const createDemoAuthorization = async (
  open: OpenAuthorization,
  oauthAdminKey: string
): Promise<DemoAuthorization> => {
  const {
    services: { books, passwords, settings }
  } = open
  const nowMs = books.nowMs()
  const secret = randomToken()
  const password = randomToken().slice(0, 20)
  const userId = books.id()
  const client = newClient(open, books.id(), secret, {
    clientName: "Demo client",
    grantTypes: ["authorization_code", "refresh_token", ...demoGrants],
    responseTypes: ["code"],
    redirectUris: [`${settings.issuer}/connections`],
    scopes: ["demo:read", "demo:write"]
  })
  const resource = {
    id: books.id(),
    slug: "demo",
    uri: `${settings.issuer}/demo`,
    backend: "mint" as const,
    providerId: "",
    displayName: "Demo",
    exchangeClients: [],
    runtimeClients: [],
    returnUrls: [],
    scopes: ["demo:read", "demo:write"].map((name) => ({ name, description: "", upstream: [] })),
    createdMs: nowMs,
    updatedMs: nowMs
  }
  await books.write([
    Clients.put([client.clientId], client),
    Resources.put([resource.id], resource),
    UniqueNames.put(uniqueName("resource-slug", "demo"), { id: resource.id }),
    UniqueNames.put(audienceName(settings.issuer, resource), { id: resource.id }),
    Users.put([userId], {
      id: userId,
      email: demoUser,
      name: "Demo",
      role: "admin",
      passwordHash: await Effect.runPromise(passwords.hash(password)),
      federated: null,
      status: "active",
      epoch: 0,
      lastLoginMs: null,
      createdMs: nowMs,
      updatedMs: nowMs
    }),
    UserEmails.put([demoUser], { id: userId })
  ])
  return {
    oauthAdminKey,
    oauthClientId: client.clientId,
    oauthClientSecret: secret,
    oauthUser: demoUser,
    oauthPassword: password,
    oauthUserId: userId
  }
}
