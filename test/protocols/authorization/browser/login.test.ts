/** Forms of another site, guesses at once, and several tabs of one browser. Source:
 *  docs/spec/authorization.md, section 7.5. */
import { Effect, Fiber } from "effect"
import { afterEach, describe, expect, it, vi } from "vitest"
import { hashOf } from "../../../../protocols/authorization/auth-context.ts"
import { login } from "../../../../protocols/authorization/browser/login.ts"
import { Requests } from "../../../../protocols/authorization/records.ts"
import { requestOf } from "../upstream/outside.ts"
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

const rate = { enabled: true, callsPerSecond: 10_000, burst: 10_000, failuresMax: 10, sourceFailuresMax: 50 }

describe("A-4: guesses at once", () => {
  it("no more are judged than may fail, and the right one that comes too late signs nobody in", async () => {
    world = await World.make({ settings: { rate } })
    const user = await world.user()
    const { passwords } = world.open.services
    const { verify } = passwords
    let judged = 0
    passwords.verify = (...guess) => {
      judged++
      return verify(...guess)
    }
    const browser = world.browser()
    const form = { ...browser.hidden((await browser.call("/login")).text), email: user.email }
    const guess = (secret: string) => browser.post("/login", { ...form, password: secret })
    const answers = await Promise.all([
      ...Array.from({ length: 149 }, (_, at) => guess(`wrong password ${at}`)),
      guess(password)
    ])
    expect(judged).toBe(rate.failuresMax)
    expect(answers.filter(({ status }) => status === 400)).toHaveLength(rate.failuresMax)
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(150 - rate.failuresMax)
    expect((await guess(password)).status).toBe(429)
  })

  it("one whose client goes while it waits for the hash stays counted", async () => {
    world = await World.make({ settings: { rate } })
    const user = await world.user()
    const { services, sessions } = world.open
    const { verify } = services.passwords
    const browser = world.browser()
    const form = { ...browser.hidden((await browser.call("/login")).text), email: user.email, password }
    let waiting = 0
    services.passwords.verify = () => {
      waiting++
      return Effect.interruptible(Effect.never)
    }
    const nonce = [...browser.cookies].map((pair) => pair.join("=")).join("; ")
    const headers = { cookie: nonce, "content-type": "application/x-www-form-urlencoded" }
    const request = {
      ...requestOf({ method: "POST", path: "/login", headers }),
      body: Buffer.from(new URLSearchParams(form).toString()),
      client: "127.0.0.1"
    }
    const attempts = Array.from({ length: rate.failuresMax }, () =>
      Effect.runFork(login(services, sessions, request))
    )
    await vi.waitFor(() => expect(waiting).toBe(rate.failuresMax))
    await Effect.runPromise(Fiber.interruptAll(attempts))
    services.passwords.verify = verify
    expect((await browser.post("/login", form)).status).toBe(429)
  })
})

it("A-5: six sign-ins of one user at once all succeed", async () => {
  world = await World.make()
  const user = await world.user()
  const answers = await Promise.all(Array.from({ length: 6 }, () => world.browser().login(user)))
  expect(answers.map(({ status }) => status)).toEqual(Array(6).fill(303))
})

describe("A-6: tabs of one browser", () => {
  interface Tab {
    readonly req: string
    readonly fields: Record<string, string>
  }

  const opened = async () => {
    world = await World.make()
    await world.resource({ slug: "files" })
    const client = await world.client()
    const user = await world.user()
    const browser = world.browser()
    const location = async (parameters = {}) =>
      (await browser.call(world.authorizeUrl(client, parameters))).headers.get("location")!
    const tabAt = async (location: string): Promise<Tab> => ({
      req: new URL(location, world.issuer).searchParams.get("req")!,
      fields: browser.hidden((await browser.call(location)).text)
    })
    const signIn = ({ fields }: Tab, email = user.email) =>
      browser.post("/login", { ...fields, email, password })
    const allow = async ({ req }: Tab): Promise<string | null> => {
      const fields = browser.hidden((await browser.call(`/consent?req=${req}`)).text)
      const answer = await browser.post("/consent", { ...fields, decision: "allow" })
      return new URL(answer.headers.get("location") ?? "x:").searchParams.get("code")
    }
    return { client, user, browser, location, tabAt, signIn, allow }
  }

  it("that open at once, each sign in, in turn, and get their code", async () => {
    const { location, tabAt, signIn, allow } = await opened()
    const locations = await Promise.all([location(), location(), location()])
    const tabs = await Promise.all(locations.map(tabAt))
    for (const tab of tabs) expect((await signIn(tab)).status).toBe(303)
    for (const tab of tabs) expect(await allow(tab)).toMatch(/^[\w-]{43}$/)
  })

  it("that sign in at once all get their code, whose session wins", async () => {
    const { location, tabAt, signIn, allow } = await opened()
    const tabs = [await tabAt(await location()), await tabAt(await location())]
    const answers = await Promise.all(tabs.map((tab) => signIn(tab)))
    expect(answers.map(({ status }) => status)).toEqual([303, 303])
    for (const tab of tabs) expect(await allow(tab)).toMatch(/^[\w-]{43}$/)
  })

  it("do not ask for the password again once one of them has signed in", async () => {
    const { browser, location, tabAt, signIn, allow } = await opened()
    const second = await location()
    expect((await signIn(await tabAt(await location()))).status).toBe(303)
    const answer = await browser.call(second)
    expect(answer.headers.get("location")).toMatch(/^\/oauth\/authorize\/continue\?req=/)
    const req = new URL(second, world.issuer).searchParams.get("req")!
    expect((await browser.call(answer.headers.get("location")!)).headers.get("location")).toMatch(
      /^\/consent/
    )
    expect(await allow({ req, fields: {} })).toMatch(/^[\w-]{43}$/)
  })

  it("a consent page that was open before another tab signed in again is still good", async () => {
    const { browser, location, tabAt, signIn } = await opened()
    const [first, second] = [await tabAt(await location()), await tabAt(await location())]
    await signIn(first)
    const page = await browser.call(`/consent?req=${first.req}`)
    const connections = browser.hidden((await browser.call("/connections")).text)
    await signIn(second)
    const answer = await browser.post("/consent", { ...browser.hidden(page.text), decision: "allow" })
    expect(answer.headers.get("location")).toContain("code=")
    expect((await browser.post("/logout", connections)).status).toBe(303)
    expect((await browser.call("/connections")).status).not.toBe(200)
  })

  it("a login that a request demands anew is demanded in every tab", async () => {
    const { browser, location, tabAt, signIn, allow } = await opened()
    await signIn(await tabAt(await location()))
    world.nowMs += 1_000
    const wanting = await location({ prompt: "login" })
    expect((await browser.call(wanting)).status).toBe(200)
    const tab = await tabAt(wanting)
    await signIn(tab)
    expect(await allow(tab)).toMatch(/^[\w-]{43}$/)
  })

  it("what one user was asked is not answered by another who signs in meanwhile", async () => {
    const { browser, location, tabAt, signIn } = await opened()
    const first = await tabAt(await location())
    const second = await tabAt(await location())
    await signIn(first)
    const page = browser.hidden((await browser.call(`/consent?req=${first.req}`)).text)
    await signIn(second, (await world.user()).email)
    const answer = await browser.post("/consent", { ...page, decision: "allow" })
    expect([answer.status, answer.headers.get("location")]).toEqual([400, null])
  })

  it("a form that was sent twice signs in once more, and goes on with its request", async () => {
    const { location, tabAt, signIn, allow } = await opened()
    const tab = await tabAt(await location())
    const answers = await Promise.all([signIn(tab), signIn(tab)])
    expect(answers.map((answer) => answer.headers.get("location"))).toEqual(
      Array(2).fill(`/oauth/authorize/continue?req=${tab.req}`)
    )
    expect(await allow(tab)).toMatch(/^[\w-]{43}$/)
  })
})

it("A-11: the cookie of a login form is good for another while each time the form is shown", async () => {
  world = await World.make()
  const browser = world.browser()
  const first = (await browser.call("/login")).headers.get("set-cookie")
  expect(first).toMatch(/^authserver_pre=[\w-]{43}; .*Max-Age=600/)
  expect((await browser.call("/login")).headers.get("set-cookie")).toBe(first)
})
