/** The console in a real headless browser over a real socket, and its forms and calls misused. Source:
 *  docs/spec/store.md, sections 3.4, 3.7. */
import { existsSync } from "node:fs"
import { chromium, type Browser, type Page } from "playwright-core"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { listenWith } from "../../../../runtime/transport/listen.ts"
import type { Server } from "../../../../runtime/transport/server.ts"
import { StoreHarness } from "../harness.ts"

const executablePath = "/usr/bin/chromium"
const password = "correct horse battery"

describe.skipIf(!existsSync(executablePath) && !process.env["CI"])("in a browser", () => {
  let harness: StoreHarness
  let server: Server
  let browser: Browser
  let page: Page
  let url: string
  const complaints: Array<string> = []
  beforeAll(async () => {
    harness = await StoreHarness.open({ domain: "127.0.0.1", plainLoopback: true })
    await harness.shop.staff.add({ username: "anna", password })
    server = await listenWith("auto", () => {}, [harness.shop.service], { host: "127.0.0.1", port: 0 })
    url = `http://127.0.0.1:${server.port}`
    browser = await chromium.launch({
      executablePath,
      args: [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync"
      ]
    })
    page = await browser.newPage()
    page.on("console", (message) => {
      if (message.type() === "error" && !message.text().includes("status of 4"))
        complaints.push(message.text())
    })
    page.on("pageerror", (cause) => complaints.push(cause.message))
  }, 60_000)
  afterAll(async () => {
    await browser?.close()
    await server?.drain(500)
  })
  const shoot = async (name: string): Promise<void> => {
    const folder = process.env["TROUPE_SCREENSHOTS"]
    if (folder !== undefined) await page.screenshot({ path: `${folder}/${name}.png`, fullPage: true })
  }

  it("a page wants a session; a wrong password opens none, the right one does", async () => {
    await page.goto(`${url}/store/admin/tools/apps`)
    expect(page.url()).toBe(`${url}/store/admin/login`)
    await page.getByLabel("User name").fill("anna")
    await page.getByLabel("Password").fill("wrong")
    await page.getByRole("button", { name: "Sign in" }).click()
    expect(await page.getByRole("alert").innerText()).toBe("User name or password is wrong.")
    await page.getByLabel("Password").fill(password)
    await page.getByRole("button", { name: "Sign in" }).click()
    await page.waitForURL(`${url}/store/admin/tools/apps`)
    expect(await page.getByRole("heading", { level: 1 }).innerText()).toBe("API Apps & Integrations")
    expect(await page.getByRole("navigation", { name: "Breadcrumb" }).innerText()).toMatch(
      /Tools\s+Apps & Addons\s+API Apps & Integrations/
    )
  })
  it("New, Save: App ID and App Secret are shown, once; then a token that works; then revoked", async () => {
    await page.getByRole("link", { name: "New", exact: true }).click()
    await page.getByLabel("Name").fill("Ledger <sync> & co")
    await page.getByLabel("read_catalog").check()
    await page.getByLabel("catalog", { exact: false }).nth(1).check()
    await page.getByLabel("Redirect addresses").fill("https://app.example/back")
    await shoot("new-app")
    await page.getByRole("button", { name: "Save" }).click()
    const notice = page.getByRole("status")
    const [appId, secret] = (await notice.locator("code").allInnerTexts()) as [string, string]
    await shoot("saved-app")
    expect(appId).toMatch(/^app_/)
    expect(secret.length).toBeGreaterThan(40)
    expect(harness.shop.apps.get(appId)).toMatchObject({
      name: "Ledger <sync> & co",
      redirectUris: ["https://app.example/back"]
    })
    await page.getByLabel("Label of a new token").fill("nightly")
    await page.getByRole("button", { name: "Create token" }).click()
    const token = await page.getByRole("status").locator("code").innerText()
    expect((await harness.get("/products", { token, host: "127.0.0.1" })).status).toBe(200)
    await page.goto(`${url}/store/admin/tools/apps/${appId}`)
    expect(await page.content()).not.toContain(secret)
    expect(await page.content()).not.toContain(token)
    await page.getByRole("button", { name: "Revoke nightly" }).click()
    await page.waitForURL(`${url}/store/admin/tools/apps/${appId}`)
    expect((await harness.get("/products", { token, host: "127.0.0.1" })).status).toBe(401)
    await page.getByRole("button", { name: "Delete this app" }).click()
    await page.waitForURL(`${url}/store/admin/tools/apps`)
    expect(harness.shop.apps.get(appId)).toBeUndefined()
  })
  it("a bad form says what is wrong and keeps what was typed", async () => {
    await page.goto(`${url}/store/admin/tools/apps/new`)
    await page.getByLabel("Name").fill("Kept")
    await page.getByLabel("Redirect addresses").fill("http://evil.example/")
    await page.getByRole("button", { name: "Save" }).click()
    expect(await page.getByRole("alert").innerText()).toContain("redirect_uris")
    expect(await page.getByLabel("Name").inputValue()).toBe("Kept")
  })
  it("products: a new one, found by search, changed; a refused one explained", async () => {
    await page.getByRole("link", { name: "Products" }).click()
    await page.getByRole("link", { name: "New", exact: true }).click()
    await page.getByLabel("Name").fill("Copper Can")
    await page.getByLabel("Item number").fill("CC-1")
    await page.getByLabel("Price").fill("34.90")
    await page.getByRole("button", { name: "Save" }).click()
    await page.waitForURL(`${url}/store/admin/products`)
    await page.getByLabel("Name holds").fill("copper")
    await page.getByRole("button", { name: "Search" }).click()
    await shoot("products")
    expect(await page.getByRole("row").nth(1).innerText()).toMatch(/Copper Can\s+CC-1\s+34\.90/)
    await page.getByRole("link", { name: "Copper Can" }).click()
    await page.getByLabel("Price").fill("-1")
    await page.getByRole("button", { name: "Save" }).click()
    expect(await page.getByRole("alert").innerText()).toContain("price must be from 0")
    await page.getByLabel("Price").fill("12")
    await page.getByRole("button", { name: "Save" }).click()
    await page.waitForURL(`${url}/store/admin/products`)
    expect(
      (await harness.get("/products?item_number=cc-1", { host: "127.0.0.1" })).body.products[0].price
    ).toBe(12)
  })
  it("signed in, a GET of the API in the browser needs no token; every control has a name; signing out ends it", async () => {
    const answer = await page.goto(`${url}/api/v1/product_statuses.json`)
    expect([answer!.status(), JSON.parse(await page.locator("body").innerText()).total_count]).toEqual([
      200, 4
    ])
    for (const path of ["/tools/apps", "/tools/apps/new", "/products", "/products/new", "/tools/webhooks"]) {
      await page.goto(`${url}/store/admin${path}`)
      const nameless = await page.evaluate(
        "[...document.querySelectorAll('input:not([type=hidden]),select,textarea,button,a')].filter((el) => (el.labels?.[0]?.innerText ?? el.innerText ?? '').trim() === '' && !el.getAttribute('aria-label')).length"
      )
      const outline = await page.evaluate(
        "[document.documentElement.lang, document.querySelectorAll('h1').length, document.querySelectorAll('main').length, document.title !== '', document.querySelectorAll('script,[style],[onclick]').length]"
      )
      expect([path, nameless, outline]).toEqual([path, 0, ["en", 1, 1, true, 0]])
    }
    await page.getByRole("button", { name: "Sign out" }).click()
    await page.waitForURL(`${url}/store/admin/login`)
    expect((await page.goto(`${url}/api/v1/product_statuses.json`))!.status()).toBe(401)
    expect(complaints).toEqual([])
  })
})

describe("misuse", () => {
  const signed = async (held?: ReadonlyArray<any>) => {
    const harness = await StoreHarness.open()
    await harness.shop.staff.add({
      username: "anna",
      password,
      ...(held === undefined ? {} : { areas: held })
    })
    const cookie = { cookie: `__Host-store_admin=${await harness.shop.staff.signIn("anna", password)}` }
    const ask = (method: string, path: string, body?: unknown, headers = {}, type?: string) =>
      harness.call({
        method,
        path: `/store/admin${path}`,
        token: "",
        headers: { ...cookie, ...headers },
        ...(body === undefined ? {} : { body }),
        ...(type === undefined ? {} : { type })
      })
    const { csrf_token: csrf } = (await ask("GET", "/api/session")).body
    return { harness, ask, csrf, cookie }
  }
  const form = "application/x-www-form-urlencoded"
  it("a form without the session's token, or from elsewhere, does nothing", async () => {
    const { harness, ask, csrf } = await signed()
    const before = harness.shop.apps.list().length
    for (const [body, headers] of [
      ["name=x", {}],
      ["name=x&csrf=wrong", {}],
      [`name=x&csrf=${csrf}`, { origin: "https://evil.example" }],
      [`name=x&csrf=${csrf}`, { "sec-fetch-site": "cross-site" }]
    ] as const) {
      expect((await ask("POST", "/tools/apps/new", body, headers, form)).status).toBe(403)
    }
    expect(harness.shop.apps.list()).toHaveLength(before)
    expect(
      (
        await ask(
          "POST",
          "/tools/apps/new",
          `name=x&kind=custom&csrf=${csrf}`,
          { origin: "https://shop.example" },
          form
        )
      ).status
    ).toBe(200)
    expect(harness.shop.apps.list()).toHaveLength(before + 1)
  })
  it("the JSON calls: session, area, X-CSRF-Token; apps and tokens made, changed, rotated, revoked, deleted", async () => {
    const { harness, ask, csrf } = await signed()
    expect(
      (await harness.call({ method: "GET", path: "/store/admin/api/apps", token: harness.token })).status
    ).toBe(401)
    expect((await ask("POST", "/api/apps", { name: "x" })).status).toBe(403)
    const send = (method: string, path: string, body?: unknown) =>
      ask(method, `/api${path}`, body, { "x-csrf-token": csrf })
    for (const [body, status] of [
      [{}, 400],
      [{ name: "x", scopes: ["nope"] }, 400],
      [{ name: "x", redirect_uris: ["http://a.example/"] }, 400],
      [{ name: "x", kind: "other" }, 400],
      [{ name: "x", allowed_origins: ["https://a.example/path"] }, 400],
      ["[", 400]
    ] as const)
      expect((await send("POST", "/apps", body)).status).toBe(status)
    const created = await send("POST", "/apps", {
      name: "x",
      kind: "installed",
      scopes: ["catalog"],
      redirect_uris: ["http://localhost:3000/back"],
      run_without_user: true
    })
    expect([created.status, created.body]).toMatchObject([
      201,
      { kind: "installed", app_secret: expect.any(String), run_without_user: true }
    ])
    const at = `/apps/${created.body.app_id}`
    expect((await ask("GET", `/api${at}`)).body.app_secret).toBeUndefined()
    expect((await send("PUT", at, { name: "y" })).body).toMatchObject({
      name: "y",
      kind: "installed",
      scopes: ["catalog"]
    })
    expect((await send("POST", `${at}/rotate_secret`)).body.app_secret).not.toBe(created.body.app_secret)
    const token = await send("POST", `${at}/tokens`, { scopes: ["catalog"], label: "t" })
    expect([
      token.status,
      token.body.token.length,
      (await harness.get("/products", { token: token.body.token })).status
    ]).toEqual([201, 47, 200])
    expect((await send("POST", `${at}/tokens`, { scopes: ["decrypt"] })).status).toBe(400)
    expect((await ask("GET", `/api${at}/tokens`)).body.tokens).toEqual([
      { id: token.body.id, scopes: ["catalog"], label: "t", created_at: token.body.created_at }
    ])
    expect([
      (await send("DELETE", `${at}/tokens/${token.body.id}`)).status,
      (await send("DELETE", `${at}/tokens/${token.body.id}`)).status
    ]).toEqual([204, 404])
    expect([(await send("DELETE", at)).status, (await send("DELETE", at)).status]).toEqual([204, 404])
  })
  it("an area that is not held opens no page; texts are escaped; the policy lets no script in", async () => {
    const { harness, ask } = await signed(["Products"])
    expect((await ask("GET", "/tools/apps")).status).toBe(403)
    expect((await ask("GET", "/api/apps")).status).toBe(403)
    await harness.product({ item_name: "<script>alert(1)</script>\"'&" })
    const page = await ask("GET", "/products?search=%3Cscript%3E")
    expect(page.text).not.toContain("<script>")
    expect(page.text).toContain("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;")
    expect(page.header("content-security-policy")).toBe(
      "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
  })
  it("signing in: the cookie is strict, wrong attempts are limited, other hosts are refused", async () => {
    const { harness } = await signed()
    const sign = (secret: string, more = {}) =>
      harness.call({
        method: "POST",
        path: "/store/admin/login",
        token: "",
        body: `username=anna&password=${encodeURIComponent(secret)}`,
        type: form,
        client: "192.0.2.99",
        ...more
      })
    const good = await sign(password)
    expect([good.status, good.header("set-cookie")]).toEqual([
      303,
      expect.stringMatching(
        /^__Host-store_admin=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax; Max-Age=43200; Secure$/
      )
    ])
    expect((await sign(password, { host: "evil.example" })).status).toBe(421)
    expect((await sign(password, { headers: { "sec-fetch-site": "cross-site" } })).status).toBe(403)
    expect((await sign("wrong")).status).toBe(401)
    for (let tries = 0; tries < 49; tries++)
      await harness.get("/products", { token: "bad", client: "192.0.2.99" })
    expect((await sign(password)).status).toBe(429)
  })
})
