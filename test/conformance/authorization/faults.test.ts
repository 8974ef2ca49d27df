/** When things go wrong around the server: a store that refuses writes (AS-75), a source that registers
 *  without end (AS-126), and what the log and the audit tell of a run that touched every kind of secret
 *  (AS-155). */
import { generateKeyPairSync, randomBytes } from "node:crypto"
import { mkdtempSync, rmSync } from "node:fs"
import { request as httpRequest } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, describe, expect, it, vi } from "vitest"
import { FamilyEnds } from "../../../actors/refresh-family.ts"
import {
  revocationIntentsInFile,
  revocationIntentsInMemory
} from "../../../protocols/authorization/token/pending-revocations.ts"
import {
  AuditEvents,
  bearerGrant,
  BrokerGrants,
  exchangeGrant,
  grantTypes,
  Idps,
  Policies,
  Providers
} from "../../../protocols/authorization/records.ts"
import { logger } from "../../../runtime/program/telemetry/logger.ts"
import { openLmdb } from "../../../storage/lmdb.ts"
import { openMemory } from "../../../storage/memory.ts"
import { StorageFault, type Store } from "../../../storage/store.ts"
import { callback, jws, password, ProofKey, World, type Answer } from "../../protocols/authorization/world.ts"

/** A store whose disk is full while `refusing`: what is accepted is lost. */
class Refusing {
  refusing = false
  readonly store: Store

  constructor(store: Store) {
    this.store = Object.assign(Object.create(store) as Store, {
      commit: (...[writes, settled]: Parameters<Store["commit"]>) => {
        if (!this.refusing) return store.commit(writes, settled)
        queueMicrotask(() => settled(new StorageFault({ reason: "full", detail: "no space left" })))
        return undefined
      }
    })
  }
}

const refused = (answer: Answer, error: string, status = 400): void => {
  expect([answer.body?.error, answer.status]).toEqual([error, status])
}

const actionsOf = (store: Store): ReadonlyArray<string> =>
  AuditEvents.range(store, { limit: 10_000 }).map(({ value }) => value.action)

afterEach(() => {
  vi.useRealTimers()
  vi.restoreAllMocks()
})

describe("AS-75 reuse while the store refuses writes", () => {
  const folder = mkdtempSync(join(tmpdir(), "troupe-reuse-"))
  const intents = () => revocationIntentsInFile(join(folder, "intents"))
  const opened: Array<{ readonly world: World; readonly lmdb: Store }> = []
  const lines: Array<string> = []
  /** A start of the server over what the last one left. */
  const start = async (refusing: boolean) => {
    const lmdb = await openLmdb({ folder: join(folder, "store") })
    const disk = new Refusing(lmdb)
    disk.refusing = refusing
    const world = await World.make({
      store: disk.store,
      revocationIntents: intents(),
      settings: { issuer: "http://localhost:9" },
      log: logger("info", (line) => {
        lines.push(line)
      })
    })
    opened.push({ world, lmdb })
    return { world, disk }
  }
  const stop = async (): Promise<void> => {
    const { world, lmdb } = opened.pop()!
    await world.close()
    await lmdb.close()
  }
  const alerts = (): number =>
    lines.filter(
      (line) =>
        line.includes('"level":"error"') && line.includes("a token family could not be revoked in the store")
    ).length

  it("invalid_grant; the family unusable at once, after a restart while the disk is still full, and after one when it is not; the alert raised each time", async () => {
    let { world, disk } = await start(false)
    await world.resource({ slug: "files" })
    const client = await world.client()
    const user = await world.user()
    const first = await world.tokens(client, user)
    const other = await world.tokens(client, user)
    const second = (await world.refresh(client, first.refresh_token)).body
    const familyId = world.issuanceOf(second.access_token).familyId
    expect(await world.active(client, second.access_token)).toBe(true)

    disk.refusing = true
    const answer = await world.refresh(client, first.refresh_token)
    refused(answer, "invalid_grant")
    expect(answer.body.error_description).toContain("reuse")
    const dead = async (): Promise<void> => {
      for (const token of [first.refresh_token, second.refresh_token])
        refused(await world.refresh(client, token), "invalid_grant")
      for (const token of [first.access_token, second.access_token])
        expect(await world.active(client, token)).toBe(false)
    }
    await dead()
    // At least one: on a slow machine it has been tried again by now.
    for (const count of [
      alerts(),
      world.open.services.families.failures,
      world.open.services.audit.counts.get("family.revocation_failed")
    ])
      expect(count).toBeGreaterThanOrEqual(1)
    expect([intents().all(), FamilyEnds.get(world.store, [familyId])]).toEqual([[familyId], undefined])
    // Nobody else is hurt, but for what cannot be kept: their tokens are checked, and not rotated.
    expect(await world.active(client, other.access_token)).toBe(true)
    expect((await world.refresh(client, other.refresh_token)).status).toBe(503)
    disk.refusing = false
    const living = (await world.refresh(client, other.refresh_token)).body
    disk.refusing = true
    await stop()

    const before = alerts()
    ;({ world, disk } = await start(true))
    await dead()
    expect(alerts()).toBeGreaterThan(before)
    expect(FamilyEnds.get(world.store, [familyId])).toBeUndefined()
    await stop()

    const last = alerts()
    ;({ world, disk } = await start(false))
    await dead()
    expect([alerts(), FamilyEnds.get(world.store, [familyId])?.because, intents().all()]).toEqual([
      last,
      "reuse",
      []
    ])
    expect((await world.refresh(client, living.refresh_token)).status).toBe(200)
    await stop()

    ;({ world, disk } = await start(false))
    await dead()
    await stop()
    rmSync(folder, { recursive: true, force: true })
  })
  it("it is tried again, each time after twice the wait, until it is kept", async () => {
    const disk = new Refusing(openMemory())
    const world = await World.make({ store: disk.store })
    await world.resource({ slug: "files" })
    const client = await world.client()
    const first = await world.tokens(client, await world.user())
    const second = (await world.refresh(client, first.refresh_token)).body
    const { familyId } = world.issuanceOf(second.access_token)
    disk.refusing = true
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
    refused(await world.refresh(client, first.refresh_token), "invalid_grant")
    await vi.advanceTimersByTimeAsync(1_000)
    await vi.advanceTimersByTimeAsync(2_000)
    expect(world.open.services.families.failures).toBe(3)
    disk.refusing = false
    await vi.advanceTimersByTimeAsync(3_999)
    expect(FamilyEnds.get(world.store, [familyId])).toBeUndefined()
    await vi.advanceTimersByTimeAsync(1)
    vi.useRealTimers()
    await world.store.flushed()
    expect([
      FamilyEnds.get(world.store, [familyId])?.because,
      world.open.services.families.hasEnded(familyId)
    ]).toEqual(["reuse", true])
    refused(await world.refresh(client, second.refresh_token), "invalid_grant")
    await world.close()
  })
})

describe("registration without end", () => {
  it("AS-126 21 registrations in one second from one source: the last is told to slow down, another source is not, and the first again after its wait", async () => {
    const world = await World.make({ settings: { rate: { enabled: true } } })
    const body = JSON.stringify({ redirect_uris: [callback] })
    const join = (from: string) =>
      new Promise<{ readonly status: number; readonly body: any; readonly retryAfter: string | undefined }>(
        (resolve, reject) => {
          httpRequest(
            `${world.base}/oauth/register`,
            { method: "POST", localAddress: from, headers: { "Content-Type": "application/json" } },
            (response) => {
              let text = ""
              response
                .setEncoding("utf8")
                .on("data", (part: string) => {
                  text += part
                })
                .on("end", () =>
                  resolve({
                    status: response.statusCode!,
                    body: JSON.parse(text),
                    retryAfter: response.headers["retry-after"]
                  })
                )
            }
          )
            .on("error", reject)
            .end(body)
        }
      )
    for (let count = 0; count < 20; count++) {
      expect((await join("127.0.0.1")).status).toBe(201)
      world.nowMs += 49
    }
    const last = await join("127.0.0.1")
    expect([last.status, last.body.error]).toEqual([429, "slow_down"])
    expect(last.retryAfter).toMatch(/^[1-9]\d*$/)
    expect((await join("127.0.0.2")).status).toBe(201)
    world.nowMs += Number(last.retryAfter) * 1_000
    expect((await join("127.0.0.1")).status).toBe(201)
    await world.close()
  })
})

const secretNames = [
  "code",
  "code_verifier",
  "refresh_token",
  "access_token",
  "client_secret",
  "password",
  "subject_token",
  "actor_token",
  "assertion",
  "csrf",
  "token",
  "req"
]

/** Remembers every secret that passes from here on, in either direction, by its kind. */
const witness = (world: World) => {
  const seen = new Map<string, Set<string>>()
  const call = world.call.bind(world)
  const note = (kind: string, value: unknown): void => {
    if (typeof value === "string" && value.length >= 8)
      (seen.get(kind) ?? seen.set(kind, new Set()).get(kind)!).add(value)
  }
  world.call = async (path, init = {}) => {
    const answer = await call(path, init)
    const headers = new Headers(init.headers)
    const [scheme, credentials = ""] = (headers.get("authorization") ?? "").split(" ")
    const form = headers.get("content-type")?.includes("form") === true ? (init.body as string) : undefined
    for (const text of [path.split("?")[1], form, answer.headers.get("location")?.split("?")[1]])
      for (const [name, value] of new URLSearchParams(text ?? ""))
        if (secretNames.includes(name)) note(name, value)
    for (const name of secretNames) note(name, answer.body?.[name])
    for (const [, name, value] of answer.text.matchAll(
      /<input type="hidden" name="([^"]+)" value="([^"]*)">/g
    ))
      if (secretNames.includes(name!)) note(name!, value)
    note("authorization", credentials)
    if (scheme === "Basic")
      note("client_secret", decodeURIComponent(Buffer.from(credentials, "base64").toString().split(":")[1]!))
    note("proof", headers.get("dpop"))
    for (const cookie of [
      ...(headers.get("cookie") ?? "").split("; "),
      ...answer.headers.getSetCookie().map((text) => text.split(";")[0]!)
    ])
      note("cookie", cookie.slice(cookie.indexOf("=") + 1))
    return answer
  }
  return { seen, note }
}

it("AS-155 log, audit and standard streams of a run through every grant and every refusal hold no secret material", async () => {
  const said: Array<string> = []
  const disk = new Refusing(openMemory())
  const idp = generateKeyPairSync("ec", { namedCurve: "P-256" })
  const upstreamToken = `upstream-${randomBytes(16).toString("hex")}`
  const spies = [process.stdout, process.stderr].map((stream) =>
    vi.spyOn(stream, "write").mockImplementation((text) => {
      said.push(String(text))
      return true
    })
  )
  const keep = (...parts: ReadonlyArray<unknown>): void => {
    said.push(parts.map(String).join(" "))
  }
  const consoles = (["log", "warn", "error", "info", "debug"] as const).map((level) =>
    vi.spyOn(console, level).mockImplementation(keep)
  )
  const world = await World.make({
    store: disk.store,
    revocationIntents: revocationIntentsInMemory(),
    settings: { adminApiKey: "the-key-of-the-administrator", rate: { enabled: true } },
    log: logger("debug", (line) => {
      said.push(line)
    }),
    parts: {
      idps: { keyFor: async () => idp.publicKey },
      vault: { upstreamToken: async () => ({ accessToken: upstreamToken, expiresIn: 60 }) }
    }
  })
  const { seen, note } = witness(world)
  const { books } = world.open.services
  const at = { createdMs: 1, updatedMs: 1 }
  await world.resource({ slug: "files", uri: "https://mcp.example.com/files" })
  await world.resource({
    slug: "drive",
    uri: "https://mcp.example.com/drive",
    backend: "broker",
    providerId: "p",
    scopes: [{ name: "files:read", description: "", upstream: [] }]
  })
  const client = await world.client({ grantTypes: [...grantTypes], scopes: ["files:read", "files:write"] })
  const stranger = await world.client()
  const user = await world.user()
  await books.write([
    Idps.put(["idp"], {
      id: "idp",
      name: "idp",
      issuer: "https://idp.example.com",
      jwksUri: "",
      audience: "",
      enabled: true,
      ...at
    }),
    Policies.put(["x"], {
      id: "x",
      name: "x",
      idpId: "idp",
      clientIds: [],
      scopes: [],
      resources: [],
      enabled: true,
      ...at
    }),
    Providers.put(["p"], {
      id: "p",
      slug: "p",
      displayName: "P",
      protocol: "oauth",
      config: {},
      sealedSecret: null,
      ...at
    }),
    BrokerGrants.put([user.id, "p"], {
      id: "g",
      userId: user.id,
      providerId: "p",
      scopesGranted: ["files:read"],
      credential: null,
      version: 1,
      revokedMs: null,
      ...at
    })
  ])
  const resource = "https://mcp.example.com/files"
  const accessType = "urn:ietf:params:oauth:token-type:access_token"
  const browser = world.browser()
  const redeem = (code: string, verifier = "v".repeat(43), headers = {}) =>
    world.token(
      client,
      { grant_type: "authorization_code", code, redirect_uri: callback, code_verifier: verifier },
      headers
    )
  const key = new ProofKey()

  await browser.login(user, "/login", "a password mistyped by one")
  const registered = await world.call("/oauth/register", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ redirect_uris: [callback] })
  })
  expect(registered.status).toBe(201)
  const code = await world.code(client, user, { resource }, browser)
  const wrong = await redeem(code, "w".repeat(43))
  const tokens = (await redeem(code)).body
  refused(wrong, "invalid_grant")
  const next = (await world.refresh(client, tokens.refresh_token)).body
  expect(
    (
      await world.token(client, {
        grant_type: exchangeGrant,
        subject_token: next.access_token,
        subject_token_type: accessType,
        actor_token: (await world.token(client, { grant_type: "client_credentials" })).body.access_token,
        actor_token_type: accessType,
        resource
      })
    ).status
  ).toBe(200)
  const vended = await world.token(client, {
    grant_type: exchangeGrant,
    subject_token: next.access_token,
    subject_token_type: accessType,
    resource: "drive"
  })
  expect(vended.body.access_token).toBe(upstreamToken)
  const nowS = Math.floor(world.nowMs / 1_000)
  const assertion = jws(
    { typ: "oauth-id-jag+jwt", alg: "ES256", kid: "k" },
    {
      iss: "https://idp.example.com",
      sub: "alice",
      aud: world.issuer,
      client_id: client.clientId,
      jti: "one-assertion",
      iat: nowS,
      exp: nowS + 300
    },
    idp.privateKey
  )
  for (const status of [200, 400])
    expect((await world.token(client, { grant_type: bearerGrant, assertion })).status).toBe(status)
  await world.token(client, { grant_type: "client_credentials" }, { DPoP: key.proof(world) })
  await world.token(client, { grant_type: "client_credentials" }, { DPoP: key.proof(world, { htm: "GET" }) })
  await world.token(
    { ...client, secret: "not-the-secret-of-this-client" },
    { grant_type: "client_credentials" }
  )
  await world.active(client, next.access_token)
  await world.active(stranger, next.access_token)
  await world.token(stranger, {
    grant_type: exchangeGrant,
    subject_token: next.access_token,
    subject_token_type: accessType
  })
  await world.refresh(stranger, next.refresh_token)
  for (const secret of ["the-key-of-the-administrator", "not-the-key-of-the-administrator"])
    await world.call("/admin/clients", { headers: { Authorization: `Bearer ${secret}` } })
  const created = await world.call("/admin/users", {
    method: "POST",
    headers: { Authorization: "Bearer the-key-of-the-administrator", "Content-Type": "application/json" },
    body: JSON.stringify({ email: "bob@example.com", password: "a password set by the admin" })
  })
  expect(created.status).toBe(201)
  note("password", "a password set by the admin")
  refused(await world.refresh(client, tokens.refresh_token), "invalid_grant")
  const another = await world.tokens(client, user, { resource })
  const later = (await world.refresh(client, another.refresh_token)).body
  await redeem(code)
  await world.revoke(client, later.access_token)
  disk.refusing = true
  refused(await world.refresh(client, another.refresh_token), "invalid_grant")
  disk.refusing = false
  await world.revoke(client, later.refresh_token)
  await browser.authorize(world.authorizeUrl(client, { prompt: "consent" }), user, "deny")
  await browser.post("/logout", { ...browser.hidden((await browser.call("/connections")).text) })
  await world.close()
  for (const spy of [...spies, ...consoles]) spy.mockRestore()

  note("password", password)
  const actions = new Set(actionsOf(world.store))
  for (const action of [
    "user.login_failed",
    "user.login",
    "client.registered",
    "token.issued",
    "token.refreshed",
    "token.exchanged",
    "jwt_bearer.issued",
    "client_credentials.issued",
    "family.revoked",
    "code.replayed",
    "token.revoked",
    "consent.granted",
    "consent.denied"
  ])
    expect([...actions], action).toContain(action)
  const told = [
    ...said,
    ...AuditEvents.range(world.store, { limit: 10_000 }).map(({ value }) => JSON.stringify(value))
  ].join("\n")
  const plain = `${told}\n${decodeURIComponent(told.replace(/%(?![0-9A-Fa-f]{2})/g, "%25"))}`
  // The search can find: what may be told is told.
  expect([
    plain.includes(client.clientId),
    plain.includes(user.email),
    plain.includes("could not be revoked in the store")
  ]).toEqual([true, true, true])
  expect([...seen.keys()].sort()).toEqual([
    "access_token",
    "actor_token",
    "assertion",
    "authorization",
    "client_secret",
    "code",
    "code_verifier",
    "cookie",
    "csrf",
    "password",
    "proof",
    "refresh_token",
    "req",
    "subject_token",
    "token"
  ])
  for (const [kind, values] of seen)
    for (const value of values) {
      // A part of a token that opens nothing by itself, yet stands for it: its signature, its MAC.
      for (const part of [value, value.split(".").at(-1)!].filter(({ length }) => length >= 8))
        expect(plain.includes(part), `${kind} in the log or audit`).toBe(false)
    }
})
