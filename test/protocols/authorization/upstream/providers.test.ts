/** Authorization section 12.1: what a provider's configuration may hold, member by member. */
import { generateKeyPairSync } from "node:crypto"
import { describe, expect, it } from "vitest"
import {
  asClient,
  oauthConfig,
  providerConfigFault,
  sealSecret,
  secretOf,
  maskedConfig,
  splitSecrets,
  upstreamScopes,
  type Protocol
} from "../../../../protocols/authorization/upstream/providers.ts"
import type { Provider } from "../../../../protocols/authorization/records.ts"
import { readTokenAnswer } from "../../../../protocols/authorization/upstream/upstream-tokens.ts"
import { World } from "./outside.ts"

const ec = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({
  format: "pem",
  type: "pkcs8"
}) as string

const valid: { readonly [P in Protocol]: Readonly<Record<string, unknown>> } = {
  oauth: {
    client_id: "c",
    client_secret: "s",
    authorize_url: "https://up.example/authorize?tenant=1",
    token_url: "https://up.example/token"
  },
  api_key: { key: "k" },
  service_account: {
    issuer: "svc@up.example",
    audience: "https://up.example/token",
    token_url: "https://up.example/token",
    private_key: ec,
    alg: "ES256"
  }
}

const fault = (
  protocol: Protocol,
  more: object,
  drop: ReadonlyArray<string> = [],
  local = false,
  secretStored = false
): string | undefined =>
  providerConfigFault(
    protocol,
    Object.fromEntries(
      Object.entries({ ...valid[protocol], ...more }).filter(([name]) => !drop.includes(name))
    ),
    local,
    secretStored
  )

describe("accepted", () => {
  it.each(["oauth", "api_key", "service_account"] as const)("%s with what it wants", (protocol) =>
    expect(fault(protocol, {})).toBeUndefined()
  )
  it("everything that may be given", () => {
    expect(
      fault(
        "oauth",
        {
          client_secret_ref: "CONNECTOR_GITHUB",
          revoke_url: "https://up.example/revoke",
          scopes: ["openid", "a:b"],
          extra_auth_params: { access_type: "offline" },
          response_format: "slack",
          token_auth: "basic",
          pkce: false
        },
        ["client_secret"]
      )
    ).toBeUndefined()
    expect(fault("api_key", { key_ref: "CONNECTOR_KEY", expires_in: 3_600 }, ["key"])).toBeUndefined()
    expect(
      fault("service_account", { private_key_ref: "CONNECTOR_SVC", subject: "x" }, ["private_key"])
    ).toBeUndefined()
    expect([
      fault("oauth", { token_url: "http://localhost:1/t" }, [], true),
      fault("oauth", {}, ["client_secret"], false, true)
    ]).toEqual([undefined, undefined])
  })
})

describe("refused, naming the member", () => {
  const cases: ReadonlyArray<readonly [Protocol, object, string, ReadonlyArray<string>?]> = [
    ["oauth", {}, "client_id", ["client_id"]],
    ["oauth", {}, "authorize_url", ["authorize_url"]],
    ["oauth", {}, "token_url", ["token_url"]],
    ["oauth", {}, "client_secret", ["client_secret"]],
    ["oauth", { client_id: "" }, "client_id"],
    ["oauth", { client_id: 7 }, "client_id"],
    ["oauth", { client_secret: null }, "client_secret"],
    ["oauth", { client_secret_ref: "CONNECTOR_X" }, "client_secret"],
    ["oauth", { client_secret_ref: "PATH" }, "client_secret_ref", ["client_secret"]],
    ["oauth", { client_secret_ref: "CONNECTOR_" }, "client_secret_ref", ["client_secret"]],
    ["oauth", { client_secret_ref: "xCONNECTOR_A" }, "client_secret_ref", ["client_secret"]],
    ["oauth", { authorize_url: "http://up.example/" }, "authorize_url"],
    ["oauth", { token_url: "javascript:alert(1)" }, "token_url"],
    ["oauth", { token_url: "https://up.example/#x" }, "token_url"],
    ["oauth", { revoke_url: "/revoke" }, "revoke_url"],
    ["oauth", { token_url: "https://up.example/\r\nX: y" }, "token_url"],
    ["oauth", { scopes: "a b" }, "scopes"],
    ["oauth", { scopes: ["a b"] }, "scopes"],
    ["oauth", { extra_auth_params: { state: "x" } }, "extra_auth_params"],
    ["oauth", { extra_auth_params: { redirect_uri: "x" } }, "extra_auth_params"],
    ["oauth", { extra_auth_params: { a: 1 } }, "extra_auth_params"],
    ["oauth", { extra_auth_params: [] }, "extra_auth_params"],
    [
      "oauth",
      { extra_auth_params: Object.fromEntries(Array.from({ length: 17 }, (_, index) => [`p${index}`, "x"])) },
      "extra_auth_params"
    ],
    ["oauth", { response_format: "xml" }, "response_format"],
    ["oauth", { token_auth: "none" }, "token_auth"],
    ["oauth", { pkce: "no" }, "pkce"],
    ["oauth", { key: "k" }, "key"],
    ["oauth", { toString: "x" }, "toString"],
    ["api_key", {}, "key", ["key"]],
    ["api_key", { expires_in: 0 }, "expires_in"],
    ["api_key", { expires_in: "60" }, "expires_in"],
    ["api_key", { client_id: "c" }, "client_id"],
    ["service_account", {}, "issuer", ["issuer"]],
    ["service_account", {}, "audience", ["audience"]],
    ["service_account", {}, "alg", ["alg"]],
    ["service_account", { alg: "HS256" }, "alg"],
    ["service_account", { alg: "RS256" }, "private_key"],
    ["service_account", { private_key: "x" }, "private_key"]
  ]
  it.each(
    cases.map(
      ([protocol, more, name, drop]) =>
        [`${protocol} ${JSON.stringify(more)}`, name, protocol, more, drop] as const
    )
  )("%s: %s", (_text, name, protocol, more, drop) => {
    const words = fault(protocol, more, drop)
    expect(words).toMatch(new RegExp(`^config_data\\.${name} `))
    expect(words).not.toContain("BEGIN")
  })
})

describe("secrets", () => {
  const provider = (
    config: Readonly<Record<string, unknown>>,
    sealedSecret: Uint8Array | null
  ): Provider => ({
    id: "p-1",
    slug: "up",
    displayName: "Up",
    protocol: "oauth",
    config,
    sealedSecret,
    createdMs: 0,
    updatedMs: 0
  })
  it("are split off, sealed to the provider, shown by a flag", () => {
    const {
      authority: { seal }
    } = new World()
    const { config, secret } = splitSecrets(valid.oauth)
    expect([secret, Object.keys(config)]).toEqual(["s", ["client_id", "authorize_url", "token_url"]])
    const stored = provider(config, sealSecret(seal, "p-1", secret!))
    expect(secretOf(stored, seal, {})).toBe("s")
    expect(secretOf({ ...stored, id: "p-2" }, seal, {})).toBeUndefined()
    expect([
      maskedConfig(stored)["client_secret_set"],
      JSON.stringify(maskedConfig(stored)).includes('"s"')
    ]).toEqual([true, false])
  })
  it("or named by a variable", () => {
    const {
      authority: { seal }
    } = new World()
    const referenced = provider(
      { ...splitSecrets(valid.oauth).config, client_secret_ref: "CONNECTOR_UP" },
      null
    )
    expect([
      secretOf(referenced, seal, { CONNECTOR_UP: "from-env" }),
      secretOf(referenced, seal, {}),
      secretOf(referenced, seal, { CONNECTOR_UP: "" }),
      maskedConfig(referenced)["client_secret_ref"]
    ]).toEqual(["from-env", undefined, undefined, "CONNECTOR_UP"])
  })
})

it("a request in the client's name: by post, or by basic with form encoding", () => {
  expect(asClient("u", "post", "c", "s", { a: "1" }).form!.toString()).toBe("a=1&client_id=c&client_secret=s")
  const basic = asClient("u", "basic", "c:1", "p%q r", { a: "1" })
  expect([
    basic.form!.toString(),
    Buffer.from(basic.headers!["Authorization"]!.slice(6), "base64").toString()
  ]).toEqual(["a=1", "c%3A1:p%25q+r"])
})

it("defaults of an oauth configuration, upstream forms of scopes", () => {
  expect(oauthConfig({ config: valid.oauth })).toMatchObject({
    scopes: [],
    extra: {},
    format: "standard",
    tokenAuth: "post",
    pkce: true,
    revokeUrl: undefined
  })
  expect(
    upstreamScopes([
      { name: "a", description: "", upstream: [] },
      { name: "b", description: "", upstream: ["x", "y"] },
      { name: "c", description: "", upstream: ["x"] }
    ])
  ).toEqual(["a", "x", "y"])
})

describe("token answers", () => {
  const read = (
    body: unknown,
    {
      status = 200,
      type = "application/json",
      format = "standard" as "standard" | "slack",
      asked = [] as ReadonlyArray<string>
    } = {}
  ): object =>
    readTokenAnswer(
      {
        status,
        headers: { "content-type": type },
        body: Buffer.from(typeof body === "string" ? body : JSON.stringify(body))
      },
      format,
      1_000,
      asked
    )
  it("standard, comma separated, slack", () => {
    expect(
      read({ access_token: "t", token_type: "bearer", expires_in: 60, refresh_token: "r", scope: "a b" })
    ).toEqual({
      credential: {
        accessToken: "t",
        refreshToken: "r",
        expiresMs: 61_000,
        tokenType: "bearer",
        scope: "a b"
      },
      scopes: ["a", "b"]
    })
    expect(read({ access_token: "t", expires_in: "60" })).toEqual({
      credential: {
        accessToken: "t",
        refreshToken: undefined,
        expiresMs: 61_000,
        tokenType: "Bearer",
        scope: ""
      },
      scopes: undefined
    })
    expect([
      read({ access_token: "t", scope: "repo,gist" }),
      read({ access_token: "t", scope: "a,b c" }, { asked: ["a,b"] })
    ]).toMatchObject([{ scopes: ["repo", "gist"] }, { scopes: ["a,b", "c"] }])
    expect(
      read(
        {
          ok: true,
          access_token: "bot",
          authed_user: { access_token: "user", scope: "x,y", token_type: "user" }
        },
        { format: "slack" }
      )
    ).toMatchObject({ credential: { accessToken: "user" }, scopes: ["x", "y"] })
    expect(
      read({ ok: true, access_token: "bot", authed_user: { id: "U1" }, scope: "x" }, { format: "slack" })
    ).toMatchObject({ credential: { accessToken: "bot" }, scopes: ["x"] })
  })
  it("refusals of the upstream are told from its faults", () => {
    expect([
      read({ error: "invalid_grant" }, { status: 400 }),
      read({ error: "bad_verification_code" }),
      read({ ok: false, error: "invalid_code" }, { format: "slack" })
    ]).toEqual([
      { refused: "invalid_grant" },
      { refused: "bad_verification_code" },
      { refused: "invalid_code" }
    ])
    for (const broken of [
      read({ error: "invalid_grant" }, { status: 503 }),
      read("access_token=t", { type: "application/x-www-form-urlencoded" }),
      read({}),
      read({ access_token: "" }),
      read({ access_token: "a\nb" }),
      read({ access_token: 7 }),
      read({ access_token: "t" }, { status: 201 }),
      read({ ok: false }, { format: "slack" }),
      read("[]")
    ])
      expect(broken).toMatchObject({ _tag: "FetchFault", reason: "broken" })
  })
})
