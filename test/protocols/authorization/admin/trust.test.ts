/** Broker providers, IdPs, policies and mappings: sections 12.1 and 16.3 to 16.5. */
import { generateKeyPairSync } from "node:crypto"
import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { FetchFault } from "../../../../protocols/authorization/upstream/safe-fetch.ts"
import { secretOf } from "../../../../protocols/authorization/upstream/providers.ts"
import {
  BrokerGrants,
  MappingKeys,
  Mappings,
  Policies,
  Providers
} from "../../../../protocols/authorization/records.ts"
import { World } from "./world.ts"

const pem = (alg: "ES256" | "RS256"): string => {
  const { privateKey } =
    alg === "ES256"
      ? generateKeyPairSync("ec", { namedCurve: "P-256" })
      : generateKeyPairSync("rsa", { modulusLength: 2_048 })
  return privateKey.export({ type: "pkcs8", format: "pem" }) as string
}

describe("broker providers", () => {
  const config = { client_id: "us", authorize_url: "https://up.example/a", token_url: "https://up.example/t" }
  it("AS-149: the secret is sealed under the provider, and shown nowhere", async () => {
    const world = new World()
    const created = await world.provider({
      config_data: {
        ...config,
        client_secret: "upstream-secret",
        scopes: ["read"],
        extra_auth_params: { prompt: "consent" },
        response_format: "slack",
        token_auth: "basic",
        pkce: false
      }
    })
    expect(created).toEqual({
      id: created.id,
      slug: "github",
      display_name: "github",
      protocol: "oauth",
      created_at: "2026-09-01T10:00:00.000Z",
      updated_at: "2026-09-01T10:00:00.000Z",
      config_data: {
        ...config,
        scopes: ["read"],
        extra_auth_params: { prompt: "consent" },
        response_format: "slack",
        token_auth: "basic",
        pkce: false,
        client_secret_set: true
      }
    })
    const row = Providers.get(world.store, [created.id])!
    expect(secretOf(row, world.authority.seal, {})).toBe("upstream-secret")
    expect(secretOf({ ...row, id: "another" }, world.authority.seal, {})).toBeUndefined()
    expect(Buffer.from(row.sealedSecret!).toString("latin1") + JSON.stringify(row.config)).not.toContain(
      "upstream-secret"
    )
  })
  it("a secret by reference is shown by its name; each protocol has its own members", async () => {
    const world = new World()
    expect(
      (await world.provider({ config_data: { ...config, client_secret_ref: "CONNECTOR_GITHUB" } }))
        .config_data
    ).toEqual({ ...config, client_secret_ref: "CONNECTOR_GITHUB" })
    expect(
      (
        await world.provider({
          slug: "key",
          protocol: "api_key",
          config_data: { key: "sk", expires_in: 3_600 }
        })
      ).config_data
    ).toEqual({ expires_in: 3_600, key_set: true })
    for (const alg of ["ES256", "RS256"] as const) {
      const service = { issuer: "i", audience: "a", token_url: "https://up.example/t", alg }
      expect(
        (
          await world.provider({
            slug: alg.toLowerCase(),
            protocol: "service_account",
            config_data: { ...service, private_key: pem(alg) }
          })
        ).config_data
      ).toEqual({ ...service, private_key_set: true })
    }
    expect(
      (await world.did("GET", "/admin/broker-providers?protocol=api_key")).broker_providers.map(
        (row: any) => row.slug
      )
    ).toEqual(["key"])
  })
  it("what is refused, naming the member", async () => {
    const world = new World({ issuer: "https://as.example.com" })
    const secret = { client_secret: "s" }
    const service = { issuer: "i", audience: "a", token_url: "https://up.example/t", alg: "ES256" }
    for (const [body, naming] of [
      [{ protocol: "oauth", config_data: { ...config, ...secret } }, "slug"],
      [{ slug: "a", config_data: {} }, "protocol"],
      [{ slug: "a", protocol: "oauth" }, "config_data"],
      [{ slug: "a", protocol: "saml", config_data: {} }, "protocol"],
      [{ slug: "a", protocol: "oauth", config_data: [] }, "config_data"],
      [{ slug: "a", protocol: "oauth", config_data: config }, "config_data.client_secret"],
      [
        {
          slug: "a",
          protocol: "oauth",
          config_data: { ...config, ...secret, client_secret_ref: "CONNECTOR_X" }
        },
        "client_secret_ref"
      ],
      [
        { slug: "a", protocol: "oauth", config_data: { ...config, client_secret_ref: "PATH" } },
        "client_secret_ref"
      ],
      [{ slug: "a", protocol: "oauth", config_data: { ...config, client_secret: "" } }, "client_secret"],
      [
        { slug: "a", protocol: "oauth", config_data: { ...config, ...secret, authorize_url: undefined } },
        "authorize_url"
      ],
      [
        {
          slug: "a",
          protocol: "oauth",
          config_data: { ...config, ...secret, token_url: "http://up.example/t" }
        },
        "token_url"
      ],
      [
        { slug: "a", protocol: "oauth", config_data: { ...config, ...secret, revoke_url: "ftp://x" } },
        "revoke_url"
      ],
      [
        {
          slug: "a",
          protocol: "oauth",
          config_data: { ...config, ...secret, extra_auth_params: { state: "x" } }
        },
        "state"
      ],
      [
        { slug: "a", protocol: "oauth", config_data: { ...config, ...secret, extra_auth_params: { a: 1 } } },
        "extra_auth_params"
      ],
      [
        {
          slug: "a",
          protocol: "oauth",
          config_data: {
            ...config,
            ...secret,
            extra_auth_params: Object.fromEntries(Array.from({ length: 17 }, (_, at) => [`p${at}`, "x"]))
          }
        },
        "extra_auth_params"
      ],
      [
        { slug: "a", protocol: "oauth", config_data: { ...config, ...secret, response_format: "x" } },
        "response_format"
      ],
      [{ slug: "a", protocol: "oauth", config_data: { ...config, ...secret, pkce: "no" } }, "pkce"],
      [{ slug: "a", protocol: "oauth", config_data: { ...config, ...secret, key: "x" } }, "key"],
      [{ slug: "a", protocol: "api_key", config_data: {} }, "key"],
      [{ slug: "a", protocol: "api_key", config_data: { key: "k", expires_in: 0 } }, "expires_in"],
      [{ slug: "a", protocol: "api_key", config_data: { key: "k", expires_in: "1h" } }, "expires_in"],
      [
        { slug: "a", protocol: "service_account", config_data: { ...service, private_key: "x" } },
        "private_key"
      ],
      [
        { slug: "a", protocol: "service_account", config_data: { ...service, private_key: pem("RS256") } },
        "private_key"
      ],
      [
        {
          slug: "a",
          protocol: "service_account",
          config_data: { ...service, alg: "HS256", private_key: pem("ES256") }
        },
        "alg"
      ]
    ] as const)
      await world.refused("POST", "/admin/broker-providers", body, 400, "invalid_request", naming)
    await world.provider()
    await world.refused(
      "POST",
      "/admin/broker-providers",
      { slug: "github", protocol: "api_key", config_data: { key: "k" } },
      409,
      "conflict"
    )
  })
  it("PATCH: config_data is replaced whole but keeps the secret that nobody can send again; the protocol stays", async () => {
    const world = new World()
    const { id } = await world.provider()
    const at = `/admin/broker-providers/${id}`
    expect(
      await world.did("PATCH", at, {
        slug: "gh",
        display_name: "GitHub",
        config_data: { ...config, scopes: ["x"] }
      })
    ).toMatchObject({
      slug: "gh",
      display_name: "GitHub",
      config_data: { ...config, scopes: ["x"], client_secret_set: true }
    })
    expect(secretOf(Providers.get(world.store, [id])!, world.authority.seal, {})).toBe("upstream-secret")
    expect(
      (await world.did("PATCH", at, { config_data: { ...config, client_secret_ref: "CONNECTOR_X" } }))
        .config_data
    ).toEqual({ ...config, client_secret_ref: "CONNECTOR_X" })
    expect(Providers.get(world.store, [id])!.sealedSecret).toBeNull()
    await world.refused("PATCH", at, { config_data: config }, 400, "invalid_request", "client_secret")
    await world.refused("PATCH", at, { protocol: "api_key" }, 400, "invalid_request", "protocol")
    await world.refused("PATCH", "/admin/broker-providers/none", {}, 404, "not_found")
    const other = await world.provider()
    await world.refused("PATCH", `/admin/broker-providers/${other.id}`, { slug: "gh" }, 409, "conflict")
  })
  it("DELETE: 409 while a resource refers to it, then with its grants and their credentials", async () => {
    const world = new World()
    const provider = await world.provider()
    const user = await world.user()
    const at = `/admin/broker-providers/${provider.id}`
    const { id } = await world.did("POST", "/admin/resources", {
      slug: "gh",
      backend_kind: "broker",
      broker_provider_id: provider.id
    })
    await world.brokerGrant(user.id, provider.id)
    await world.refused("DELETE", at, undefined, 409, "conflict")
    await world.did("DELETE", `/admin/resources/${id}`)
    expect((await world.ask("DELETE", at)).status).toBe(204)
    expect(BrokerGrants.range(world.store, { limit: 1 })).toEqual([])
    expect([
      world.upstream.length,
      world.lastAudit.action,
      world.lastAudit.detail.includes("revoked_grants=1")
    ]).toEqual([1, "broker_provider.deleted", true])
    await world.refused("DELETE", at, undefined, 404, "not_found")
    await world.provider()
  })
})

describe("IdPs", () => {
  const idp = { name: "Corp", issuer: "https://idp.example" }
  it("POST, GET, list, PUT with absent members unchanged", async () => {
    const world = new World()
    const created = await world.did("POST", "/admin/idps", idp)
    expect(created).toEqual({
      id: created.id,
      ...idp,
      jwks_uri: "",
      audience: "http://localhost:8080",
      enabled: true,
      keys_fetched_at: null,
      created_at: "2026-09-01T10:00:00.000Z",
      updated_at: "2026-09-01T10:00:00.000Z"
    })
    expect(await world.did("GET", `/admin/idps/${created.id}`)).toEqual(created)
    expect(await world.did("PUT", `/admin/idps/${created.id}`, { enabled: false })).toMatchObject({
      name: "Corp",
      enabled: false,
      audience: "http://localhost:8080"
    })
    expect(world.forgotten).toEqual([])
    expect(
      await world.did("PUT", `/admin/idps/${created.id}`, {
        jwks_uri: "https://idp.example/keys",
        name: "New",
        audience: "x"
      })
    ).toMatchObject({ name: "New", jwks_uri: "https://idp.example/keys", audience: "x", enabled: false })
    expect(world.forgotten).toEqual([created.id])
    expect((await world.did("GET", "/admin/idps?enabled=true")).idps).toEqual([])
    expect((await world.did("GET", "/admin/idps?enabled=false")).idps).toHaveLength(1)
  })
  it("what is refused: a duplicate issuer byte for byte, no https, another issuer in PUT", async () => {
    const world = new World()
    const created = await world.did("POST", "/admin/idps", idp)
    await world.refused("POST", "/admin/idps", { ...idp, name: "x" }, 409, "conflict")
    await world.did("POST", "/admin/idps", { ...idp, issuer: "https://idp.example/" })
    for (const [body, naming] of [
      [{ name: "x" }, "issuer"],
      [{ issuer: "https://x.example" }, "name"],
      [{ ...idp, issuer: "http://idp.example" }, "issuer"],
      [{ ...idp, issuer: "https://o.example", jwks_uri: "http://x.example" }, "jwks_uri"],
      [{ ...idp, enabled: "yes" }, "enabled"]
    ] as const) {
      await world.refused("POST", "/admin/idps", body, 400, "invalid_request", naming)
    }
    await world.refused(
      "PUT",
      `/admin/idps/${created.id}`,
      { issuer: "https://other.example" },
      400,
      "invalid_request",
      "issuer"
    )
    await world.refused("PUT", "/admin/idps/none", {}, 404, "not_found")
    expect(
      (
        await new World({ xaa: { allowPrivateAddresses: true } }).ask("POST", "/admin/idps", {
          body: { name: "x", issuer: "http://localhost:9000" }
        })
      ).status
    ).toBe(201)
  })
  it("DELETE: its policies and mappings go with it, others stay", async () => {
    const world = new World()
    const user = await world.user()
    const one = await world.did("POST", "/admin/idps", idp)
    const two = await world.did("POST", "/admin/idps", { name: "Two", issuer: "https://two.example" })
    for (const { id } of [one, two]) {
      await world.did("POST", "/admin/xaa/policies", { name: "p", idp_id: id })
      await world.did("POST", "/admin/xaa/subject-mappings", {
        idp_id: id,
        idp_subject: "s",
        local_user_id: user.id
      })
    }
    expect((await world.ask("DELETE", `/admin/idps/${one.id}`)).status).toBe(204)
    expect(
      [Policies, Mappings, MappingKeys].map(
        (table) => (table as typeof Mappings).range(world.store, { limit: 10 }).length
      )
    ).toEqual([1, 1, 1])
    expect([world.forgotten, world.lastAudit.action]).toEqual([[one.id], "idp.deleted"])
    await world.did("POST", "/admin/idps", idp)
    await world.refused("DELETE", `/admin/idps/${one.id}`, undefined, 404, "not_found")
  })
  it("refresh-keys: how many, or 502 with nothing told", async () => {
    const world = new World()
    const { id } = await world.did("POST", "/admin/idps", idp)
    expect(await world.did("POST", `/admin/idps/${id}/refresh-keys`)).toEqual({
      status: "refreshed",
      keys: 2
    })
    const broken = new World(
      {},
      {
        idpKeys: {
          refresh: () => Effect.fail(new FetchFault({ reason: "connect" })),
          fetchedMs: () => 0,
          forget: () => {}
        }
      }
    )
    const created = await broken.did("POST", "/admin/idps", idp)
    expect(created.keys_fetched_at).toBe("1970-01-01T00:00:00.000Z")
    const answer = await broken.ask("POST", `/admin/idps/${created.id}/refresh-keys`)
    expect([answer.status, answer.body.error, answer.text.includes("10.0.0.1")]).toEqual([
      502,
      "server_error",
      false
    ])
  })
})

describe("policies and mappings", () => {
  it("policies: POST, GET, filter, PUT with absent members unchanged, DELETE", async () => {
    const world = new World()
    const idp = await world.did("POST", "/admin/idps", { name: "Corp", issuer: "https://idp.example" })
    const created = await world.did("POST", "/admin/xaa/policies", {
      name: "p",
      idp_id: idp.id,
      client_ids: ["c"],
      scopes: ["a"]
    })
    const at = `/admin/xaa/policies/${created.id}`
    expect(created).toEqual({
      id: created.id,
      name: "p",
      idp_id: idp.id,
      client_ids: ["c"],
      scopes: ["a"],
      resources: [],
      enabled: true,
      created_at: "2026-09-01T10:00:00.000Z",
      updated_at: "2026-09-01T10:00:00.000Z"
    })
    expect(await world.did("PUT", at, { enabled: false, scopes: [] })).toMatchObject({
      name: "p",
      client_ids: ["c"],
      scopes: [],
      enabled: false
    })
    expect((await world.did("GET", at)).enabled).toBe(false)
    expect([
      (await world.did("GET", `/admin/xaa/policies?idp_id=${idp.id}`)).policies.length,
      (await world.did("GET", "/admin/xaa/policies?idp_id=x")).policies.length
    ]).toEqual([1, 0])
    for (const [body, naming] of [
      [{ name: "p" }, "idp_id"],
      [{ idp_id: idp.id }, "name"],
      [{ name: "p", idp_id: "none" }, "idp_id"],
      [{ name: "p", idp_id: idp.id, client_ids: "c" }, "client_ids"],
      [{ name: "p", idp_id: idp.id, client: [] }, "client"]
    ] as const) {
      await world.refused("POST", "/admin/xaa/policies", body, 400, "invalid_request", naming)
    }
    await world.refused("PUT", at, { idp_id: "none" }, 400, "invalid_request", "idp_id")
    expect((await world.ask("DELETE", at)).status).toBe(204)
    for (const method of ["GET", "DELETE", "PUT"])
      await world.refused(method, at, method === "PUT" ? {} : undefined, 404, "not_found")
  })
  it("mappings: POST, filters, DELETE; an unknown IdP 400, an unknown user 404, a second of one subject 409", async () => {
    const world = new World()
    const idp = await world.did("POST", "/admin/idps", { name: "Corp", issuer: "https://idp.example" })
    const user = await world.user()
    const body = { idp_id: idp.id, idp_subject: "sub 1", local_user_id: user.id }
    const created = await world.did("POST", "/admin/xaa/subject-mappings", body)
    expect(created).toEqual({
      id: created.id,
      ...body,
      created_at: "2026-09-01T10:00:00.000Z",
      updated_at: "2026-09-01T10:00:00.000Z"
    })
    await world.refused("POST", "/admin/xaa/subject-mappings", body, 409, "conflict")
    await world.refused(
      "POST",
      "/admin/xaa/subject-mappings",
      { ...body, idp_id: "none" },
      400,
      "invalid_request",
      "idp_id"
    )
    await world.refused(
      "POST",
      "/admin/xaa/subject-mappings",
      { ...body, idp_subject: "b", local_user_id: "none" },
      404,
      "not_found",
      "user"
    )
    for (const idp_subject of ["", "x".repeat(256), "a\u0000b", 1])
      await world.refused(
        "POST",
        "/admin/xaa/subject-mappings",
        { ...body, idp_subject },
        400,
        "invalid_request",
        "idp_subject"
      )
    const found = async (query: string) =>
      (await world.did("GET", `/admin/xaa/subject-mappings?${query}`)).subject_mappings.length
    expect([
      await found(`idp_id=${idp.id}`),
      await found(`local_user_id=${user.id}`),
      await found("local_user_id=x")
    ]).toEqual([1, 1, 0])
    expect((await world.ask("DELETE", `/admin/xaa/subject-mappings/${created.id}`)).status).toBe(204)
    await world.refused("DELETE", `/admin/xaa/subject-mappings/${created.id}`, undefined, 404, "not_found")
    await world.did("POST", "/admin/xaa/subject-mappings", body)
  })
})
