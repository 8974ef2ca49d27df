/** Authorization section 13.2: keys of trusted identity providers, with a counting server for each. */
import { Effect } from "effect"
import { exportJWK, generateKeyPair, type JWK } from "jose"
import { generateKeyPairSync } from "node:crypto"
import { afterEach, beforeAll, describe, expect, it } from "vitest"
import { IdentityProviders } from "../../../../protocols/authorization/upstream/identity-providers.ts"
import type { Idp } from "../../../../protocols/authorization/records.ts"
import { SafeFetch } from "../../../../protocols/authorization/upstream/safe-fetch.ts"
import type { SettingsInput } from "../../../../protocols/authorization/settings.ts"
import { resolved, Upstream, World, type Heard, type Said } from "./outside.ts"

const jwk = async (
  alg: string,
  more: object = {},
  options: { modulusLength?: number } = {}
): Promise<JWK> => ({
  ...(await exportJWK((await generateKeyPair(alg, { extractable: true, ...options })).publicKey)),
  ...more
})

let ecA: JWK
let ecB: JWK
let rsa: JWK

beforeAll(async () => {
  ;[ecA, ecB, rsa] = await Promise.all([
    jwk("ES256", { kid: "a" }),
    jwk("ES256", { kid: "b" }),
    jwk("RS256", { kid: "r" })
  ])
})

const open: Array<Upstream> = []

afterEach(async () => {
  for (const server of open.splice(0)) await server.close()
})

const upstream = async (answer: (heard: Heard, self: Upstream) => Said): Promise<Upstream> => {
  const server: Upstream = await Upstream.open((heard) => answer(heard, server))
  open.push(server)
  return server
}

const local: SettingsInput = { xaa: { allowPrivateAddresses: true } }

const providersOf = (
  settings: SettingsInput = local,
  addresses?: (host: string, call: number) => ReadonlyArray<string>
): { readonly world: World; readonly idps: IdentityProviders } => {
  const world = new World(settings, addresses)
  return { world, idps: new IdentityProviders(world.authority, new SafeFetch(world.authority.lookup)) }
}

const idpOf = (issuer: string, jwksUri = `${issuer}/jwks`, more: Partial<Idp> = {}): Idp => ({
  id: "idp-1",
  name: "IdP",
  issuer,
  jwksUri,
  audience: "",
  enabled: true,
  createdMs: 0,
  updatedMs: 0,
  ...more
})

const serving = (...keys: ReadonlyArray<unknown>) => upstream(() => ({ body: { keys } }))

const has = async (idps: IdentityProviders, idp: Idp, alg: string, kid?: string): Promise<boolean> =>
  (await resolved(idps.keyFor(idp, { alg, kid }))) !== undefined

describe("which key", () => {
  it("by kid, fitting the algorithm; the key it is", async () => {
    const server = await serving(ecA, ecB, rsa)
    const { idps } = providersOf()
    const idp = idpOf(server.at(""))
    expect(
      (await resolved(idps.keyFor(idp, { alg: "ES256", kid: "b" })))?.export({ format: "jwk" })
    ).toMatchObject({ x: ecB.x, y: ecB.y })
    expect([
      await has(idps, idp, "RS256", "r"),
      await has(idps, idp, "PS256", "r"),
      await has(idps, idp, "ES256", "r"),
      await has(idps, idp, "RS256", "a"),
      await has(idps, idp, "none", "a"),
      await has(idps, idp, "HS256", "a"),
      await has(idps, idp, "ES384", "a")
    ]).toEqual([true, true, false, false, false, false, false])
    expect(server.heard.length).toBe(1)
  })
  it("without a kid only when exactly one fits", async () => {
    const two = await serving(ecA, ecB, rsa)
    const { idps } = providersOf()
    expect([
      await has(idps, idpOf(two.at("")), "ES256"),
      await has(idps, idpOf(two.at("")), "RS256")
    ]).toEqual([false, true])
  })
  it("dropped: symmetric, weak, for encryption, of another algorithm, malformed", async () => {
    const weak = generateKeyPairSync("rsa", { modulusLength: 1_024 }).publicKey.export({ format: "jwk" })
    const server = await serving(
      { kty: "oct", k: "c2VjcmV0", kid: "sym", alg: "HS256" },
      { ...weak, kid: "weak" },
      { ...ecA, kid: "enc", use: "enc" },
      { ...rsa, kid: "ps", alg: "PS256" },
      { ...ecA, kid: "broken", x: "AA" },
      null,
      "x",
      { ...(await jwk("ES384")), kid: "p384" },
      { ...ecA, kid: "sig", use: "sig", alg: "ES256" }
    )
    const { idps } = providersOf()
    const idp = idpOf(server.at(""))
    expect(await Effect.runPromise(idps.refresh(idp))).toBe(3)
    for (const [alg, kid] of [
      ["HS256", "sym"],
      ["RS256", "weak"],
      ["ES256", "enc"],
      ["RS256", "ps"],
      ["ES256", "broken"],
      ["ES256", "p384"]
    ] as const)
      expect(await has(idps, idp, alg, kid), kid).toBe(false)
    expect([await has(idps, idp, "PS256", "ps"), await has(idps, idp, "ES256", "sig")]).toEqual([true, true])
  })
  it("a disabled provider has none, and is not asked", async () => {
    const server = await serving(ecA)
    const { idps } = providersOf()
    const idp = idpOf(server.at(""))
    expect(await has(idps, idp, "ES256", "a")).toBe(true)
    expect([await has(idps, { ...idp, enabled: false }, "ES256", "a"), server.heard.length]).toEqual([
      false,
      1
    ])
  })
})

describe("discovery", () => {
  it("the key set is where the provider's own document says", async () => {
    const server = await upstream(({ path }, self) =>
      path === "/t/.well-known/openid-configuration"
        ? { body: { issuer: self.at("/t"), jwks_uri: self.at("/keys") } }
        : { body: { keys: [ecA] } }
    )
    const { idps } = providersOf()
    expect(await has(idps, idpOf(server.at("/t"), ""), "ES256", "a")).toBe(true)
    expect(server.heard.map(({ path }) => path)).toEqual(["/t/.well-known/openid-configuration", "/keys"])
  })
  it("another issuer in it, no key set in it, no document: no keys", async () => {
    for (const body of [
      { issuer: "https://other.example", jwks_uri: "X" },
      { issuer: "", jwks_uri: "X" },
      { issuer: "I" },
      { issuer: "I", jwks_uri: 7 },
      "nonsense"
    ]) {
      const server = await upstream((_, self) => ({
        body: JSON.stringify(body)
          .replace('"I"', JSON.stringify(self.at("")))
          .replace('"X"', JSON.stringify(self.at("/keys")))
      }))
      const { idps } = providersOf()
      expect(await has(idps, idpOf(server.at(""), ""), "ES256", "a")).toBe(false)
      expect(server.heard.map(({ path }) => path)).toEqual(["/.well-known/openid-configuration"])
    }
  })
  it("an issuer that was changed is another provider's cache", async () => {
    const one = await serving(ecA)
    const two = await serving(ecB)
    const { idps } = providersOf()
    expect([
      await has(idps, idpOf(one.at("")), "ES256", "a"),
      await has(idps, idpOf(two.at("")), "ES256", "a"),
      await has(idps, idpOf(two.at("")), "ES256", "b")
    ]).toEqual([true, false, true])
  })
})

describe("how often", () => {
  it("AS-119 a flood of unknown kids: at most one fetch per minute and provider", async () => {
    const server = await serving(ecA)
    const { idps, world } = providersOf()
    const idp = idpOf(server.at(""))
    for (let minute = 1; minute <= 3; minute++) {
      expect(
        new Set(
          await Promise.all(Array.from({ length: 50 }, (_, index) => has(idps, idp, "ES256", `x${index}`)))
        )
      ).toEqual(new Set([false]))
      for (let index = 0; index < 50; index++) expect(await has(idps, idp, "ES256", `y${index}`)).toBe(false)
      world.nowMs += 59_999
      expect(await has(idps, idp, "ES256", "z")).toBe(false)
      expect(server.heard.length).toBe(minute)
      world.nowMs += 1
    }
  })
  it("AS-119 a rotated key is found by the one refetch", async () => {
    let keys: ReadonlyArray<JWK> = [ecA]
    const server = await upstream(() => ({ body: { keys } }))
    const { idps, world } = providersOf()
    const idp = idpOf(server.at(""))
    expect(await has(idps, idp, "ES256", "a")).toBe(true)
    keys = [ecB]
    world.nowMs += 60_000
    expect([
      await has(idps, idp, "ES256", "b"),
      await has(idps, idp, "ES256", "a"),
      server.heard.length
    ]).toEqual([true, false, 2])
  })
  it("kept for the time of the settings; many at once fetch once", async () => {
    const server = await serving(ecA)
    const { idps, world } = providersOf()
    const idp = idpOf(server.at(""))
    await Promise.all(Array.from({ length: 20 }, () => has(idps, idp, "ES256", "a")))
    expect([server.heard.length, idps.fetchedMs("idp-1"), idps.fetchedMs("idp-2")]).toEqual([
      1,
      world.nowMs,
      undefined
    ])
    world.nowMs += 3_599_999
    await has(idps, idp, "ES256", "a")
    expect(server.heard.length).toBe(1)
    world.nowMs += 1
    await has(idps, idp, "ES256", "a")
    expect(server.heard.length).toBe(2)
  })
  it("a failed refresh keeps the old set for one more time, then there is none", async () => {
    let status = 200
    const server = await upstream(() => ({ status, body: { keys: [ecA] } }))
    const { idps, world } = providersOf()
    const idp = idpOf(server.at(""))
    const startMs = world.nowMs
    expect(await has(idps, idp, "ES256", "a")).toBe(true)
    status = 500
    world.nowMs = startMs + 3_600_000
    expect([
      await has(idps, idp, "ES256", "a"),
      await has(idps, idp, "ES256", "a"),
      server.heard.length
    ]).toEqual([true, true, 2])
    world.nowMs = startMs + 7_199_999
    expect(await has(idps, idp, "ES256", "a")).toBe(true)
    world.nowMs = startMs + 7_200_000 + 60_000
    expect([await has(idps, idp, "ES256", "a"), idps.hasKeys("idp-1")]).toEqual([false, false])
    status = 200
    world.nowMs += 60_000
    expect([
      await has(idps, idp, "ES256", "a"),
      idps.hasKeys("idp-1"),
      await has(idps, idp, "ES256", "x"),
      idps.hasKeys("idp-2")
    ]).toEqual([true, true, false, false])
  })
  it("the administrator's refresh fetches at once, counts, and says when it fails", async () => {
    let status = 200
    const server = await upstream(() => ({ status, body: { keys: [ecA, rsa] } }))
    const { idps } = providersOf()
    const idp = idpOf(server.at(""))
    expect([
      await Effect.runPromise(idps.refresh(idp)),
      await Effect.runPromise(idps.refresh(idp)),
      server.heard.length
    ]).toEqual([2, 2, 2])
    status = 404
    await expect(Effect.runPromise(idps.refresh(idp))).rejects.toMatchObject({
      _tag: "FetchFault",
      reason: "broken"
    })
    expect(await has(idps, idp, "ES256", "a")).toBe(true)
    idps.forget("idp-1")
    expect([await has(idps, idp, "ES256", "a"), idps.fetchedMs("idp-1"), server.heard.length]).toEqual([
      false,
      undefined,
      4
    ])
  })
})

describe("where it must not go", () => {
  it.each(
    [["169.254.169.254"], ["10.0.0.1"], ["127.0.0.1"], ["93.184.216.34", "10.0.0.1"]].map(
      (all) => [all.join(" and "), all] as const
    )
  )("AS-120 key set or discovery at a host that resolves to %s: no connection", async (_name, all) => {
    const server = await serving(ecA)
    const { idps, world } = providersOf({}, () => all)
    expect(await has(idps, idpOf(`https://idp.example:${server.port}`), "ES256", "a")).toBe(false)
    expect(
      await has(idps, idpOf(`https://idp.example:${server.port}`, "", { id: "idp-2" }), "ES256", "a")
    ).toBe(false)
    expect([server.connections, world.lookups.length]).toEqual([0, 2])
  })
  it("AS-120 http without the flag: not even a look-up", async () => {
    const { idps, world } = providersOf({})
    expect([await has(idps, idpOf("http://idp.example:8080"), "ES256", "a"), world.lookups.length]).toEqual([
      false,
      0
    ])
  })
  it("AS-120 a redirect to such a host is not followed", async () => {
    const inner = await serving(ecA)
    const server = await upstream(() => ({ status: 302, headers: { Location: inner.at("/jwks") } }))
    const { idps } = providersOf()
    expect([await has(idps, idpOf(server.at("")), "ES256", "a"), inner.connections]).toEqual([false, 0])
  })
  it("AS-120 rebinding: each fetch looks up once, and the discovered host is checked anew", async () => {
    const server = await upstream((_, self) => ({
      body: { issuer: self.at("", "idp.example"), jwks_uri: self.at("/jwks", "idp.example") }
    }))
    const { idps, world } = providersOf(local, (_host, call) => (call === 1 ? ["127.0.0.1"] : []))
    expect(await has(idps, idpOf(server.at("", "idp.example"), ""), "ES256", "a")).toBe(false)
    expect([world.lookups, server.connections]).toEqual([["idp.example", "idp.example"], 1])
  })
  it("too large, too many, no JSON", async () => {
    const said: ReadonlyArray<Said> = [
      { body: { keys: [ecA], padding: "x".repeat(262_144) } },
      { body: { keys: Array.from({ length: 101 }, () => ecA) } },
      { body: { keys: {} } },
      { body: { keys: [ecA] }, headers: { "Content-Type": "text/plain" } }
    ]
    for (const one of said) {
      const server = await upstream(() => one)
      const { idps } = providersOf()
      expect(await has(idps, idpOf(server.at("")), "ES256", "a")).toBe(false)
    }
    const full = await upstream(() => ({
      body: { keys: Array.from({ length: 100 }, () => ecA) },
      headers: { "Content-Type": "application/jwk-set+json" }
    }))
    const { idps } = providersOf()
    expect(await has(idps, idpOf(full.at("")), "ES256", "a")).toBe(true)
  })
})
