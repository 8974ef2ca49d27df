/** The peer is oidc-provider with everything in memory. It introspects an access token. */
import crypto from "node:crypto"
import {
  accessTokenSeconds,
  announce,
  audience,
  clientId,
  clientSecret,
  isIntrospection,
  issuer,
  redirectUri,
  refreshTokenSeconds,
  requestAccessToken,
  scopes
} from "./shared.ts"

const scope = scopes.join(" ")

const configurationOf = (accessTokenFormat: string | undefined): object => {
  const jwk = crypto.generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({ format: "jwk" })
  return {
    jwks: { keys: [{ ...jwk, alg: "ES256", use: "sig", kid: "k1" }] },
    cookies: { keys: ["bench"] },
    clients: [
      {
        client_id: clientId,
        client_secret: clientSecret,
        grant_types: ["client_credentials", "refresh_token", "authorization_code"],
        redirect_uris: [redirectUri],
        response_types: ["code"],
        token_endpoint_auth_method: "client_secret_basic",
        id_token_signed_response_alg: "ES256",
        scope: `offline_access ${scope}`
      }
    ],
    scopes: ["offline_access", ...scopes],
    rotateRefreshToken: true,
    features: {
      clientCredentials: { enabled: true },
      introspection: { enabled: true, allowedPolicy: () => true },
      devInteractions: { enabled: false },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => audience,
        useGrantedResource: () => true,
        getResourceServerInfo: () => ({
          scope,
          audience,
          accessTokenFormat,
          accessTokenTTL: accessTokenSeconds,
          jwt: { sign: { alg: "ES256" } }
        })
      }
    },
    findAccount: (_: unknown, id: string) => ({ accountId: id, claims: () => ({ sub: id }) }),
    ttl: {
      RefreshToken: refreshTokenSeconds,
      AccessToken: accessTokenSeconds,
      ClientCredentials: accessTokenSeconds,
      Grant: refreshTokenSeconds
    }
  }
}

export const oidcProvider = async (accessTokenFormat: string | undefined): Promise<void> => {
  console.info = console.warn = () => {}
  const { Provider } = (await import("oidc-provider" as string)) as any
  const provider = new Provider(issuer, configurationOf(accessTokenFormat))

  const issueRefresh = async (client: unknown, accountId: string): Promise<string> => {
    const grant = new provider.Grant({ accountId, clientId })
    grant.addResourceScope(audience, scope)
    grant.addOIDCScope("offline_access")
    const iiat = Math.floor(Date.now() / 1_000)
    return new provider.RefreshToken({
      client,
      accountId,
      grantId: await grant.save(),
      scope: `offline_access ${scope}`,
      gty: "authorization_code",
      resource: audience,
      claims: {},
      rotations: 0,
      iiat,
      authTime: iiat
    }).save()
  }

  const tokensOf = async (kind: string, count: number): Promise<ReadonlyArray<string>> => {
    if (isIntrospection(kind)) return [await requestAccessToken(server.address().port, "/token")]
    const client = await provider.Client.find(clientId)
    const tokens: Array<string> = []
    for (let i = 0; i < count; i++) tokens.push(await issueRefresh(client, `user-${i}`))
    return tokens
  }

  provider.use(async (context: any, next: () => Promise<void>) => {
    if (context.path !== "/seed") return next()
    const { of: kind, n } = context.query
    context.body = {
      path: isIntrospection(kind) ? "/token/introspection" : "/token",
      tokens: await tokensOf(kind, Number(n)),
      expect: isIntrospection(kind) ? '"active":true' : '"access_token"'
    }
  })

  const server = provider.listen(0, "127.0.0.1", () => announce(server.address().port))
}
