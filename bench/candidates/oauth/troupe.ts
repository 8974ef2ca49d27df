/** The authorization server itself over its real store, with limits that are active but never reached. */
import { Context } from "effect"
import crypto from "node:crypto"
import { join } from "node:path"
import { Lockout } from "../../../actors/lockout.ts"
import { RateWindow } from "../../../actors/rate-window.ts"
import { RefreshFamily } from "../../../actors/refresh-family.ts"
import { secretHashOf } from "../../../protocols/authorization/client/client-secrets.ts"
import { openAuthorization } from "../../../protocols/authorization/open.ts"
import { Clients, Consents, Resources, Users } from "../../../protocols/authorization/records.ts"
import { settingsOf } from "../../../protocols/authorization/settings.ts"
import { revocationIntentsInMemory } from "../../../protocols/authorization/token/pending-revocations.ts"
import { json, type Service } from "../../../runtime/http.ts"
import { ActorSystem } from "../../../runtime/registry.ts"
import { listenWith } from "../../../runtime/transport/listen.ts"
import { openLmdb } from "../../../storage/lmdb.ts"
import { sealer } from "../../../storage/seal.ts"
import {
  accessTokenSeconds,
  announce,
  audience,
  clientId,
  clientSecret,
  isIntrospection,
  issuer,
  redirectUri,
  refreshTokenSeconds,
  requestAccessToken,
  scopes,
  temporaryFolder,
  type Seeds
} from "./shared.ts"

type Authorization = Awaited<ReturnType<typeof openAuthorization>>["services"]

const unreachable = { callsPerSecond: 1_000_000, burst: 1_000_000 }

const openServices = async (durability: "full" | "relaxed") => {
  const store = await openLmdb({ folder: join(temporaryFolder(), "data"), durability })
  const actors = new ActorSystem({ store, nowMs: Date.now })
  actors.host(RefreshFamily, Context.empty())
  actors.host(Lockout, Context.empty())
  actors.host(RateWindow, Context.empty())
  setInterval(() => actors.tick(), 100)
  return openAuthorization({
    store,
    actors,
    seal: sealer(crypto.randomBytes(32)),
    revocationIntents: revocationIntentsInMemory(),
    clock: Date.now,
    settings: settingsOf({
      issuer,
      rate: unreachable,
      clientCredentials: { tokenMs: accessTokenSeconds * 1_000 }
    })
  })
}

/** The records that a grant of the one user to the one client refers to. */
interface GrantRecords {
  readonly createdMs: number
  readonly resourceId: string
  readonly userId: string
  readonly consentId: string
}

const writeRecords = async (services: Authorization): Promise<GrantRecords> => {
  const { books } = services
  const createdMs = Date.now()
  const stamps = { createdMs, updatedMs: createdMs }
  const resourceId = books.id()
  const userId = books.id()
  const consentId = books.id()
  await books.write([
    Clients.put([clientId], {
      clientId,
      secretHash: secretHashOf(services, clientSecret),
      previousHash: null,
      previousUntilMs: 0,
      redirectUris: [redirectUri],
      clientName: "Bench",
      authMethod: "client_secret_basic",
      grantTypes: ["authorization_code", "refresh_token", "client_credentials"],
      responseTypes: ["code"],
      applicationType: "web",
      scopes,
      agent: false,
      agentDescription: "",
      status: "active",
      source: "admin",
      documentUrl: "",
      issuedMs: createdMs,
      updatedMs: createdMs,
      used: true
    }),
    Resources.put([resourceId], {
      id: resourceId,
      slug: "api",
      uri: audience,
      backend: "mint",
      providerId: "",
      displayName: "API",
      scopes: scopes.map((name) => ({ name, description: "", upstream: [] })),
      exchangeClients: [],
      runtimeClients: [],
      returnUrls: [],
      ...stamps
    }),
    Users.put([userId], {
      id: userId,
      email: "bench@example.com",
      name: "Bench",
      role: "user",
      passwordHash: null,
      federated: null,
      status: "active",
      epoch: 0,
      lastLoginMs: null,
      ...stamps
    }),
    Consents.put([consentId], {
      id: consentId,
      userId,
      clientId,
      clientIssuedMs: createdMs,
      resourceId,
      scopes,
      revokedMs: null,
      ...stamps
    })
  ])
  return { createdMs, resourceId, userId, consentId }
}

const issueRefresh = async (
  { books, families, refreshTokens }: Authorization,
  { createdMs, resourceId, userId, consentId }: GrantRecords
): Promise<string> => {
  const familyId = books.id()
  const answer = await families.ask(familyId, "Open", {
    grant: {
      clientId,
      clientIssuedMs: createdMs,
      userId,
      userEpoch: 0,
      resourceId,
      scopes,
      consentId,
      jkt: "",
      authMs: createdMs
    },
    expiresMs: createdMs + refreshTokenSeconds * 1_000,
    absoluteMs: createdMs + 10 * refreshTokenSeconds * 1_000,
    rows: []
  })
  if (!("reply" in answer)) throw new Error("a family was not opened")
  return refreshTokens.encode(familyId, 1)
}

const expectedOf = (kind: string): string => {
  if (!isIntrospection(kind)) return '"access_token"'
  // Refresh tokens are never active here (AS-141).
  return kind === "introspect-jwt" ? '"active":true' : '"active":false'
}

export const troupe = async (durability: "full" | "relaxed"): Promise<void> => {
  const { service, services } = await openServices(durability)
  const records = await writeRecords(services)

  const tokensOf = async (kind: string, count: number): Promise<ReadonlyArray<string>> =>
    kind === "introspect-jwt"
      ? [await requestAccessToken(server.port, "/oauth/token")]
      : Promise.all(Array.from({ length: count }, () => issueRefresh(services, records)))

  const seeds: Service = {
    name: "bench",
    prefixes: ["/seed"],
    refused: (status) => ({ status }),
    routes: [
      {
        method: "GET",
        path: "/seed",
        handle: async ({ query }) => {
          const parameters = new URLSearchParams(query)
          const kind = parameters.get("of")!
          return json(200, {
            path: isIntrospection(kind) ? "/oauth/introspect" : "/oauth/token",
            tokens: await tokensOf(kind, Number(parameters.get("n"))),
            expect: expectedOf(kind)
          } satisfies Seeds)
        }
      }
    ]
  }
  const server = await listenWith("uws", () => {}, [service, seeds], { host: "127.0.0.1", port: 0 })
  announce(server.port)
}
