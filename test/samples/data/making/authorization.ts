/** Fills the authorization server: clients of every source, families in every state, grants, and what is open. */
import { generateKeyPairSync, randomUUID } from "node:crypto"
import { jws, outsideUrl } from "../outside.ts"
import { Browser } from "../program.ts"
import { callback, challenge, good, type Making } from "./making.ts"

export const fillAuthorization = async (to: Making): Promise<void> => {
  const { facts } = to
  const user = { email: "ada@example.com", password: "a long pass phrase of ada" }
  const { id: userId } = await to.admin("users", { json: { ...user, name: "Ada" } })
  facts["user"] = { ...user, id: userId }
  const files = await to.admin("resources", {
    json: {
      slug: "files",
      uri: "https://files.example.com/api",
      display_name: "Files",
      scopes: [{ name: "files:read", description: "Read" }, { name: "files:write" }]
    },
    headers: { "idempotency-key": "resource-files-1" }
  })
  const notes = await to.admin("resources", {
    json: {
      slug: "notes",
      uri: "https://notes.example.com/api",
      display_name: "Notes",
      scopes: [{ name: "files:read" }]
    }
  })
  const provider = await to.admin("broker-providers", {
    json: {
      slug: "hub",
      display_name: "Hub",
      protocol: "oauth",
      config_data: {
        client_id: "at-hub",
        client_secret: "made-up hub secret",
        authorize_url: `${outsideUrl}/provider/authorize`,
        token_url: `${outsideUrl}/provider/token`,
        revoke_url: `${outsideUrl}/provider/revoke`
      }
    }
  })
  await to.admin("broker-providers", {
    json: { slug: "keyed", protocol: "api_key", config_data: { key: "made-up api key", expires_in: 600 } }
  })
  const code = await to.admin("resources", {
    json: {
      slug: "code",
      uri: "https://code.example.com/api",
      backend_kind: "broker",
      broker_provider_slug: "hub",
      scopes: [{ name: "files:read", upstream: ["repo:read"] }]
    }
  })
  const confidential = await to.admin("clients", {
    json: {
      client_name: "Confidential",
      redirect_uris: [callback],
      grant_types: [
        "authorization_code",
        "refresh_token",
        "client_credentials",
        "urn:ietf:params:oauth:grant-type:token-exchange",
        "urn:ietf:params:oauth:grant-type:jwt-bearer"
      ],
      token_endpoint_auth_method: "client_secret_basic",
      scope: "files:read files:write"
    }
  })
  const rotated = await to.admin(`clients/${confidential.client_id}/rotate-secret`, {
    json: { keep_previous_for: "24h" }
  })
  const agent = await to.admin("clients", { json: { client_name: "Suspended", redirect_uris: [callback] } })
  await to.admin(`clients/${agent.client_id}/suspend`, { method: "PATCH", json: {} })
  const registered = await good(
    to.call("/oauth/register", {
      json: {
        client_name: "Registered by itself",
        redirect_uris: ["http://localhost:3000/cb"],
        token_endpoint_auth_method: "none"
      }
    })
  )
  const client = {
    id: confidential.client_id,
    secret: rotated.client_secret,
    previous: confidential.client_secret
  }
  facts["oauth"] = {
    client,
    registered: registered.client_id,
    suspended: agent.client_id,
    resources: { files: files.id, notes: notes.id, code: code.id },
    provider: provider.id,
    documentClient: `${outsideUrl}/client/metadata.json`
  }
  const basic = { authorization: `Basic ${Buffer.from(`${client.id}:${client.secret}`).toString("base64")}` }
  const tokens = (form: Record<string, string>, headers: Record<string, string> = {}): Promise<any> =>
    good(to.call("/oauth/token", { form, headers: { ...basic, ...headers } }))
  const open = await to.admin("clients", {
    json: {
      client_name: "Public",
      redirect_uris: [callback],
      grant_types: ["authorization_code", "refresh_token"],
      token_endpoint_auth_method: "none",
      scope: "files:read files:write"
    }
  })
  facts["oauth"].public = open.client_id
  const verifier = "v".repeat(43)
  const authorize = (clientId: string, redirect = callback, more: Record<string, string> = {}): string =>
    `/oauth/authorize?${new URLSearchParams({ client_id: clientId, redirect_uri: redirect, response_type: "code", code_challenge: challenge(verifier), code_challenge_method: "S256", scope: "files:read files:write", resource: "https://files.example.com/api", state: "xyz", ...more }).toString()}`
  const browser = new Browser(to.program)
  const codeOf = async (path: string, by = browser): Promise<string> => {
    const answer = await by.visit(path, user)
    const found = new URL(answer.headers.get("location") ?? "http://nowhere").searchParams.get("code")
    if (found === null)
      throw new Error(
        `no code: ${answer.status} ${answer.headers.get("location")} ${answer.text.slice(0, 600)}`
      )
    return found
  }
  const granted = async (headers: Record<string, string> = {}): Promise<any> =>
    tokens(
      {
        grant_type: "authorization_code",
        code: await codeOf(authorize(client.id)),
        redirect_uri: callback,
        code_verifier: verifier
      },
      headers
    )
  const refreshed = (refresh_token: string, headers: Record<string, string> = {}): Promise<any> =>
    tokens({ grant_type: "refresh_token", refresh_token }, headers)

  // Families of refresh tokens: new, rotated once, rotated until its journal was folded and beyond, revoked, ended by reuse, to be ended by an intent.
  const fresh = await granted()
  const first = await granted()
  const once = await refreshed(first.refresh_token)
  let many = await granted()
  for (let i = 0; i < 39; i++) many = await refreshed(many.refresh_token)
  const revoked = await granted()
  await good(to.call("/oauth/revoke", { form: { token: revoked.refresh_token }, headers: basic }))
  const reused = await granted()
  const successor = await refreshed(reused.refresh_token)
  await good(
    to.call("/oauth/token", {
      form: { grant_type: "refresh_token", refresh_token: reused.refresh_token },
      headers: basic
    }),
    400
  )
  const doomed = await granted()
  facts["families"] = { fresh, once, older: first.refresh_token, many, revoked, reused: successor, doomed }

  // A proof of possession, and a family bound to its key.
  const pair = generateKeyPairSync("ec", { namedCurve: "P-256" })
  facts["proofKey"] = pair.privateKey.export({ format: "jwk" })
  const proof = (): Record<string, string> => ({
    dpop: jws(
      { typ: "dpop+jwt", alg: "ES256", jwk: pair.publicKey.export({ format: "jwk" }) },
      {
        jti: randomUUID(),
        htm: "POST",
        htu: "http://localhost:8080/oauth/token",
        iat: Math.floor(to.program.nowMs / 1_000)
      },
      pair.privateKey
    )
  })
  facts["families"].bound = await good(
    to.call("/oauth/token", {
      form: {
        grant_type: "authorization_code",
        code: await codeOf(authorize(open.client_id)),
        redirect_uri: callback,
        code_verifier: verifier,
        client_id: open.client_id
      },
      headers: proof()
    })
  )
  facts["spentProof"] = proof()
  await tokens({ grant_type: "client_credentials", scope: "files:read" }, facts["spentProof"])
  facts["machine"] = await tokens({
    grant_type: "client_credentials",
    scope: "files:read",
    resource: "https://files.example.com/api"
  })
  facts["exchanged"] = await tokens({
    grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
    subject_token: fresh.access_token,
    subject_token_type: "urn:ietf:params:oauth:token-type:access_token",
    scope: "files:read"
  })
  // The user has not consented to this resource: they are prompted.
  await to.admin("clients", {
    json: {
      client_id: "exchanger",
      client_name: "Exchanger",
      grant_types: ["urn:ietf:params:oauth:grant-type:token-exchange"],
      scope: "files:read"
    }
  })
  const wanted = await to.call("/oauth/token", {
    form: {
      grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
      subject_token: fresh.access_token,
      subject_token_type: "urn:ietf:params:oauth:token-type:access_token",
      scope: "files:read",
      resource: "https://notes.example.com/api"
    },
    headers: basic
  })
  if (wanted.body?.error !== "consent_required") throw new Error(`no prompt: ${wanted.text}`)

  // An identity provider, its policy, a mapped subject, an assertion that is spent.
  const idp = await to.admin("idps", {
    json: { name: "Sample IdP", issuer: `${outsideUrl}/idp`, jwks_uri: `${outsideUrl}/idp/jwks` }
  })
  const policy = await to.admin("xaa/policies", {
    json: {
      name: "Let through",
      idp_id: idp.id,
      client_ids: [client.id],
      scopes: ["files:read"],
      resources: ["https://files.example.com/api"]
    }
  })
  await to.admin("xaa/subject-mappings", {
    json: { idp_id: idp.id, idp_subject: "upstream-ada", local_user_id: userId }
  })
  facts["assertion"] = {
    jti: "assertion-1",
    sub: "upstream-ada",
    aud: "http://localhost:8080",
    client_id: client.id,
    resource: "https://files.example.com/api",
    scope: "files:read"
  }
  facts["asserted"] = await tokens({
    grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer",
    assertion: to.outside.assertion(facts["assertion"]),
    resource: "https://files.example.com/api"
  })
  facts["xaa"] = { idp: idp.id, policy: policy.id }

  // A user of an upstream provider, and a connection with sealed upstream tokens.
  const federated = new Browser(to.program)
  const away = await federated.call("/oidc/start")
  const sent = new URL(away.headers.get("location")!).searchParams
  to.outside.nonce = sent.get("nonce")!
  await good(
    federated.call(`/oidc/callback?state=${encodeURIComponent(sent.get("state")!)}&code=upstream-code`),
    302,
    303
  )
  facts["federatedCookies"] = Object.fromEntries(federated.cookies)
  const connecting = await browser.call(
    "/connect/hub?resource=code&return_url=https%3A%2F%2Fapp.example.com%2Fdone"
  )
  const state = new URL(connecting.headers.get("location")!).searchParams.get("state")!
  await good(browser.call(`/connect/hub/callback?state=${encodeURIComponent(state)}&code=hub-code`), 303)
  facts["connectState"] = state
  facts["vended"] = await tokens({
    grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
    subject_token: fresh.access_token,
    subject_token_type: "urn:ietf:params:oauth:token-type:access_token",
    scope: "files:read",
    resource: "https://code.example.com/api"
  })

  await to.admin("keys/rotate", { json: {} })
  await to.admin("keys/rotate", { json: { alg: "RS256" } })
  facts["rotatedTo"] = await granted()
  await to.admin("settings/dcr", {
    method: "PATCH",
    json: { mode: "approved_redirects", approved_redirects: ["https://approved.example.com/cb"] }
  })
  facts["sessionCookies"] = Object.fromEntries(browser.cookies)

  // What is open: a code that nobody has redeemed, of the client and of one known by its document; a request that waits for a login.
  facts["openCode"] = { code: await codeOf(authorize(client.id)), verifier }
  facts["documentCode"] = { code: await codeOf(authorize(facts["oauth"].documentClient)), verifier }
  // Round trips that have begun: to the upstream of a connection, to a provider's sign-in.
  const leaving = await browser.call("/connect/hub?resource=code")
  facts["openConnect"] = new URL(leaving.headers.get("location")!).searchParams.get("state")!
  const signingIn = new Browser(to.program)
  const there = new URL((await signingIn.call("/oidc/start")).headers.get("location")!).searchParams
  facts["openSignIn"] = {
    cookies: Object.fromEntries(signingIn.cookies),
    state: there.get("state"),
    nonce: there.get("nonce")
  }
  const waiting = new Browser(to.program)
  const page = await waiting.visit(authorize(client.id), user, "/login")
  facts["openLogin"] = { cookies: Object.fromEntries(waiting.cookies), fields: waiting.hidden(page.text) }
}
