/** What the authorization server is asked: its rows, families of refresh tokens, grants, browsers that come back. */
import { createHash, createPrivateKey, createPublicKey, randomUUID } from "node:crypto"
import { jws } from "../outside.ts"
import { Browser, type Asking } from "../program.ts"
import type { Asked } from "./asked.ts"

export const askAuthorization = async (to: Asked): Promise<void> => {
  const { facts, program } = to
  const { oauth, families, user } = facts
  const basic = (secret: string = oauth.client.secret): Record<string, string> => ({
    authorization: `Basic ${Buffer.from(`${oauth.client.id}:${secret}`).toString("base64")}`
  })
  const token = (
    name: string,
    form: Record<string, string>,
    headers: Record<string, string> = basic()
  ): Promise<any> => to.ask("/oauth/token", { form, headers }, `token: ${name}`)
  const admin = (path: string, asking: Asking = {}, name?: string): Promise<any> =>
    to.ask(
      `/admin/${path}`,
      { ...asking, headers: { authorization: `Bearer ${facts["oauthAdminKey"]}`, ...asking.headers } },
      name
    )
  const introspect = (name: string, token: string, secret?: string): Promise<any> =>
    to.ask("/oauth/introspect", { form: { token: token }, headers: basic(secret) }, `introspection: ${name}`)

  await token(
    "a proof that was spent",
    { grant_type: "client_credentials", scope: "files:read" },
    { ...basic(), ...facts["spentProof"] }
  )
  for (const path of [
    "/.well-known/oauth-authorization-server",
    "/.well-known/jwks.json",
    "/.well-known/oauth-protected-resource/api/v1/"
  ])
    await to.ask(path)
  for (const path of [
    "clients",
    "resources",
    "broker-providers",
    "users",
    "idps",
    "xaa/policies",
    "xaa/subject-mappings",
    "keys",
    "settings/dcr",
    "stats",
    "system/config",
    "audit?limit=200",
    "issuances?limit=200",
    `clients/${oauth.registered}`,
    `clients/${oauth.suspended}`,
    `users/${user.id}`,
    `users/${user.id}/grants`,
    `users/${user.id}/tokens`
  ])
    await admin(path)
  // Names that only one may bear; an answer that was given before.
  await admin(
    "resources",
    {
      json: {
        slug: "files",
        uri: "https://files.example.com/api",
        display_name: "Files",
        scopes: [{ name: "files:read", description: "Read" }, { name: "files:write" }]
      },
      headers: { "idempotency-key": "resource-files-1" }
    },
    "admin: asked again"
  )
  await admin("resources", { json: { slug: "files" } }, "admin: a slug that is taken")
  await admin(
    "users",
    { json: { email: "ADA@example.com", password: "another long phrase" } },
    "admin: an address that is taken"
  )
  await admin(
    "idps",
    {
      json: {
        name: "Again",
        issuer: `${facts["oauth"].documentClient.replace("/client/metadata.json", "/idp")}`
      }
    },
    "admin: an issuer that is taken"
  )
  await admin(
    "xaa/subject-mappings",
    { json: { idp_id: facts["xaa"].idp, idp_subject: "upstream-ada", local_user_id: user.id } },
    "admin: a subject that is mapped"
  )

  for (const [name, { access_token: access }] of Object.entries(families) as ReadonlyArray<
    readonly [string, any]
  >)
    if (access !== undefined) await introspect(name, access)
  for (const [name, { refresh_token: refresh }] of Object.entries(families) as ReadonlyArray<
    readonly [string, any]
  >)
    if (refresh !== undefined) await introspect(`${name}, its refresh token`, refresh)
  for (const name of ["rotatedTo", "storeUser"])
    await introspect(`${name}, its refresh token`, facts[name].refresh_token)
  await to.look("unused", "refresh-family")
  for (const name of ["machine", "exchanged", "asserted", "rotatedTo", "storeUser"])
    await introspect(name, facts[name].access_token)
  await introspect("by the secret before", facts["machine"].access_token, oauth.client.previous)
  const proofKey = createPrivateKey({ key: facts["proofKey"], format: "jwk" })
  const proof = (): Record<string, string> => ({
    dpop: jws(
      { typ: "dpop+jwt", alg: "ES256", jwk: createPublicKey(proofKey).export({ format: "jwk" }) },
      {
        jti: randomUUID(),
        htm: "POST",
        htu: "http://localhost:8080/oauth/token",
        iat: Math.floor(program.nowMs / 1_000)
      },
      proofKey
    )
  })
  for (const name of ["fresh", "once", "many", "revoked", "reused", "doomed"]) {
    const next = await token(`refreshed ${name}`, {
      grant_type: "refresh_token",
      refresh_token: families[name].refresh_token
    })
    if (next?.refresh_token !== undefined && name !== "once")
      await token(`refreshed ${name} again`, {
        grant_type: "refresh_token",
        refresh_token: next.refresh_token
      })
  }
  const bound = {
    grant_type: "refresh_token",
    refresh_token: families.bound.refresh_token,
    client_id: oauth.public
  }
  await token("refreshed bound without its key", bound, {})
  await token("refreshed bound", bound, proof())
  await token("an older refresh token", { grant_type: "refresh_token", refresh_token: families.older })
  await introspect("after its older refresh token was shown", families.once.access_token)

  const callback = "https://app.example.com/cb"
  await token("of the open code", {
    grant_type: "authorization_code",
    code: facts["openCode"].code,
    redirect_uri: callback,
    code_verifier: facts["openCode"].verifier
  })
  await token("of the open code, again", {
    grant_type: "authorization_code",
    code: facts["openCode"].code,
    redirect_uri: callback,
    code_verifier: facts["openCode"].verifier
  })
  await token(
    "of the code of a client by its document",
    {
      grant_type: "authorization_code",
      code: facts["documentCode"].code,
      redirect_uri: callback,
      code_verifier: facts["documentCode"].verifier,
      client_id: oauth.documentClient
    },
    {}
  )
  await token("of an assertion that was spent", {
    grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer",
    assertion: to.outside.assertion(facts["assertion"]),
    resource: "https://files.example.com/api"
  })
  await token("of a new assertion", {
    grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer",
    assertion: to.outside.assertion({ ...facts["assertion"], jti: "assertion-2" }),
    resource: "https://files.example.com/api"
  })
  const exchange = {
    grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
    subject_token: facts["rotatedTo"].access_token,
    subject_token_type: "urn:ietf:params:oauth:token-type:access_token",
    scope: "files:read"
  }
  await token("of an upstream, sealed here", { ...exchange, resource: "https://code.example.com/api" })
  await token("for a resource without consent", { ...exchange, resource: "https://notes.example.com/api" })

  await token("refreshed rotatedTo", {
    grant_type: "refresh_token",
    refresh_token: facts["rotatedTo"].refresh_token
  })
  await token(
    "refreshed by the store's app",
    { grant_type: "refresh_token", refresh_token: facts["storeUser"].refresh_token },
    {
      authorization: `Basic ${Buffer.from(`${facts["storeApp"].id}:${facts["storeApp"].secret}`).toString("base64")}`
    }
  )

  // Browsers that come back.
  const browser = new Browser(program, facts["sessionCookies"])
  await to.take("connections", browser.call("/connections", { headers: { accept: "application/json" } }))
  await to.take("the prompt's page", browser.call("/authorize?resource=notes&scope=files:read"))
  await to.take(
    "a round trip that was used",
    browser.call(`/connect/hub/callback?state=${encodeURIComponent(facts["connectState"])}&code=hub-code`)
  )
  const heardBefore = to.outside.heard.length
  await to.take(
    "a round trip that had begun",
    browser.call(`/connect/hub/callback?state=${encodeURIComponent(facts["openConnect"])}&code=hub-code`)
  )
  const tokenRequest = to.outside.heard.slice(heardBefore).find(({ path }) => path === "/provider/token")
  to.say(
    "the secret that the provider is shown",
    new URLSearchParams(tokenRequest?.text ?? "").get("client_secret")
  )
  const { cookies, state, nonce } = facts["openSignIn"]
  to.outside.nonce = nonce
  const returning = new Browser(program, cookies)
  await to.take(
    "a sign-in that had begun",
    returning.call(`/oidc/callback?state=${encodeURIComponent(state)}&code=upstream-code`)
  )
  const request = `/oauth/authorize?${new URLSearchParams({ client_id: oauth.client.id, redirect_uri: callback, response_type: "code", code_challenge: createHash("sha256").update("w".repeat(43)).digest("base64url"), code_challenge_method: "S256", scope: "files:read", resource: "https://files.example.com/api", state: "again" }).toString()}`
  const signedIn = await browser.visit(request, user)
  to.say(
    "a session and a consent that last: the address it leads to",
    (signedIn.headers.get("location") ?? "").split("?")[0],
    signedIn.status
  )
  const federated = new Browser(program, facts["federatedCookies"])
  await to.take(
    "connections of the federated user",
    federated.call("/connections", { headers: { accept: "application/json" } })
  )
  const waiting = new Browser(program, facts["openLogin"].cookies)
  const after = await waiting.call("/login", {
    form: { ...facts["openLogin"].fields, email: user.email, password: user.password }
  })
  const landed = await waiting.visit(after.headers.get("location") ?? "/nowhere", user)
  to.say(
    "a login that waited: the address it leads to",
    (landed.headers.get("location") ?? "").split("?")[0],
    after.status
  )
  const seeded = new Browser(program)
  const page = await seeded.call("/login")
  const entered = await seeded.call("/login", {
    form: {
      ...seeded.hidden(page.text),
      email: "seeded@example.com",
      password: "a long pass phrase of a seed"
    }
  })
  to.say("a user of the configuration signs in", entered.headers.get("location"), entered.status)
}
