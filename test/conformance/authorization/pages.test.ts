/** Sign-in, consent, errors and connections in a real browser: Debian's Chromium, headless, driven from
 *  outside (the pages hold no script). `TROUPE_SCREENSHOTS=folder` keeps pictures of every page to look at.
 *  Authorization sections 7.5 to 7.8. */
import { generateKeyPairSync } from "node:crypto"
import { existsSync, mkdirSync } from "node:fs"
import { createServer, type Server as HttpServer } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { chromium, type Browser, type BrowserContextOptions, type Page } from "playwright-core"
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest"
import { Prompts, Providers, type Client, type User } from "../../../protocols/authorization/records.ts"
import { Upstream } from "../../protocols/authorization/upstream/outside.ts"
import { jws, password, pkce, World } from "../../protocols/authorization/world.ts"

const executablePath = process.env["TROUPE_CHROMIUM"] ?? "/usr/bin/chromium"
const pictures = process.env["TROUPE_SCREENSHOTS"]
const present = existsSync(executablePath)

if (!present)
  console.warn(
    `no Chromium at ${executablePath}: the tests of the pages in a real browser are skipped (apt-get install chromium, or set TROUPE_CHROMIUM)`
  )

const phone: BrowserContextOptions = {
  viewport: { width: 320, height: 640 },
  deviceScaleFactor: 2,
  isMobile: true,
  hasTouch: true
}

const longName = "The Remarkably Thorough Document Assistant of Examplehausen und Umgebung"

// A browser on a busy machine starts when it can.
vi.setConfig({ testTimeout: 90_000, hookTimeout: 90_000 })

type Known = Client & { readonly secret: string }
let world: World
let browser: Browser
let application: HttpServer
let user: User
let web: Known
let open: Known
let callback: string
const arrived: Array<string> = []
const { verifier, challenge } = pkce()

/** A page, and every complaint of the browser about it. */
const tab = async (
  options: BrowserContextOptions = {}
): Promise<{ readonly page: Page; readonly complaints: ReadonlyArray<string> }> => {
  const context = await browser.newContext(options)
  const page = await context.newPage()
  const complaints: Array<string> = []
  page.setDefaultTimeout(30_000)
  page.on("console", (message) => {
    if (!/the server responded with a status of 4\d\d/.test(message.text())) complaints.push(message.text())
  })
  page.on("pageerror", (error) => complaints.push(String(error)))
  return { page, complaints }
}

const shoot = async (page: Page, name: string): Promise<void> => {
  if (pictures === undefined) return
  mkdirSync(pictures, { recursive: true })
  await page.screenshot({ path: join(pictures, `${name}.png`), fullPage: true })
}

const urlOf = (client: Known, parameters: Record<string, string> = {}): string =>
  `${world.issuer}${world.authorizeUrl(client, { redirect_uri: callback, code_challenge: challenge, scope: "files:read files:write", resource: "https://mcp.example.com/files", ...parameters })}`

const signIn = async (page: Page, secret = password, by = user): Promise<void> => {
  await page.getByLabel("E-mail").fill(by.email)
  await page.getByLabel("Password").fill(secret)
  await page.getByRole("button", { name: "Sign in" }).click()
}

const heading = (page: Page): Promise<string> => page.getByRole("heading", { level: 1 }).innerText()

const atApplication = async (page: Page): Promise<URLSearchParams> => {
  await page.getByText("Back in the application").waitFor()
  return new URL(page.url()).searchParams
}

const redeem = (client: Known, code: string, redirectUri = callback) =>
  world.token(client, {
    grant_type: "authorization_code",
    code,
    redirect_uri: redirectUri,
    code_verifier: verifier
  })

const listening = (host: string): Promise<HttpServer> =>
  new Promise((resolve) => {
    const server = createServer((request, response) => {
      arrived.push(request.url!)
      response
        .setHeader("Content-Type", "text/html")
        .end("<title>Application</title><link rel=icon href=data:><p>Back in the application")
    })
    server.listen(0, host, () => resolve(server))
  })

/** Runs in the page: everything it shows that is too faint to read, text against what lies behind it, below
 *  4.5 to 1 (WCAG 2.2, 1.4.3). */
const faint = `(() => {
  const rgb = (text) => { const [r = 0, g = 0, b = 0, a = 1] = text.match(/[\\d.]+/g).map(Number); return [r, g, b, a] }
  const luminance = ([r, g, b]) => { const [x, y, z] = [r, g, b].map((value) => { const s = value / 255; return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4 }); return 0.2126 * x + 0.7152 * y + 0.0722 * z }
  const behind = (element) => { for (let at = element; at !== null; at = at.parentElement) { const color = rgb(getComputedStyle(at).backgroundColor); if (color[3] > 0) return color } return [255, 255, 255] }
  return [...document.querySelectorAll("body *")].filter((element) => [...element.childNodes].some(({ nodeType, textContent }) => nodeType === 3 && textContent.trim() !== "")).flatMap((element) => {
    const [light, dark] = [luminance(rgb(getComputedStyle(element).color)), luminance(behind(element))].sort((a, b) => b - a), ratio = (light + 0.05) / (dark + 0.05)
    return ratio < 4.5 ? [element.textContent + " " + ratio.toFixed(1)] : []
  })
})()`

const sideways = "document.documentElement.scrollWidth - document.documentElement.clientWidth"

const shape =
  "[document.documentElement.lang, document.querySelectorAll('h1').length, document.title !== '', document.querySelectorAll('script').length]"

const focused =
  "[document.activeElement.tagName, document.activeElement.getAttribute('name'), document.activeElement.textContent, getComputedStyle(document.activeElement).outlineStyle].join(' ')"

it("the pages let their forms lead to listed addresses only", async () => {
  const plain = await World.make()
  const at = { createdMs: 0, updatedMs: 0 }
  await plain.open.services.books.write([
    Providers.put(["p"], {
      id: "p",
      slug: "drive",
      displayName: "Drive",
      protocol: "oauth",
      config: {
        client_id: "x",
        authorize_url: "https://drive.example.com/authorize",
        token_url: "https://drive.example.com/token"
      },
      sealedSecret: null,
      ...at
    })
  ])
  await plain.resource({
    slug: "drive",
    backend: "broker",
    providerId: "p",
    returnUrls: ["https://ok.example.com/back"]
  })
  const targets = async (next: string) =>
    / form-action ([^;]+);/.exec(
      (
        await plain.call(`/login?next=${encodeURIComponent(next)}`, { headers: { Accept: "text/html" } })
      ).headers.get("content-security-policy")!
    )![1]
  expect(await targets("/connections")).toBe("'self'")
  expect(await targets("/connect/unknown")).toBe("'self'")
  expect(await targets("/connect/drive?return_url=https://evil.example.com/back")).toBe(
    "'self' https://drive.example.com"
  )
  expect(await targets("/connect/drive?return_url=https://ok.example.com/back")).toBe(
    "'self' https://drive.example.com https://ok.example.com"
  )
  await plain.close()
})

describe.skipIf(!present)("in Chromium", () => {
  beforeAll(async () => {
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
    application = await listening("127.0.0.1")
    callback = `http://127.0.0.1:${(application.address() as AddressInfo).port}/cb`
    world = await World.make({ live: true })
    await world.resource({
      slug: "files",
      uri: "https://mcp.example.com/files",
      displayName: "Example Files",
      scopes: [
        { name: "files:read", description: "Read your files", upstream: [] },
        { name: "files:write", description: "", upstream: [] }
      ]
    })
    user = await world.user({ email: "alice@example.com" })
    web = await world.client({ redirectUris: [callback], clientName: "Example Notes" })
    open = await world.client({
      redirectUris: [callback],
      clientName: longName,
      authMethod: "none",
      source: "dcr"
    })
  })
  afterAll(async () => {
    await browser.close()
    application.close()
    await world.close()
  })

  it("a wrong password, the right one, consent, allow: a code that can be redeemed, and nothing for the browser to complain of", async () => {
    const { page, complaints } = await tab()
    await page.goto(urlOf(web))
    expect([await heading(page), await page.getByText("to go on to Example Notes").count()]).toEqual([
      "Sign in",
      1
    ])
    await shoot(page, "login")
    await signIn(page, "not the password")
    expect([
      await page.getByRole("alert").textContent(),
      await page.getByLabel("E-mail").inputValue(),
      await page.getByLabel("Password").inputValue()
    ]).toEqual(["the e-mail or password is wrong", user.email, ""])
    await shoot(page, "login-wrong")
    await signIn(page)
    expect(await heading(page)).toBe("Allow Example Notes access?")
    expect(await page.getByRole("listitem").allInnerTexts()).toEqual([
      "Read your files (files:read)",
      "files:write"
    ])
    await shoot(page, "consent")
    await page.getByRole("button", { name: "Allow" }).click()
    const answer = await atApplication(page)
    expect([answer.get("state"), answer.get("iss"), answer.get("error")]).toEqual(["xyz", world.issuer, null])
    expect((await redeem(web, answer.get("code")!)).body.scope).toBe("files:read files:write")
    expect(complaints).toEqual([])
  })
  it("deny: the application hears access_denied", async () => {
    const { page, complaints } = await tab()
    await page.goto(urlOf(open))
    await signIn(page)
    await page.getByRole("button", { name: "Deny" }).click()
    const answer = await atApplication(page)
    expect([answer.get("error"), answer.get("iss"), answer.get("code"), complaints]).toEqual([
      "access_denied",
      world.issuer,
      null,
      []
    ])
  })
  it("signed out, but allowed before: signing in leads straight to the application", async () => {
    const allowed = await world.user()
    const first = await tab()
    const second = await tab()
    await first.page.goto(urlOf(web))
    await signIn(first.page, password, allowed)
    await first.page.getByRole("button", { name: "Allow" }).click()
    await atApplication(first.page)
    await second.page.goto(urlOf(web))
    await signIn(second.page, password, allowed)
    const answer = await atApplication(second.page)
    expect([(await redeem(web, answer.get("code")!)).status, second.complaints]).toEqual([200, []])
  })
  it("A-6: three tabs open at once, two sign in, the third need not, and each gets its code", async () => {
    const { page, complaints } = await tab()
    const tabs = [page, await page.context().newPage(), await page.context().newPage()]
    await Promise.all(tabs.map((one) => one.goto(urlOf(open))))
    expect(await Promise.all(tabs.map(heading))).toEqual(Array(3).fill("Sign in"))
    await Promise.all(tabs.slice(0, 2).map((one) => signIn(one)))
    await tabs[2]!.reload()
    for (const one of tabs) {
      expect(await heading(one)).toBe(`Allow ${longName} access?`)
      await one.getByRole("button", { name: "Allow" }).click()
      const answer = await atApplication(one)
      expect((await redeem(open, answer.get("code")!)).status).toBe(200)
    }
    expect(complaints).toEqual([])
  })
  it("a loopback application at an IPv6 address", async () => {
    const six = await listening("::1")
    const at = `http://[::1]:${(six.address() as AddressInfo).port}/cb`
    const client = await world.client({ redirectUris: [at], authMethod: "none" })
    const { page, complaints } = await tab()
    await page.goto(urlOf(client, { redirect_uri: at }))
    await signIn(page)
    await page.getByRole("button", { name: "Allow" }).click()
    const answer = await atApplication(page)
    expect([(await redeem(client, answer.get("code")!, at)).status, complaints]).toEqual([200, []])
    six.close()
  })
  it("signed out on the way to a provider: signing in leads there", async () => {
    const { books } = world.open.services
    const at = { createdMs: 0, updatedMs: 0 }
    const provider = new URL(callback).origin
    await books.write([
      Providers.put(["p"], {
        id: "p",
        slug: "drive",
        displayName: "Drive",
        protocol: "oauth",
        config: { client_id: "x", authorize_url: `${provider}/authorize`, token_url: `${provider}/token` },
        sealedSecret: null,
        ...at
      })
    ])
    await world.resource({ slug: "drive", backend: "broker", providerId: "p" })
    const { page, complaints } = await tab()
    await page.goto(`${world.issuer}/connect/drive`)
    await signIn(page)
    const query = await atApplication(page)
    expect([query.get("client_id"), query.get("redirect_uri"), complaints]).toEqual([
      "x",
      `${world.issuer}/connect/drive/callback`,
      []
    ])
  })
  it("an upstream provider that signs in without a word: button, provider, back, and on to the application", async () => {
    const pair = generateKeyPairSync("ec", { namedCurve: "P-256" })
    const provider: Upstream = await Upstream.open(({ path, body }) => {
      const issuer = provider.at("")
      const query = new URL(path, issuer).searchParams
      const nowS = Math.floor(Date.now() / 1_000)
      if (path.startsWith("/.well-known"))
        return {
          body: {
            issuer,
            authorization_endpoint: `${issuer}/authorize`,
            token_endpoint: `${issuer}/token`,
            jwks_uri: `${issuer}/jwks`
          }
        }
      if (path === "/jwks")
        return {
          body: {
            keys: [{ ...pair.publicKey.export({ format: "jwk" }), kid: "k", alg: "ES256", use: "sig" }]
          }
        }
      if (path.startsWith("/authorize"))
        return {
          status: 302,
          headers: {
            Location: `${query.get("redirect_uri")}?${new URLSearchParams({ state: query.get("state")!, code: query.get("nonce")! }).toString()}`
          }
        }
      return {
        body: {
          id_token: jws(
            { alg: "ES256", kid: "k" },
            {
              iss: issuer,
              aud: "troupe",
              sub: "ada",
              email: "ada@example.org",
              nonce: new URLSearchParams(body).get("code"),
              iat: nowS,
              exp: nowS + 60
            },
            pair.privateKey
          )
        }
      }
    })
    const federated = await World.make({
      live: true,
      settingsAt: (issuer) => ({
        federation: {
          enabled: true,
          issuer: provider.at(""),
          clientId: "troupe",
          clientSecret: "s3cret",
          redirectUri: `${issuer}/oidc/callback`,
          displayName: "Example Directory"
        }
      })
    })
    await federated.resource({ slug: "files" })
    const client = await federated.client({ redirectUris: [callback] })
    for (const visit of ["first", "second"]) {
      const { page, complaints } = await tab()
      await page.goto(
        `${federated.issuer}${federated.authorizeUrl(client, { redirect_uri: callback, code_challenge: challenge })}`
      )
      await shoot(page, "login-federated")
      await page.getByRole("button", { name: "Sign in with Example Directory" }).click()
      if (visit === "first") await page.getByRole("button", { name: "Allow" }).click()
      expect([(await atApplication(page)).has("code"), complaints]).toEqual([true, []])
    }
    await federated.close()
    await provider.close()
  })
  it("a consent that a token exchange asked for: signed out, allow, and back at a listed address", async () => {
    const { books } = world.open.services
    const back = `${callback}?allowed`
    const resource = await world.resource({
      slug: "more",
      uri: "https://mcp.example.com/more",
      returnUrls: [back]
    })
    const { page, complaints } = await tab()
    await books.write([
      Prompts.put([user.id, web.clientId, resource.id], {
        userId: user.id,
        clientId: web.clientId,
        resourceId: resource.id,
        scopes: ["files:read"],
        createdMs: world.nowMs,
        expiresMs: world.nowMs + 60_000
      })
    ])
    await page.goto(
      `${world.issuer}/authorize?${new URLSearchParams({ resource: "more", scope: "files:read", return_url: back }).toString()}`
    )
    await signIn(page)
    await page.getByRole("button", { name: "Allow" }).click()
    expect([(await atApplication(page)).has("allowed"), complaints]).toEqual([true, []])
  })
  it("a program on this device is warned of, with its host; a web application is not", async () => {
    const { page } = await tab()
    await page.goto(urlOf(open))
    await signIn(page)
    await page.getByText("This is a program on this device.").waitFor()
    expect([await page.locator(".host").innerText(), await page.getByText("self-declared").count()]).toEqual([
      new URL(callback).host,
      1
    ])
    await shoot(page, "consent-loopback")
    const remote = await world.client({ redirectUris: ["https://app.example.com/cb"] })
    await page.goto(urlOf(remote, { redirect_uri: "https://app.example.com/cb" }))
    expect([
      await page.locator(".host").innerText(),
      await page.getByText("program on this device").count()
    ]).toEqual(["app.example.com", 0])
  })
  it("by keyboard alone", async () => {
    const { page } = await tab()
    const at = () => page.evaluate<string>(focused)
    await page.goto(urlOf(open))
    for (let presses = 0; presses < 5 && !(await at()).startsWith("INPUT email"); presses++)
      await page.keyboard.press("Tab")
    await page.keyboard.type(user.email)
    await page.keyboard.press("Tab")
    await page.keyboard.type(password)
    await page.keyboard.press("Tab")
    expect(await at()).toBe("BUTTON  Sign in solid")
    await shoot(page, "login-focus")
    await page.keyboard.press("Enter")
    await page.getByRole("button", { name: "Allow" }).waitFor()
    await page.keyboard.press("Tab")
    expect(await at()).toBe("BUTTON decision Allow solid")
    await page.keyboard.press("Tab")
    expect(await at()).toBe("BUTTON decision Deny solid")
    await page.keyboard.press("Shift+Tab")
    await page.keyboard.press("Enter")
    expect((await atApplication(page)).has("code")).toBe(true)
  })
  it.each([
    ["light", "desktop", {}],
    ["dark", "desktop", {}],
    ["light", "phone", phone],
    ["dark", "phone", phone]
  ] as const)("%s, %s: every page legible, none wider than its screen", async (colorScheme, kind, screen) => {
    const { page, complaints } = await tab({ ...screen, colorScheme })
    const name = (of: string) => `${of}-${kind}-${colorScheme}`
    const looks = async (of: string): Promise<void> => {
      await shoot(page, name(of))
      expect([
        of,
        await page.evaluate(faint),
        await page.evaluate(sideways),
        await page.evaluate(shape)
      ]).toEqual([of, [], 0, ["en", 1, true, 0]])
    }
    await page.goto(urlOf(open))
    await looks("login")
    await signIn(page, "wrong")
    await looks("login-wrong")
    await signIn(page)
    await page.getByRole("button", { name: "Allow" }).waitFor()
    await looks("consent")
    await page.goto(`${world.issuer}/connections`)
    await looks("connections")
    await page.goto(`${world.issuer}/consent?req=unknown`)
    await looks("error")
    expect(complaints).toEqual([])
  })
  it("AS-22 another site cannot frame the pages", async () => {
    const { page, complaints } = await tab()
    await page.goto(callback)
    await page.setContent(`<iframe src="${world.issuer}/login"></iframe>`)
    await expect.poll(() => complaints.some((words) => /frame/i.test(words))).toBe(true)
    expect(await page.frameLocator("iframe").getByLabel("E-mail").count()).toBe(0)
  })
})
