/** The shipped authorization server, with its published clients: registration, all five grants, an MCP host;
 *  names in the scripts of the world. */
import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { auth, type OAuthClientProvider } from "@modelcontextprotocol/sdk/client/auth.js"
import type { OAuthClientInformationMixed, OAuthTokens } from "@modelcontextprotocol/sdk/shared/auth.js"
import { exportJWK, generateKeyPair, SignJWT } from "jose"
import * as oauth from "oauth4webapi"
import { afterAll, beforeAll, expect, it } from "vitest"
import { Browser, type Page } from "./browser.ts"
import { Program, type Secrets } from "./program.ts"
import { names } from "./texts.ts"

const insecure = { [oauth.allowInsecureRequests]: true } as const
const callback = "http://127.0.0.1:9/cb"
const exchange = "urn:ietf:params:oauth:grant-type:token-exchange"
const bearer = "urn:ietf:params:oauth:grant-type:jwt-bearer"

let program: Program
let secrets: Secrets
let as: oauth.AuthorizationServer

beforeAll(async () => {
  program = await Program.start({
    env: { APERTIUM: "off", STT_MAX_SESSIONS: "0", SERVICE_XAA_ALLOW_PRIVATE_ADDRESSES: "true" }
  })
  secrets = await program.secrets()
  const issuer = new URL(program.url)
  const found = await oauth.discoveryRequest(issuer, { algorithm: "oauth2", ...insecure })
  as = await oauth.processDiscoveryResponse(issuer, found)
})

afterAll(() => program?.close())

const admin = async (method: string, path: string, body: unknown): Promise<any> => {
  const answer = await fetch(`${program.url}/admin${path}`, {
    method,
    headers: { Authorization: `Bearer ${secrets.oauthAdminKey}`, "Content-Type": "application/json" },
    body: JSON.stringify(body)
  })
  expect(answer.ok, `${path}: ${answer.status}`).toBe(true)
  return answer.json()
}

/** Signs the demo user in and allows what is asked; resolves with the consent page and the client's URL. */
const consent = async (authorize: URL): Promise<{ readonly page: Page; readonly landed: URL }> => {
  const browser = new Browser(program.url)
  const login = await browser.open((await browser.open(authorize.href)).location)
  const signed = await browser.submit(login, "/login", {
    email: secrets.oauthUser,
    password: secrets.oauthPassword
  })
  let page = await browser.open(signed.location)
  while (page.location.startsWith("/")) page = await browser.open(page.location)
  const landed = await browser.submit(page, "/consent", { decision: "allow" })
  return { page, landed: new URL(landed.location) }
}

const claimsOf = (token: string): any => JSON.parse(Buffer.from(token.split(".")[1]!, "base64url").toString())

it("a registered client of any name: code, refresh, revocation; the consent page says its name", async () => {
  for (const name of names) {
    const registered = await oauth.processDynamicClientRegistrationResponse(
      await oauth.dynamicClientRegistrationRequest(
        as,
        {
          client_name: name,
          redirect_uris: [callback],
          token_endpoint_auth_method: "client_secret_basic",
          grant_types: ["authorization_code", "refresh_token"],
          response_types: ["code"]
        },
        insecure
      )
    )
    expect(registered["client_name"]).toBe(name)
    const client: oauth.Client = { client_id: registered.client_id }
    const secret = oauth.ClientSecretBasic(registered["client_secret"] as string)
    const verifier = oauth.generateRandomCodeVerifier()
    const state = "state of ?&#"
    const authorize = new URL(as.authorization_endpoint!)
    for (const [parameter, value] of Object.entries({
      client_id: client.client_id,
      redirect_uri: callback,
      response_type: "code",
      scope: "demo:read",
      resource: `${program.url}/demo`,
      state,
      code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
      code_challenge_method: "S256"
    }))
      authorize.searchParams.set(parameter, value)
    const { page, landed } = await consent(authorize)
    expect(page.headers.get("content-type")).toBe("text/html; charset=utf-8")
    expect(page.text).toContain(name.replaceAll("&", "&amp;"))
    const parameters = oauth.validateAuthResponse(as, client, landed, state)
    const tokens = await oauth.processAuthorizationCodeResponse(
      as,
      client,
      await oauth.authorizationCodeGrantRequest(as, client, secret, parameters, callback, verifier, insecure)
    )
    expect(claimsOf(tokens.access_token).aud).toBe(`${program.url}/demo`)
    const next = await oauth.processRefreshTokenResponse(
      as,
      client,
      await oauth.refreshTokenGrantRequest(as, client, secret, tokens.refresh_token!, insecure)
    )
    expect(next.refresh_token).not.toBe(tokens.refresh_token)
    expect((await oauth.revocationRequest(as, client, secret, next.refresh_token!, insecure)).status).toBe(
      200
    )
    const dead = await oauth.refreshTokenGrantRequest(as, client, secret, next.refresh_token!, insecure)
    expect(dead.status).toBe(400)
  }
})

it("client credentials, token exchange and introspection", async () => {
  const client: oauth.Client = { client_id: secrets.oauthClientId }
  const secret = oauth.ClientSecretBasic(secrets.oauthClientSecret)
  const first = await oauth.processClientCredentialsResponse(
    as,
    client,
    await oauth.clientCredentialsGrantRequest(as, client, secret, { scope: "demo:read demo:write" }, insecure)
  )
  const second = await oauth.processGenericTokenEndpointResponse(
    as,
    client,
    await oauth.genericTokenEndpointRequest(
      as,
      client,
      secret,
      exchange,
      {
        subject_token: first.access_token,
        subject_token_type: "urn:ietf:params:oauth:token-type:access_token",
        scope: "demo:read"
      },
      insecure
    )
  )
  expect(second["scope"]).toBe("demo:read")
  const told = await oauth.processIntrospectionResponse(
    as,
    client,
    await oauth.introspectionRequest(as, client, secret, second.access_token, insecure)
  )
  expect([told.active, told.scope]).toEqual([true, "demo:read"])
})

it("an assertion of a trusted identity provider, with a name and subjects in other scripts", async () => {
  const { privateKey, publicKey } = await generateKeyPair("ES256")
  const keys = JSON.stringify({
    keys: [{ ...(await exportJWK(publicKey)), kid: "k", alg: "ES256", use: "sig" }]
  })
  const provider: Server = createServer((_, response) => {
    response.setHeader("Content-Type", "application/json")
    response.end(keys)
  })
  await new Promise<void>((resolve) => provider.listen(0, "127.0.0.1", resolve))
  const issuer = `http://127.0.0.1:${(provider.address() as AddressInfo).port}`
  try {
    const idp = await admin("POST", "/idps", { name: names[4], issuer, jwks_uri: `${issuer}/keys` })
    expect(idp.name).toBe(names[4])
    await admin("POST", "/xaa/policies", { name: names[1], idp_id: idp.id })
    const created = await admin("POST", "/clients", {
      client_name: names[6],
      grant_types: [bearer],
      scope: "demo:read"
    })
    const client: oauth.Client = { client_id: created.client_id }
    for (const subject of names) {
      const assertion = await new SignJWT({ client_id: client.client_id, scope: "demo:read" })
        .setProtectedHeader({ alg: "ES256", kid: "k", typ: "oauth-id-jag+jwt" })
        .setIssuer(issuer)
        .setAudience(as.issuer)
        .setSubject(subject)
        .setJti(`${subject}-1`)
        .setIssuedAt()
        .setExpirationTime("5m")
        .sign(privateKey)
      const tokens = await oauth.processGenericTokenEndpointResponse(
        as,
        client,
        await oauth.genericTokenEndpointRequest(
          as,
          client,
          oauth.ClientSecretBasic(created.client_secret),
          bearer,
          { assertion, resource: `${program.url}/demo` },
          insecure
        )
      )
      expect(claimsOf(tokens.access_token).sub).toBe(`${issuer}:${subject}`)
    }
  } finally {
    provider.closeAllConnections()
    provider.close()
  }
})

it("an MCP host: discovery, registration, consent, tokens, refresh", async () => {
  const state = "state of the host"
  const calls: Array<string> = []
  let information: OAuthClientInformationMixed | undefined
  let tokens: OAuthTokens | undefined
  let verifier = ""
  let landed: URL | undefined
  const host: OAuthClientProvider = {
    redirectUrl: callback,
    clientMetadata: {
      client_name: names[10]!,
      redirect_uris: [callback],
      token_endpoint_auth_method: "none",
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
      scope: "demo:read"
    },
    state: () => state,
    clientInformation: () => information,
    saveClientInformation: (saved) => {
      information = saved
    },
    tokens: () => tokens,
    saveTokens: (saved) => {
      calls.push("tokens")
      tokens = saved
    },
    redirectToAuthorization: async (url) => {
      calls.push("redirect")
      landed = (await consent(url)).landed
    },
    saveCodeVerifier: (saved) => {
      verifier = saved
    },
    codeVerifier: () => verifier
  }
  const serverUrl = `${program.url}/demo`
  const resourceMetadataUrl = new URL(`${program.url}/.well-known/oauth-protected-resource/demo`)
  expect(await auth(host, { serverUrl, resourceMetadataUrl })).toBe("REDIRECT")
  expect(landed!.searchParams.get("state")).toBe(state)
  const authorizationCode = landed!.searchParams.get("code")!
  expect(await auth(host, { serverUrl, resourceMetadataUrl, authorizationCode })).toBe("AUTHORIZED")
  expect(await auth(host, { serverUrl, resourceMetadataUrl })).toBe("AUTHORIZED")
  expect(calls).toEqual(["redirect", "tokens", "tokens"])
  expect(claimsOf(tokens!.access_token).aud).toBe(serverUrl)
})
