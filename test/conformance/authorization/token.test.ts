/** Authorization sections 22.2 to 22.5, row by row: client authentication, transport, codes, refresh, DPoP.
 *  */
import net from "node:net"
import crypto, { createHmac, generateKeyPairSync, sign } from "node:crypto"
import { syncBuiltinESMExports } from "node:module"
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest"
import { openMemory } from "../../../storage/memory.ts"
import type { Client, User } from "../../../protocols/authorization/records.ts"
import { callback, jws, ProofKey, World, type Answer } from "../../protocols/authorization/world.ts"

type Known = Client & { readonly secret: string }
const verifier = "v".repeat(43)
const uri = "https://mcp.example.com/files"
let world: World
let client: Known
let user: User
let machine: Known
let open: Known

beforeAll(async () => {
  world = await World.make()
  await world.resource({ slug: "files", uri })
  await world.resource({ slug: "other", uri: "https://mcp.example.com/other" })
  client = await world.client()
  open = await world.client({ authMethod: "none" })
  machine = await world.client({ grantTypes: ["client_credentials"], scopes: ["files:read", "files:write"] })
  user = await world.user()
})

afterAll(() => world.close())

const refused = (answer: Answer, error: string, status = 400): void => {
  expect([answer.body?.error, answer.status]).toEqual([error, status])
}

const credentials = (headers: Record<string, string>, form: Record<string, string> = {}) =>
  world.post("/oauth/token", { grant_type: "client_credentials", ...form }, headers)

const basic = (text: string) => ({ Authorization: `Basic ${Buffer.from(text).toString("base64")}` })

const redeem = (
  of: Known,
  code: string,
  form: Record<string, string> = {},
  headers: Record<string, string> = {}
) =>
  world.token(
    of,
    { grant_type: "authorization_code", code, redirect_uri: callback, code_verifier: verifier, ...form },
    headers
  )

describe("client authentication and transport", () => {
  it("AS-35 wrong secret and unknown id read the same", async () => {
    const answers = [
      await credentials(basic(`${machine.clientId}:nope`)),
      await credentials(basic("0192aaaa-0000-7000-8000-000000000000:nope"))
    ]
    for (const answer of answers) {
      refused(answer, "invalid_client", 401)
      expect(answer.headers.get("www-authenticate")).toBe('Basic realm="authserver"')
    }
    expect(answers[0]!.body).toEqual(answers[1]!.body)
  })
  it("AS-36 a secret differing in case", async () => {
    const cased = await world.client({
      secret: "aBcDeF".repeat(7),
      grantTypes: ["client_credentials"],
      scopes: ["files:read"]
    })
    refused(
      await credentials(basic(`${cased.clientId}:${cased.secret.toLowerCase()}`)),
      "invalid_client",
      401
    )
    expect((await credentials(world.basic(cased))).status).toBe(200)
  })
  it("AS-37 Basic and a body secret together", async () =>
    refused(await credentials(world.basic(machine), { client_secret: machine.secret }), "invalid_request"))
  it.each([
    ["bad base64", { Authorization: "Basic ***" }],
    ["no colon", basic("abc")],
    ["a bad percent escape", basic("abc:%zz")],
    ["another scheme", { Authorization: "Bearer abc" }]
  ] as const)("AS-38 Authorization with %s", async (_, headers) =>
    refused(await credentials(headers), "invalid_client", 401)
  )
  it("AS-39 a secret with %, + and :, form-encoded", async () => {
    const odd = await world.client({
      secret: "a%b+c:d e",
      grantTypes: ["client_credentials"],
      scopes: ["files:read"]
    })
    expect((await credentials(basic(`${odd.clientId}:a%25b%2Bc%3Ad+e`))).status).toBe(200)
  })
  it("AS-40 a confidential client without its secret", async () =>
    refused(await credentials({}, { client_id: machine.clientId }), "invalid_client", 401))
  it("AS-41 a public client with a secret", async () =>
    refused(
      await world.post("/oauth/token", {
        grant_type: "refresh_token",
        refresh_token: "x",
        client_id: open.clientId,
        client_secret: "s"
      }),
      "invalid_client",
      401
    ))
  it("the two secret methods stand for each other", async () =>
    expect(
      (await credentials({}, { client_id: machine.clientId, client_secret: machine.secret })).status
    ).toBe(200))
  it("a suspended client, and a client_id which differs from the header's", async () => {
    const suspended = await world.client({ status: "suspended", grantTypes: ["client_credentials"] })
    refused(await credentials(world.basic(suspended)), "invalid_client", 401)
    refused(await credentials(world.basic(machine), { client_id: "other" }), "invalid_request")
  })
  it("the previous secret holds until its time", async () => {
    const { secretHashOf } = await import("../../../protocols/authorization/client/client-secrets.ts")
    const rotated = await world.client({ grantTypes: ["client_credentials"], scopes: ["files:read"] })
    await world.change(rotated, {
      previousHash: secretHashOf(world.open.services, "old"),
      previousUntilMs: world.nowMs + 1_000
    })
    expect((await credentials(basic(`${rotated.clientId}:old`))).status).toBe(200)
    world.nowMs += 1_000
    refused(await credentials(basic(`${rotated.clientId}:old`)), "invalid_client", 401)
  })
  it.each(["code", "client_secret", "refresh_token", "subject_token", "actor_token", "assertion"])(
    "AS-42 %s in the query string",
    async (name) =>
      refused(
        await world.post(
          `/oauth/token?${name}=x`,
          { grant_type: "client_credentials" },
          world.basic(machine)
        ),
        "invalid_request"
      )
  )
  it.each([
    "application/json",
    "multipart/form-data; boundary=x",
    "application/x-www-form-urlencoded; charset=latin1"
  ])("AS-43 a body of type %s", async (type) =>
    refused(
      await world.call("/oauth/token", {
        method: "POST",
        headers: { "Content-Type": type, ...world.basic(machine) },
        body: "grant_type=client_credentials"
      }),
      "invalid_request"
    )
  )
  it("AS-44 a body of 10 MiB, chunked without a length: 413 once the limit is passed, long before its end", async () => {
    const flood = (chunks: number) =>
      new Promise<{ readonly text: string; readonly taken: number }>((resolve) => {
        let taken = 0
        let text = ""
        const socket = net.connect(world.server.port, "127.0.0.1", () => {
          socket.write(
            "POST /oauth/token HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nTransfer-Encoding: chunked\r\n\r\n"
          )
          const more = () => {
            if (taken === chunks || socket.destroyed) return
            taken++
            socket.write(`4000\r\n${"a".repeat(16_384)}\r\n`, () => setImmediate(more))
          }
          more()
        })
        socket
          .on("data", (chunk) => {
            text += chunk.toString()
            if (text.includes("\r\n\r\n")) socket.destroy()
          })
          .on("error", () => {})
          .on("close", () => resolve({ text, taken }))
      })
    for (const chunks of [5, 640]) {
      const { text, taken } = await flood(chunks)
      expect(text).toMatch(/^HTTP\/1.1 413[^]*\r\nConnection: close\r\n/)
      expect(taken).toBeLessThan(640)
    }
  })
  it("AS-45 100,000 parameters; one parameter of 1 MiB", async () => {
    for (const body of [
      Array.from({ length: 100_000 }, (_, at) => `p${at}=1`).join("&"),
      `grant_type=${"a".repeat(1_048_576)}`
    ]) {
      const answer = await world.call("/oauth/token", {
        method: "POST",
        headers: { "Content-Type": "application/x-www-form-urlencoded" },
        body
      })
      expect([answer.status, answer.body.error]).toEqual([413, "invalid_request"])
    }
  })
  it("AS-46 grant_type missing, twice, password, implicit", async () => {
    refused(await world.post("/oauth/token", {}, world.basic(machine)), "invalid_request")
    refused(
      await world.post(
        "/oauth/token",
        [
          ["grant_type", "client_credentials"],
          ["grant_type", "refresh_token"]
        ],
        world.basic(machine)
      ),
      "invalid_request"
    )
    for (const grant_type of ["password", "implicit", "constructor"])
      refused(
        await world.post("/oauth/token", { grant_type }, world.basic(machine)),
        "unsupported_grant_type"
      )
  })
  it("AS-47 a disabled grant names its variable", async () => {
    const bare = await World.make({
      settings: {
        clientCredentials: { enabled: false },
        tokenExchange: { enabled: false },
        xaa: { enabled: false }
      }
    })
    const any = await bare.client()
    for (const [grant, variable] of [
      ["client_credentials", "SERVICE_CLIENT_CREDENTIALS_ENABLED"],
      ["urn:ietf:params:oauth:grant-type:token-exchange", "SERVICE_TOKEN_EXCHANGE_ENABLED"],
      ["urn:ietf:params:oauth:grant-type:jwt-bearer", "SERVICE_XAA_ENABLED"]
    ] as const) {
      const answer = await bare.token(any, { grant_type: grant })
      refused(answer, "unsupported_grant_type")
      expect(answer.body.error_description).toContain(variable)
    }
    await bare.close()
  })
  it("AS-48 a grant which is not registered for the client", async () =>
    refused(await credentials(world.basic(client)), "unauthorized_client"))
  it("AS-49 a slow body is closed at the read time-out", async () => {
    const impatient = await World.make({ bodyTimeoutMs: 300, adapter: "node" })
    const answered = await new Promise<string>((resolve) => {
      const socket = net.connect(impatient.server.port, "127.0.0.1", () =>
        socket.write(
          "POST /oauth/token HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\ng"
        )
      )
      let text = ""
      socket
        .on("data", (chunk) => {
          text += chunk.toString()
        })
        .on("close", () => resolve(text))
    })
    expect(answered === "" || answered.startsWith("HTTP/1.1 408")).toBe(true)
    await impatient.close()
  })
  it("AS-50 GET /oauth/token", async () => {
    const answer = await world.call("/oauth/token")
    expect([answer.status, answer.headers.get("allow"), answer.body.error]).toEqual([
      405,
      "POST",
      "invalid_request"
    ])
  })
  it("AS-51 the media type of an error follows Accept; its bytes do not", async () => {
    const plain = await world.call("/oauth/token", {
      method: "POST",
      headers: { "Content-Type": "application/x-www-form-urlencoded", Accept: "application/json" },
      body: ""
    })
    const problem = await world.post("/oauth/token", {})
    const both = await world.post(
      "/oauth/token",
      {},
      { Accept: "application/json, application/problem+json" }
    )
    expect([plain, problem, both].map(({ headers }) => headers.get("content-type"))).toEqual([
      "application/json",
      "application/problem+json",
      "application/problem+json"
    ])
    expect(plain.body).toEqual(problem.body)
    expect(Object.keys(plain.body)).toEqual([
      "error",
      "error_description",
      "type",
      "title",
      "detail",
      "status"
    ])
  })
  it("AS-52 the first byte wrong or the last: the same refusal, and every comparison of a secret is the one in constant time", async () => {
    const first = `${machine.secret.startsWith("x") ? "y" : "x"}${machine.secret.slice(1)}`
    const last = `${machine.secret.slice(0, -1)}${machine.secret.endsWith("x") ? "y" : "x"}`
    const answers = [
      await credentials(basic(`${machine.clientId}:${first}`)),
      await credentials(basic(`${machine.clientId}:${last}`))
    ]
    for (const answer of answers) refused(answer, "invalid_client", 401)
    expect(answers[0]!.text).toBe(answers[1]!.text)
    // Time itself cannot be asserted on a shared machine. What can be is that the comparison in constant time
    // decides alone: what it takes for equal is let in, what it does not is refused.
    const comparing = vi.spyOn(crypto, "timingSafeEqual")
    const withComparison = async (equal: boolean, secret: string): Promise<number> => {
      comparing.mockReturnValue(equal)
      syncBuiltinESMExports()
      return (await credentials(basic(`${machine.clientId}:${secret}`))).status
    }
    const rightWhenUnequal = await withComparison(false, machine.secret)
    const wrongWhenEqual = await withComparison(true, first)
    comparing.mockRestore()
    syncBuiltinESMExports()
    expect({ rightWhenUnequal, wrongWhenEqual }).toEqual({ rightWhenUnequal: 401, wrongWhenEqual: 200 })
  })
  it("AS-53 a token response is not to be kept", async () => {
    const answer = await credentials(world.basic(machine))
    expect([
      answer.headers.get("cache-control"),
      answer.headers.get("pragma"),
      answer.headers.get("content-type"),
      answer.headers.get("x-content-type-options")
    ]).toEqual(["no-store", "no-cache", "application/json", "nosniff"])
  })
})

describe("codes", () => {
  it("AS-54 replay by the same client: everything from the code dies", async () => {
    const code = await world.code(client, user)
    const first = await redeem(client, code)
    expect(first.status).toBe(200)
    refused(await redeem(client, code), "invalid_grant")
    expect(await world.active(client, first.body.access_token)).toBe(false)
    refused(await world.refresh(client, first.body.refresh_token), "invalid_grant")
  })
  it("AS-55 fifty parallel redemptions: exactly one 200, then the grant dies", async () => {
    const code = await world.code(client, user)
    const answers = await Promise.all(Array.from({ length: 50 }, () => redeem(client, code)))
    const won = answers.filter(({ status }) => status === 200)
    expect(won.length).toBe(1)
    for (const answer of answers) if (answer.status !== 200) refused(answer, "invalid_grant")
    expect(await world.active(client, won[0]!.body.access_token)).toBe(false)
    refused(await world.refresh(client, won[0]!.body.refresh_token), "invalid_grant")
  })
  it("AS-56 another client's code: refused, and its owner can still redeem it", async () => {
    const code = await world.code(client, user)
    refused(await redeem(await world.client(), code), "invalid_grant")
    expect((await redeem(client, code)).status).toBe(200)
  })
  it("AS-57 a wrong verifier, then the right one", async () => {
    const code = await world.code(client, user)
    refused(await redeem(client, code, { code_verifier: "w".repeat(43) }), "invalid_grant")
    expect((await redeem(client, code)).status).toBe(200)
  })
  it("AS-58 five wrong verifiers, then the right one", async () => {
    const code = await world.code(client, user)
    for (let tries = 0; tries < 5; tries++)
      refused(await redeem(client, code, { code_verifier: "w".repeat(43) }), "invalid_grant")
    refused(await redeem(client, code), "invalid_grant")
  })
  it("AS-59 the verifier missing, of 42 or 129 characters", async () => {
    const code = await world.code(client, user)
    for (const code_verifier of ["", "v".repeat(42), "v".repeat(129), `${"v".repeat(42)}!`])
      refused(await redeem(client, code, { code_verifier }), "invalid_request")
    expect((await redeem(client, code)).status).toBe(200)
  })
  it("AS-60 a redirect_uri differing by one slash", async () =>
    refused(
      await redeem(client, await world.code(client, user), { redirect_uri: `${callback}/` }),
      "invalid_grant"
    ))
  it("AS-61 a code after ten minutes and a second", async () => {
    const code = await world.code(client, user)
    world.nowMs += 601_000
    refused(await redeem(client, code), "invalid_grant")
  })
  it("AS-62 another registered resource at redemption", async () => {
    const code = await world.code(client, user, { resource: uri })
    refused(await redeem(client, code, { resource: "https://mcp.example.com/other" }), "invalid_target")
    expect((await redeem(client, code, { resource: uri })).status).toBe(200)
    refused(await redeem(client, await world.code(client, user), { resource: uri }), "invalid_target")
  })
  it("AS-63 consent revoked between code and redemption", async () => {
    const one = await world.client()
    const code = await world.code(one, user, { resource: uri })
    const tokens = await redeem(one, code)
    const consentId = world.issuanceOf(tokens.body.access_token).consentId
    const second = await world.code(one, user, { resource: uri })
    await world.revokeConsent(consentId)
    refused(await redeem(one, second), "invalid_grant")
  })
  it("AS-64 dpop_jkt at authorize, a proof with another key", async () => {
    const key = new ProofKey()
    const other = new ProofKey()
    const code = await world.code(client, user, { dpop_jkt: key.jkt })
    refused(await redeem(client, code, {}, { DPoP: other.proof(world) }), "invalid_dpop_proof")
    refused(await redeem(client, code), "invalid_dpop_proof")
    const answer = await redeem(client, code, {}, { DPoP: key.proof(world) })
    expect([answer.body.token_type, world.claimsOf(answer.body.access_token).cnf]).toEqual([
      "DPoP",
      { jkt: key.jkt }
    ])
  })
  it("a client without refresh_token gets none; a user disabled or logged out in between gets nothing", async () => {
    const one = await world.client({ grantTypes: ["authorization_code"] })
    const answer = await redeem(one, await world.code(one, user))
    expect(answer.body).not.toHaveProperty("refresh_token")
    expect(answer.body).toMatchObject({ token_type: "Bearer", expires_in: 900, scope: "files:read" })
    const other = await world.user()
    const code = await world.code(one, other)
    await world.changeUser(other, { epoch: 1 })
    refused(await redeem(one, code), "invalid_grant")
  })
})

describe("refresh", () => {
  it("AS-65 a consumed token again: the grant dies, and it is on record", async () => {
    const tokens = await world.tokens(client, user)
    const next = await world.refresh(client, tokens.refresh_token)
    const answer = await world.refresh(client, tokens.refresh_token)
    refused(answer, "invalid_grant")
    expect(answer.body.error_description).toBe("the token family was revoked due to reuse detection")
    for (const token of [tokens.access_token, next.body.access_token])
      expect(await world.active(client, token)).toBe(false)
    refused(await world.refresh(client, next.body.refresh_token), "invalid_grant")
    expect(world.open.services.audit.counts.get("family.revoked")).toBeGreaterThan(0)
  })
  it("AS-66 twenty parallel refreshes with one token: one 200, and the winner is dead too", async () => {
    const tokens = await world.tokens(client, user)
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => world.refresh(client, tokens.refresh_token))
    )
    const won = answers.filter(({ status }) => status === 200)
    expect(won.length).toBe(1)
    refused(await world.refresh(client, won[0]!.body.refresh_token), "invalid_grant")
    expect(await world.active(client, won[0]!.body.access_token)).toBe(false)
  })
  it("a thousand parallel uses of one refresh token: exactly one success, the family revoked", async () => {
    const tokens = await world.tokens(client, user)
    const answers = await Promise.all(
      Array.from({ length: 1_000 }, () => world.refresh(client, tokens.refresh_token))
    )
    expect(answers.filter(({ status }) => status === 200).length).toBe(1)
    refused(
      await world.refresh(client, answers.find(({ status }) => status === 200)!.body.refresh_token),
      "invalid_grant"
    )
  })
  it("AS-67 the family id right, the secret random: the family lives", async () => {
    const tokens = await world.tokens(client, user)
    const forged = `${tokens.refresh_token.slice(0, -43)}${"A".repeat(43)}`
    refused(await world.refresh(client, forged), "invalid_grant")
    refused(await world.refresh(client, "rt1.x.y"), "invalid_grant")
    expect((await world.refresh(client, tokens.refresh_token)).status).toBe(200)
  })
  it("AS-68 the token of A by B: the family lives", async () => {
    const tokens = await world.tokens(client, user)
    refused(await world.refresh(await world.client(), tokens.refresh_token), "invalid_grant")
    expect((await world.refresh(client, tokens.refresh_token)).status).toBe(200)
  })
  it("AS-69 a wider scope: refused, not spent", async () => {
    const tokens = await world.tokens(client, user)
    refused(
      await world.refresh(client, tokens.refresh_token, { scope: "files:read files:write" }),
      "invalid_scope"
    )
    expect((await world.refresh(client, tokens.refresh_token)).status).toBe(200)
  })
  it("AS-70 a narrower scope, then without: narrow, then all of the family", async () => {
    const tokens = await world.tokens(client, user, { scope: "files:read files:write" })
    const narrow = await world.refresh(client, tokens.refresh_token, { scope: "files:write" })
    const full = await world.refresh(client, narrow.body.refresh_token)
    expect([narrow.body.scope, full.body.scope]).toEqual(["files:write", "files:read files:write"])
  })
  it("AS-71 another resource: refused, not spent", async () => {
    const tokens = await world.tokens(client, user, { resource: uri })
    refused(
      await world.refresh(client, tokens.refresh_token, { resource: "https://mcp.example.com/other" }),
      "invalid_target"
    )
    expect((await world.refresh(client, tokens.refresh_token, { resource: uri })).status).toBe(200)
  })
  it("AS-72 the client's ceiling narrowed: a narrowed token; outside it, invalid_scope", async () => {
    const one = await world.client()
    const tokens = await world.tokens(one, user, { scope: "files:read files:write" })
    await world.change(one, { scopes: ["files:read"] })
    refused(await world.refresh(one, tokens.refresh_token, { scope: "files:write" }), "invalid_scope")
    expect((await world.refresh(one, tokens.refresh_token)).body.scope).toBe("files:read")
  })
  it("AS-73 refresh_token removed from the client's grants", async () => {
    const one = await world.client()
    const tokens = await world.tokens(one, user)
    await world.change(one, { grantTypes: ["authorization_code"] })
    refused(await world.refresh(one, tokens.refresh_token), "unauthorized_client")
  })
  it("AS-76 grace: the predecessor within it gets the identical body; after the successor was used it is reuse", async () => {
    const kind = await World.make({ settings: { refreshGraceMs: 60_000 } })
    await kind.resource({ slug: "files" })
    const one = await kind.client()
    const tokens = await kind.tokens(one, await kind.user())
    const next = await kind.refresh(one, tokens.refresh_token)
    const again = await kind.refresh(one, tokens.refresh_token)
    expect([again.status, again.body]).toEqual([200, next.body])
    refused(await kind.refresh(await kind.client(), tokens.refresh_token), "invalid_grant")
    const third = await kind.refresh(one, next.body.refresh_token)
    expect(third.status).toBe(200)
    refused(await kind.refresh(one, tokens.refresh_token), "invalid_grant")
    refused(await kind.refresh(one, third.body.refresh_token), "invalid_grant")
    const late = await kind.tokens(one, await kind.user())
    await kind.refresh(one, late.refresh_token)
    kind.nowMs += 60_001
    refused(await kind.refresh(one, late.refresh_token), "invalid_grant")
    await kind.close()
  })
  it("A-11: grace repeats no answer for another scope or resource, and ends nothing by refusing it", async () => {
    const kind = await World.make({ settings: { refreshGraceMs: 60_000 } })
    const [files, other] = [await kind.resource({ slug: "files" }), await kind.resource({ slug: "other" })]
    const one = await kind.client()
    const tokens = await kind.tokens(one, await kind.user(), {
      resource: files.uri,
      scope: "files:read files:write"
    })
    const next = await kind.refresh(one, tokens.refresh_token)
    expect(next.body.scope).toBe("files:read files:write")
    refused(await kind.refresh(one, tokens.refresh_token, { scope: "files:read" }), "invalid_grant")
    refused(await kind.refresh(one, tokens.refresh_token, { scope: "admin" }), "invalid_scope")
    refused(await kind.refresh(one, tokens.refresh_token, { resource: other.uri }), "invalid_target")
    const again = await kind.refresh(one, tokens.refresh_token, { scope: "files:write files:read" })
    expect([again.status, again.body]).toEqual([200, next.body])
    expect((await kind.refresh(one, next.body.refresh_token)).status).toBe(200)
    await kind.close()
  })
  it("AS-76 grace: a burst at a family that must first be loaded does not end it", async () => {
    const store = openMemory()
    const settings = { issuer: "http://localhost:9", refreshGraceMs: 60_000 }
    const before = await World.make({ store, settings })
    await before.resource({ slug: "files" })
    const one = await before.client()
    const tokens = await before.tokens(one, await before.user())
    await before.close()
    const kind = await World.make({ store, settings })
    const answers = await Promise.all(
      Array.from({ length: 5 }, () => kind.refresh(one, tokens.refresh_token))
    )
    const bodies = answers.filter(({ status }) => status === 200).map(({ body }) => body)
    expect(bodies.length).toBeGreaterThan(0)
    expect(new Set(bodies.map((body) => body.refresh_token)).size).toBe(1)
    expect((await kind.refresh(one, bodies[0].refresh_token)).status).toBe(200)
    await kind.close()
  })
  it("AS-77 a bound public family, refreshed without a proof or with another key: refused, not spent", async () => {
    const key = new ProofKey()
    const tokens = await world.tokens(open, user, {}, { DPoP: key.proof(world) })
    refused(await world.refresh(open, tokens.refresh_token), "invalid_grant")
    refused(
      await world.refresh(open, tokens.refresh_token, {}, { DPoP: new ProofKey().proof(world) }),
      "invalid_grant"
    )
    const answer = await world.refresh(open, tokens.refresh_token, {}, { DPoP: key.proof(world) })
    expect(answer.body.token_type).toBe("DPoP")
  })
  it("AS-78 a family after 90 days of use; a token after 7 days without", async () => {
    let tokens = (await world.tokens(client, user)) as { refresh_token: string }
    for (let day = 0; day < 90; day += 6) {
      const next = await world.refresh(client, tokens.refresh_token)
      expect(next.status).toBe(200)
      tokens = next.body
      world.nowMs += 6 * 86_400_000
    }
    refused(await world.refresh(client, tokens.refresh_token), "invalid_grant")
    const idle = await world.tokens(client, user)
    world.nowMs += 7 * 86_400_000
    refused(await world.refresh(client, idle.refresh_token), "invalid_grant")
  })
})

describe("DPoP", () => {
  const key = new ProofKey()
  const withProof = (proof: string, headers: Record<string, string> = {}) =>
    credentials({ ...world.basic(machine), DPoP: proof, ...headers })
  const invalid = async (proof: string, headers: Record<string, string> = {}) => {
    const answer = await withProof(proof, headers)
    refused(answer, "invalid_dpop_proof")
    expect(answer.headers.get("www-authenticate")).toContain('algs="ES256 RS256 PS256"')
  }
  it("a good proof binds the token", async () => {
    const answer = await withProof(key.proof(world))
    expect([
      answer.body.token_type,
      world.claimsOf(answer.body.access_token).cnf,
      answer.headers.get("dpop-nonce")
    ]).toEqual(["DPoP", { jkt: key.jkt }, null])
  })
  it.each(["none", "HS256", "ES384", "EdDSA", "RS384"])("AS-79 alg %s", (alg) =>
    invalid(key.proof(world, {}, { alg }))
  )
  it("AS-80 jwk with a private member, symmetric, RSA 1024, P-384, missing", async () => {
    const rsa = generateKeyPairSync("rsa", { modulusLength: 1_024 })
    const p384 = generateKeyPairSync("ec", { namedCurve: "P-384" })
    await invalid(key.proof(world, {}, { jwk: key.privateKey.export({ format: "jwk" }) }))
    await invalid(key.proof(world, {}, { jwk: { kty: "oct", k: "c2VjcmV0" } }))
    await invalid(key.proof(world, {}, { jwk: rsa.publicKey.export({ format: "jwk" }), alg: "RS256" }))
    await invalid(key.proof(world, {}, { jwk: p384.publicKey.export({ format: "jwk" }) }))
    await invalid(key.proof(world, {}, { jwk: undefined }))
  })
  it("RS256 and PS256 with 2048 bits are accepted", async () => {
    const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2_048 })
    for (const alg of ["RS256", "PS256"]) {
      const signed = key
        .proof(world, {}, { jwk: publicKey.export({ format: "jwk" }), alg })
        .split(".")
        .slice(0, 2)
        .join(".")
      const signature = sign(
        "sha256",
        Buffer.from(signed),
        alg === "RS256" ? privateKey : { key: privateKey, padding: 6, saltLength: 32 }
      ).toString("base64url")
      expect((await withProof(`${signed}.${signature}`)).status).toBe(200)
    }
  })
  it("AS-81 an HS256 proof signed with the public key's bytes", () => {
    const signed = key.proof(world, {}, { alg: "HS256" }).split(".").slice(0, 2).join(".")
    return invalid(
      `${signed}.${createHmac("sha256", JSON.stringify(key.jwk)).update(signed).digest("base64url")}`
    )
  })
  it.each(["JWT", "DPOP+JWT"])("AS-82 typ %s", (typ) => invalid(key.proof(world, {}, { typ })))
  it("AS-83 another method, host, path or scheme; a spoofed Host header changes nothing", async () => {
    for (const htm of ["GET", "post"]) await invalid(key.proof(world, { htm }))
    for (const htu of [
      "http://evil.example/oauth/token",
      `${world.issuer}/oauth/other`,
      `${world.issuer.replace("http", "https")}/oauth/token`,
      7
    ])
      await invalid(key.proof(world, { htu }))
    const spoofed = await new Promise<string>((resolve) => {
      const body = "grant_type=client_credentials"
      const socket = net.connect(world.server.port, "127.0.0.1", () =>
        socket.write(
          `POST /oauth/token HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\nAuthorization: ${world.basic(machine)["Authorization"]}\r\nDPoP: ${key.proof(world, { htu: "http://evil.example/oauth/token" })}\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: ${body.length}\r\n\r\n${body}`
        )
      )
      let text = ""
      socket
        .on("data", (chunk) => {
          text += chunk.toString()
        })
        .on("close", () => resolve(text))
    })
    expect(spoofed).toContain("invalid_dpop_proof")
  })
  it("AS-84 htu with a query or a fragment, and in other case", async () => {
    for (const end of ["?a=1", "#f"])
      expect((await withProof(key.proof(world, { htu: `${world.issuer}/oauth/token${end}` }))).status).toBe(
        200
      )
    expect(
      (
        await withProof(
          key.proof(world, { htu: `${world.issuer.toUpperCase().replace("HTTP:", "http:")}/oauth/token` })
        )
      ).status
    ).toBe(200)
  })
  it("AS-85 iat 61 seconds old, 6 ahead, a string", async () => {
    const now = Math.floor(world.nowMs / 1_000)
    for (const iat of [now - 61, now + 6, String(now), undefined]) await invalid(key.proof(world, { iat }))
    for (const iat of [now - 59, now + 5])
      expect((await withProof(key.proof(world, { iat }))).status).toBe(200)
  })
  it("AS-86 the same proof twice, also in parallel", async () => {
    const proof = key.proof(world)
    expect((await withProof(proof)).status).toBe(200)
    await invalid(proof)
    const other = key.proof(world)
    const answers = await Promise.all(Array.from({ length: 10 }, () => withProof(other)))
    expect(answers.filter(({ status }) => status === 200).length).toBe(1)
    await invalid(key.proof(world, { jti: undefined }))
    await invalid(key.proof(world, { jti: "j".repeat(257) }))
  })
  it("AS-87 two DPoP headers", () => invalid(`${key.proof(world)}, ${key.proof(world)}`))
  it("AS-88 nonce required: none, expired, forged are told a new one, with which the retry succeeds", async () => {
    const strict = await World.make({ settings: { dpop: { requireNonce: true } } })
    const one = await strict.client({ grantTypes: ["client_credentials"], scopes: ["a"] })
    const ask = (nonce: string | undefined) =>
      strict.token(one, { grant_type: "client_credentials" }, { DPoP: key.proof(strict, { nonce }) })
    const wanted = async (nonce: string | undefined): Promise<string> => {
      const answer = await ask(nonce)
      refused(answer, "use_dpop_nonce")
      expect(answer.headers.get("www-authenticate")).toBe('DPoP error="use_dpop_nonce"')
      return answer.headers.get("dpop-nonce")!
    }
    const nonce = await wanted(undefined)
    const good = await ask(nonce)
    expect([good.status, typeof good.headers.get("dpop-nonce")]).toEqual([200, "string"])
    await wanted("A".repeat(43))
    strict.nowMs += 60_000
    await wanted(nonce)
    expect(
      (await strict.token(one, { grant_type: "client_credentials" })).headers.get("dpop-nonce")
    ).toBeNull()
    await strict.close()
  })
  it("a nonce that is given though none is wanted must be ours", async () =>
    refused(await withProof(key.proof(world, { nonce: "theirs" })), "use_dpop_nonce"))
  it("AS-89 a failed proof, then a valid one with the same code", async () => {
    const code = await world.code(client, user)
    refused(await redeem(client, code, {}, { DPoP: key.proof(world, { htm: "GET" }) }), "invalid_dpop_proof")
    expect((await redeem(client, code, {}, { DPoP: key.proof(world) })).status).toBe(200)
  })
  it("with replay kept in memory only, a proof still counts once; with DPoP off the header is ignored", async () => {
    const light = await World.make({ settings: { dpop: { replayDurable: false } } })
    const one = await light.client({ grantTypes: ["client_credentials"], scopes: ["a"] })
    const proof = key.proof(light)
    expect((await light.token(one, { grant_type: "client_credentials" }, { DPoP: proof })).status).toBe(200)
    refused(
      await light.token(one, { grant_type: "client_credentials" }, { DPoP: proof }),
      "invalid_dpop_proof"
    )
    await light.close()
    const off = await World.make({ settings: { dpop: { enabled: false } } })
    const two = await off.client({ grantTypes: ["client_credentials"], scopes: ["a"] })
    expect(
      (await off.token(two, { grant_type: "client_credentials" }, { DPoP: "nonsense" })).body.token_type
    ).toBe("Bearer")
    await off.close()
  })
  it("a proof made with jws() of a stranger's key does not verify", () =>
    invalid(
      jws(
        { typ: "dpop+jwt", alg: "ES256", jwk: key.jwk },
        { jti: "x", htm: "POST", htu: `${world.issuer}/oauth/token`, iat: Math.floor(world.nowMs / 1_000) },
        new ProofKey().privateKey
      )
    ))
})
