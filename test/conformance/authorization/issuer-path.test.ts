/** An issuer with a path: a published client finds everything from its name alone, and a browser walks from page to
 *  page below it. Source: docs/spec/authorization.md, section 4.1; RFC 8414 section 3.1. */
import * as oauth from "oauth4webapi"
import { afterAll, beforeAll, expect, it } from "vitest"
import { callback, password, World } from "../../protocols/authorization/world.ts"

let world: World
beforeAll(async () => {
  world = await World.make({
    issuerPath: "/t1",
    live: true,
    settings: { connect: { allowedReturnUrls: [] } }
  })
  await world.resource({ slug: "files" })
})
afterAll(() => world.close())

const insecure = { [oauth.allowInsecureRequests]: true }

/** A browser that follows redirects and sends forms to where their pages say. */
class Tab {
  private readonly cookies = new Map<string, string>()
  readonly visited: Array<string> = []
  url = new URL(world.issuer)
  text = ""

  async go(target: string, body?: URLSearchParams): Promise<URL> {
    this.url = new URL(target, this.url)
    if (this.url.origin !== new URL(world.issuer).origin) return this.url
    this.visited.push(this.url.pathname)
    const answer = await fetch(this.url, {
      method: body === undefined ? "GET" : "POST",
      headers: { Accept: "text/html", Cookie: [...this.cookies].map((pair) => pair.join("=")).join("; ") },
      redirect: "manual",
      ...(body === undefined ? {} : { body })
    })
    for (const cookie of answer.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(cookie)!
      this.cookies.set(name!, value!)
    }
    const location = answer.headers.get("location")
    this.text = await answer.text()
    return location === null ? this.url : this.go(location)
  }

  send(fields: Record<string, string>): Promise<URL> {
    const action = /<form method="post" action="([^"]*)"/.exec(this.text)![1]!
    const hidden = [...this.text.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)">/g)].map(
      ([, name, value]): [string, string] => [name!, value!]
    )
    return this.go(action, new URLSearchParams([...hidden, ...Object.entries(fields)]))
  }
}

it("A-9: discovery, registration, sign-in, consent, tokens, introspection, keys and revocation lie below it", async () => {
  const issuer = new URL(world.issuer)
  const metadata = await oauth.processDiscoveryResponse(
    issuer,
    await oauth.discoveryRequest(issuer, { algorithm: "oauth2", ...insecure })
  )
  for (const [name, url] of Object.entries(metadata))
    if (/_endpoint$|^jwks_uri$/.test(name)) expect(url).toMatch(/^http:\/\/localhost:\d+\/t1\//)
  const registered = await oauth.processDynamicClientRegistrationResponse(
    await oauth.dynamicClientRegistrationRequest(metadata, { redirect_uris: [callback] }, insecure)
  )
  const secret = oauth.ClientSecretBasic(registered.client_secret as string)
  const client = await world.client()
  const verifier = oauth.generateRandomCodeVerifier()
  const ask = new URL(metadata.authorization_endpoint!)
  ask.search = new URLSearchParams({
    client_id: client.clientId,
    redirect_uri: callback,
    response_type: "code",
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: "S256",
    scope: "files:read",
    state: "s"
  }).toString()
  const user = await world.user()
  const tab = new Tab()
  await tab.go(ask.href)
  await tab.send({ email: user.email, password })
  const back = await tab.send({ decision: "allow" })
  expect(tab.visited).toEqual([
    "/t1/oauth/authorize",
    "/t1/login",
    "/t1/login",
    "/t1/oauth/authorize/continue",
    "/t1/consent",
    "/t1/consent"
  ])
  const application = { client_id: client.clientId }
  const auth = oauth.ClientSecretBasic(client.secret)
  const answer = oauth.validateAuthResponse(metadata, application, back, "s")
  const tokens = await oauth.processAuthorizationCodeResponse(
    metadata,
    application,
    await oauth.authorizationCodeGrantRequest(
      metadata,
      application,
      auth,
      answer,
      callback,
      verifier,
      insecure
    )
  )
  const introspected = await oauth.processIntrospectionResponse(
    metadata,
    application,
    await oauth.introspectionRequest(metadata, application, auth, tokens.access_token, insecure)
  )
  expect([introspected.active, introspected.iss]).toEqual([true, world.issuer])
  const keys = (await (await fetch(metadata.jwks_uri!)).json()) as { readonly keys: ReadonlyArray<unknown> }
  expect(keys.keys.length).toBeGreaterThan(0)
  await oauth.processRevocationResponse(
    await oauth.revocationRequest(metadata, application, auth, tokens.access_token, insecure)
  )
  await oauth.processRevocationResponse(
    await oauth.revocationRequest(metadata, registered, secret, "unknown", insecure)
  )
})

it("A-9: pages that want a login lead back below it, and what is not there is the service's own 404", async () => {
  const user = await world.user()
  const tab = new Tab()
  await tab.go(`${world.issuer}/connections`)
  expect(tab.url.href).toBe(`${world.issuer}/login?next=%2Fconnections`)
  await tab.send({ email: user.email, password })
  expect([tab.url.href, tab.text.includes(user.email)]).toEqual([`${world.issuer}/connections`, true])
  await tab.send({})
  expect(tab.url.href).toBe(`${world.issuer}/login`)
  const missing = await fetch(`${world.issuer}/nothing`)
  expect([missing.status, ((await missing.json()) as { readonly error: string }).error]).toEqual([
    404,
    "not_found"
  ])
})

it("A-9: a proxy that takes the path off reaches the same, and redirects still carry the path", async () => {
  const { origin } = new URL(world.issuer)
  expect((await fetch(`${origin}/oauth/token`, { method: "POST" })).status).toBe(400)
  const answer = await fetch(`${origin}/connections`, {
    headers: { Accept: "text/html" },
    redirect: "manual"
  })
  expect(answer.headers.get("location")).toBe("/t1/login?next=%2Fconnections")
})
