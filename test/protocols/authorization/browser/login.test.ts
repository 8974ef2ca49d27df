/** Forms of another site, and two logins for one request. Source: docs/spec/authorization.md, section 7.5. */
import { afterEach, expect, it } from "vitest"
import { hashOf } from "../../../../protocols/authorization/auth-context.ts"
import { Requests } from "../../../../protocols/authorization/records.ts"
import { RacedStore } from "../../../storage/raced-store.ts"
import { password, World, type Answer, type Browser } from "../world.ts"

let world: World
afterEach(() => world.close())

/** Brings a browser to the login page of an authorization request. */
const atLogin = async (browser: Browser) => {
  const client = await world.client()
  const location = (await browser.call(world.authorizeUrl(client))).headers.get("location")!
  const page = await browser.call(location)
  const req = new URL(location, world.issuer).searchParams.get("req")!
  return { fields: browser.hidden(page.text), req }
}

const isSignedIn = async (browser: Browser): Promise<boolean> =>
  (await browser.call("/connections")).status === 200

const denied = (answer: Answer): void => {
  expect([answer.status, answer.text.includes("is not from this browser")]).toEqual([403, true])
}

it("a login without its token, or with another browser's, signs nobody in", async () => {
  world = await World.make()
  await world.resource({ slug: "files" })
  const user = await world.user()
  const [victim, attacker] = [world.browser(), world.browser()]
  const { fields } = await atLogin(victim)
  const foreign = (await atLogin(attacker)).fields
  const form = { ...fields, email: user.email, password }
  const { csrf: _, ...without } = form as Record<string, string>
  denied(await victim.post("/login", without))
  denied(await victim.post("/login", { ...form, csrf: foreign["csrf"]! }))
  expect(await isSignedIn(victim)).toBe(false)
  expect((await victim.post("/login", form)).status).toBe(303)
  expect(await isSignedIn(victim)).toBe(true)
})

it("a logout without its token signs nobody out", async () => {
  world = await World.make()
  const user = await world.user()
  const browser = world.browser()
  await browser.login(user)
  const form = browser.hidden((await browser.call("/connections")).text)
  denied(await browser.post("/logout", {}))
  denied(await browser.post("/logout", { csrf: "x".repeat(43) }))
  expect(await isSignedIn(browser)).toBe(true)
  expect((await browser.post("/logout", { csrf: form["csrf"]! })).status).toBe(303)
  expect(await isSignedIn(browser)).toBe(false)
})

it("a login does not take a request over that another login was first for", async () => {
  const raced = new RacedStore()
  world = await World.make({ store: raced.store })
  await world.resource({ slug: "files" })
  const user = await world.user()
  const browser = world.browser()
  const { fields, req } = await atLogin(browser)
  const key = hashOf(world.open.services, req, "request")
  const row = Requests.get(world.store, [key])!
  raced.race(Requests.name, () => [Requests.put([key], { ...row, phase: "consent", userId: "another" })])
  const answer = await browser.post("/login", { ...fields, email: user.email, password })
  expect(answer.status).toBeGreaterThanOrEqual(400)
  expect(Requests.get(world.store, [key])?.userId).toBe("another")
})
