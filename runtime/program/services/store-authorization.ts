/** Connects the store to the authorization server: the store's apps are clients of that server, and the
 *  access tokens issued for the store's resource are the tokens of the store's API. Part of the composition
 *  root. Source: docs/spec/store.md, section 3.3. */
import { secretHashOf } from "../../../protocols/authorization/client/client-secrets.ts"
import { audienceName, uniqueName } from "../../../protocols/authorization/client/unique-names.ts"
import type { OpenAuthorization } from "../../../protocols/authorization/open.ts"
import { Clients, Resources, UniqueNames, type Client } from "../../../protocols/authorization/records.ts"
import { ownToken } from "../../../protocols/authorization/token/tokens.ts"
import { scopes as storeScopes } from "../../../protocols/store/access/scopes.ts"
import type { AppRegistration, AppTokens } from "../../../protocols/store/access/app-tokens.ts"
import { randomToken } from "../../../storage/seal.ts"
import { newClient } from "./authorization-client.ts"

/** The slug of the store's resource at the authorization server. */
export const storeSlug = "store"

/** Registers the store's resource unless the authorization server has one already, and returns its
 *  audience. */
const audienceOfStore = async ({ services }: OpenAuthorization, resourceUri: string): Promise<string> => {
  const { books, settings } = services
  const existing = books.resources().find(({ slug }) => slug === storeSlug)
  if (existing !== undefined) return existing.uri

  const nowMs = books.nowMs()
  const resource = {
    id: books.id(),
    slug: storeSlug,
    uri: resourceUri,
    backend: "mint" as const,
    providerId: "",
    displayName: "Store",
    exchangeClients: [],
    runtimeClients: ["store-resource-server"],
    returnUrls: [],
    scopes: Object.entries(storeScopes).map(([name, description]) => ({ name, description, upstream: [] })),
    createdMs: nowMs,
    updatedMs: nowMs
  }
  await books.write([
    Resources.put([resource.id], resource),
    UniqueNames.put(uniqueName("resource-slug", storeSlug), { id: resource.id }),
    UniqueNames.put(audienceName(settings.issuer, resource), { id: resource.id })
  ])
  return books.resources().find(({ slug }) => slug === storeSlug)!.uri
}

const clientFieldsOf = ({
  name,
  redirectUris,
  scopes,
  runWithoutUser
}: AppRegistration): Partial<Client> => ({
  clientName: name,
  redirectUris,
  scopes,
  grantTypes: ["authorization_code", "refresh_token", ...(runWithoutUser ? ["client_credentials"] : [])],
  responseTypes: ["code"]
})

export const appTokensOf = async (open: OpenAuthorization, resourceUri: string): Promise<AppTokens> => {
  const { services } = open
  const { books, proofs } = services
  const audience = await audienceOfStore(open, resourceUri)

  const update = async (appId: string, change: Partial<Client>): Promise<void> => {
    const client = books.get(Clients, [appId])
    if (client === undefined) throw new Error("the app is no client of the authorization server")
    await books.write([Clients.put([appId], { ...client, ...change, updatedMs: books.nowMs() })])
  }

  return {
    verify: (token, { method, url, proof }) => {
      const own = ownToken(services, token)
      if (own === undefined || own.claims["aud"] !== audience) return undefined
      if (own.issuance.jkt !== "" && proofs.check(proof, method, url, token) !== own.issuance.jkt)
        return undefined
      return {
        appId: own.issuance.clientId,
        subject: own.issuance.userId === "" ? undefined : own.issuance.userId,
        scopes: own.issuance.scopes
      }
    },
    register: async (app) => {
      const secret = randomToken()
      await books.write([
        Clients.put([app.appId], newClient(open, app.appId, secret, clientFieldsOf(app)), "absent")
      ])
      return { secret }
    },
    change: (app) => update(app.appId, clientFieldsOf(app)),
    rotate: async (appId) => {
      const secret = randomToken()
      await update(appId, {
        secretHash: secretHashOf(services, secret),
        previousHash: null,
        previousUntilMs: 0
      })
      return { secret }
    },
    remove: (appId) => books.write([Clients.delete([appId])])
  }
}
