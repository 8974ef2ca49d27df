/** One node, two services, a person: an app is made in the store's console, runs the OAuth flow in a real
 *  browser, works on products, and is dead the moment it is removed. Source: store sections 3.3, 3.7; issue
 *  "Store", must show. */
import { existsSync, mkdtempSync, rmSync } from "node:fs"
import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as oauth from "oauth4webapi"
import { chromium, type Browser } from "playwright-core"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { loadConfig } from "../../runtime/program/config/config.ts"
import { startNode, type RunningNode } from "../../runtime/program/start.ts"

const executablePath = "/usr/bin/chromium"
const insecure = { [oauth.allowInsecureRequests]: true } as const

describe.skipIf(!existsSync(executablePath) && !process.env["CI"])(
  "an app of the store, with oauth4webapi and a browser",
  () => {
    const folder = mkdtempSync(join(tmpdir(), "troupe-store-oauth-"))
    let node: RunningNode
    let browser: Browser
    let callback: Server
    const landed: Array<URL> = []
    beforeAll(async () => {
      node = await startNode(
        await loadConfig({
          TROUPE_DATA: folder,
          TROUPE_PORT: "0",
          TROUPE_LOG_LEVEL: "error",
          APERTIUM: "off",
          STT_MAX_SESSIONS: "0"
        })
      )
      callback = createServer((request, response) => {
        landed.push(new URL(request.url!, "http://localhost"))
        response.end("back in the app")
      })
      await new Promise<void>((resolve) => callback.listen(0, "127.0.0.1", resolve))
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
    }, 60_000)
    afterAll(async () => {
      await browser?.close()
      callback?.close()
      await node?.stop()
      rmSync(folder, { recursive: true, force: true })
    })

    it("console → authorize → sign in → consent → products → removed", async () => {
      const { url, createdSecrets: secrets } = node
      const redirectUri = `http://127.0.0.1:${(callback.address() as AddressInfo).port}/cb`
      const page = await browser.newPage()
      await page.goto(`${url}/store/admin/tools/apps`)
      await page.getByLabel("User name").fill(secrets!.storeUser!)
      await page.getByLabel("Password").fill(secrets!.storePassword!)
      await page.getByRole("button", { name: "Sign in" }).click()
      await page.getByRole("link", { name: "New", exact: true }).click()
      await page.getByLabel("Name").fill("Ledger")
      await page.getByLabel("read_catalog").check()
      await page.getByLabel("catalog", { exact: false }).nth(1).check()
      await page.getByLabel("Redirect addresses").fill(redirectUri)
      await page.getByRole("button", { name: "Save" }).click()
      const [appId, secret] = (await page.getByRole("status").locator("code").allInnerTexts()) as [
        string,
        string
      ]

      const issuer = new URL(url)
      const as = await oauth.processDiscoveryResponse(
        issuer,
        await oauth.discoveryRequest(issuer, { algorithm: "oauth2", ...insecure })
      )
      const client: oauth.Client = { client_id: appId }
      const auth = oauth.ClientSecretBasic(secret)
      const verifier = oauth.generateRandomCodeVerifier()
      const state = oauth.generateRandomState()
      const metadata = (await (
        await fetch(`${url}/.well-known/oauth-protected-resource/api/v1/`)
      ).json()) as { resource: string; authorization_servers: ReadonlyArray<string> }
      expect(metadata.authorization_servers).toEqual([as.issuer])
      const authorize = new URL(as.authorization_endpoint!)
      for (const [name, value] of Object.entries({
        client_id: appId,
        redirect_uri: redirectUri,
        response_type: "code",
        scope: "read_catalog catalog",
        resource: metadata.resource,
        state,
        code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
        code_challenge_method: "S256"
      }))
        authorize.searchParams.set(name, value)
      await page.goto(authorize.href)
      await page.getByLabel("E-mail").fill(secrets!.oauthUser!)
      await page.getByLabel("Password").fill(secrets!.oauthPassword!)
      await page.getByRole("button", { name: "Sign in" }).click()
      expect(await page.getByRole("heading", { level: 1 }).innerText()).toBe("Allow Ledger access?")
      await page.getByRole("button", { name: "Allow" }).click()
      await page.waitForURL(`${redirectUri}?**`)
      const parameters = oauth.validateAuthResponse(
        as,
        client,
        landed.find(({ searchParams }) => searchParams.has("code"))!,
        state
      )
      const tokens = await oauth.processAuthorizationCodeResponse(
        as,
        client,
        await oauth.authorizationCodeGrantRequest(
          as,
          client,
          auth,
          parameters,
          redirectUri,
          verifier,
          insecure
        )
      )

      const call = (method: string, path: string, body?: unknown, token = tokens.access_token) =>
        fetch(`${url}/api/v1/${path}`, {
          method,
          headers: {
            "X-STORE-Auth-Token": token,
            ...(body === undefined ? {} : { "Content-Type": "application/json" })
          },
          ...(body === undefined ? {} : { body: JSON.stringify(body) })
        })
      const listed = await call("GET", "products.json?fields=item_name")
      expect([listed.status, listed.headers.get("x-store-call-limit")]).toEqual([200, "1/50"])
      const created = await call("POST", "products.json", {
        item_name: "Lamp",
        item_number: "lamp",
        product_status_id: 1,
        primary_category_id: 1
      })
      expect(created.status).toBe(201)
      const { id } = (await created.json()) as { id: number }
      expect((await call("PUT", `products/${id}`, { price: 12.5 })).status).toBe(200)
      expect(await (await call("GET", `products/${id}`)).json()).toMatchObject({
        item_name: "Lamp",
        price: 12.5
      })
      expect((await call("DELETE", `products/${id}`)).status).toBeLessThan(300)
      expect((await call("GET", `products/${id}`)).status).toBe(404)
      const next = await oauth.processRefreshTokenResponse(
        as,
        client,
        await oauth.refreshTokenGrantRequest(as, client, auth, tokens.refresh_token!, insecure)
      )
      expect((await call("GET", "products.json?count=1", undefined, next.access_token)).status).toBe(200)
      expect((await call("GET", "orders.json", undefined, next.access_token)).status).toBe(403)

      await page.goto(`${url}/store/admin/tools/apps/${appId}`)
      await page
        .getByRole("button", { name: /Delete|Remove|Revoke/ })
        .last()
        .click()
      const confirm = page.getByRole("button", { name: /^(?:Delete|Remove|Yes)/ })
      if ((await confirm.count()) > 0 && page.url().includes(appId)) await confirm.last().click()
      await page.waitForLoadState()
      for (const token of [tokens.access_token, next.access_token])
        expect((await call("GET", "products.json", undefined, token)).status).toBe(401)
      const dead = await oauth.refreshTokenGrantRequest(as, client, auth, next.refresh_token!, insecure)
      expect(dead.status).toBe(401)
    }, 60_000)
  }
)
