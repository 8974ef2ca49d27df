/** Makes the accounts of a run on a fresh program: those of the honest and those of the flood, each in windows
 *  of its own. */
import { createHash, randomBytes } from "node:crypto"
import { Browser } from "../shipped/browser.ts"
import type { Secrets, Served } from "./served.ts"

export const chatKeys = { honest: "sk-honest", flood: "sk-flood" } as const

/** What one side may use. */
export interface Accounts {
  readonly translationKey: string
  readonly chatKey: string
  readonly storeToken: string
  /** Basic, of the demo client. */
  readonly client: string
  readonly clientId: string
  readonly user: string
  readonly password: string
  /** Each begins a family. */
  readonly refreshTokens: ReadonlyArray<string>
}

export const callback = "http://127.0.0.1:9/cb"

const json = async (response: Response): Promise<any> => {
  const text = await response.text()
  if (!response.ok) throw new Error(`${response.url}: ${response.status} ${text}`)
  return JSON.parse(text)
}

/** An app of the store with a token: installed and custom apps have separate windows. */
export const storeTokenOf = async (
  { url }: Served,
  secrets: Secrets,
  kind: "installed" | "custom"
): Promise<string> => {
  const browser = new Browser(url)
  const login = await browser.open("/store/admin/login")
  await browser.submit(login, "/store/admin/login", {
    username: secrets.storeUser,
    password: secrets.storePassword
  })
  const session = JSON.parse((await browser.open("/store/admin/api/session")).text) as Record<string, string>
  const csrf = session["csrf_token"] ?? session["csrf"] ?? ""
  const post = async (path: string, body: object): Promise<any> => {
    const page = await browser.open(`/store/admin/api${path}`, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-CSRF-Token": csrf },
      body: JSON.stringify(body)
    })
    if (page.status !== 201) throw new Error(`${path}: ${page.status} ${page.text}`)
    return JSON.parse(page.text)
  }
  const app = await post("/apps", { name: kind, kind, scopes: ["catalog"], redirect_uris: [callback] })
  return (await post(`/apps/${app.app_id}/tokens`, { scopes: ["catalog"], label: kind })).token
}

export interface Registered {
  /** Basic. */
  readonly client: string
  readonly clientId: string
  /** Each begins a family. */
  readonly tokens: ReadonlyArray<string>
  /** In which the demo user is signed in and has consented. */
  readonly browser: Browser
}

/** Registers a client, signs the demo user in, consents, and redeems as many codes as families are wanted. */
export const registered = async (
  { url }: Served,
  secrets: Secrets,
  families: number
): Promise<Registered> => {
  const { client_id: clientId, client_secret: secret } = await json(
    await fetch(`${url}/oauth/register`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({
        client_name: "families",
        redirect_uris: [callback],
        token_endpoint_auth_method: "client_secret_basic",
        grant_types: ["authorization_code", "refresh_token"],
        response_types: ["code"]
      })
    })
  )
  const client = `Basic ${Buffer.from(`${clientId}:${secret}`).toString("base64")}`
  const browser = new Browser(url)
  const tokens: Array<string> = []
  for (let i = 0; i < families; i++) {
    const verifier = randomBytes(32).toString("base64url")
    const query = new URLSearchParams({
      client_id: clientId,
      redirect_uri: callback,
      response_type: "code",
      scope: "demo:read",
      resource: `${url}/demo`,
      state: "s",
      code_challenge: createHash("sha256").update(verifier).digest("base64url"),
      code_challenge_method: "S256"
    })
    let page = await browser.open(`/oauth/authorize?${query}`)
    for (let steps = 0; !page.location.startsWith(callback); steps++) {
      if (steps > 8) throw new Error(`the sign-in leads nowhere: ${page.status} ${page.location}`)
      if (page.location !== "") page = await browser.open(page.location)
      else if (page.text.includes('name="password"'))
        page = await browser.submit(page, "/login", {
          email: secrets.oauthUser,
          password: secrets.oauthPassword
        })
      else page = await browser.submit(page, "/consent", { decision: "allow" })
    }
    const answer = await json(
      await fetch(`${url}/oauth/token`, {
        method: "POST",
        headers: { Authorization: client, "Content-Type": "application/x-www-form-urlencoded" },
        body: new URLSearchParams({
          grant_type: "authorization_code",
          code: new URL(page.location).searchParams.get("code")!,
          redirect_uri: callback,
          code_verifier: verifier
        }).toString()
      })
    )
    tokens.push(answer.refresh_token)
  }
  return { client, clientId, tokens, browser }
}

export interface Prepared {
  readonly honest: Accounts
  readonly flood: Accounts
  readonly operatorToken: string
  /** Basic, of the client that may refresh. */
  readonly refreshClient: string
}

export const prepare = async (served: Served, families: number): Promise<Prepared> => {
  const secrets = await served.secrets()
  const { tokens, client: refreshClient } = await registered(served, secrets, families)
  const floodKey = await json(
    await fetch(`${served.url}/console/api/keys`, {
      method: "POST",
      headers: { Authorization: `Bearer ${secrets.operatorToken}`, "Content-Type": "application/json" },
      body: JSON.stringify({ label: "flood" })
    })
  )
  const shared = {
    client: `Basic ${Buffer.from(`${secrets.oauthClientId}:${secrets.oauthClientSecret}`).toString("base64")}`,
    clientId: secrets.oauthClientId,
    user: secrets.oauthUser,
    password: secrets.oauthPassword
  }
  return {
    operatorToken: secrets.operatorToken,
    refreshClient,
    honest: {
      ...shared,
      translationKey: secrets.developerKey,
      chatKey: chatKeys.honest,
      storeToken: await storeTokenOf(served, secrets, "installed"),
      refreshTokens: tokens
    },
    flood: {
      ...shared,
      translationKey: floodKey.secret ?? floodKey.key,
      chatKey: chatKeys.flood,
      storeToken: await storeTokenOf(served, secrets, "custom"),
      refreshTokens: []
    }
  }
}
