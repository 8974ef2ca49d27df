/** The outward side end to end: real socket, real pages, real vault, local servers as the outside
 *  (authorization sections 7.9, 11, 12, 13.2). */
import { exportJWK, generateKeyPair, SignJWT, type CryptoKey } from "jose"
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest"
import { sealSecret } from "../../../protocols/authorization/upstream/providers.ts"
import {
  AuditEvents,
  Clients,
  Idps,
  Policies,
  Providers,
  UniqueNames,
  type User
} from "../../../protocols/authorization/records.ts"
import { uniqueName } from "../../../protocols/authorization/client/unique-names.ts"
import { Upstream, type Heard, type Said } from "../../protocols/authorization/upstream/outside.ts"
import { callback, World } from "../../protocols/authorization/world.ts"

let world: World
let elsewhere: Upstream
let idpKey: CryptoKey
let jwk: object
let user: User
let answer: (heard: Heard) => Said | Promise<Said> = () => ({ status: 404 })
const files = "https://mcp.example.com/files"

beforeAll(async () => {
  elsewhere = await Upstream.open((heard) => answer(heard))
  const pair = await generateKeyPair("ES256", { extractable: true })
  idpKey = pair.privateKey
  jwk = { ...(await exportJWK(pair.publicKey)), kid: "k1" }
  world = await World.make({
    settings: {
      clientDocuments: { requireHttps: false, allowPrivateAddresses: true },
      xaa: { allowPrivateAddresses: true },
      connect: { allowedReturnUrls: ["https://app.example.com/back"], redirectBaseUrl: "" },
      federation: {
        enabled: true,
        issuer: elsewhere.at(""),
        clientId: "troupe",
        clientSecret: "s3cret",
        redirectUri: "http://localhost/oidc/callback",
        displayName: "Work"
      }
    }
  })
  await world.resource({ slug: "files", uri: files })
  user = await world.user()
})

afterAll(async () => {
  await world.close()
  await elsewhere.close()
})

beforeEach(() => {
  answer = () => ({ status: 404 })
})

const pathOf = (location: string | null): string => {
  const url = new URL(location!, world.issuer)
  return url.pathname + url.search
}

it("a client that is a document: to a token, kept once it was authorized, and no further once suspended", async () => {
  const clientId = elsewhere.at("/client.json")
  const client = { clientId, authMethod: "none", secret: "" } as never
  answer = () => ({
    body: { client_id: clientId, client_name: "Document client", redirect_uris: [callback] },
    headers: { "Cache-Control": "max-age=600" }
  })
  const browser = world.browser()
  const consent = await browser.authorize(world.authorizeUrl({ clientId }), user, "deny")
  expect(new URL(consent.headers.get("location")!).searchParams.get("error")).toBe("access_denied")
  expect(Clients.get(world.store, [clientId])).toBeUndefined()
  const tokens = await world.tokens(client, user, { resource: files })
  expect([
    world.claimsOf(tokens.access_token)["client_id"],
    elsewhere.heard.length,
    Clients.get(world.store, [clientId])?.source
  ]).toEqual([clientId, 1, "cimd"])
  await world.change({ clientId }, { status: "suspended" })
  expect((await browser.call(world.authorizeUrl({ clientId }))).status).toBe(401)
  const refreshed = await world.refresh(client, tokens.refresh_token)
  expect([refreshed.status, refreshed.body.error]).toEqual([401, "invalid_client"])
})

it("AS-127 AS-128 what is wrong with a document is said, as a page and as invalid_client; nothing is fetched for a bad URL", async () => {
  const before = elsewhere.heard.length
  answer = ({ path }) => ({
    body: { client_id: `${elsewhere.at(path)}/`, client_name: "x", redirect_uris: [callback] }
  })
  const token = (clientId: string) =>
    world.post("/oauth/token", { grant_type: "authorization_code", client_id: clientId, code: "x" })
  const wrong = await token(elsewhere.at("/wrong"))
  expect([
    wrong.status,
    wrong.body.error,
    wrong.body.error_description,
    wrong.headers.get("www-authenticate")
  ]).toEqual([
    401,
    "invalid_client",
    "client authentication failed: client_id is not the document's URL",
    'Basic realm="authserver"'
  ])
  for (const path of ["", "/", "/a/../b", "/%2e%2e/x", "//x", "/x#y"])
    expect((await token(elsewhere.at(path))).status, path).toBe(401)
  const page = await world.browser().call(world.authorizeUrl({ clientId: elsewhere.at("/wrong") }))
  expect([
    page.status,
    page.headers.get("location"),
    page.text.includes("client_id is not the document")
  ]).toEqual([401, null, true])
  expect(elsewhere.heard.length - before).toBe(1)
})

it("connect, see it, exchange for the upstream's token, refresh it, disconnect", async () => {
  const { books, seal } = world.open.services
  const at = { createdMs: world.nowMs, updatedMs: world.nowMs }
  await books.write([
    Providers.put(["hub"], {
      id: "hub",
      slug: "hub",
      displayName: "The Hub",
      protocol: "oauth",
      sealedSecret: sealSecret(seal, "hub", "hub-s3cret"),
      config: {
        client_id: "c",
        authorize_url: "https://hub.example/authorize",
        token_url: elsewhere.at("/token")
      },
      ...at
    }),
    UniqueNames.put(uniqueName("provider-slug", "hub"), { id: "hub" })
  ])
  await world.resource({
    slug: "code",
    uri: "",
    backend: "broker",
    providerId: "hub",
    scopes: [{ name: "files:read", description: "", upstream: ["repo"] }]
  })
  let turn = 0
  answer = () => ({
    body: { access_token: `hub-access-${++turn}`, refresh_token: `hub-refresh-${turn}`, expires_in: 600 }
  })
  const browser = world.browser()
  const login = await browser.call("/connect/hub?resource=code")
  expect(login.headers.get("location")).toBe("/login?next=%2Fconnect%2Fhub%3Fresource%3Dcode")
  const signedIn = await browser.login(user, login.headers.get("location")!)
  const away = await browser.call(signedIn.headers.get("location")!)
  expect(new URL(away.headers.get("location")!).origin).toBe("https://hub.example")
  const state = new URL(away.headers.get("location")!).searchParams.get("state")!
  const back = await browser.call(`/connect/hub/callback?state=${state}&code=hub-code`)
  expect([back.status, back.headers.get("location")]).toEqual([303, `${world.issuer}/connections`])
  expect((await browser.call(`/connect/hub/callback?state=${state}&code=hub-code`)).status).toBe(400)
  const page = await browser.call("/connections")
  const listed = await browser.call("/connections", { headers: { Accept: "application/json" } })
  expect([
    page.text.includes("The Hub"),
    page.text.includes(listed.body.csrf_token),
    listed.body.connections[0].scopes
  ]).toEqual([true, true, ["repo"]])

  const exchange = "urn:ietf:params:oauth:grant-type:token-exchange"
  const app = await world.client({ grantTypes: ["authorization_code", exchange], scopes: ["files:read"] })
  const tokens = await world.tokens(app, user, { resource: files })
  const vend = () =>
    world.token(app, {
      grant_type: exchange,
      subject_token: tokens.access_token,
      subject_token_type: "urn:ietf:params:oauth:token-type:access_token",
      resource: "code"
    })
  expect((await vend()).body).toMatchObject({
    access_token: "hub-access-1",
    expires_in: 600,
    scope: "files:read"
  })
  world.nowMs += 541_000
  const many = await Promise.all(Array.from({ length: 10 }, vend))
  expect([new Set(many.map(({ body }) => body.access_token)), turn]).toEqual([new Set(["hub-access-2"]), 2])
  const ended = await browser.call("/connections/hub", {
    method: "DELETE",
    headers: { "X-CSRF-Token": listed.body.csrf_token }
  })
  expect(ended.status).toBe(204)
  const unconnected = await vend()
  expect([unconnected.body.error, unconnected.body.cause, unconnected.body.consent_url]).toEqual([
    "consent_required",
    "consent_missing",
    `${world.issuer}/connect/hub`
  ])
  expect(
    JSON.stringify(AuditEvents.range(world.store, { limit: 1_000 }).map(({ value }) => value))
  ).not.toMatch(/hub-access|hub-refresh|s3cret|hub-code/)
})

it("AS-154 a browser gets a page, another caller the problem", async () => {
  expect([
    (await world.browser().call("/connect/nothing")).text.includes("invalid_target"),
    (await world.call("/connect/nothing")).body.error
  ]).toEqual([true, "invalid_target"])
})

it("an assertion of an identity provider whose keys are discovered; AS-119 unknown key ids ask it no more", async () => {
  const { books } = world.open.services
  const at = { createdMs: world.nowMs, updatedMs: world.nowMs }
  const issuer = elsewhere.at("/idp")
  await books.write([
    Idps.put(["idp"], { id: "idp", name: "IdP", issuer, jwksUri: "", audience: "", enabled: true, ...at }),
    Policies.put(["p"], {
      id: "p",
      name: "p",
      idpId: "idp",
      clientIds: [],
      scopes: [],
      resources: [],
      enabled: true,
      ...at
    })
  ])
  answer = ({ path }) =>
    path === "/idp/.well-known/openid-configuration"
      ? { body: { issuer, jwks_uri: elsewhere.at("/idp/keys") } }
      : { body: { keys: [jwk] } }
  const bearer = "urn:ietf:params:oauth:grant-type:jwt-bearer"
  const client = await world.client({ grantTypes: [bearer], scopes: ["files:read"] })
  const now = Math.floor(world.nowMs / 1_000)
  const before = elsewhere.heard.length
  const assert = async (kid: string, jti: string) =>
    world.token(client, {
      grant_type: bearer,
      assertion: await new SignJWT({ client_id: client.clientId, jti })
        .setProtectedHeader({ alg: "ES256", typ: "oauth-id-jag+jwt", kid })
        .setIssuer(issuer)
        .setAudience(world.issuer)
        .setSubject("sub-1")
        .setIssuedAt(now)
        .setExpirationTime(now + 60)
        .sign(idpKey)
    })
  expect((await assert("k1", "1")).status).toBe(200)
  for (let index = 0; index < 5; index++)
    expect((await assert(`x${index}`, `x${index}`)).body.error).toBe("invalid_grant")
  expect(elsewhere.heard.length - before).toBe(2)
})

it("signing in through the upstream provider, to a code", async () => {
  const issuer = elsewhere.at("")
  let nonce = ""
  const metadata = {
    issuer,
    authorization_endpoint: `${issuer}/authorize`,
    token_endpoint: `${issuer}/token`,
    jwks_uri: `${issuer}/keys`
  }
  const idToken = (): Promise<string> =>
    new SignJWT({ nonce, email: "fed@example.org" })
      .setProtectedHeader({ alg: "ES256", kid: "k1" })
      .setIssuer(issuer)
      .setAudience("troupe")
      .setSubject("fed-1")
      .setIssuedAt(Math.floor(world.nowMs / 1_000))
      .setExpirationTime(Math.floor(world.nowMs / 1_000) + 60)
      .sign(idpKey)
  answer = async ({ path }) => {
    if (path === "/.well-known/openid-configuration") return { body: metadata }
    return { body: path === "/keys" ? { keys: [jwk] } : { id_token: await idToken() } }
  }
  const client = await world.client()
  const browser = world.browser()
  const login = await browser.call(world.authorizeUrl(client))
  const page = await browser.call(login.headers.get("location")!)
  const req = browser.hidden(page.text)["req"]!
  const away = new URL((await browser.call(`/oidc/start?req=${req}`)).headers.get("location")!)
  nonce = away.searchParams.get("nonce")!
  const back = await browser.call(`/oidc/callback?state=${away.searchParams.get("state")!}&code=abc`)
  expect([back.status, back.headers.get("location")]).toEqual([303, `/oauth/authorize/continue?req=${req}`])
  const consent = await browser.call(pathOf(back.headers.get("location")))
  const asked = await browser.call(pathOf(consent.headers.get("location")))
  const done = await browser.post("/consent", { ...browser.hidden(asked.text), decision: "allow" })
  expect(new URL(done.headers.get("location")!).searchParams.has("code")).toBe(true)
  // Refused upstream: back to the client.
  const again = world.browser()
  const second = await again.call((await again.call(world.authorizeUrl(client))).headers.get("location")!)
  const other = new URL(
    (await again.call(`/oidc/start?req=${again.hidden(second.text)["req"]!}`)).headers.get("location")!
  )
  const refused = new URL(
    (
      await again.call(`/oidc/callback?state=${other.searchParams.get("state")!}&error=access_denied`)
    ).headers.get("location")!
  )
  expect([
    refused.origin + refused.pathname,
    refused.searchParams.get("error"),
    refused.searchParams.get("iss")
  ]).toEqual([callback, "access_denied", world.issuer])
})
