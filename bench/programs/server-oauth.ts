/** One authorization server candidate: prints its port when it listens. node server-oauth.js floor|oidc
 *  jwt|opaque, or troupe full|relaxed.
 *  GET /seed?of=KIND&n=N answers what load-oauth needs. All use one client, Basic auth and ES256; `floor` is
 *  the least that does the same work.  */
import { Context } from "effect"
import crypto from "node:crypto"
import { mkdtempSync, rmSync } from "node:fs"
import { createRequire } from "node:module"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { open } from "lmdb"
import type uWS from "uWebSockets.js"
import { Lockout } from "../../actors/lockout.ts"
import { RateWindow } from "../../actors/rate-window.ts"
import { RefreshFamily } from "../../actors/refresh-family.ts"
import { secretHashOf } from "../../protocols/authorization/client/client-secrets.ts"
import { intentsInMemory } from "../../protocols/authorization/token/families.ts"
import { openAuthorization } from "../../protocols/authorization/open.ts"
import { Clients, Consents, Resources, Users } from "../../protocols/authorization/records.ts"
import { settingsOf } from "../../protocols/authorization/settings.ts"
import { json, type Service } from "../../runtime/http.ts"
import { ActorSystem } from "../../runtime/registry.ts"
import { listenWith } from "../../runtime/transport/listen.ts"
import { openLmdb } from "../../storage/lmdb.ts"
import { sealer } from "../../storage/seal.ts"
import type { Seeds } from "./load-oauth.ts"

const require = createRequire(import.meta.url)
const [, , kind, extra] = process.argv
const clientId = "bench-client"
const secret = "Zm9yLXRoZS1iZW5jaC1vbmx5LTMyLWJ5dGVzLWxvbmch"
const issuer = "http://localhost:8080"
const audience = "https://api.example.com/v1"
const scopes = ["read", "write"]
const lifetimeSeconds = 3_600
const authorization = `Basic ${Buffer.from(`${clientId}:${secret}`).toString("base64")}`
const say = (port: number): void => console.log(`${port} ${authorization}`)
const folder = mkdtempSync(join(tmpdir(), "troupe-bench-"))
process.on("exit", () => rmSync(folder, { recursive: true, force: true }))
process.on("SIGTERM", () => process.exit(0))

const issuedHere = async (port: number, path: string, form: string): Promise<string> => {
  const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
    method: "POST",
    headers: { authorization, "content-type": "application/x-www-form-urlencoded" },
    body: form
  })
  return ((await answer.json()) as { readonly access_token: string }).access_token
}

/** Everything in one file's worth of code: one client, no limits, no errors worded, no audit. */
const floor = (): void => {
  const { App, us_socket_local_port } = require("uWebSockets.js") as typeof uWS
  interface Refresh {
    readonly sub: string
    readonly family: string
    readonly generation: number
    readonly scope: string
    readonly exp: number
    used: boolean
  }
  const db = open({ path: join(folder, "floor.lmdb") })
  const { privateKey, publicKey } = crypto.generateKeyPairSync("ec", { namedCurve: "P-256" })
  const sha = (text: string): Buffer => crypto.createHash("sha256").update(text).digest()
  const kept = sha(secret)
  const random = (bytes: number): string => crypto.randomBytes(bytes).toString("base64url")
  const header = Buffer.from(JSON.stringify({ typ: "at+jwt", alg: "ES256", kid: random(32) })).toString(
    "base64url"
  )
  const authenticated = (given: string): boolean => {
    const text = Buffer.from(given.slice(6), "base64").toString()
    const colon = text.indexOf(":")
    return text.slice(0, colon) === clientId && crypto.timingSafeEqual(sha(text.slice(colon + 1)), kept)
  }
  /** The token, and its row on its way to the disk. */
  const issue = (sub: string, scope: string, family: string): string => {
    const iat = Math.floor(Date.now() / 1_000)
    const jti = crypto.randomUUID()
    const claims = {
      iss: issuer,
      sub,
      aud: audience,
      exp: iat + lifetimeSeconds,
      iat,
      jti,
      client_id: clientId,
      scope
    }
    const signed = `${header}.${Buffer.from(JSON.stringify(claims)).toString("base64url")}`
    void db.put(`i:${jti}`, { ...claims, family, revokedMs: null })
    return `${signed}.${crypto.sign("sha256", Buffer.from(signed), { key: privateKey, dsaEncoding: "ieee-p1363" }).toString("base64url")}`
  }
  const refreshOf = (before: Omit<Refresh, "used">): string => {
    const token = random(32)
    void db.put(`r:${sha(token).toString("base64url")}`, {
      ...before,
      generation: before.generation + 1,
      used: false
    })
    return token
  }
  const rotated = async (shown: string): Promise<string | undefined> => {
    const key = `r:${sha(shown).toString("base64url")}`
    let body: string | undefined
    await db.transaction(() => {
      const row = db.get(key) as Refresh | undefined
      if (row === undefined) return
      if (row.used) {
        void db.put(`f:${row.family}`, { revoked: true })
        return
      }
      void db.put(key, { ...row, used: true })
      body = `{"access_token":"${issue(row.sub, row.scope, row.family)}","token_type":"Bearer","expires_in":${lifetimeSeconds},"refresh_token":"${refreshOf(row)}","scope":"${row.scope}"}`
    })
    await db.flushed
    return body
  }
  const introspected = (token: string): string => {
    const parts = token.split(".")
    if (parts.length !== 3) {
      const row = db.get(`r:${sha(token).toString("base64url")}`) as Refresh | undefined
      return row === undefined || row.used || row.exp < Date.now() / 1_000
        ? '{"active":false}'
        : JSON.stringify({ active: true, client_id: clientId, sub: row.sub, scope: row.scope, exp: row.exp })
    }
    const good = crypto.verify(
      "sha256",
      Buffer.from(`${parts[0]}.${parts[1]}`),
      { key: publicKey, dsaEncoding: "ieee-p1363" },
      Buffer.from(parts[2]!, "base64url")
    )
    const claims = JSON.parse(Buffer.from(parts[1]!, "base64url").toString()) as {
      readonly jti: string
      readonly exp: number
    }
    const row = good
      ? (db.get(`i:${claims.jti}`) as { readonly revokedMs: number | null } | undefined)
      : undefined
    return row === undefined || row.revokedMs !== null || claims.exp < Date.now() / 1_000
      ? '{"active":false}'
      : JSON.stringify({ active: true, ...claims })
  }
  const answer = (res: uWS.HttpResponse & { gone?: boolean }, body: string | undefined): void => {
    if (!res.gone)
      res.cork(() => {
        if (body === undefined) res.writeStatus("400 Bad Request")
        res.writeHeader("Content-Type", "application/json")
        res.writeHeader("Cache-Control", "no-store")
        res.end(body ?? "{}")
      })
  }
  const post =
    (handle: (form: URLSearchParams) => string | undefined | Promise<string | undefined>) =>
    (res: uWS.HttpResponse & { gone?: boolean }, req: uWS.HttpRequest): void => {
      const known = authenticated(req.getHeader("authorization"))
      let body = ""
      res.onAborted(() => {
        res.gone = true
      })
      res.onData((chunk, last) => {
        body += Buffer.from(chunk).toString("latin1")
        if (!last) return
        const text = known ? handle(new URLSearchParams(body)) : undefined
        if (text instanceof Promise) void text.then((later) => answer(res, later))
        else answer(res, text)
      })
    }
  let port = 0
  App()
    .post(
      "/token",
      post(async (form) => {
        if (form.get("grant_type") === "refresh_token") return rotated(form.get("refresh_token")!)
        const scope = form.get("scope")!
        const token = issue(clientId, scope, "")
        await db.committed
        await db.flushed
        return `{"access_token":"${token}","token_type":"Bearer","expires_in":${lifetimeSeconds},"scope":"${scope}"}`
      })
    )
    .post(
      "/introspect",
      post((form) => introspected(form.get("token")!))
    )
    .get("/seed", (res, req) => {
      const of = req.getQuery("of") ?? ""
      const n = Number(req.getQuery("n"))
      res.onAborted(() => {})
      const make = async (): Promise<Seeds> => {
        const tokens =
          of === "introspect-jwt" && extra === "jwt"
            ? [await issuedHere(port, "/token", "grant_type=client_credentials&scope=read")]
            : Array.from({ length: n }, (_, i) =>
                refreshOf({
                  sub: `user-${i}`,
                  family: crypto.randomUUID(),
                  generation: 0,
                  scope: scopes.join(" "),
                  exp: Math.floor(Date.now() / 1_000) + 86_400
                })
              )
        await db.flushed
        return {
          path: of.startsWith("introspect") ? "/introspect" : "/token",
          tokens,
          expect: of.startsWith("introspect") ? '"active":true' : '"access_token"'
        }
      }
      void make().then((seeds) => answer(res, JSON.stringify(seeds)))
    })
    .listen("127.0.0.1", 0, (token) => say((port = us_socket_local_port(token as never))))
}

/** Peer, everything in memory. Its introspection is of an opaque access token. */
const oidc = async (): Promise<void> => {
  console.info = console.warn = () => {}
  const { Provider } = (await import("oidc-provider" as string)) as any
  const jwk = crypto.generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({ format: "jwk" })
  const provider = new Provider(issuer, {
    jwks: { keys: [{ ...jwk, alg: "ES256", use: "sig", kid: "k1" }] },
    cookies: { keys: ["bench"] },
    clients: [
      {
        client_id: clientId,
        client_secret: secret,
        grant_types: ["client_credentials", "refresh_token", "authorization_code"],
        redirect_uris: ["http://localhost:9/cb"],
        response_types: ["code"],
        token_endpoint_auth_method: "client_secret_basic",
        id_token_signed_response_alg: "ES256",
        scope: "offline_access read write"
      }
    ],
    scopes: ["offline_access", "read", "write"],
    rotateRefreshToken: true,
    features: {
      clientCredentials: { enabled: true },
      introspection: { enabled: true, allowedPolicy: () => true },
      devInteractions: { enabled: false },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => audience,
        useGrantedResource: () => true,
        getResourceServerInfo: () => ({
          scope: scopes.join(" "),
          audience,
          accessTokenFormat: extra,
          accessTokenTTL: lifetimeSeconds,
          jwt: { sign: { alg: "ES256" } }
        })
      }
    },
    findAccount: (_: unknown, id: string) => ({ accountId: id, claims: () => ({ sub: id }) }),
    ttl: {
      RefreshToken: 86_400,
      AccessToken: lifetimeSeconds,
      ClientCredentials: lifetimeSeconds,
      Grant: 86_400
    }
  })
  const refreshOf = async (client: unknown, accountId: string): Promise<string> => {
    const grant = new provider.Grant({ accountId, clientId })
    grant.addResourceScope(audience, scopes.join(" "))
    grant.addOIDCScope("offline_access")
    const iiat = Math.floor(Date.now() / 1_000)
    return new provider.RefreshToken({
      client,
      accountId,
      grantId: await grant.save(),
      scope: ["offline_access", ...scopes].join(" "),
      gty: "authorization_code",
      resource: audience,
      claims: {},
      rotations: 0,
      iiat,
      authTime: iiat
    }).save()
  }
  provider.use(async (context: any, next: () => Promise<void>) => {
    if (context.path !== "/seed") return next()
    const { of, n } = context.query
    const client = await provider.Client.find(clientId)
    const tokens: Array<string> = []
    if (of.startsWith("introspect"))
      tokens.push(
        await issuedHere(server.address().port, "/token", "grant_type=client_credentials&scope=read")
      )
    else for (let i = 0; i < Number(n); i++) tokens.push(await refreshOf(client, `user-${i}`))
    context.body = {
      path: of.startsWith("introspect") ? "/token/introspection" : "/token",
      tokens,
      expect: of.startsWith("introspect") ? '"active":true' : '"access_token"'
    }
  })
  const server = provider.listen(0, "127.0.0.1", () => say(server.address().port))
}

const troupe = async (): Promise<void> => {
  const store = await openLmdb({
    folder: join(folder, "data"),
    durability: extra === "relaxed" ? "relaxed" : "full"
  })
  const nowMs = Date.now
  const actors = new ActorSystem({ store, nowMs })
  for (const definition of [RefreshFamily, Lockout, RateWindow] as const)
    actors.host(definition as typeof RefreshFamily, Context.empty())
  setInterval(() => actors.tick(), 100)
  // Limits are on, so that they cost what they cost, and out of reach.
  const unreachable = { callsPerSecond: 1_000_000, burst: 1_000_000 }
  const { service, services } = await openAuthorization({
    store,
    actors,
    seal: sealer(crypto.randomBytes(32)),
    intents: intentsInMemory(),
    clock: nowMs,
    settings: settingsOf({
      issuer,
      rate: unreachable,
      clientCredentials: { tokenMs: lifetimeSeconds * 1_000 }
    })
  })
  const { books, families } = services
  const createdMs = nowMs()
  const stamped = { createdMs, updatedMs: createdMs }
  const resourceId = books.id()
  const userId = books.id()
  const consentId = books.id()
  await books.write([
    Clients.put([clientId], {
      clientId,
      secretHash: secretHashOf(services, secret),
      previousHash: null,
      previousUntilMs: 0,
      redirectUris: ["http://localhost:9/cb"],
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
      ...stamped
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
      ...stamped
    }),
    Consents.put([consentId], {
      id: consentId,
      userId,
      clientId,
      clientIssuedMs: createdMs,
      resourceId,
      scopes,
      revokedMs: null,
      ...stamped
    })
  ])
  const refreshOf = async (): Promise<string> => {
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
      expiresMs: createdMs + 86_400_000,
      absoluteMs: createdMs + 10 * 86_400_000,
      rows: []
    })
    if (!("reply" in answer)) throw new Error("no family")
    return families.tokenOf(familyId, 1)
  }
  const seeds: Service = {
    name: "bench",
    prefixes: ["/seed"],
    refused: (status) => ({ status }),
    routes: [
      {
        method: "GET",
        path: "/seed",
        handle: async ({ query }) => {
          const asked = new URLSearchParams(query)
          const of = asked.get("of")!
          const inspects = of.startsWith("introspect")
          const tokens =
            of === "introspect-jwt"
              ? [await issuedHere(server.port, "/oauth/token", "grant_type=client_credentials&scope=read")]
              : await Promise.all(Array.from({ length: Number(asked.get("n")) }, refreshOf))
          // Refresh tokens are never active here (AS-141).
          return json(200, {
            path: inspects ? "/oauth/introspect" : "/oauth/token",
            tokens,
            expect: of === "introspect-jwt" ? '"active":true' : inspects ? '"active":false' : '"access_token"'
          } satisfies Seeds)
        }
      }
    ]
  }
  const server = await listenWith("uws", () => {}, [service, seeds], { host: "127.0.0.1", port: 0 })
  say(server.port)
}

if (kind === "floor") floor()
else if (kind === "oidc") await oidc()
else await troupe()
