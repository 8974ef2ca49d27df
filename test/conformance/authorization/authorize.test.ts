/** Authorization section 22.1, row by row: the authorization endpoint, sign-in and consent. */
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import type { Client, User } from "../../../protocols/authorization/records.ts"
import { callback, password, World, type Answer } from "../../protocols/authorization/world.ts"

const uri = "https://mcp.example.com/files"
let world: World
let client: Client & { readonly secret: string }
let user: User

beforeAll(async () => {
  world = await World.make()
  await world.resource({ slug: "files", uri })
  client = await world.client()
  user = await world.user()
})

afterAll(() => world.close())

const ask = (parameters: Record<string, string | undefined> = {}): Promise<Answer> =>
  world.call(world.authorizeUrl(client, parameters))

const redirected = (answer: Answer): URLSearchParams => {
  expect(answer.status).toBe(302)
  const location = answer.headers.get("location")!
  expect(location.startsWith(`${callback}?`), location).toBe(true)
  return new URL(location).searchParams
}

const refused = (answer: Answer, error: string): void => {
  const query = redirected(answer)
  expect([query.get("error"), query.get("state"), query.getAll("iss")]).toEqual([
    error,
    "xyz",
    [world.issuer]
  ])
}

const page = (answer: Answer, status: number): void => {
  expect([answer.status, answer.headers.get("location")]).toEqual([status, null])
  expect(answer.headers.get("content-type")).toContain("text/html")
}

describe("parameters", () => {
  it("AS-1 no code_challenge", async () =>
    refused(await ask({ code_challenge: undefined }), "invalid_request"))
  it("AS-2 code_challenge_method plain", async () =>
    refused(await ask({ code_challenge_method: "plain" }), "invalid_request"))
  it("AS-3 a challenge without a method is plain, and refused", async () =>
    refused(await ask({ code_challenge_method: undefined }), "invalid_request"))
  it.each(["a".repeat(42), "a".repeat(44), `${"a".repeat(42)}=`, `${"a".repeat(42)}+`, `${"a".repeat(42)}/`])(
    "AS-4 challenge %s",
    async (code_challenge) => refused(await ask({ code_challenge }), "invalid_request")
  )
  it.each(["token", "id_token", "code token"])("AS-5 response_type %s", async (response_type) =>
    refused(await ask({ response_type }), "unsupported_response_type")
  )
  it("AS-6 unknown client_id with a plausible redirect", async () =>
    page(await ask({ client_id: "0192aaaa-0000-7000-8000-000000000000" }), 401))
  it.each([
    `${callback}/x`,
    `${callback}?a=1`,
    `${callback}/`,
    "https://APP.example.com/cb",
    "https://app.example.com:8443/cb",
    "https://app.example.com/%2e%2e/cb",
    "https://app.example.com@evil.example/cb"
  ])("AS-7 redirect %s", async (redirect_uri) => page(await ask({ redirect_uri }), 400))
  it("AS-8 registered https, sent http", async () =>
    page(await ask({ redirect_uri: callback.replace("https", "http") }), 400))
  it("AS-9 loopback port: exact by default, any with the flag", async () => {
    const loopback = { redirectUris: ["http://127.0.0.1:3000/cb"], authMethod: "none" as const }
    const native = await world.client(loopback)
    page(await world.call(world.authorizeUrl(native, { redirect_uri: "http://127.0.0.1:3001/cb" })), 400)
    const lenient = await World.make({ settings: { loopbackAnyPort: true } })
    await lenient.resource({ slug: "files" })
    const other = await lenient.client(loopback)
    const answer = await lenient.call(
      lenient.authorizeUrl(other, { redirect_uri: "http://127.0.0.1:3001/cb" })
    )
    expect(answer.headers.get("location")).toMatch(/^\/login\?req=/)
    await lenient.close()
  })
  it("AS-10 with the flag on, what only looks like loopback is refused", async () => {
    const lenient = await World.make({ settings: { loopbackAnyPort: true } })
    const other = await lenient.client({ redirectUris: ["http://localhost/cb", "http://127.0.0.1/cb"] })
    for (const redirect_uri of [
      "http://localhost.evil.example/cb",
      "http://127.0.0.1.evil/cb",
      "https://localhost:1/cb",
      "http://localhost:1/other",
      "http://localhost:1/cb?x=1"
    ])
      page(await lenient.call(lenient.authorizeUrl(other, { redirect_uri })), 400)
    await lenient.close()
  })
  it.each(["redirect_uri", "client_id"])("AS-11 %s twice", async (name) =>
    page(await world.call(`${world.authorizeUrl(client)}&${name}=x`), 400)
  )
  it.each(["state", "scope"])("AS-12 %s twice", async (name) => {
    const query = redirected(await world.call(`${world.authorizeUrl(client)}&${name}=other`))
    expect(query.get("error")).toBe("invalid_request")
  })
  it("AS-13 state with CR LF: refused, and no header of theirs", async () => {
    const answer = await ask({ state: "a\r\nX-Injected: 1" })
    expect(redirected(answer).get("error")).toBe("invalid_request")
    expect(answer.headers.get("x-injected")).toBeNull()
  })
  it("AS-14 scope not in the catalog", async () => {
    const answer = await ask({ scope: "files:read other", resource: uri })
    refused(answer, "invalid_scope")
    expect(redirected(answer).get("error_description")).toContain("other")
  })
  it("AS-15 scope outside the client ceiling, before any sign-in page", async () => {
    const bounded = await world.client({ scopes: ["files:read"] })
    refused(await world.call(world.authorizeUrl(bounded, { scope: "files:write" })), "invalid_scope")
  })
  it("AS-16 scope missing with the default configuration; with require_scope off it is the catalog, cut to the ceiling", async () => {
    refused(await ask({ scope: undefined }), "invalid_scope")
    const lenient = await World.make({ settings: { requireScope: false } })
    await lenient.resource({ slug: "files", uri })
    const bounded = await lenient.client({ scopes: ["files:write"] })
    const tokens = await lenient.tokens(bounded, await lenient.user(), { scope: undefined, resource: uri })
    expect(tokens.scope).toBe("files:write")
    const unbounded = await lenient.client()
    expect(
      new URL(
        (await lenient.call(lenient.authorizeUrl(unbounded, { scope: undefined }))).headers.get("location")!
      ).searchParams.get("error")
    ).toBe("invalid_scope")
    await lenient.close()
  })
  it("AS-17 two different resources, one with a fragment, one unregistered", async () => {
    refused(
      await world.call(
        `${world.authorizeUrl(client, { resource: uri })}&resource=${encodeURIComponent("https://other.example.com/")}`
      ),
      "invalid_target"
    )
    refused(await ask({ resource: `${uri}#part` }), "invalid_target")
    refused(await ask({ resource: "https://nowhere.example.com/" }), "invalid_target")
    expect(
      (
        await world.call(
          `${world.authorizeUrl(client, { resource: uri })}&resource=${encodeURIComponent(uri)}`
        )
      ).headers.get("location")
    ).toMatch(/^\/login/)
  })
  it("AS-18 resource with an upper-case host is the registered one, with an upper-case path is not", async () => {
    const tokens = await world.tokens(client, user, { resource: "https://MCP.example.com/files" })
    expect(world.claimsOf(tokens.access_token).aud).toBe(uri)
    refused(await ask({ resource: "https://mcp.example.com/Files" }), "invalid_target")
  })
  it("AS-19 request_uri and request", async () => {
    refused(await ask({ request_uri: "https://evil.example/x" }), "request_uri_not_supported")
    refused(await ask({ request: "a.b.c" }), "request_not_supported")
  })
  it("AS-20 mix-up: success and error carry exactly one iss", async () => {
    const answer = await world.browser().authorize(world.authorizeUrl(client), user)
    const query = new URL(answer.headers.get("location")!).searchParams
    expect([query.getAll("iss"), query.get("state"), query.has("code")]).toEqual([
      [world.issuer],
      "xyz",
      true
    ])
    expect(answer.headers.get("cache-control")).toBe("no-store")
    refused(await ask({ response_type: "token" }), "unsupported_response_type")
  })
  it("AS-21 suspended client", async () => {
    const suspended = await world.client({ status: "suspended" })
    page(await world.call(world.authorizeUrl(suspended)), 401)
  })
  it("a client without the grant, a foreign response mode, a malformed prompt, max_age, dpop_jkt", async () => {
    const machine = await world.client({ grantTypes: ["client_credentials"] })
    expect(
      new URL((await world.call(world.authorizeUrl(machine))).headers.get("location")!).searchParams.get(
        "error"
      )
    ).toBe("unauthorized_client")
    for (const parameters of [
      { response_mode: "fragment" },
      { prompt: "none login" },
      { prompt: "dance" },
      { max_age: "-1" },
      { max_age: "soon" },
      { dpop_jkt: "short" }
    ])
      refused(await ask(parameters as Record<string, string>), "invalid_request")
  })
  it("prompt=none: login_required, consent_required, then a code", async () => {
    refused(await ask({ prompt: "none" }), "login_required")
    const browser = world.browser()
    const other = await world.client()
    await browser.authorize(world.authorizeUrl(client), user)
    refused(await browser.call(world.authorizeUrl(other, { prompt: "none" })), "consent_required")
    await browser.authorize(world.authorizeUrl(other), user)
    expect(
      new URL(
        (await browser.call(world.authorizeUrl(other, { prompt: "none" }))).headers.get("location")!
      ).searchParams.has("code")
    ).toBe(true)
  })
  it("max_age and prompt=login sign in anew; prompt=consent asks again", async () => {
    const browser = world.browser()
    await browser.authorize(world.authorizeUrl(client), user)
    expect(
      (await browser.call(world.authorizeUrl(client, { prompt: "login" }))).headers.get("location")
    ).toMatch(/^\/login/)
    expect(
      (await browser.call(world.authorizeUrl(client, { prompt: "consent" }))).headers.get("location")
    ).toMatch(/^\/consent/)
    expect(
      (await browser.call(world.authorizeUrl(client, { max_age: "60" }))).headers.get("location")
    ).toMatch(/^https/)
    world.nowMs += 61_000
    expect(
      (await browser.call(world.authorizeUrl(client, { max_age: "60" }))).headers.get("location")
    ).toMatch(/^\/login/)
  })
  it("a public client on a loopback address is asked every time", async () => {
    const native = await world.client({ authMethod: "none", redirectUris: ["http://127.0.0.1:3000/cb"] })
    const browser = world.browser()
    const url = world.authorizeUrl(native, { redirect_uri: "http://127.0.0.1:3000/cb" })
    await browser.authorize(url, user)
    expect((await browser.call(url)).headers.get("location")).toMatch(/^\/consent/)
  })
})

describe("pages", () => {
  const toConsent = async (browser = world.browser(), who = user, of = client, parameters = {}) => {
    const login = await browser.call(world.authorizeUrl(of, { prompt: "consent", ...parameters }))
    let location = login.headers.get("location")!
    if (location.startsWith("/login"))
      location = (await browser.login(who, location)).headers.get("location")!
    if (location.startsWith("/oauth/authorize/continue"))
      location = (await browser.call(location)).headers.get("location")!
    const page = await browser.call(location)
    return {
      browser,
      location,
      page,
      hidden: browser.hidden(page.text),
      req: new URL(location, world.base).searchParams.get("req")!
    }
  }
  it("AS-22 framing is refused, on login and consent", async () => {
    const { page } = await toConsent()
    for (const answer of [page, await world.call("/login")]) {
      expect(answer.status).toBe(200)
      expect(answer.headers.get("x-frame-options")).toBe("DENY")
      expect(answer.headers.get("content-security-policy")).toContain("frame-ancestors 'none'")
      expect(answer.headers.get("content-security-policy")).not.toContain("unsafe")
      expect(answer.text).not.toMatch(/<script/i)
    }
  })
  it("AS-23 consent without or with a foreign csrf: 403, no code, no grant", async () => {
    const fresh = await world.client()
    const { browser, hidden, req } = await toConsent(world.browser(), user, fresh)
    expect((await browser.post("/consent", { req, decision: "allow" })).status).toBe(403)
    expect(
      (await browser.post("/consent", { ...hidden, csrf: "x".repeat(43), decision: "allow" })).status
    ).toBe(403)
    const again = await toConsent(browser, user, fresh)
    expect(again.page.text).not.toContain("already allowed")
  })
  it("AS-24 consent with another user's session and this req: 400, no code", async () => {
    const mine = await toConsent()
    const other = world.browser()
    await other.login(await world.user())
    const answer = await other.post("/consent", { ...mine.hidden, decision: "allow" })
    expect([answer.status, answer.headers.get("location")]).toEqual([400, null])
    expect((await other.call(mine.location)).headers.get("location")).toMatch(/^\/login/)
  })
  it("AS-25 consent submitted twice in parallel: one code, the other 400", async () => {
    const { browser, hidden } = await toConsent()
    const answers = await Promise.all(
      [1, 2].map(() => browser.post("/consent", { ...hidden, decision: "allow" }))
    )
    expect(answers.map(({ status }) => status).sort((a, b) => a - b)).toEqual([303, 400])
  })
  it("AS-26 a client's name is escaped, and cannot turn the text around", async () => {
    const renamed = await world.client({ clientName: "<script>alert(1)</script>\u202egpj" })
    const { page } = await toConsent(world.browser(), user, renamed)
    expect(page.text).toContain("&lt;script&gt;")
    expect(page.text).not.toMatch(/<script|\u202e/)
  })
  it("AS-27 a session fixed before sign-in is worth nothing", async () => {
    const browser = world.browser()
    browser.cookies.set("authserver_session", "f".repeat(43))
    await browser.login(user)
    expect(browser.cookies.get("authserver_session")).not.toBe("f".repeat(43))
    const fixed = world.browser()
    fixed.cookies.set("authserver_session", "f".repeat(43))
    expect((await fixed.call(world.authorizeUrl(client))).headers.get("location")).toMatch(/^\/login/)
  })
  it("AS-28 POST /login cross-site, without the nonce cookie", async () => {
    const victim = world.browser()
    const page = await victim.call("/login")
    const attacker = world.browser()
    expect(
      (await attacker.post("/login", { ...victim.hidden(page.text), email: user.email, password })).status
    ).toBe(403)
  })
  it("AS-29 an unknown e-mail reads like a wrong password, and hashes as much", async () => {
    const verify = world.open.services.passwords.verify
    const calls: Array<string | undefined> = []
    world.open.services.passwords.verify = (stored, password) => {
      calls.push(stored)
      return verify(stored, password)
    }
    const answers = [
      await world.browser().login({ email: "nobody@example.com" }),
      await world.browser().login(user, "/login", "wrong password")
    ]
    world.open.services.passwords.verify = verify
    const text = ({ text }: Answer) => text.replaceAll(/value="[^"]*"/g, "")
    expect(answers.map(({ status }) => status)).toEqual([400, 400])
    expect(text(answers[0]!)).toBe(text(answers[1]!))
    expect(calls).toEqual([undefined, expect.stringContaining("scrypt$")])
  })
  it("AS-30 eleven wrong passwords from one source: 429 with Retry-After, the right one too until then", async () => {
    const target = await world.user()
    const browser = world.browser()
    const page = await browser.call("/login")
    const form = browser.hidden(page.text)
    const attempt = (secret: string) =>
      browser.post("/login", { ...form, email: target.email, password: secret })
    for (let failed = 0; failed < 10; failed++) expect((await attempt("wrong password")).status).toBe(400)
    const locked = await attempt("wrong password")
    expect(locked.status).toBe(429)
    expect(Number(locked.headers.get("retry-after"))).toBeGreaterThan(0)
    expect(Number(locked.headers.get("retry-after"))).toBeLessThanOrEqual(900)
    expect((await attempt(password)).status).toBe(429)
    world.nowMs += 15 * 60_000
    expect((await attempt(password)).status).toBe(303)
  })
  it("AS-31 a locked account elsewhere still refreshes tokens", async () => {
    const target = await world.user()
    const tokens = await world.tokens(client, target)
    const browser = world.browser()
    const form = browser.hidden((await browser.call("/login")).text)
    for (let failed = 0; failed < 11; failed++)
      await browser.post("/login", { ...form, email: target.email, password: "wrong password" })
    expect((await world.refresh(client, tokens.refresh_token)).status).toBe(200)
  })
  it("AS-32 an expired req at login or consent", async () => {
    const browser = world.browser()
    const location = (await browser.call(world.authorizeUrl(client))).headers.get("location")!
    const page = await browser.call(location)
    const waiting = await toConsent()
    world.nowMs += 600_001
    const answers = [
      await browser.post("/login", { ...browser.hidden(page.text), email: user.email, password }),
      await browser.call(location),
      await waiting.browser.post("/consent", { ...waiting.hidden, decision: "allow" }),
      await waiting.browser.call(waiting.location)
    ]
    for (const answer of answers) {
      expect(answer.status).toBe(400)
      expect(answer.text).toContain("login session expired")
    }
    const problem = await world.call(location, { headers: { Accept: "*/*" } })
    expect(problem.body).toMatchObject({
      error: "invalid_grant",
      error_description: "login session expired",
      status: 400
    })
  })
  it.each(["https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)"])(
    "AS-33 never redirected to %s",
    async (evil) => {
      for (const path of [
        `/login?req=${encodeURIComponent(evil)}`,
        `/login?next=${encodeURIComponent(evil)}`
      ]) {
        const answer = await world.call(path)
        expect([answer.status, answer.headers.get("location")]).toEqual([400, null])
      }
      const browser = world.browser()
      const page = await browser.call("/login")
      const answer = await browser.post("/login", {
        ...browser.hidden(page.text),
        next: evil,
        email: user.email,
        password
      })
      expect([403, 400]).toContain(answer.status)
    }
  )
  it("AS-34 the user is disabled between login and consent", async () => {
    const target = await world.user()
    const { browser, hidden, location } = await toConsent(world.browser(), target)
    await world.changeUser(target, { status: "disabled", epoch: 1 })
    const answers = [
      await browser.call(location),
      await browser.post("/consent", { ...hidden, decision: "allow" })
    ]
    for (const answer of answers)
      expect(new URL(answer.headers.get("location")!).searchParams.get("error")).toBe("access_denied")
  })
  it("deny goes back with access_denied; the consent page shows who, where and what", async () => {
    const { browser, hidden, page } = await toConsent(
      world.browser(),
      user,
      await world.client({ clientName: "Reader", source: "dcr" }),
      { resource: uri }
    )
    for (const words of ["Reader", "self-declared", "app.example.com", user.email, uri, "files:read"])
      expect(page.text).toContain(words)
    const answer = await browser.post("/consent", { ...hidden, decision: "deny" })
    expect([answer.status, new URL(answer.headers.get("location")!).searchParams.get("error")]).toEqual([
      303,
      "access_denied"
    ])
  })
  it("signing out ends the session, not the grants; a form from elsewhere does not sign out", async () => {
    const browser = world.browser()
    const tokens = await world.tokens(client, user)
    await browser.login(user)
    const page = await browser.call("/connections")
    const { csrf } = browser.hidden(page.text)
    expect((await browser.post("/logout", { csrf: "x".repeat(43) })).status).toBe(403)
    expect((await browser.call("/connections")).status).toBe(200)
    const cookies = new Map(browser.cookies)
    const answer = await browser.post("/logout", { csrf: csrf! })
    expect([answer.status, answer.headers.get("location")]).toEqual([303, "/login"])
    for (const [name, value] of cookies) browser.cookies.set(name, value)
    expect((await browser.call("/connections")).headers.get("location")).toMatch(/^\/login/)
    expect((await world.refresh(client, tokens.refresh_token)).status).toBe(200)
  })
})
