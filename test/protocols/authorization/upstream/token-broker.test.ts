/** Authorization section 12.5, steps 7 to 9: upstream credentials, refreshed once, durable before they are
 *  answered. */
import { decodeJwt, decodeProtectedHeader, jwtVerify } from "jose"
import { generateKeyPairSync } from "node:crypto"
import { Effect, Fiber } from "effect"
import { afterEach, describe, expect, it, vi } from "vitest"
import { type Problem, wordingOf } from "../../../../protocols/authorization/problems.ts"
import { sealSecret } from "../../../../protocols/authorization/upstream/providers.ts"
import { BrokerGrants, type BrokerGrant, type Provider } from "../../../../protocols/authorization/records.ts"
import { SafeFetch } from "../../../../protocols/authorization/upstream/safe-fetch.ts"
import {
  sealCredential,
  type Credential
} from "../../../../protocols/authorization/upstream/upstream-tokens.ts"
import {
  UpstreamTokenBroker,
  type UpstreamToken
} from "../../../../protocols/authorization/upstream/token-broker.ts"
import { effectOf, type Later } from "../../../../runtime/http.ts"
import type { Store } from "../../../../storage/store.ts"
import { heldStore, resolved, turned, Upstream, World, type Heard, type Said } from "./outside.ts"

const open: Array<Upstream> = []

afterEach(async () => {
  for (const server of open.splice(0)) await server.close()
})

const tokens = (answer: (heard: Heard, call: number) => Said | Promise<Said>): Promise<Upstream> => {
  let call = 0
  return Upstream.open((heard) => answer(heard, ++call)).then((server) => {
    open.push(server)
    return server
  })
}

class Vaulted {
  readonly world: World
  readonly vault: UpstreamTokenBroker
  readonly provider: Provider

  constructor(tokenUrl: string, more: Partial<Provider> = {}, store?: Store) {
    this.world = new World({ issuer: "http://localhost:8080" }, undefined, store)
    const { authority } = this.world
    this.vault = new UpstreamTokenBroker(authority, new SafeFetch(authority.lookup), {})
    this.provider = {
      id: "p-1",
      slug: "git hub",
      displayName: "GitHub",
      protocol: "oauth",
      config: { client_id: "c", authorize_url: "https://up.example/a", token_url: tokenUrl },
      sealedSecret: sealSecret(authority.seal, "p-1", "s3cret"),
      createdMs: 0,
      updatedMs: 0,
      ...more
    }
  }

  async granted(
    overrides: Partial<Credential> = {},
    scopesGranted: ReadonlyArray<string> = ["repo"],
    userId = "u-1"
  ): Promise<BrokerGrant> {
    const { authority, nowMs } = this.world
    const entry = { userId, providerId: "p-1" }
    const credential: Credential = {
      accessToken: "old-access",
      refreshToken: "old-refresh",
      expiresMs: nowMs + 3_600_000,
      tokenType: "Bearer",
      scope: "",
      ...overrides
    }
    const row: BrokerGrant = {
      id: "g-1",
      ...entry,
      scopesGranted,
      credential: sealCredential(authority.seal, entry, credential),
      version: 1,
      revokedMs: null,
      createdMs: nowMs,
      updatedMs: nowMs
    }
    await authority.books.write([BrokerGrants.put([userId, "p-1"], row)])
    return row
  }

  take(userId = "u-1", scopes?: ReadonlyArray<string>): Promise<UpstreamToken | Problem> {
    return resolved(this.vault.upstreamToken({ id: userId }, this.provider, this.world.nowMs, scopes))
  }

  /** Like `take`, for a client that may go away. */
  waiting(): Later<UpstreamToken | Problem> {
    return this.vault.upstreamToken({ id: "u-1" }, this.provider, this.world.nowMs)
  }

  row(userId = "u-1"): BrokerGrant | undefined {
    return BrokerGrants.get(this.world.store, [userId, "p-1"])
  }
}

const missing = {
  _tag: "consent_required",
  remedy: { cause: "consent_missing", consentUrl: "http://localhost:8080/connect/git%20hub" }
}

const unavailable = { _tag: "unavailable", retryAfterSeconds: 5 }

describe("bounds D and E", () => {
  it("no grant: consent_missing; a narrow one: scope_insufficient; both with the connect URL", async () => {
    const one = new Vaulted("http://127.0.0.1:1/")
    expect(one.vault.bound("u-1", one.provider, ["repo"])).toMatchObject(missing)
    await one.granted({}, ["repo", "gist"])
    expect([
      one.vault.bound("u-1", one.provider, ["gist", "repo"]),
      one.vault.bound("u-1", one.provider, [])
    ]).toEqual([undefined, undefined])
    expect(one.vault.bound("u-1", one.provider, ["repo", "admin"])).toMatchObject({
      ...missing,
      remedy: { ...missing.remedy, cause: "scope_insufficient" }
    })
    expect(one.vault.bound("u-1", { ...one.provider, protocol: "api_key" }, ["admin"])).toBeUndefined()
  })
  it("AS-151 a credential moved to another user's row does not open: no grant, no request", async () => {
    const server = await tokens(() => ({ body: { access_token: "new" } }))
    const one = new Vaulted(server.at("/token"))
    const row = await one.granted()
    const { books } = one.world.authority
    await books.write([
      BrokerGrants.put(["u-2", "p-1"], { ...row, userId: "u-2" }),
      BrokerGrants.put(["u-3", "p-1"], row),
      BrokerGrants.put(["u-1", "p-2"], { ...row, providerId: "p-2" })
    ])
    for (const user of ["u-2", "u-3"]) {
      expect(await one.take(user)).toMatchObject(missing)
      expect(one.vault.bound(user, one.provider, ["repo"])).toMatchObject(missing)
    }
    expect(one.vault.bound("u-1", { ...one.provider, id: "p-2" }, ["repo"])).toMatchObject(missing)
    expect([await one.take("u-1"), server.connections]).toEqual([
      { accessToken: "old-access", expiresIn: 3_600 },
      0
    ])
  })
})

describe("an oauth token", () => {
  it("a minute and more to live: as it is; without an end: as it is", async () => {
    const server = await tokens(() => ({ status: 500 }))
    const one = new Vaulted(server.at("/token"))
    await one.granted({ expiresMs: one.world.nowMs + 60_000 })
    expect(await one.take()).toEqual({ accessToken: "old-access", expiresIn: 60 })
    await one.granted({ expiresMs: undefined })
    expect([await one.take(), server.connections]).toEqual([
      { accessToken: "old-access", expiresIn: undefined },
      0
    ])
  })
  it("less: refreshed upstream, stored, answered; the next comes from the store", async () => {
    const server = await tokens(() => ({
      body: { access_token: "new-access", refresh_token: "new-refresh", expires_in: 600, scope: "repo gist" }
    }))
    const one = new Vaulted(server.at("/token"))
    await one.granted({ expiresMs: one.world.nowMs + 59_999 })
    expect(await one.take()).toEqual({ accessToken: "new-access", expiresIn: 600 })
    expect(Object.fromEntries(server.form(0))).toEqual({
      grant_type: "refresh_token",
      refresh_token: "old-refresh",
      client_id: "c",
      client_secret: "s3cret"
    })
    expect(one.vault.grant("u-1", "p-1")).toMatchObject({
      credential: { accessToken: "new-access", refreshToken: "new-refresh" },
      row: { version: 2, scopesGranted: ["repo", "gist"], id: "g-1" }
    })
    expect([await one.take(), server.heard.length]).toEqual([
      { accessToken: "new-access", expiresIn: 600 },
      1
    ])
    expect(await one.world.audited()).toEqual(["upstream.token.refreshed"])
    expect(JSON.stringify(one.world.logged)).not.toMatch(/access|refresh|s3cret/)
  })
  it("a refresh token that was not rotated is kept; scopes that are not said stay", async () => {
    const server = await tokens((_, call) => ({ body: { access_token: `new-${call}`, expires_in: 60 } }))
    const one = new Vaulted(server.at("/token"))
    await one.granted({ expiresMs: 0 })
    await one.take()
    one.world.nowMs += 1
    await one.take()
    expect([server.form(1).get("refresh_token"), one.row()!.scopesGranted]).toEqual(["old-refresh", ["repo"]])
  })
  it("by basic authentication where the provider wants it", async () => {
    const server = await tokens(() => ({ body: { access_token: "new" } }))
    const one = new Vaulted(server.at("/token"))
    const basic = { ...one.provider, config: { ...one.provider.config, token_auth: "basic" } }
    await one.granted({ expiresMs: 0 })
    await resolved(one.vault.upstreamToken({ id: "u-1" }, basic, one.world.nowMs))
    expect([server.heard[0]!.headers.authorization, server.form(0).has("client_secret")]).toEqual([
      `Basic ${Buffer.from("c:s3cret").toString("base64")}`,
      false
    ])
  })
  it("50 at once: one refresh for the user and provider, one for another user", async () => {
    const server = await tokens((_, call) => ({ body: { access_token: `new-${call}`, expires_in: 600 } }))
    const one = new Vaulted(server.at("/token"))
    await one.granted({ expiresMs: 0 })
    await one.granted({ expiresMs: 0, refreshToken: "other-refresh" }, ["repo"], "u-2")
    const all = await Promise.all([...Array.from({ length: 50 }, () => one.take()), one.take("u-2")])
    expect([
      new Set(all.slice(0, 50).map((token) => JSON.stringify(token))).size,
      server.heard.length,
      new Set(server.heard.map(({ body }) => new URLSearchParams(body).get("refresh_token")))
    ]).toEqual([1, 2, new Set(["old-refresh", "other-refresh"])])
  })
  it("a client that goes is not waited for, but the refresh token that its refresh spent gets its successor", async () => {
    let release = (): void => {}
    const server = await tokens(async () => {
      await new Promise<void>((resolve) => {
        release = resolve
      })
      return { body: { access_token: "new-access", refresh_token: "new-refresh" } }
    })
    const one = new Vaulted(server.at("/token"))
    await one.granted({ expiresMs: 0 })
    const client = Effect.runFork(effectOf(one.waiting()))
    await vi.waitFor(() => expect(server.heard).toHaveLength(1))
    await Effect.runPromise(Fiber.interrupt(client))
    release()
    await vi.waitFor(() => expect(one.vault.grant("u-1", "p-1")!.credential.refreshToken).toBe("new-refresh"))
    expect([await one.take(), server.heard.length]).toMatchObject([{ accessToken: "new-access" }, 1])
  })
  it("the rotated refresh token is durable before the access token is answered", async () => {
    const held = heldStore()
    const server = await tokens(() => ({
      body: { access_token: "new-access", refresh_token: "new-refresh" }
    }))
    const one = new Vaulted(server.at("/token"), {}, held.store)
    await one.granted({ expiresMs: 0 })
    held.hold()
    let answered = false
    const taking = one.take().then((token) => {
      answered = true
      return token
    })
    await held.waiting
    await turned()
    expect(answered).toBe(false)
    held.settle()
    expect(await taking).toMatchObject({ accessToken: "new-access" })
    expect(one.vault.grant("u-1", "p-1")!.credential.refreshToken).toBe("new-refresh")
  })
  it.each(["invalid_grant", "invalid_refresh_token"])(
    "the upstream says %s: the grant is revoked, its credential gone",
    async (error) => {
      const server = await tokens(() => ({ status: 400, body: { error } }))
      const one = new Vaulted(server.at("/token"))
      await one.granted({ expiresMs: 0 })
      expect(await one.take()).toMatchObject(missing)
      expect(one.row()).toMatchObject({
        credential: null,
        revokedMs: one.world.nowMs,
        version: 2,
        scopesGranted: []
      })
      expect([await one.take(), await one.world.audited(), server.heard.length]).toMatchObject([
        missing,
        ["broker_grant.revoked"],
        1
      ])
    }
  )
  it("unreachable, 5xx, not JSON, other refusals: 503, the grant stays", async () => {
    const said: ReadonlyArray<Said> = [
      { status: 500, body: { error: "invalid_grant" } },
      { status: 429, body: "slow" },
      { body: "<html>" },
      { status: 401, body: { error: "invalid_client" } },
      { status: 302 },
      { body: { access_token: 1 } }
    ]
    for (const one of said) {
      const server = await tokens(() => one)
      const vaulted = new Vaulted(server.at("/token"))
      await vaulted.granted({ expiresMs: 0 })
      expect(await vaulted.take()).toMatchObject(unavailable)
      expect(vaulted.row()).toMatchObject({ revokedMs: null, version: 1 })
    }
    const closed = await tokens(() => ({}))
    const url = closed.at("/token")
    await closed.close()
    const one = new Vaulted(url)
    await one.granted({ expiresMs: 0 })
    expect(await one.take()).toMatchObject(unavailable)
  })
  it("without a refresh token: while it lasts, then the grant is over", async () => {
    const one = new Vaulted("http://127.0.0.1:1/")
    await one.granted({ refreshToken: undefined, expiresMs: one.world.nowMs + 10_000 })
    expect(await one.take()).toEqual({ accessToken: "old-access", expiresIn: 10 })
    one.world.nowMs += 10_000
    expect([await one.take(), one.row()!.revokedMs]).toMatchObject([missing, one.world.nowMs])
  })
  it("disconnected while the upstream is asked: the answer is dropped, the grant stays revoked", async () => {
    const one: Vaulted = new Vaulted(
      (
        await tokens(async () => {
          await one.vault.revoked(one.row()!, "user")
          return { body: { access_token: "new", refresh_token: "new-refresh" } }
        })
      ).at("/token")
    )
    await one.granted({ expiresMs: 0 })
    expect(await one.take()).toMatchObject(missing)
    expect(one.row()).toMatchObject({ credential: null, version: 2 })
  })
  it("connected anew while the upstream is asked: the new credential wins, also when the upstream refuses the old", async () => {
    for (const said of [
      { body: { access_token: "from-old" } },
      { status: 400, body: { error: "invalid_grant" } }
    ] as ReadonlyArray<Said>) {
      const one: Vaulted = new Vaulted(
        (
          await tokens(async () => {
            await one.granted({ accessToken: "reconnected" })
            return said
          })
        ).at("/token")
      )
      await one.granted({ expiresMs: 0 })
      expect(await one.take()).toEqual({ accessToken: "reconnected", expiresIn: 3_600 })
    }
  })
})

describe("api keys and service accounts", () => {
  it("an api key is the credential, for as long as it says; without one, 503", async () => {
    const one = new Vaulted("", { protocol: "api_key", config: { expires_in: 900 } })
    expect(await one.take("anyone")).toEqual({ accessToken: "s3cret", expiresIn: 900 })
    const withReference = new Vaulted("", {
      protocol: "api_key",
      config: { key_ref: "CONNECTOR_X" },
      sealedSecret: null
    })
    expect(await withReference.take()).toMatchObject(unavailable)
  })
  const key = generateKeyPairSync("ec", { namedCurve: "P-256" })
  const account = (tokenUrl: string): Vaulted => {
    const one = new Vaulted(tokenUrl)
    return Object.assign(one, {
      provider: {
        ...one.provider,
        protocol: "service_account",
        config: { issuer: "svc", audience: "https://up.example/token", token_url: tokenUrl, alg: "ES256" },
        sealedSecret: sealSecret(
          one.world.authority.seal,
          "p-1",
          key.privateKey.export({ format: "pem", type: "pkcs8" }) as string
        )
      }
    })
  }
  it("a client that goes stops the request for a service account's token, unless another waits for it", async () => {
    const server = await tokens(() => ({ hangs: true, body: " " }))
    const one = account(server.at("/token"))
    const [first, second] = [1, 2].map(() => Effect.runFork(effectOf(one.waiting())))
    await vi.waitFor(() => expect(server.heard).toHaveLength(1))
    await Effect.runPromise(Fiber.interrupt(first!))
    const third = Effect.runFork(effectOf(one.waiting()))
    await Effect.runPromise(Fiber.interrupt(second!))
    expect(server.heard).toHaveLength(1)
    await Effect.runPromise(Fiber.interrupt(third))
    const fourth = Effect.runFork(effectOf(one.waiting()))
    await vi.waitFor(() => expect(server.heard).toHaveLength(2))
    await Effect.runPromise(Fiber.interrupt(fourth))
  })
  it("a service account signs an assertion; the token serves all users until a minute before its end", async () => {
    const server = await tokens((_, call) => ({ body: { access_token: `t-${call}`, expires_in: 600 } }))
    const one = account(server.at("/token"))
    const all = await Promise.all([
      one.take("u-1", ["b", "a"]),
      one.take("u-2", ["a", "b"]),
      one.take("u-1", ["a"])
    ])
    expect(all[1]).toEqual(all[0])
    expect(all[2]).not.toEqual(all[0])
    expect(server.heard.length).toBe(2)
    const form = server.heard
      .map((_, index) => server.form(index))
      .find((form) => form.get("scope") === "a b")!
    const assertion = form.get("assertion")!
    const at = one.world.nowMs / 1_000
    expect(form.get("grant_type")).toBe("urn:ietf:params:oauth:grant-type:jwt-bearer")
    expect(decodeProtectedHeader(assertion)).toEqual({ alg: "ES256", typ: "JWT" })
    expect(decodeJwt(assertion)).toMatchObject({
      iss: "svc",
      sub: "svc",
      aud: "https://up.example/token",
      iat: at,
      exp: at + 300,
      scope: "a b"
    })
    await jwtVerify(assertion, key.publicKey, { currentDate: new Date(one.world.nowMs) })
    one.world.nowMs += 540_000
    expect([await one.take("u-1", ["a", "b"]), server.heard.length]).toMatchObject([{ expiresIn: 60 }, 2])
    one.world.nowMs += 1
    expect([
      ((await one.take("u-1", ["a", "b"])) as { accessToken: string }).accessToken,
      server.heard.length
    ]).toEqual(["t-3", 3])
  })
  it("a refusal of the upstream is the operator's to mend: 503", async () => {
    const server = await tokens(() => ({ status: 400, body: { error: "invalid_grant" } }))
    const one = account(server.at("/token"))
    expect(await one.take()).toMatchObject(unavailable)
    const broken = Object.assign(account(server.at("/token")), {})
    const problem = await resolved(
      broken.vault.upstreamToken(
        { id: "u" },
        { ...broken.provider, sealedSecret: sealSecret(broken.world.authority.seal, "p-1", "no key") },
        broken.world.nowMs
      )
    )
    expect(problem).toMatchObject(unavailable)
    expect(wordingOf(problem as Problem)).toMatchObject({
      error: "server_error",
      status: 503,
      headers: [["Retry-After", "5"]]
    })
  })
})
