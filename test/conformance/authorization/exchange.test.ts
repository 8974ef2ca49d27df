/** Authorization sections 22.6 and 22.7, row by row: client credentials, token exchange, vending, JWT bearer.
 *  */
import { createHmac, generateKeyPairSync, randomBytes, type KeyObject } from "node:crypto"
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest"
import { type Problem, unavailable } from "../../../protocols/authorization/problems.ts"
import {
  BrokerGrants,
  Idps,
  Issuances,
  MappingKeys,
  Mappings,
  Policies,
  Providers,
  type Client,
  type Idp,
  type Policy,
  type Resource,
  type User
} from "../../../protocols/authorization/records.ts"
import { jws, ProofKey, World, type Answer } from "../../protocols/authorization/world.ts"

type Known = Client & { readonly secret: string }
const exchange = "urn:ietf:params:oauth:grant-type:token-exchange"
const bearer = "urn:ietf:params:oauth:grant-type:jwt-bearer"
const accessType = "urn:ietf:params:oauth:token-type:access_token"
const files = "https://mcp.example.com/files"
const grantTypes = ["authorization_code", "refresh_token", "client_credentials", exchange, bearer]

const refused = (answer: Answer, error: string, status = 400): void => {
  expect([answer.body?.error, answer.status]).toEqual([error, status])
}

let world: World
let broker: Resource
let app: Known
let agent: Known
let user: User
const keys = new Map<string, KeyObject>()

/** Hosts that something wanted to reach. */
const looked: Array<string> = []

const upstream = {
  calls: 0,
  answer: { accessToken: "upstream-token", expiresIn: undefined as number | undefined } as
    | { accessToken: string; expiresIn: number | undefined }
    | Problem
}

beforeAll(async () => {
  world = await World.make({
    lookup: async (host) => {
      looked.push(host)
      return []
    },
    parts: {
      idps: { keyFor: async (idp: Idp) => keys.get(idp.id) },
      vault: {
        upstreamToken: async () => {
          upstream.calls++
          return upstream.answer
        }
      }
    }
  })
  await world.resource({ slug: "files", uri: files })
  user = await world.user()
  const { books } = world.open.services
  const at = { createdMs: world.nowMs, updatedMs: world.nowMs }
  await books.write([
    Providers.put(["github"], {
      id: "github",
      slug: "github",
      displayName: "GitHub",
      protocol: "oauth",
      config: {},
      sealedSecret: null,
      ...at
    })
  ])
  broker = await world.resource({
    slug: "code",
    uri: "https://mcp.example.com/code",
    backend: "broker",
    providerId: "github",
    scopes: [
      { name: "files:read", description: "", upstream: ["repo"] },
      { name: "files:write", description: "", upstream: ["repo", "write"] }
    ]
  })
})

afterAll(() => world.close())

beforeEach(async () => {
  app = await world.client({ grantTypes, scopes: ["files:read", "files:write"] })
  agent = await world.client({ grantTypes, scopes: ["files:read", "files:write"], agent: true })
})

const swap = (
  by: Known,
  subject: string,
  form: Record<string, string> = {},
  headers: Record<string, string> = {}
) =>
  world.token(
    by,
    { grant_type: exchange, subject_token: subject, subject_token_type: accessType, ...form },
    headers
  )

const own = async (of = app, form: Record<string, string> = {}): Promise<string> =>
  (await world.token(of, { grant_type: "client_credentials", ...form })).body.access_token

describe("client credentials", () => {
  it("AS-90 a public client; a client that registered itself", async () => {
    const open = await world.client({ authMethod: "none", grantTypes })
    const self = await world.client({ source: "dcr", grantTypes, scopes: ["files:read"] })
    refused(await world.token(open, { grant_type: "client_credentials" }), "unauthorized_client")
    refused(await world.token(self, { grant_type: "client_credentials" }), "invalid_scope")
  })
  it("AS-91 scope outside the ceiling, outside the catalog; an unknown resource; a Broker; a slug", async () => {
    const wide = await world.client({ grantTypes, scopes: ["files:read", "elsewhere"] })
    const none = await world.client({ grantTypes })
    refused(await world.token(app, { grant_type: "client_credentials", scope: "elsewhere" }), "invalid_scope")
    refused(
      await world.token(wide, { grant_type: "client_credentials", scope: "elsewhere", resource: files }),
      "invalid_scope"
    )
    for (const target of ["https://nowhere.example.com/", "files", broker.uri])
      refused(
        await world.token(app, { grant_type: "client_credentials", resource: target }),
        "invalid_target"
      )
    refused(await world.token(none, { grant_type: "client_credentials" }), "invalid_scope")
    const answer = await world.token(wide, { grant_type: "client_credentials", resource: files })
    expect([
      answer.body.scope,
      answer.body.expires_in,
      world.claimsOf(answer.body.access_token).sub,
      answer.body.refresh_token
    ]).toEqual(["files:read", 3_600, wide.clientId, undefined])
    expect(world.claimsOf(await own()).aud).toBe(world.issuer)
  })
})

describe("token exchange", () => {
  it("AS-92 a wider scope", async () =>
    refused(
      await swap(app, await own(app, { scope: "files:read" }), { scope: "files:read files:write" }),
      "invalid_scope"
    ))
  it("AS-93 subject tokens that are not ours, changed, expired, or of another kind", async () => {
    const token = await own()
    const [header, body, signature] = token.split(".") as [string, string, string]
    const claims = world.claimsOf(token)
    const kid = JSON.parse(Buffer.from(header, "base64url").toString()).kid as string
    const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url")
    const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" })
    const jwk = world.open.services.keys.jwks[0]!
    const hmac = `${encoded({ typ: "at+jwt", alg: "HS256", kid })}.${body}`
    const flipped = `${signature.slice(0, 20)}${signature[20] === "A" ? "B" : "A"}${signature.slice(21)}`
    const forgeries = {
      flipped: `${header}.${body}.${flipped}`,
      none: `${encoded({ typ: "at+jwt", alg: "none", kid })}.${body}.AA`,
      hmac: `${hmac}.${createHmac("sha256", JSON.stringify(jwk)).update(hmac).digest("base64url")}`,
      stranger: jws({ typ: "at+jwt", alg: "ES256", kid }, claims, privateKey),
      typ: `${encoded({ typ: "JWT", alg: "ES256", kid })}.${body}.${signature}`,
      idJag: `${encoded({ typ: "oauth-id-jag+jwt", alg: "ES256", kid })}.${body}.${signature}`,
      issuer: `${header}.${encoded({ ...claims, iss: "https://evil.example" })}.${signature}`,
      text: "not.a.jwt",
      long: `${token}${"A".repeat(20_000)}`
    }
    for (const [name, forged] of Object.entries(forgeries)) {
      const answer = await swap(app, forged)
      expect([name, answer.body.error]).toEqual([name, "invalid_grant"])
    }
    expect((await swap(app, token)).status).toBe(200)
    world.nowMs += 3_600_000
    refused(await swap(app, token), "invalid_grant")
  })
  it("AS-94 a header jwk or jku of an attacker is not looked at, and nothing is fetched", async () => {
    const pair = generateKeyPairSync("ec", { namedCurve: "P-256" })
    const claims = world.claimsOf(await own())
    for (const extra of [
      { jwk: pair.publicKey.export({ format: "jwk" }) },
      { jku: "https://evil.example/jwks" },
      { x5u: "https://evil.example/x" }
    ])
      refused(
        await swap(app, jws({ typ: "at+jwt", alg: "ES256", ...extra }, claims, pair.privateKey)),
        "invalid_grant"
      )
    expect(looked).toEqual([])
    // The same eye sees a fetch when there is one.
    await world.post("/oauth/token", {
      grant_type: "refresh_token",
      refresh_token: "x",
      client_id: "https://seen.example/client"
    })
    expect(looked.splice(0)).toEqual(["seen.example"])
  })
  it("AS-95 cross-client, in neither list; in one of them", async () => {
    const token = await own(app, { resource: files })
    refused(await swap(agent, token, { resource: files }), "access_denied", 403)
    refused(await swap(agent, token), "access_denied", 403)
    const lent = await world.resource({
      slug: `lent-${randomBytes(3).toString("hex")}`,
      uri: `https://mcp.example.com/lent-${randomBytes(3).toString("hex")}`,
      exchangeClients: [agent.clientId]
    })
    const answer = await swap(agent, token, { resource: lent.uri })
    expect([
      answer.status,
      world.claimsOf(answer.body.access_token).aud,
      answer.body.issued_token_type
    ]).toEqual([200, lent.uri, accessType])
  })
  it("AS-96 an unknown resource is 404, never invalid_target", async () => {
    refused(await swap(app, await own(), { resource: "https://nowhere.example.com/" }), "not_found", 404)
    refused(
      await swap(app, await own(), { resource: files, audience: "https://other.example.com/" }),
      "invalid_request"
    )
    expect((await swap(app, await own(), { audience: files })).status).toBe(200)
  })
  it("AS-97 a chain of depth max + 1; depth = max works", async () => {
    const actor = await own(app)
    let token = await own(app)
    for (let depth = 1; depth <= 5; depth++) {
      const answer = await swap(app, token, { actor_token: actor, actor_token_type: accessType })
      expect(answer.status).toBe(200)
      token = answer.body.access_token
    }
    refused(
      await swap(app, token, { actor_token: actor, actor_token_type: accessType }),
      "access_denied",
      403
    )
  })
  it("AS-98 an actor token of another client", async () => {
    refused(
      await swap(app, await own(), { actor_token: await own(agent), actor_token_type: accessType }),
      "invalid_grant"
    )
    refused(await swap(app, await own(), { actor_token: await own() }), "invalid_request")
    refused(await swap(app, await own(), { actor_token: "x", actor_token_type: accessType }), "invalid_grant")
  })
  it("AS-99 impersonation keeps the act of its subject", async () => {
    const delegated = (
      await swap(agent, await own(agent), { actor_token: await own(agent), actor_token_type: accessType })
    ).body.access_token
    const plain = await swap(agent, delegated)
    const claims = world.claimsOf(plain.body.access_token)
    expect([claims.act, claims.agent_id, claims.agent_chain]).toEqual([
      { sub: agent.clientId, actor_type: "agent" },
      agent.clientId,
      [agent.clientId]
    ])
  })
  it("AS-100 a chain of ten with limit ten: agent_chain has the last eight", async () => {
    const deep = await World.make({ settings: { tokenExchange: { maxChainDepth: 10 } } })
    const one = await deep.client({ grantTypes, scopes: ["a"] })
    const two = await deep.client({ grantTypes, scopes: ["a"], agent: true })
    const lent = await deep.resource({
      slug: "a",
      uri: "https://a.example.com/",
      scopes: [{ name: "a", description: "", upstream: [] }],
      exchangeClients: [one.clientId, two.clientId]
    })
    const first = async (of: Known): Promise<string> =>
      (await deep.token(of, { grant_type: "client_credentials" })).body.access_token
    let token = await first(one)
    for (let depth = 0; depth < 10; depth++) {
      const by = depth % 2 === 0 ? one : two
      const answer = await deep.token(by, {
        grant_type: exchange,
        subject_token: token,
        subject_token_type: accessType,
        resource: lent.uri,
        actor_token: await first(by),
        actor_token_type: accessType
      })
      expect(answer.status).toBe(200)
      token = answer.body.access_token
    }
    expect(deep.claimsOf(token).agent_chain).toEqual(
      [one, two, one, two, one, two, one, two].map(({ clientId }) => clientId)
    )
    await deep.close()
  })
  it("AS-101 the subject revoked while an exchange is in flight, a thousand rounds: never a live derived token", async () => {
    for (let round = 0; round < 1_000; round += 20) {
      await Promise.all(
        Array.from({ length: 20 }, async (_, at) => {
          const token = await own()
          const [answer] =
            at % 2 === 0
              ? await Promise.all([swap(app, token), world.revoke(app, token)])
              : ((await Promise.all([world.revoke(app, token), swap(app, token)])).toReversed() as [
                  Answer,
                  Answer
                ])
          if (answer!.status === 200) expect(await world.active(app, answer!.body.access_token)).toBe(false)
          else refused(answer!, "invalid_grant")
        })
      )
    }
  }, 60_000)
  it("AS-102 a bound subject without a proof, with another key, with its own", async () => {
    const key = new ProofKey()
    const token = (await world.token(app, { grant_type: "client_credentials" }, { DPoP: key.proof(world) }))
      .body.access_token
    refused(await swap(app, token), "invalid_dpop_proof")
    refused(await swap(app, token, {}, { DPoP: new ProofKey().proof(world) }), "invalid_dpop_proof")
    const answer = await swap(app, token, {}, { DPoP: key.proof(world) })
    expect([answer.body.token_type, world.claimsOf(answer.body.access_token).cnf]).toEqual([
      "DPoP",
      { jkt: key.jkt }
    ])
    const fresh = await swap(app, await own(), {}, { DPoP: key.proof(world) })
    expect(world.claimsOf(fresh.body.access_token).cnf).toEqual({ jkt: key.jkt })
  })
  it("A-11: a bound actor token without a proof, with another key, with its own", async () => {
    const key = new ProofKey()
    const bound = (await world.token(agent, { grant_type: "client_credentials" }, { DPoP: key.proof(world) }))
      .body.access_token
    const actor = { actor_token: bound, actor_token_type: accessType }
    const subject = await own(agent)
    refused(await swap(agent, subject, actor), "invalid_dpop_proof")
    refused(await swap(agent, subject, actor, { DPoP: new ProofKey().proof(world) }), "invalid_dpop_proof")
    expect((await swap(agent, subject, actor, { DPoP: key.proof(world) })).status).toBe(200)
  })
  it("AS-106 token types that are not supported", async () => {
    const token = await own()
    for (const kind of ["refresh_token", "id_token", "saml2"])
      refused(
        await swap(app, token, { subject_token_type: `urn:ietf:params:oauth:token-type:${kind}` }),
        "invalid_request"
      )
    refused(
      await swap(app, token, { requested_token_type: "urn:ietf:params:oauth:token-type:refresh_token" }),
      "invalid_request"
    )
    expect(
      (
        await swap(app, token, {
          requested_token_type: "urn:ietf:params:oauth:token-type:jwt",
          subject_token_type: "urn:ietf:params:oauth:token-type:jwt"
        })
      ).status
    ).toBe(200)
  })
  it("AS-107 an exchanged token does not outlive its subject", async () => {
    const token = await own()
    world.nowMs += 3_000_000
    const answer = await swap(app, token)
    expect(world.claimsOf(answer.body.access_token).exp).toBeLessThanOrEqual(world.claimsOf(token).exp)
  })
  it("a user's token at another Mint resource wants that consent; with it, it is narrowed to what the user allows", async () => {
    const there = await world.resource({
      slug: `there-${randomBytes(3).toString("hex")}`,
      uri: `https://mcp.example.com/there-${randomBytes(3).toString("hex")}`
    })
    const tokens = await world.tokens(app, user, { resource: files })
    const missing = await swap(app, tokens.access_token, { resource: there.uri })
    refused(missing, "consent_required")
    expect([missing.body.cause, missing.body.consent_url]).toEqual([
      "consent_missing",
      `${world.issuer}/authorize?resource=${there.slug}&scope=files%3Aread`
    ])
    const browser = world.browser()
    await browser.login(user)
    const path = new URL(missing.body.consent_url)
    const page = await browser.call(`${path.pathname}${path.search}`)
    expect(page.text).toContain(app.clientName)
    expect(
      (await browser.post("/authorize", { ...browser.hidden(page.text), decision: "allow" })).status
    ).toBe(200)
    const answer = await swap(app, tokens.access_token, { resource: there.uri })
    expect([answer.status, world.claimsOf(answer.body.access_token).sub, answer.body.scope]).toEqual([
      200,
      user.id,
      "files:read"
    ])
    expect((await browser.call(`${path.pathname}${path.search}`)).status).toBe(404)
    const wider = await world.tokens(app, user, { resource: files, scope: "files:read files:write" })
    const narrow = await swap(app, wider.access_token, { resource: there.uri })
    expect([narrow.body.cause, narrow.body.consent_url]).toEqual([
      "scope_insufficient",
      `${world.issuer}/authorize?resource=${there.slug}&scope=files%3Awrite`
    ])
  })
  it("AS-157 a rotated key: its tokens verify until it has retired", async () => {
    const token = await own()
    const old = world.open.services.keys.jwks[0]!["kid"]
    await world.open.services.keys.rotate()
    expect(await world.active(app, token)).toBe(true)
    expect(world.open.services.keys.jwks.map(({ kid }) => kid)).toContain(old)
    expect(world.open.services.keys.jwks[0]!["kid"]).not.toBe(old)
    const { keys: ring } = world.open.services
    const row = ring.rows.find(({ kid }) => kid === old)!
    world.nowMs = row.retiredMs! + 3_600_000 + 3_600_000
    await world.open.sweep()
    expect(ring.jwks.map(({ kid }) => kid)).not.toContain(old)
    expect(ring.rows.find(({ kid }) => kid === old)).toMatchObject({ status: "retired", privateKey: null })
    expect(ring.verify(token)).toBeUndefined()
    refused(await swap(app, token), "invalid_grant")
  })
})

describe("vending at a Broker resource", () => {
  const connect = async (scopesGranted: ReadonlyArray<string>, of = user) => {
    const at = { createdMs: world.nowMs, updatedMs: world.nowMs }
    await world.open.services.books.write([
      BrokerGrants.put([of.id, "github"], {
        id: "g",
        userId: of.id,
        providerId: "github",
        scopesGranted,
        credential: null,
        version: 1,
        revokedMs: null,
        ...at
      })
    ])
  }
  it("AS-103 with an actor_token", async () =>
    refused(
      await swap(app, (await world.tokens(app, user, { resource: files })).access_token, {
        resource: broker.uri,
        actor_token: await own(),
        actor_token_type: accessType
      }),
      "invalid_request"
    ))
  it("AS-104 no consent, narrow consent, no connection, narrow connection, then the token", async () => {
    const holder = await world.user()
    const tokens = await world.tokens(app, holder, { resource: files })
    const ask = (scope: string, token = tokens.access_token) => swap(app, token, { resource: "code", scope })
    const consentId = world.issuanceOf(tokens.access_token).consentId
    const said = (answer: Answer) => {
      refused(answer, "consent_required")
      return [answer.body.cause, answer.body.consent_url]
    }
    expect(said(await ask("files:read"))).toEqual(["consent_missing", `${world.issuer}/connect/github`])
    await connect(["write"], holder)
    expect(said(await ask("files:read"))).toEqual(["scope_insufficient", `${world.issuer}/connect/github`])
    await connect(["repo"], holder)
    const answer = await ask("files:read")
    expect([answer.status, answer.body]).toEqual([
      200,
      {
        access_token: "upstream-token",
        issued_token_type: accessType,
        token_type: "Bearer",
        scope: "files:read"
      }
    ])
    const wide = await world.tokens(app, holder, { resource: files, scope: "files:read files:write" })
    expect(said(await ask("files:write", wide.access_token))).toEqual([
      "scope_insufficient",
      `${world.issuer}/connect/github`
    ])
    const row = Issuances.range(world.store, { limit: 10_000, reverse: true })
      .map(({ value }) => value)
      .find(({ backend }) => backend === "broker")!
    expect([row.revocable, row.userId, row.resourceId]).toEqual([false, holder.id, broker.id])
    // The consent that counts is that of this user and client at the resource which the client stands for.
    const lender = await world.client({ grantTypes, scopes: ["files:read", "files:write"] })
    const lent = await world.resource({
      slug: `lent-${randomBytes(3).toString("hex")}`,
      uri: `https://mcp.example.com/l-${randomBytes(3).toString("hex")}`,
      runtimeClients: [lender.clientId]
    })
    const stranger = await swap(lender, tokens.access_token, { resource: "code", scope: "files:read" })
    expect(said(stranger)).toEqual([
      "consent_missing",
      `${world.issuer}/authorize?resource=${lent.slug}&scope=files%3Aread`
    ])
    await world.tokens(app, holder, { resource: lent.uri, scope: "files:read" })
    expect(
      said(await swap(lender, wide.access_token, { resource: "code", scope: "files:read files:write" }))
    ).toEqual(["scope_insufficient", `${world.issuer}/authorize?resource=${lent.slug}&scope=files%3Awrite`])
    await world.revokeConsent(consentId)
    refused(await ask("files:read"), "invalid_grant")
  })
  it("AS-105 a client that merely holds a stolen token, and acts as no resource", async () => {
    const thief = await world.client({ grantTypes, scopes: ["files:read"] })
    const tokens = await world.tokens(app, user, { resource: files })
    await connect(["repo"])
    const before = upstream.calls
    refused(await swap(thief, tokens.access_token, { resource: broker.uri }), "access_denied", 403)
    expect(upstream.calls).toBe(before)
  })
  it("the operator's list; a machine's token; an upstream that is gone; a grant withdrawn while the upstream was asked", async () => {
    const tokens = await world.tokens(app, user, { resource: files })
    const listed = await world.resource({
      slug: `listed-${randomBytes(3).toString("hex")}`,
      uri: "",
      backend: "broker",
      providerId: "github",
      exchangeClients: [agent.clientId]
    })
    refused(await swap(app, tokens.access_token, { resource: listed.slug }), "access_denied", 403)
    refused(await swap(app, await own(), { resource: "code" }), "invalid_grant")
    await connect(["repo"])
    upstream.answer = unavailable("the upstream is down", 5)
    const down = await swap(app, tokens.access_token, { resource: "code" })
    expect([down.status, down.headers.get("retry-after")]).toEqual([503, "5"])
    upstream.answer = { accessToken: "upstream-token", expiresIn: 90 }
    expect((await swap(app, tokens.access_token, { resource: "code" })).body.expires_in).toBe(90)
    const { vault } = world.open.services as unknown as { vault: { upstreamToken: () => Promise<unknown> } }
    const plain = vault.upstreamToken
    vault.upstreamToken = async () => {
      const { books } = world.open.services
      await books.write([
        BrokerGrants.put([user.id, "github"], {
          ...BrokerGrants.get(world.store, [user.id, "github"])!,
          revokedMs: world.nowMs
        })
      ])
      return upstream.answer
    }
    refused(await swap(app, tokens.access_token, { resource: "code" }), "consent_required")
    vault.upstreamToken = plain
  })
})

describe("jwt-bearer", () => {
  let idp: Idp
  let privateKey: KeyObject
  const addIdp = async (
    issuer: string,
    changes: Partial<Idp> = {}
  ): Promise<{ idp: Idp; privateKey: KeyObject }> => {
    const pair = generateKeyPairSync("ec", { namedCurve: "P-256" })
    const { books } = world.open.services
    const row: Idp = {
      id: books.id(),
      name: issuer,
      issuer,
      jwksUri: "",
      audience: "",
      enabled: true,
      createdMs: world.nowMs,
      updatedMs: world.nowMs,
      ...changes
    }
    keys.set(row.id, pair.publicKey)
    await books.write([Idps.put([row.id], row)])
    return { idp: row, privateKey: pair.privateKey }
  }
  const policy = async (changes: Partial<Policy> = {}): Promise<void> => {
    const { books } = world.open.services
    const id = books.id()
    await books.write([
      Policies.put([id], {
        id,
        name: "p",
        idpId: idp.id,
        clientIds: [],
        scopes: [],
        resources: [],
        enabled: true,
        createdMs: world.nowMs,
        updatedMs: world.nowMs,
        ...changes
      })
    ])
  }
  beforeEach(async () => {
    ;({ idp, privateKey } = await addIdp(`https://idp-${randomBytes(4).toString("hex")}.example.com`))
  })
  const now = () => Math.floor(world.nowMs / 1_000)
  const assertion = (
    claims: Record<string, unknown> = {},
    header: Record<string, unknown> = {},
    key = privateKey
  ): string =>
    jws(
      { typ: "oauth-id-jag+jwt", alg: "ES256", kid: "k", ...header },
      {
        iss: idp.issuer,
        sub: "alice",
        aud: world.issuer,
        client_id: app.clientId,
        jti: randomBytes(8).toString("hex"),
        iat: now(),
        exp: now() + 300,
        ...claims
      },
      key
    )
  const ask = (text: string, form: Record<string, string> = {}, by = app) =>
    world.token(by, { grant_type: bearer, assertion: text, ...form })

  it("an assertion becomes a token of the mapped, or of the federated, subject", async () => {
    await policy()
    const answer = await ask(assertion({ resource: files }))
    expect([
      answer.status,
      world.claimsOf(answer.body.access_token).sub,
      world.claimsOf(answer.body.access_token).aud,
      answer.body.refresh_token
    ]).toEqual([200, `${idp.issuer}:alice`, files, undefined])
    const { books } = world.open.services
    const at = { createdMs: world.nowMs, updatedMs: world.nowMs }
    await books.write([
      Mappings.put(["m"], { id: "m", idpId: idp.id, idpSubject: "bob", userId: user.id, ...at }),
      MappingKeys.put([idp.id, "bob"], { id: "m" })
    ])
    expect(world.claimsOf((await ask(assertion({ sub: "bob" }))).body.access_token).sub).toBe(user.id)
    await world.changeUser(user, { status: "disabled" })
    refused(await ask(assertion({ sub: "bob" })), "access_denied", 403)
    await world.changeUser(user, { status: "active" })
  })
  it("AS-108 an issuer that is unregistered, has one slash more, or is disabled", async () => {
    await policy()
    for (const iss of ["https://nowhere.example.com", `${idp.issuer}/`, 7])
      refused(await ask(assertion({ iss })), "invalid_grant")
    await world.open.services.books.write([Idps.put([idp.id], { ...idp, enabled: false })])
    refused(await ask(assertion()), "invalid_grant")
  })
  it("AS-109 typ JWT, alg HS256 or none, the key of another IdP", async () => {
    await policy()
    refused(await ask(assertion({}, { typ: "JWT" })), "invalid_grant")
    for (const alg of ["HS256", "none", "RS256"]) refused(await ask(assertion({}, { alg })), "invalid_grant")
    refused(await ask(assertion({}, { crit: ["x"] })), "invalid_grant")
    refused(
      await ask(assertion({}, {}, (await addIdp("https://other-idp.example.com")).privateKey)),
      "invalid_grant"
    )
    for (const text of ["a.b", "a.b.c", "x".repeat(20_000)]) refused(await ask(text), "invalid_grant")
    refused(await world.token(app, { grant_type: bearer }), "invalid_request")
  })
  it("AS-110 aud of another server, or an array of two; of one is accepted, and the IdP's own audience", async () => {
    await policy()
    for (const aud of ["https://other.example.com", [world.issuer, "x"], [], undefined])
      refused(await ask(assertion({ aud })), "invalid_grant")
    expect((await ask(assertion({ aud: [world.issuer] }))).status).toBe(200)
    await world.open.services.books.write([Idps.put([idp.id], { ...idp, audience: "urn:ours" })])
    expect((await ask(assertion({ aud: "urn:ours" }))).status).toBe(200)
  })
  it("AS-111 client_id of another client", async () => {
    await policy()
    refused(await ask(assertion({ client_id: agent.clientId })), "invalid_grant")
  })
  it("AS-112 iat six minutes old, exp passed, exp two hours ahead", async () => {
    await policy()
    for (const claims of [
      { iat: now() - 360 },
      { exp: now() },
      { exp: now() + 7_200 },
      { iat: now() + 6 },
      { nbf: now() + 6 },
      { iat: "now" },
      { sub: "" },
      { sub: "s".repeat(256) },
      { jti: "" },
      { jti: "j".repeat(257) }
    ])
      refused(await ask(assertion(claims)), "invalid_grant")
  })
  it("AS-113 the same jti twice, also in parallel", async () => {
    await policy()
    const text = assertion()
    const answers = await Promise.all([ask(text), ask(text)])
    expect(answers.map(({ status }) => status).sort((a, b) => a - b)).toEqual([200, 400])
    refused(await ask(text), "invalid_grant")
  })
  it("AS-114 the same jti from two IdPs", async () => {
    await policy()
    const jti = randomBytes(8).toString("hex")
    const one = await ask(assertion({ jti }))
    ;({ idp, privateKey } = await addIdp(`https://second-${randomBytes(4).toString("hex")}.example.com`))
    await policy()
    expect([one.status, (await ask(assertion({ jti }))).status]).toEqual([200, 200])
  })
  it("AS-115 no policy, another client's, another resource's; the assertion is not spent by it", async () => {
    const text = assertion()
    refused(await ask(text), "access_denied", 403)
    await policy({ clientIds: [agent.clientId] })
    await policy({ resources: ["files"] })
    await policy({ enabled: false })
    refused(await ask(text), "access_denied", 403)
    await policy({ clientIds: [app.clientId] })
    expect((await ask(text)).status).toBe(200)
    expect((await ask(assertion({ resource: "files" }))).status).toBe(200)
  })
  it("AS-116 strict subjects without a mapping", async () => {
    const settings = world.open.services.settings as { xaa: object }
    const plain = settings.xaa
    settings.xaa = { ...plain, subjectMode: "strict" }
    await policy()
    refused(await ask(assertion()), "access_denied", 403)
    settings.xaa = plain
  })
  it("AS-117 scope: the intersection of all that bound it; empty is invalid_scope", async () => {
    await policy()
    expect(
      (await ask(assertion({ scope: "files:read" }), { scope: "files:read files:write" })).body.scope
    ).toBe("files:read")
    expect((await ask(assertion())).body.scope).toBe("files:read files:write")
    refused(await ask(assertion({ scope: "files:read" }), { scope: "files:write" }), "invalid_scope")
    const none = await world.client({ grantTypes })
    refused(await ask(assertion({ client_id: none.clientId }), {}, none), "invalid_scope")
  })
  it.each([[""], [" "], [5], [null], [{}], [["files:read"]], [true]])(
    "A-7: an assertion whose scope is %j bounds the token to nothing",
    async (scope) => {
      await policy()
      refused(await ask(assertion({ scope })), "invalid_scope")
      refused(await ask(assertion({ scope }), { scope: "files:read" }), "invalid_scope")
    }
  )
  it("A-7: a requested scope that names none is no request for all", async () => {
    await policy()
    refused(await ask(assertion(), { scope: " " }), "invalid_scope")
    refused(await world.token(app, { grant_type: "client_credentials", scope: " " }), "invalid_scope")
  })
  it.each([
    ["jti", "a\0b"],
    ["jti", "\ud800"],
    ["jti", "\0"],
    ["sub", "alice\0"],
    ["sub", "\udfff"]
  ])("A-11: an assertion whose %s is %j is refused, and is no fault of ours", async (name, value) => {
    await policy()
    refused(await ask(assertion({ [name]: value })), "invalid_grant")
  })
  it("A-11: a client id that cannot be a key is an unknown client", async () => {
    const form = { grant_type: "client_credentials" }
    const basic = (id: string) => ({ Authorization: `Basic ${Buffer.from(id).toString("base64")}` })
    for (const id of ["a\0b:secret", "a%00b:secret", "%00:secret"])
      refused(await world.post("/oauth/token", form, basic(id)), "invalid_client", 401)
  })
  it("AS-118 a resource is wanted and none is given; request and claim differ; a Broker; an array of two", async () => {
    await policy()
    refused(await ask(assertion({ resource: files }), { resource: broker.uri }), "invalid_target")
    for (const target of [broker.uri, "https://nowhere.example.com/", [files, files]])
      refused(await ask(assertion({ resource: target })), "invalid_target")
    expect((await ask(assertion({ resource: [files] }), { resource: "files" })).status).toBe(200)
    const settings = world.open.services.settings as { xaa: object }
    const plain = settings.xaa
    settings.xaa = { ...plain, requireResource: true }
    refused(await ask(assertion()), "invalid_target")
    settings.xaa = plain
  })
  it("a public client may not; with the setting it may", async () => {
    await policy()
    const open = await world.client({ authMethod: "none", grantTypes, scopes: ["files:read"] })
    refused(await ask(assertion({ client_id: open.clientId }), {}, open), "unauthorized_client")
  })
})
