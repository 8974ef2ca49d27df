/** Authorization section 7.9: login through an upstream OpenID provider, with a local one that lies on
 *  demand. */
import { exportJWK, generateKeyPair, SignJWT, type CryptoKey, type JWK } from "jose"
import { createHash } from "node:crypto"
import { afterEach, beforeAll, describe, expect, it } from "vitest"
import { federationRoutes } from "../../../../protocols/authorization/upstream/federation.ts"
import { UserEmails, UserFederations, Users, type User } from "../../../../protocols/authorization/records.ts"
import { SafeFetch } from "../../../../protocols/authorization/upstream/safe-fetch.ts"
import type { SettingsInput } from "../../../../protocols/authorization/settings.ts"
import type { Response } from "../../../../runtime/http.ts"
import { wordingOf } from "../../../../protocols/authorization/problems.ts"
import { header, routed, Upstream, World, type Said } from "./outside.ts"

let signing: { readonly privateKey: CryptoKey; readonly jwk: JWK }
let stranger: CryptoKey

beforeAll(async () => {
  const pair = await generateKeyPair("ES256", { extractable: true })
  signing = {
    privateKey: pair.privateKey,
    jwk: { ...(await exportJWK(pair.publicKey)), kid: "k1", alg: "ES256", use: "sig" }
  }
  stranger = (await generateKeyPair("ES256")).privateKey
})

const open: Array<Upstream> = []

afterEach(async () => {
  for (const server of open.splice(0)) await server.close()
})

interface Lies {
  readonly claims?: object
  readonly key?: CryptoKey
  readonly typedAs?: object
  readonly token?: Said
  readonly discovery?: object
  readonly without?: ReadonlyArray<string>
}

class Federated {
  readonly world: World
  readonly loggedIn: Array<readonly [User, string]> = []
  readonly redirected: Array<string> = []
  lies: Lies = {}
  upstream!: Upstream
  private readonly routes

  private constructor(port: number, settings: SettingsInput, more: object) {
    const issuer = `http://127.0.0.1:${port}`
    this.world = new World({
      issuer: "http://localhost:8080",
      federation: {
        enabled: true,
        issuer,
        clientId: "troupe",
        clientSecret: "s3cret",
        redirectUri: "http://localhost:8080/oidc/callback",
        ...more
      },
      ...settings
    })
    this.routes = federationRoutes(this.world.authority, {
      fetcher: new SafeFetch(this.world.authority.lookup),
      waits: (req) => req === "req-1",
      pages: {
        error: (problem) => ({
          status: wordingOf(problem).status,
          body: `page ${wordingOf(problem).error}: ${problem.description}`
        })
      },
      logIn: (user, req) => {
        this.loggedIn.push([user, req])
        return { status: 303, headers: [["Location", "/on"]] }
      },
      redirectError: (req, error) => {
        if (req === "") return undefined
        this.redirected.push(error)
        return { status: 302, headers: [["Location", `https://client.example/?error=${error}`]] }
      }
    })
  }

  static async open(settings: SettingsInput = {}, more: object = {}): Promise<Federated> {
    let one: Federated | undefined
    const upstream: Upstream = await Upstream.open((heard) =>
      one!.answer(heard.path, new URLSearchParams(heard.body).get("code"))
    )
    open.push(upstream)
    one = new Federated(upstream.port, settings, more)
    one.upstream = upstream
    return one
  }

  /** The code is the nonce, so that every attempt gets its own ID token. */
  private async answer(path: string, code: string | null): Promise<Said> {
    const issuer = this.upstream.at("")
    if (path === "/.well-known/openid-configuration")
      return {
        body: {
          issuer,
          authorization_endpoint: `${issuer}/authorize?x=1`,
          token_endpoint: `${issuer}/token`,
          jwks_uri: `${issuer}/jwks`,
          ...this.lies.discovery
        }
      }
    if (path === "/jwks") return { body: { keys: [signing.jwk] } }
    if (this.lies.token !== undefined) return this.lies.token
    const now = Math.floor(this.world.nowMs / 1_000)
    const claims = Object.entries({
      iss: issuer,
      aud: "troupe",
      sub: "sub-1",
      nonce: code,
      iat: now,
      exp: now + 60,
      email: "Ada@Example.org",
      name: "Ada",
      ...this.lies.claims
    }).filter(([name]) => !this.lies.without?.includes(name))
    return {
      body: {
        id_token: await new SignJWT(Object.fromEntries(claims))
          .setProtectedHeader({ alg: "ES256", kid: "k1", ...this.lies.typedAs })
          .sign(this.lies.key ?? signing.privateKey)
      }
    }
  }

  get(path: string, headers: Readonly<Record<string, string>> = {}): Promise<Response> {
    return routed(this.routes, "GET", path, headers)
  }

  async start(
    query = "?req=req-1"
  ): Promise<{
    readonly asked: URLSearchParams
    readonly cookie: string
    readonly code: string
    readonly response: Response
  }> {
    const response = await this.get(`/oidc/start${query}`)
    const asked = new URL(header(response, "Location")!).searchParams
    return {
      asked,
      response,
      code: `code=${asked.get("nonce")!}`,
      cookie: header(response, "Set-Cookie")!.split(";")[0]!
    }
  }

  back(state: string, cookie: string, more: string): Promise<Response> {
    return this.get(`/oidc/callback?state=${state}&${more}`, { cookie: `other=1; ${cookie}` })
  }

  /** A whole login. */
  async login(lies: Lies = {}, query = "?req=req-1", more?: string): Promise<Response> {
    this.lies = lies
    const { asked, cookie, code } = await this.start(query)
    return this.back(asked.get("state")!, cookie, more?.replace("CODE", code) ?? code)
  }
}

describe("start", () => {
  it("what is asked of the upstream, and the cookie that ties it to the browser", async () => {
    const one = await Federated.open({}, { connectorId: "ldap-1" })
    const { asked, response, cookie } = await one.start()
    expect([response.status, Object.fromEntries(asked)]).toMatchObject([
      302,
      {
        x: "1",
        response_type: "code",
        client_id: "troupe",
        redirect_uri: "http://localhost:8080/oidc/callback",
        scope: "openid email profile",
        code_challenge_method: "S256",
        connector_id: "ldap-1"
      }
    ])
    expect([asked.get("code_challenge"), asked.get("nonce")]).toEqual([
      expect.stringMatching(/^[\w-]{43}$/),
      expect.stringMatching(/^[\w-]{43}$/)
    ])
    expect(cookie).toBe(`authserver_oidc=${asked.get("state")}`)
    expect(header(response, "Set-Cookie")).toBe(`${cookie}; Path=/; Max-Age=600; HttpOnly; SameSite=Lax`)
    expect(Buffer.from(asked.get("state")!, "base64url").toString("latin1")).not.toMatch(/req-1/)
    expect((await one.start("")).asked.has("connector_id")).toBe(true)
  })
  it("a secure cookie where the session's is", async () => {
    const one = await Federated.open({ session: { secure: true } })
    expect(header((await one.start()).response, "Set-Cookie")).toMatch(
      /^__Host-authserver_oidc=[\w-]+; Path=\/; Max-Age=600; HttpOnly; SameSite=Lax; Secure$/
    )
  })
  it("an unknown request, given twice, or federation off", async () => {
    const one = await Federated.open()
    const off = await Federated.open({}, { enabled: false })
    for (const query of ["?req=other", "?req=req-1&req=req-1", "?req=%zz"])
      expect(await one.get(`/oidc/start${query}`)).toMatchObject({
        status: 400,
        body: "page invalid_grant: login session expired"
      })
    expect([
      (await off.get("/oidc/start")).status,
      (await off.get("/oidc/callback")).status,
      one.upstream.connections
    ]).toEqual([404, 404, 0])
  })
  it("a provider whose document is another's, or that cannot be reached", async () => {
    for (const discovery of [
      { issuer: "https://evil.example" },
      { authorization_endpoint: "javascript:alert(1)" },
      { authorization_endpoint: undefined }
    ]) {
      const one = await Federated.open()
      one.lies = { discovery }
      expect(await one.get("/oidc/start?req=req-1")).toMatchObject({ status: 502 })
    }
  })
})

describe("callback", () => {
  it("a first login makes a user by issuer and subject; the next finds it", async () => {
    const one = await Federated.open()
    const response = await one.login()
    const issuer = one.upstream.at("")
    expect([response.status, header(response, "Location")]).toEqual([303, "/on"])
    expect(header(response, "Set-Cookie")).toMatch(/^authserver_oidc=; Path=\/; Max-Age=0/)
    const [[user, req]] = one.loggedIn as [readonly [User, string]]
    expect([req, user]).toMatchObject([
      "req-1",
      {
        email: "Ada@Example.org",
        name: "Ada",
        role: "user",
        passwordHash: null,
        federated: { issuer, subject: "sub-1" },
        status: "active"
      }
    ])
    expect([
      UserEmails.get(one.world.store, ["ada@example.org"]),
      UserFederations.get(one.world.store, [issuer, "sub-1"])
    ]).toEqual([{ id: user.id }, { id: user.id }])
    await one.login({ claims: { email: "new@example.org" } }, "")
    expect(one.loggedIn[1]).toMatchObject([{ id: user.id, email: "Ada@Example.org" }, ""])
    expect(await one.world.audited()).toEqual(["user.created"])
  })
  it("the code goes with secret and verifier, by basic, or by post where only that is offered", async () => {
    const one = await Federated.open()
    const { asked, cookie, code } = await one.start()
    await one.back(asked.get("state")!, cookie, code)
    const at = one.upstream.heard.findIndex(({ path }) => path === "/token")
    const form = one.upstream.form(at)
    expect([one.upstream.heard[at]!.headers.authorization, Object.fromEntries(form)]).toMatchObject([
      `Basic ${Buffer.from("troupe:s3cret").toString("base64")}`,
      {
        grant_type: "authorization_code",
        code: asked.get("nonce"),
        redirect_uri: "http://localhost:8080/oidc/callback"
      }
    ])
    expect(createHash("sha256").update(form.get("code_verifier")!).digest("base64url")).toBe(
      asked.get("code_challenge")
    )
    const post = await Federated.open()
    await post.login({ discovery: { token_endpoint_auth_methods_supported: ["client_secret_post"] } })
    expect(
      Object.fromEntries(post.upstream.form(post.upstream.heard.findIndex(({ path }) => path === "/token")))
    ).toMatchObject({ client_id: "troupe", client_secret: "s3cret" })
  })
  it("state missing, changed, old, replayed, another browser's: 400, no exchange", async () => {
    const one = await Federated.open()
    const { asked, cookie, code } = await one.start()
    const state = asked.get("state")!
    const other = await one.start()
    const refused = {
      status: 400,
      body: "page invalid_request: the login attempt is unknown, expired or already used"
    }
    expect(await one.get("/oidc/callback?code=abc", { cookie })).toMatchObject(refused)
    expect(await one.get(`/oidc/callback?state=${state}&code=abc`)).toMatchObject(refused)
    expect(await one.back(state, other.cookie, code)).toMatchObject(refused)
    expect(await one.back("x", "authserver_oidc=x", code)).toMatchObject(refused)
    expect(await one.back(`${state}&state=${state}`, cookie, code)).toMatchObject(refused)
    one.world.nowMs += 600_001
    expect(await one.back(state, cookie, code)).toMatchObject(refused)
    one.world.nowMs -= 1
    expect(one.upstream.heard.some(({ path }) => path === "/token")).toBe(false)
    expect((await one.back(state, cookie, code)).status).toBe(303)
    expect(await one.back(state, cookie, code)).toMatchObject(refused)
  })
  it("an iss that is another's: 400; the upstream's own: fine", async () => {
    const one = await Federated.open()
    expect(
      (await one.login({}, "?req=req-1", `CODE&iss=${encodeURIComponent("https://evil.example")}`)).status
    ).toBe(400)
    expect([
      one.loggedIn.length,
      (await one.login({}, "?req=req-1", `CODE&iss=${encodeURIComponent(one.upstream.at(""))}`)).status
    ]).toEqual([0, 303])
  })
  it("the upstream refuses: access_denied to the client, a 403 page without one", async () => {
    const one = await Federated.open()
    const response = await one.login({}, "?req=req-1", "error=login_required")
    expect([response.status, header(response, "Location"), one.redirected]).toEqual([
      302,
      "https://client.example/?error=access_denied",
      ["access_denied"]
    ])
    expect((await one.login({}, "", "error=access_denied")).status).toBe(403)
    expect(await one.world.audited()).toEqual(["user.oidc_login_failed", "user.oidc_login_failed"])
  })
  const past = Math.floor(Date.UTC(2026, 0, 31, 12) / 1_000)
  const lies: ReadonlyArray<readonly [string, () => Lies]> = [
    ["signed by a stranger", () => ({ key: stranger })],
    ["an unknown key id", () => ({ typedAs: { kid: "k2" } })],
    ["another issuer", () => ({ claims: { iss: "https://evil.example" } })],
    ["another audience", () => ({ claims: { aud: "someone" } })],
    ["several audiences without azp", () => ({ claims: { aud: ["troupe", "other"] } })],
    ["azp of another", () => ({ claims: { aud: ["troupe", "other"], azp: "other" } })],
    ["expired", () => ({ claims: { exp: past } })],
    ["made in the future", () => ({ claims: { iat: past + 6 } })],
    ["another nonce", () => ({ claims: { nonce: "x" } })],
    ["no nonce", () => ({ without: ["nonce"] })],
    ["no exp", () => ({ without: ["exp"] })],
    ["no iat", () => ({ without: ["iat"] })],
    ["no sub", () => ({ without: ["sub"] })],
    ["an empty sub", () => ({ claims: { sub: "" } })],
    ["no ID token", () => ({ token: { body: { access_token: "t" } } })],
    ["an error", () => ({ token: { status: 400, body: { error: "invalid_grant" } } })],
    ["a failure", () => ({ token: { status: 500 } })],
    ["a redirect", () => ({ token: { status: 302 } })],
    [
      "alg none",
      () => ({ token: { body: { id_token: `${Buffer.from('{"alg":"none"}').toString("base64url")}.e30.` } } })
    ]
  ]
  it.each(lies)("an answer that proves nothing, %s: nobody is logged in", async (_name, lie) => {
    const one = await Federated.open()
    const response = await one.login(lie())
    expect([
      response.status,
      one.redirected,
      one.loggedIn,
      UserFederations.range(one.world.store, { limit: 9 })
    ]).toEqual([302, ["server_error"], [], []])
    expect((await one.login(lie(), "")).status).toBe(502)
    expect(JSON.stringify([await one.world.audited(), one.world.logged])).not.toContain("s3cret")
  })
  it("several audiences with our azp are fine", async () => {
    const one = await Federated.open()
    expect((await one.login({ claims: { aud: ["troupe", "other"], azp: "troupe" } })).status).toBe(303)
  })
  it("an e-mail address that is a local account's is never linked: 409", async () => {
    const one = await Federated.open()
    const { books } = one.world.authority
    await books.write([UserEmails.put(["ada@example.org"], { id: "local" })])
    expect(await one.login()).toMatchObject({ status: 409 })
    expect([one.loggedIn, await one.world.audited()]).toEqual([[], ["user.oidc_login_failed"]])
    expect((await one.login({ without: ["email", "name"] })).status).toBe(303)
    expect(one.loggedIn[0]![0]).toMatchObject({ email: "", name: "" })
  })
  it("a disabled user: access_denied", async () => {
    const one = await Federated.open()
    await one.login()
    const user = one.loggedIn[0]![0]
    await one.world.authority.books.write([Users.put([user.id], { ...user, status: "disabled" })])
    await one.login()
    expect([one.loggedIn.length, one.redirected]).toEqual([1, ["access_denied"]])
  })
  it("two first logins at once make one user", async () => {
    const one = await Federated.open()
    const attempts = [await one.start(), await one.start()]
    const responses = await Promise.all(
      attempts.map(({ asked, cookie, code }) => one.back(asked.get("state")!, cookie, code))
    )
    expect(responses.map(({ status }) => status)).toEqual([303, 303])
    expect([
      one.loggedIn[0]![0].id === one.loggedIn[1]![0].id,
      UserFederations.range(one.world.store, { limit: 9 }).length
    ]).toEqual([true, 1])
  })
  it("without a code: 400", async () =>
    expect((await (await Federated.open()).login({}, "?req=req-1", "x=1")).status).toBe(400))
  it("with a public issuer private addresses stay out of reach", async () => {
    const one = await Federated.open({ issuer: "https://as.example.com" })
    expect(await one.get("/oidc/start?req=req-1")).toMatchObject({ status: 502 })
    expect(one.upstream.connections).toBe(0)
  })
})
