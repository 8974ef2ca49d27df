/** Authorization sections 12.2 to 12.4: a user connects an upstream account, sees it, and ends it. */
import { createHash } from "node:crypto"
import { afterEach, describe, expect, it } from "vitest"
import { connectRoutes, type SessionNow } from "../../../../protocols/authorization/upstream/connect.ts"
import { sealSecret } from "../../../../protocols/authorization/upstream/providers.ts"
import {
  BrokerGrants,
  Providers,
  Resources,
  type Provider,
  type Resource
} from "../../../../protocols/authorization/records.ts"
import { SafeFetch } from "../../../../protocols/authorization/upstream/safe-fetch.ts"
import type { SettingsInput } from "../../../../protocols/authorization/settings.ts"
import { UpstreamTokenBroker } from "../../../../protocols/authorization/upstream/token-broker.ts"
import type { Response } from "../../../../runtime/http.ts"
import { wordingOf } from "../../../../protocols/authorization/problems.ts"
import type { Store } from "../../../../storage/store.ts"
import {
  header,
  heldStore,
  problemOf,
  routed,
  turned,
  Upstream,
  World,
  type Heard,
  type Said
} from "./outside.ts"

const open: Array<Upstream> = []

afterEach(async () => {
  for (const server of open.splice(0)) await server.close()
})

const resource = (slug: string, more: Partial<Resource> = {}): Resource => ({
  id: `r-${slug}`,
  slug,
  uri: `https://api.example/${slug}`,
  backend: "broker",
  providerId: "p-hub",
  displayName: slug,
  scopes: [
    { name: "code:read", description: "", upstream: ["repo:read", "repo:meta"] },
    { name: "gist", description: "", upstream: [] }
  ],
  exchangeClients: [],
  runtimeClients: [],
  returnUrls: [],
  createdMs: 0,
  updatedMs: 0,
  ...more
})

const allowed = "https://app.example/done?x=1"

class Connecting {
  readonly world: World
  readonly vault: UpstreamTokenBroker
  session: SessionNow | undefined = { userId: "u-1", sessionHash: "s-1" }
  private readonly routes

  private constructor(settings: SettingsInput, store?: Store) {
    this.world = new World(
      {
        issuer: "http://localhost:8080",
        connect: { allowedReturnUrls: [allowed], redirectBaseUrl: "" },
        ...settings
      },
      undefined,
      store
    )
    const { authority } = this.world
    const fetcher = new SafeFetch(authority.lookup)
    this.vault = new UpstreamTokenBroker(authority, fetcher, {})
    this.routes = connectRoutes(authority, {
      vault: this.vault,
      fetcher,
      environment: {},
      resource: (value) =>
        authority.books.resources().find(({ slug, uri }) => slug === value || uri === value),
      sessions: {
        of: () => this.session,
        csrf: (hash, purpose) => `csrf ${hash} ${purpose}`,
        login: (returnTo) => ({
          status: 302,
          headers: [["Location", `/login?to=${encodeURIComponent(returnTo)}`]]
        })
      },
      pages: {
        error: (problem) => ({
          status: wordingOf(problem).status,
          headers: [["Content-Type", "text/html"]],
          body: `page ${wordingOf(problem).error}`
        }),
        connections: ({ connections, csrfToken }) => ({
          status: 200,
          headers: [["Content-Type", "text/html"]],
          body: `${connections.length} ${csrfToken}`
        })
      }
    })
  }

  static async open(
    answer: (heard: Heard) => Said | Promise<Said> = () => ({
      body: {
        access_token: "up-access",
        refresh_token: "up-refresh",
        expires_in: 600,
        scope: "repo:read gist"
      }
    }),
    config: object = {},
    settings: SettingsInput = {},
    store?: Store
  ): Promise<Connecting & { readonly server: Upstream }> {
    const server = await Upstream.open(answer)
    const one = new Connecting(settings, store)
    const { books, seal } = one.world.authority
    open.push(server)
    const provider = (id: string, slug: string, more: Partial<Provider> = {}): Provider => ({
      id,
      slug,
      displayName: slug.toUpperCase(),
      protocol: "oauth",
      sealedSecret: sealSecret(seal, id, "s3cret"),
      createdMs: 0,
      updatedMs: 0,
      config: {
        client_id: "c",
        authorize_url: "https://up.example/authorize?tenant=1",
        token_url: server.at("/token"),
        revoke_url: server.at("/revoke"),
        scopes: ["openid"],
        ...config
      },
      ...more
    })
    await books.write([
      Providers.put(["p-hub"], provider("p-hub", "hub")),
      Providers.put(["p-lone"], provider("p-lone", "lone")),
      Providers.put(["p-other"], provider("p-other", "other")),
      Providers.put(["p-key"], provider("p-key", "key", { protocol: "api_key", config: {} })),
      ...[
        resource("code"),
        resource("more", {
          scopes: [{ name: "wiki", description: "", upstream: [] }],
          returnUrls: ["https://more.example/back"]
        }),
        resource("minted", { backend: "mint", providerId: "" }),
        resource("else", { providerId: "p-other" }),
        resource("keyed", { providerId: "p-key" })
      ].map((one) => Resources.put([one.id], one))
    ])
    return Object.assign(one, { server })
  }

  get(path: string, headers: Readonly<Record<string, string>> = {}): Promise<Response> {
    return routed(this.routes, "GET", path, headers)
  }

  delete(path: string, token?: string): Promise<Response> {
    return routed(this.routes, "DELETE", path, token === undefined ? {} : { "x-csrf-token": token })
  }

  /** The state of a fresh attempt. */
  async state(query = "", provider = "hub"): Promise<string> {
    return new URL(header(await this.get(`/connect/${provider}${query}`), "Location")!).searchParams.get(
      "state"
    )!
  }

  back(
    state: string,
    more = "code=hub-code",
    provider = "hub",
    headers: Readonly<Record<string, string>> = {}
  ): Promise<Response> {
    return this.get(`/connect/${provider}/callback?state=${encodeURIComponent(state)}&${more}`, headers)
  }
}

const sent = (response: Response): URLSearchParams => new URL(header(response, "Location")!).searchParams
const page = { accept: "text/html,*/*" }

describe("start", () => {
  it("AS-154 no such provider, one that is no oauth, one that no resource refers to: invalid_target, also as a page", async () => {
    const one = await Connecting.open()
    one.session = undefined
    for (const slug of ["nothing", "key", "lone", "HUB", "%2e%2e"]) {
      const response = await one.get(`/connect/${slug}`)
      expect([response.status, problemOf(response).error], slug).toEqual([400, "invalid_target"])
    }
    expect(await one.get("/connect/key", page)).toMatchObject({ status: 400, body: "page invalid_target" })
  })
  it("AS-154 a resource that is not one of the provider: invalid_target", async () => {
    const one = await Connecting.open()
    for (const resource of ["minted", "else", "unknown", "https://api.example/else"])
      expect(
        problemOf(await one.get(`/connect/hub?resource=${encodeURIComponent(resource)}`)).error,
        resource
      ).toBe("invalid_target")
    for (const resource of ["code", "https://api.example/code"])
      expect((await one.get(`/connect/hub?resource=${encodeURIComponent(resource)}`)).status, resource).toBe(
        302
      )
  })
  it("AS-153 return_url: exactly one that is listed, else 400 and never a redirect", async () => {
    const one = await Connecting.open()
    one.session = undefined
    for (const url of [
      "https://evil.example/",
      "https://app.example@evil.example/done?x=1",
      "https://app.example/done",
      `${allowed}&y=2`,
      `${allowed}/`,
      "https://APP.example/done?x=1",
      "//app.example/done?x=1",
      "javascript:alert(1)",
      `${allowed}\r\nX: y`
    ]) {
      const response = await one.get(`/connect/hub?return_url=${encodeURIComponent(url)}`)
      expect([response.status, problemOf(response).error, header(response, "Location")], url).toEqual([
        400,
        "invalid_request",
        undefined
      ])
    }
    const other = await one.get(
      `/connect/hub?resource=code&return_url=${encodeURIComponent("https://more.example/back")}`
    )
    expect(other.status).toBe(400)
    one.session = { userId: "u-1", sessionHash: "s-1" }
    for (const url of [allowed, "https://more.example/back"])
      expect((await one.get(`/connect/hub?return_url=${encodeURIComponent(url)}`)).status, url).toBe(302)
  })
  it("without a session: to the login and back here", async () => {
    const one = await Connecting.open()
    one.session = undefined
    expect(header(await one.get("/connect/hub?resource=code&scope=gist"), "Location")).toBe(
      `/login?to=${encodeURIComponent("/connect/hub?resource=code&scope=gist")}`
    )
  })
  it("a parameter twice, a scope that is not in the catalog", async () => {
    const one = await Connecting.open()
    for (const query of ["scope=gist&scope=wiki", "resource=code&resource=more", "return_url=a&return_url=b"])
      expect(problemOf(await one.get(`/connect/hub?${query}`)).error, query).toBe("invalid_request")
    expect([
      problemOf(await one.get("/connect/hub?scope=admin")).error,
      problemOf(await one.get("/connect/hub?resource=code&scope=wiki")).error
    ]).toEqual(["invalid_scope", "invalid_scope"])
  })
  it("what is asked of the upstream", async () => {
    const one = await Connecting.open(undefined, { extra_auth_params: { access_type: "offline" } })
    const response = await one.get("/connect/hub?resource=code")
    const asked = sent(response)
    expect([
      response.status,
      header(response, "Location")!.startsWith("https://up.example/authorize?tenant=1&")
    ]).toEqual([302, true])
    expect(Object.fromEntries(asked)).toMatchObject({
      tenant: "1",
      access_type: "offline",
      response_type: "code",
      client_id: "c",
      redirect_uri: "http://localhost:8080/connect/hub/callback",
      scope: "openid repo:read repo:meta gist",
      code_challenge_method: "S256"
    })
    expect(asked.get("code_challenge")).toMatch(/^[\w-]{43}$/)
    expect(Buffer.from(asked.get("state")!, "base64url").toString("latin1")).not.toMatch(/u-1|s-1|repo/)
    expect([
      sent(await one.get("/connect/hub")).get("scope"),
      sent(await one.get("/connect/hub?scope=code:read+wiki")).get("scope")
    ]).toEqual(["openid repo:read repo:meta gist wiki", "openid repo:read repo:meta wiki"])
  })
  it("without PKCE, and at another base URL, where so configured", async () => {
    const one = await Connecting.open(
      undefined,
      { pkce: false, scopes: [] },
      { connect: { allowedReturnUrls: [], redirectBaseUrl: "https://connect.example/" } }
    )
    const asked = sent(await one.get("/connect/hub"))
    expect([asked.get("redirect_uri"), asked.has("code_challenge")]).toEqual([
      "https://connect.example/connect/hub/callback",
      false
    ])
  })
  it("connecting again never narrows", async () => {
    const one = await Connecting.open()
    await one.back(await one.state())
    expect(sent(await one.get("/connect/hub?scope=wiki")).get("scope")).toBe("openid wiki repo:read gist")
  })
})

describe("callback", () => {
  it("the code is exchanged and the grant stored, sealed, before the redirect", async () => {
    const one = await Connecting.open()
    const started = sent(await one.get(`/connect/hub?return_url=${encodeURIComponent(allowed)}`))
    const response = await one.back(started.get("state")!)
    expect([response.status, header(response, "Location")]).toEqual([303, allowed])
    const form = one.server.form(0)
    expect(Object.fromEntries(form)).toMatchObject({
      grant_type: "authorization_code",
      code: "hub-code",
      redirect_uri: "http://localhost:8080/connect/hub/callback",
      client_id: "c",
      client_secret: "s3cret"
    })
    expect(createHash("sha256").update(form.get("code_verifier")!).digest("base64url")).toBe(
      started.get("code_challenge")
    )
    expect(one.vault.grant("u-1", "p-hub")).toMatchObject({
      row: { version: 1, scopesGranted: ["repo:read", "gist"] },
      credential: {
        accessToken: "up-access",
        refreshToken: "up-refresh",
        expiresMs: one.world.nowMs + 600_000
      }
    })
    expect(
      Buffer.from(BrokerGrants.get(one.world.store, ["u-1", "p-hub"])!.credential!).toString("latin1")
    ).not.toContain("up-")
    expect(await one.world.audited()).toEqual(["broker_grant.created"])
    expect(header(await one.back(await one.state()), "Location")).toBe("http://localhost:8080/connections")
    expect(one.vault.grant("u-1", "p-hub")!.row.version).toBe(2)
  })
  it("the redirect waits until the grant is durable", async () => {
    const held = heldStore()
    const one = await Connecting.open(
      () => {
        held.hold()
        return { body: { access_token: "t" } }
      },
      {},
      {},
      held.store
    )
    let answered = false
    const back = one.back(await one.state()).then((response) => {
      answered = true
      return response
    })
    await held.waiting
    await turned()
    expect(answered).toBe(false)
    held.settle()
    expect((await back).status).toBe(303)
  })
  it("scopes that the upstream does not say are those that were asked for", async () => {
    const one = await Connecting.open(() => ({ body: { access_token: "t" } }))
    await one.back(await one.state("?scope=gist"))
    expect(one.vault.grant("u-1", "p-hub")!.row.scopesGranted).toEqual(["openid", "gist"])
  })
  it("AS-152 a state replayed, also at once: one grant, one exchange", async () => {
    const one = await Connecting.open()
    const state = await one.state()
    const all = await Promise.all(Array.from({ length: 5 }, () => one.back(state)))
    expect(all.map(({ status }) => status).sort()).toEqual([303, 400, 400, 400, 400])
    expect([(await one.back(state)).status, one.server.heard.length]).toEqual([400, 1])
    // The last character of base64url may hold bits that mean nothing.
    const last = state.at(-1)!
    const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    const twin = state.length % 4 === 0 ? state : state.slice(0, -1) + alphabet[alphabet.indexOf(last) ^ 1]!
    expect([(await one.back(twin)).status, one.server.heard.length]).toEqual([400, 1])
  })
  it("AS-152 from another session, another user, without one, for another provider, older than 10 minutes, changed, missing", async () => {
    const one = await Connecting.open()
    const refusedWith = async (name: string, response: Promise<Response>): Promise<void> => {
      expect([(await response).status, header(await response, "Location")], name).toEqual([400, undefined])
    }
    const state = await one.state()
    await refusedWith("other provider", one.back(state, "code=abc", "other"))
    await refusedWith(
      "changed",
      one.back(`${state.slice(0, 20)}${state[20] === "A" ? "B" : "A"}${state.slice(21)}`)
    )
    await refusedWith("missing", one.get("/connect/hub/callback?code=abc"))
    await refusedWith("garbage", one.back("x"))
    await refusedWith("twice", one.back(state, `state=${state}&code=abc`))
    for (const session of [
      { userId: "u-1", sessionHash: "s-2" },
      { userId: "u-2", sessionHash: "s-1" },
      undefined
    ]) {
      one.session = session
      await refusedWith(JSON.stringify(session), one.back(state))
    }
    one.session = { userId: "u-1", sessionHash: "s-1" }
    one.world.nowMs += 600_001
    await refusedWith("old", one.back(state))
    one.world.nowMs -= 1
    // None of these spent it.
    expect([(await one.back(state)).status, one.server.heard.length]).toEqual([303, 1])
    expect((await one.back(await one.state(), "code=abc", "hub", page)).status).toBe(303)
    expect(await one.back("x", "code=abc", "hub", page)).toMatchObject({
      status: 400,
      body: "page invalid_request"
    })
  })
  it("the upstream says no: 403, or back with access_denied; the state is spent", async () => {
    const one = await Connecting.open()
    const state = await one.state()
    const response = await one.back(state, "error=server_error&error_description=x")
    expect([response.status, problemOf(response).error]).toEqual([403, "access_denied"])
    expect((await one.back(state)).status).toBe(400)
    const home = await one.back(
      await one.state(`?return_url=${encodeURIComponent(allowed)}`),
      "error=access_denied"
    )
    expect([home.status, header(home, "Location"), one.server.connections]).toEqual([
      303,
      "https://app.example/done?x=1&error=access_denied",
      0
    ])
  })
  it("no code; an exchange that fails, redirects, or is too large: no grant", async () => {
    const one = await Connecting.open()
    expect((await one.back(await one.state(), "")).status).toBe(400)
    for (const said of [
      { status: 400, body: { error: "invalid_grant" } },
      { status: 500 },
      { status: 302 },
      { body: { access_token: "t", padding: "x".repeat(262_144) } },
      { body: "<html>" }
    ] as ReadonlyArray<Said>) {
      const failing = await Connecting.open(() => said)
      const response = await failing.back(await failing.state())
      expect([response.status, problemOf(response).error, failing.vault.grant("u-1", "p-hub")]).toEqual([
        502,
        "server_error",
        undefined
      ])
      expect(`${response.body as string}${JSON.stringify(failing.world.logged)}`).not.toMatch(
        /hub-code|s3cret/
      )
    }
  })
  it("logged out while the upstream was asked: no grant", async () => {
    const one: Connecting = await Connecting.open(() => {
      one.session = undefined
      return { body: { access_token: "t" } }
    })
    expect((await one.back(await one.state())).status).toBe(400)
    expect(one.vault.grant("u-1", "p-hub")).toBeUndefined()
  })
  it("after a revoked grant, a new one", async () => {
    const one = await Connecting.open()
    await one.back(await one.state())
    const first = one.vault.grant("u-1", "p-hub")!.row
    await one.vault.revoked(first, "user")
    await one.back(await one.state())
    const second = one.vault.grant("u-1", "p-hub")!.row
    expect([second.id === first.id, second.version]).toEqual([false, 3])
  })
})

describe("connections", () => {
  it("as JSON and as a page; not without a session", async () => {
    const one = await Connecting.open()
    await one.back(await one.state())
    expect(JSON.parse((await one.get("/connections")).body as string)).toEqual({
      connections: [
        {
          provider: "hub",
          display_name: "HUB",
          scopes: ["repo:read", "gist"],
          connected_at: new Date(one.world.nowMs).toISOString()
        }
      ],
      csrf_token: "csrf s-1 connections"
    })
    expect((await one.get("/connections", page)).body).toBe("1 csrf s-1 connections")
    one.session = { userId: "u-2", sessionHash: "s-2" }
    expect(JSON.parse((await one.get("/connections")).body as string).connections).toEqual([])
    one.session = undefined
    expect([(await one.get("/connections")).status, (await one.get("/connections", page)).status]).toEqual([
      403, 302
    ])
  })
  it("ended: only with the token, here at once, upstream by its revocation endpoint", async () => {
    let revoked: (heard: Heard) => void = () => {}
    const atUpstream = new Promise<Heard>((resolve) => {
      revoked = resolve
    })
    const one = await Connecting.open((heard) => {
      if (heard.path === "/revoke") revoked(heard)
      return { body: { access_token: "up-access", refresh_token: "up-refresh" } }
    })
    await one.back(await one.state())
    for (const token of [undefined, "", "csrf s-2 connections", "csrf s-1 logout"])
      expect((await one.delete("/connections/hub", token)).status).toBe(403)
    expect([
      (await one.delete("/connections/other", "csrf s-1 connections")).status,
      (await one.delete("/connections/nothing", "csrf s-1 connections")).status
    ]).toEqual([404, 404])
    expect((await one.delete("/connections/hub", "csrf s-1 connections")).status).toBe(204)
    expect([
      one.vault.grant("u-1", "p-hub"),
      BrokerGrants.get(one.world.store, ["u-1", "p-hub"])
    ]).toMatchObject([undefined, { credential: null, revokedMs: one.world.nowMs }])
    expect(Object.fromEntries(new URLSearchParams((await atUpstream).body))).toEqual({
      token: "up-refresh",
      token_type_hint: "refresh_token",
      client_id: "c",
      client_secret: "s3cret"
    })
    expect([
      (await one.delete("/connections/hub", "csrf s-1 connections")).status,
      JSON.parse((await one.get("/connections")).body as string).connections
    ]).toEqual([404, []])
    expect(await one.world.audited()).toEqual(["broker_grant.created", "broker_grant.revoked"])
  })
})
