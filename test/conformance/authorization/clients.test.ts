/** The published OAuth clients against the server on a real socket, each used as its documentation says:
 *  oauth4webapi, openid-client. The browser is played by fetch through the real pages. (The client of the
 *  Model Context Protocol: mcp.test.ts.) */
import * as oauth from "oauth4webapi"
import * as oidc from "openid-client"
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest"
import type { Client, User } from "../../../protocols/authorization/records.ts"
import { callback, World } from "../../protocols/authorization/world.ts"

// RSA keys are made when they are found.
vi.setConfig({ testTimeout: 60_000 })

type Known = Client & { readonly secret: string }
const exchangeGrant = "urn:ietf:params:oauth:grant-type:token-exchange"
const accessType = "urn:ietf:params:oauth:token-type:access_token"
const http = { [oauth.allowInsecureRequests]: true } as const
const machineGrants = ["client_credentials", exchangeGrant]

const resourceUri = (of: World): string => `${of.issuer}/mcp`

const furnish = async (of: World) => {
  await of.resource({ slug: "mcp", uri: resourceUri(of) })
  return {
    user: await of.user(),
    machine: await of.client({ grantTypes: machineGrants, scopes: ["files:read", "files:write"] })
  }
}

const visit = (of: World, url: URL, by: User, decision?: string): Promise<URL> =>
  of.browser().visit(url, by, decision)

let world: World
let user: User
let machine: Known
let strict: World
let strictUser: User
let strictMachine: Known

beforeAll(async () => {
  world = await World.make({ live: true })
  strict = await World.make({ live: true, settings: { dpop: { requireNonce: true } } })
  ;({ user, machine } = await furnish(world))
  ;({ user: strictUser, machine: strictMachine } = await furnish(strict))
})

afterAll(async () => {
  await world.close()
  await strict.close()
})

describe("oauth4webapi", () => {
  const discover = async (
    of = world,
    algorithm: "oauth2" | "oidc" = "oauth2"
  ): Promise<oauth.AuthorizationServer> => {
    const issuer = new URL(of.issuer)
    return oauth.processDiscoveryResponse(
      issuer,
      await oauth.discoveryRequest(issuer, { algorithm, ...http })
    )
  }
  const registered = async (as: oauth.AuthorizationServer, metadata: Partial<oauth.Client> = {}) =>
    oauth.processDynamicClientRegistrationResponse(
      await oauth.dynamicClientRegistrationRequest(
        as,
        {
          redirect_uris: [callback],
          client_name: "oauth4webapi",
          token_endpoint_auth_method: "none",
          ...metadata
        },
        http
      )
    )
  /** To the point where the code is in the client's hand, `iss` and `state` checked. */
  const authorized = async (
    as: oauth.AuthorizationServer,
    client: oauth.Client,
    of = world,
    by = user,
    parameters: Record<string, string> = {}
  ) => {
    const verifier = oauth.generateRandomCodeVerifier()
    const state = oauth.generateRandomState()
    const url = new URL(as.authorization_endpoint!)
    url.search = new URLSearchParams({
      client_id: client.client_id,
      redirect_uri: callback,
      response_type: "code",
      scope: "files:read files:write",
      resource: resourceUri(of),
      state,
      code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
      code_challenge_method: "S256",
      ...parameters
    }).toString()
    const at = await visit(of, url, by)
    return { at, state, verifier, parameters: oauth.validateAuthResponse(as, client, at, state) }
  }
  const signedIn = async (
    as: oauth.AuthorizationServer,
    client: oauth.Client,
    clientAuth: oauth.ClientAuth,
    options: oauth.TokenEndpointRequestOptions = {}
  ) => {
    const { parameters, verifier } = await authorized(as, client)
    return oauth.processAuthorizationCodeResponse(
      as,
      client,
      await oauth.authorizationCodeGrantRequest(as, client, clientAuth, parameters, callback, verifier, {
        ...http,
        ...options
      })
    )
  }
  const machineOf = ({ clientId }: Known): oauth.Client => ({ client_id: clientId })

  it("discovery, by both well-known names, says the same", async () => {
    const as = await discover()
    expect(as.issuer).toBe(world.issuer)
    expect(await discover(world, "oidc")).toEqual(as)
  })
  it("protected resource metadata names this server", async () => {
    const resource = new URL(resourceUri(world))
    const rs = await oauth.processResourceDiscoveryResponse(
      resource,
      await oauth.resourceDiscoveryRequest(resource, http)
    )
    expect([rs.authorization_servers, rs.scopes_supported]).toEqual([
      [world.issuer],
      ["files:read", "files:write"]
    ])
  })
  it.each([
    ["none", () => oauth.None()],
    ["client_secret_basic", (secret: string) => oauth.ClientSecretBasic(secret)],
    ["client_secret_post", (secret: string) => oauth.ClientSecretPost(secret)]
  ] as const)(
    "registration, code with PKCE, refresh and revocation with %s",
    async (method, clientAuthOf) => {
      const as = await discover()
      const client = await registered(as, { token_endpoint_auth_method: method })
      const clientAuth = clientAuthOf(client.client_secret as string)
      const tokens = await signedIn(as, client, clientAuth)
      expect([tokens.token_type, tokens.scope, world.claimsOf(tokens.access_token).aud]).toEqual([
        "bearer",
        "files:read files:write",
        resourceUri(world)
      ])
      const narrow = await oauth.processRefreshTokenResponse(
        as,
        client,
        await oauth.refreshTokenGrantRequest(as, client, clientAuth, tokens.refresh_token!, {
          ...http,
          additionalParameters: { scope: "files:read" }
        })
      )
      expect([narrow.scope, narrow.refresh_token === tokens.refresh_token]).toEqual(["files:read", false])
      await oauth.processRevocationResponse(
        await oauth.revocationRequest(as, client, clientAuth, narrow.refresh_token!, http)
      )
      await expect(
        oauth
          .refreshTokenGrantRequest(as, client, clientAuth, narrow.refresh_token!, http)
          .then((response) => oauth.processRefreshTokenResponse(as, client, response))
      ).rejects.toMatchObject({ name: "ResponseBodyError", error: "invalid_grant", status: 400 })
    }
  )
  it("a denial reaches the client as an authorization error", async () => {
    const as = await discover()
    const client = await registered(as)
    const url = new URL(as.authorization_endpoint!)
    url.search = new URLSearchParams({
      client_id: client.client_id,
      redirect_uri: callback,
      response_type: "code",
      scope: "files:read",
      code_challenge: await oauth.calculatePKCECodeChallenge("v".repeat(43)),
      code_challenge_method: "S256"
    }).toString()
    const at = await visit(world, url, user, "deny")
    expect(() => oauth.validateAuthResponse(as, client, at, oauth.expectNoState)).toThrow(
      expect.objectContaining({ name: "AuthorizationResponseError", error: "access_denied" })
    )
  })
  it("AS-20 a response without iss, or with another server's, is refused by the client: the right one is what it accepted", async () => {
    const as = await discover()
    const client = await registered(as)
    const { at, state } = await authorized(as, client)
    expect(at.searchParams.getAll("iss")).toEqual([world.issuer])
    for (const iss of ["https://evil.example.com", `${world.issuer}/`, undefined]) {
      const mixed = new URL(at)
      if (iss === undefined) mixed.searchParams.delete("iss")
      else mixed.searchParams.set("iss", iss)
      expect(() => oauth.validateAuthResponse(as, client, mixed, state)).toThrow(/iss/)
    }
  })
  it("client credentials, token exchange and introspection", async () => {
    const as = await discover()
    const client = machineOf(machine)
    const clientAuth = oauth.ClientSecretBasic(machine.secret)
    const own = await oauth.processClientCredentialsResponse(
      as,
      client,
      await oauth.clientCredentialsGrantRequest(
        as,
        client,
        clientAuth,
        { scope: "files:read files:write", resource: resourceUri(world) },
        http
      )
    )
    const exchanged = await oauth.processGenericTokenEndpointResponse(
      as,
      client,
      await oauth.genericTokenEndpointRequest(
        as,
        client,
        clientAuth,
        exchangeGrant,
        {
          subject_token: own.access_token,
          subject_token_type: accessType,
          resource: resourceUri(world),
          scope: "files:read"
        },
        http
      )
    )
    expect([exchanged.scope, exchanged["issued_token_type"], exchanged.refresh_token]).toEqual([
      "files:read",
      accessType,
      undefined
    ])
    const introspected = async (token: string) =>
      oauth.processIntrospectionResponse(
        as,
        client,
        await oauth.introspectionRequest(as, client, clientAuth, token, http)
      )
    expect(await introspected(exchanged.access_token)).toMatchObject({
      active: true,
      client_id: machine.clientId,
      scope: "files:read",
      aud: resourceUri(world),
      iss: world.issuer
    })
    await oauth.processRevocationResponse(
      await oauth.revocationRequest(as, client, clientAuth, own.access_token, http)
    )
    expect([await introspected(exchanged.access_token), await introspected("garbage")]).toEqual([
      { active: false },
      { active: false }
    ])
  })
  it("a wrong secret arrives as a Basic challenge", async () => {
    const as = await discover()
    const client = machineOf(machine)
    await expect(
      oauth
        .clientCredentialsGrantRequest(as, client, oauth.ClientSecretBasic("wrong"), {}, http)
        .then((response) => oauth.processClientCredentialsResponse(as, client, response))
    ).rejects.toMatchObject({
      status: 401,
      cause: [{ scheme: "basic", parameters: { realm: "authserver" } }]
    })
  })
  it("a refused registration names its error", async () => {
    await expect(
      registered(await discover(), { redirect_uris: ["javascript:alert(1)"] })
    ).rejects.toMatchObject({ error: "invalid_client_metadata", status: 400 })
  })
  it("an access token passes a resource server's check (RFC 9068), and fails it for another audience or with a changed byte", async () => {
    const as = await discover()
    const client = await registered(as)
    const { access_token: token } = await signedIn(as, client, oauth.None())
    const at = (authorization: string) =>
      new Request(resourceUri(world), { headers: { Authorization: authorization } })
    expect(
      await oauth.validateJwtAccessToken(as, at(`Bearer ${token}`), resourceUri(world), http)
    ).toMatchObject({ client_id: client.client_id, sub: user.id, scope: "files:read files:write" })
    await expect(
      oauth.validateJwtAccessToken(as, at(`Bearer ${token}`), "https://other.example.com/", http)
    ).rejects.toThrow(/aud/)
    const [head, body, signature] = token.split(".") as [string, string, string]
    await expect(
      oauth.validateJwtAccessToken(
        as,
        at(`Bearer ${head}.${body}.${signature.startsWith("A") ? "B" : "A"}${signature.slice(1)}`),
        resourceUri(world),
        http
      )
    ).rejects.toThrow(/signature/)
  })
  it.each(["ES256", "RS256", "PS256"])(
    "DPoP with %s: the nonce is asked for, learnt, and kept; the token is bound to its key",
    async (alg) => {
      const as = await discover(strict)
      const client = await registered(as)
      const clientAuth = oauth.None()
      const keys = await oauth.generateKeyPair(alg, { extractable: true })
      const DPoP = oauth.DPoP({}, keys)
      const { parameters, verifier } = await authorized(as, client, strict, strictUser)
      const redeem = async () =>
        oauth.processAuthorizationCodeResponse(
          as,
          client,
          await oauth.authorizationCodeGrantRequest(as, client, clientAuth, parameters, callback, verifier, {
            ...http,
            DPoP
          })
        )
      const refused: unknown = await redeem().catch((cause: unknown) => cause)
      expect(oauth.isDPoPNonceError(refused)).toBe(true)
      const tokens = await redeem()
      expect(tokens.token_type).toBe("dpop")
      // The nonce that came with the answer serves the next call at once.
      const next = await oauth.processRefreshTokenResponse(
        as,
        client,
        await oauth.refreshTokenGrantRequest(as, client, clientAuth, tokens.refresh_token!, { ...http, DPoP })
      )
      expect(strict.claimsOf(next.access_token).cnf.jkt).toBe(await DPoP.calculateThumbprint())
      const called = { seen: undefined as Request | undefined }
      await oauth.protectedResourceRequest(
        next.access_token,
        "GET",
        new URL(resourceUri(strict)),
        undefined,
        undefined,
        {
          ...http,
          DPoP,
          [oauth.customFetch]: async (url, { headers, method }) => {
            called.seen = new Request(url, { headers, method })
            return new Response()
          }
        }
      )
      expect(await oauth.validateJwtAccessToken(as, called.seen!, resourceUri(strict), http)).toMatchObject({
        cnf: { jkt: await DPoP.calculateThumbprint() }
      })
      // Without its key the bound refresh token is refused, and stays good for its owner.
      await expect(
        oauth
          .refreshTokenGrantRequest(as, client, clientAuth, next.refresh_token!, http)
          .then((response) => oauth.processRefreshTokenResponse(as, client, response))
      ).rejects.toMatchObject({ error: "invalid_grant" })
      expect(
        (await oauth.refreshTokenGrantRequest(as, client, clientAuth, next.refresh_token!, { ...http, DPoP }))
          .status
      ).toBe(200)
    }
  )
})

describe("openid-client", () => {
  const options = { algorithm: "oauth2" as const, execute: [oidc.allowInsecureRequests] }
  const registered = (of = world, metadata: Partial<oidc.ClientMetadata> = {}) =>
    oidc.dynamicClientRegistration(
      new URL(of.issuer),
      {
        redirect_uris: [callback],
        client_name: "openid-client",
        token_endpoint_auth_method: "client_secret_post",
        ...metadata
      },
      undefined,
      options
    )
  const machineOf = (of: World, { clientId, secret }: Known) =>
    oidc.discovery(new URL(of.issuer), clientId, secret, oidc.ClientSecretBasic(secret), options)
  const signedIn = async (config: oidc.Configuration, of = world, by = user, dpop?: oidc.DPoPOptions) => {
    const pkceCodeVerifier = oidc.randomPKCECodeVerifier()
    const expectedState = oidc.randomState()
    const at = await visit(
      of,
      oidc.buildAuthorizationUrl(config, {
        redirect_uri: callback,
        scope: "files:read",
        resource: resourceUri(of),
        state: expectedState,
        code_challenge: await oidc.calculatePKCECodeChallenge(pkceCodeVerifier),
        code_challenge_method: "S256",
        ...(dpop?.DPoP === undefined ? {} : { dpop_jkt: await dpop.DPoP.calculateThumbprint() })
      }),
      by
    )
    return {
      at,
      checks: { pkceCodeVerifier, expectedState },
      tokens: () =>
        oidc.authorizationCodeGrant(config, at, { pkceCodeVerifier, expectedState }, undefined, dpop)
    }
  }

  it("discovery, also under the OpenID Connect name", async () => {
    for (const algorithm of ["oauth2", "oidc"] as const) {
      const config = await oidc.discovery(new URL(world.issuer), "some-client", undefined, oidc.None(), {
        ...options,
        algorithm
      })
      expect([config.serverMetadata().issuer, config.serverMetadata().supportsPKCE()]).toEqual([
        world.issuer,
        true
      ])
    }
  })
  it("registration, code with PKCE, refresh, reuse, revocation", async () => {
    const config = await registered()
    const tokens = await (await signedIn(config)).tokens()
    expect([tokens.scope, Math.round(tokens.expiresIn()! / 60)]).toEqual(["files:read", 15])
    const next = await oidc.refreshTokenGrant(config, tokens.refresh_token!)
    expect((await oidc.tokenIntrospection(config, next.access_token)).active).toBe(true)
    await expect(oidc.refreshTokenGrant(config, tokens.refresh_token!)).rejects.toMatchObject({
      error: "invalid_grant",
      error_description: expect.stringContaining("reuse") as unknown
    })
    expect((await oidc.tokenIntrospection(config, next.access_token)).active).toBe(false)
    const again = await (await signedIn(config)).tokens()
    await oidc.tokenRevocation(config, again.refresh_token!)
    expect((await oidc.tokenIntrospection(config, again.access_token)).active).toBe(false)
  })
  it("a code shown twice is refused, and so is a response whose iss is another's", async () => {
    const config = await registered()
    const { at, checks, tokens } = await signedIn(config)
    const mixed = new URL(at)
    mixed.searchParams.set("iss", "https://evil.example.com")
    await expect(oidc.authorizationCodeGrant(config, mixed, checks)).rejects.toMatchObject({
      cause: { message: expect.stringContaining('"iss"') as unknown }
    })
    await tokens()
    await expect(tokens()).rejects.toMatchObject({ error: "invalid_grant" })
  })
  it("client credentials, token exchange", async () => {
    const config = await machineOf(world, machine)
    const own = await oidc.clientCredentialsGrant(config, {
      scope: "files:read files:write",
      resource: resourceUri(world)
    })
    const exchanged = await oidc.genericGrantRequest(config, exchangeGrant, {
      subject_token: own.access_token,
      subject_token_type: accessType,
      scope: "files:write"
    })
    expect(await oidc.tokenIntrospection(config, exchanged.access_token)).toMatchObject({
      active: true,
      scope: "files:write",
      sub: machine.clientId
    })
    await expect(oidc.clientCredentialsGrant(config, { scope: "elsewhere" })).rejects.toMatchObject({
      error: "invalid_scope"
    })
  })
  it("DPoP: it learns the nonce by itself, at every grant", async () => {
    const config = await registered(strict, { token_endpoint_auth_method: "none" })
    const DPoP = oidc.getDPoPHandle(config, await oidc.randomDPoPKeyPair())
    const tokens = await (await signedIn(config, strict, strictUser, { DPoP })).tokens()
    const next = await oidc.refreshTokenGrant(config, tokens.refresh_token!, undefined, { DPoP })
    expect([tokens.token_type, strict.claimsOf(next.access_token).cnf.jkt]).toEqual([
      "dpop",
      await DPoP.calculateThumbprint()
    ])
    const machines = await machineOf(strict, strictMachine)
    const theirs = oidc.getDPoPHandle(machines, await oidc.randomDPoPKeyPair("ES256"))
    const own = await oidc.clientCredentialsGrant(machines, {}, { DPoP: theirs })
    const exchanged = await oidc.genericGrantRequest(
      machines,
      exchangeGrant,
      { subject_token: own.access_token, subject_token_type: accessType },
      { DPoP: theirs }
    )
    expect(await oidc.tokenIntrospection(machines, exchanged.access_token)).toMatchObject({
      active: true,
      token_type: "DPoP",
      cnf: { jkt: await theirs.calculateThumbprint() }
    })
    await expect(
      oidc.genericGrantRequest(machines, exchangeGrant, {
        subject_token: own.access_token,
        subject_token_type: accessType
      })
    ).rejects.toMatchObject({
      status: 400,
      cause: [{ scheme: "dpop", parameters: { error: "invalid_dpop_proof" } }]
    })
  })
})
