/** What strangers leave behind, by counts of rows and actors: the small version of `npm run strangers`. Source:
 *  docs/spec/authorization.md, section 3.5. */
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest"
import {
  AuditEvents,
  Clients,
  Expiries,
  ProofIds,
  Requests,
  type Client,
  type User
} from "../../../protocols/authorization/records.ts"
import { ProofKey, World } from "./world.ts"

const requestsMax = 60
const requestsPerSourceMax = 40
const proofsMax = 50
const unusedMax = 20
const hourMs = 3_600_000

const settings = {
  rate: { enabled: true, callsPerSecond: 1_000_000, burst: 1_000_000, identitiesMax: 100 },
  pending: { requestsMax, requestsPerSourceMax },
  dpop: { proofsMax },
  registration: { unusedMax, perHourMax: 100, callsPerSecond: 1_000_000, burst: 1_000_000 },
  auditFailuresPerHour: 10
}

let world: World
let app: Client & { readonly secret: string }
let user: User

beforeAll(async () => {
  world = await World.make({ settings })
  await world.resource({ slug: "files" })
  app = await world.client()
  user = await world.user()
})
afterAll(() => world.close())
beforeEach(async () => {
  world.nowMs += 2 * hourMs
  await world.open.sweep()
})

const rows = ({ name }: { readonly name: string }): number =>
  world.store.range(name, { limit: 100_000 }).length

const audited = async (action: string) => {
  await world.open.services.audit.settle()
  return AuditEvents.range(world.store, { limit: 100_000 })
    .map(({ value }) => value)
    .filter((event) => event.action === action)
}

/** Asks several times at once, because each answer waits for the disk. */
const each = async <A>(count: number, ask: (i: number) => Promise<A>): Promise<ReadonlyArray<A>> => {
  const answers: Array<A> = []
  while (answers.length < count)
    answers.push(
      ...(await Promise.all(
        Array.from({ length: Math.min(20, count - answers.length) }, (_, i) => ask(answers.length + i))
      ))
    )
  return answers
}

const authorize = (source: World = world) => source.call(source.authorizeUrl(app))

it("A-3: requests that nobody finishes have a ceiling for each source: 429, Retry-After, and no row", async () => {
  const answers = await each(requestsPerSourceMax + 20, () => authorize())
  expect(answers.filter(({ status }) => status === 302)).toHaveLength(requestsPerSourceMax)
  const refused = answers.filter(({ status }) => status === 429)
  expect(refused).toHaveLength(20)
  expect(Number(refused[0]!.headers.get("retry-after"))).toBeGreaterThan(0)
  expect(rows(Requests)).toBe(requestsPerSourceMax)
  world.nowMs += 600_000
  await world.open.sweep()
  expect([rows(Requests), rows(Expiries)]).toEqual([0, 0])
  expect((await authorize()).status).toBe(302)
})

it("A-3: and one for all sources: 503, Retry-After; who is signed in goes on", async () => {
  const browser = world.browser()
  await world.code(app, user, {}, browser)
  const { books } = world.open.services
  const expiresMs = world.nowMs + 600_000
  await each(requestsPerSourceMax - 1, () => authorize())
  const [pending] = Requests.range(world.store, { limit: 1 })
  const others = Array.from({ length: requestsMax - rows(Requests) }, (_, i) =>
    books.expiring(Requests, [`other-${i}`], { ...pending!.value, expiresMs }, expiresMs, "absent")
  )
  await books.write(others.flat())
  const refused = await authorize()
  expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "10"])
  expect(refused.text).toContain("too many sign-ins are under way")
  expect(await world.code(app, user, {}, browser)).toMatch(/^[\w-]{43}$/)
  expect(rows(Requests)).toBe(requestsMax)
})

it("A-3: a request that was finished leaves at once, and makes room", async () => {
  const browser = world.browser()
  for (let i = 0; i < requestsPerSourceMax + 5; i++) await world.code(app, user, {}, browser)
  expect(rows(Requests)).toBe(0)
  expect((await authorize()).status).toBe(302)
})

it("A-3: pending requests count through a restart", async () => {
  await each(requestsPerSourceMax, () => authorize())
  const restarted = await World.make({
    settings: { ...settings, pending: { requestsMax: requestsPerSourceMax, requestsPerSourceMax } },
    store: world.store,
    nowMs: world.nowMs
  })
  expect((await authorize(restarted)).status).toBe(503)
  await restarted.close()
})

it("A-3: remembered proofs have a ceiling: 503, Retry-After, and no row; the sweep makes room", async () => {
  const client = await world.client({ authMethod: "none" })
  const key = new ProofKey()
  const prove = () =>
    world.token(
      client,
      { grant_type: "authorization_code", code: "x", redirect_uri: "https://x.example", code_verifier: "y" },
      { DPoP: key.proof(world) }
    )
  const answers = await each(proofsMax + 10, prove)
  expect(answers.filter(({ status }) => status === 503)).toHaveLength(10)
  expect(answers.find(({ status }) => status === 503)!.headers.get("retry-after")).toBe("1")
  expect(rows(ProofIds)).toBe(proofsMax)
  world.nowMs += 70_000
  await world.open.sweep()
  expect(rows(ProofIds)).toBe(0)
  expect((await prove()).status).toBe(400)
})

it("A-3: clients that register themselves have a ceiling: 503; unused ones leave after an hour then", async () => {
  const register = () =>
    world.call("/oauth/register", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ redirect_uris: ["https://app.example.com/cb"] })
    })
  const dcr = () =>
    Clients.range(world.store, { limit: 1_000 }).filter(({ value }) => value.source === "dcr").length
  const answers = await each(unusedMax + 5, register)
  expect(dcr()).toBe(unusedMax)
  const refused = await register()
  expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "60"])
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(unusedMax)
  world.nowMs += hourMs + 1
  await world.open.sweep()
  await world.open.sweep()
  expect(dcr()).toBe(0)
  expect((await register()).status).toBe(201)
})

it("A-2: thousands of unknown clients from thousands of sources leave a bounded number of counts", async () => {
  const { limits, actors } = world.open.services
  const before = actors.residents
  for (let i = 0; i < 20_000; i++) {
    const source = `198.51.${Math.floor(i / 250) % 250}.${i % 250}`
    limits.call(source)
    limits.clientFailed(source, `unknown-${i}`)
    limits.adminFailed(source)
    limits.registration(source)
  }
  expect(Math.max(...Object.values(limits.tracked))).toBe(100)
  expect(actors.residents).toBe(before)
})

it("A-11: a wrong client secret and a wrong admin key are audited, and the lock that follows", async () => {
  const client = await world.client()
  const claim = () =>
    world.post(
      "/oauth/token",
      { grant_type: "client_credentials" },
      world.basic({ ...client, secret: "wrong" })
    )
  expect((await claim()).status).toBe(401)
  expect(await audited("client.auth_failed")).toMatchObject([{ clientId: client.clientId, ip: "127.0.0.1" }])
  for (let i = 1; i < 20; i++) await claim()
  expect((await claim()).status).toBe(429)
  expect(await audited("auth.locked_out")).toMatchObject([{ clientId: client.clientId, ip: "127.0.0.1" }])
})

it("A-11: what strangers can cause fills the audit no faster than permitted, and says what was left out", async () => {
  const before = (await audited("client.auth_failed")).length
  const { audit, books } = world.open.services
  for (let i = 0; i < 100; i++)
    await books.write(audit.strangerEvent("client.auth_failed", { clientId: `${i}` }))
  expect(await audited("client.auth_failed")).toHaveLength(before + 10)
  world.nowMs += hourMs
  await books.write(audit.strangerEvent("client.auth_failed"))
  expect((await audited("client.auth_failed")).at(-1)!.detail).toBe("omitted=90")
  expect(audit.counts.get("client.auth_failed")).toBeGreaterThanOrEqual(101)
})
