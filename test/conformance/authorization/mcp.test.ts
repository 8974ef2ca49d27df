/** The client of the Model Context Protocol's SDK against the server on a real socket: from a 401 of an MCP
 *  server to a tool call and on to refresh, by registration, by a client id metadata document, and as a
 *  machine. The MCP server (also the SDK's) asks our introspection. */
import { createServer, type Server as HttpServer } from "node:http"
import { type AddressInfo } from "node:net"
import {
  auth,
  discoverOAuthServerInfo,
  UnauthorizedError,
  type OAuthClientProvider
} from "@modelcontextprotocol/sdk/client/auth.js"
import { ClientCredentialsProvider } from "@modelcontextprotocol/sdk/client/auth-extensions.js"
import { Client as McpClient } from "@modelcontextprotocol/sdk/client/index.js"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js"
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js"
import type {
  OAuthClientInformationMixed,
  OAuthClientMetadata,
  OAuthTokens
} from "@modelcontextprotocol/sdk/shared/auth.js"
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js"
import { afterAll, beforeAll, expect, it } from "vitest"
import type { Client, User } from "../../../protocols/authorization/records.ts"
import { callback, World } from "../../protocols/authorization/world.ts"

type Known = Client & { readonly secret: string }
const documentUrl = "https://app.example.com/client.json"

/** What a host application keeps, with a user who follows the URL at once. */
class Host implements OAuthClientProvider {
  readonly redirectUrl = callback
  readonly calls: Array<string> = []
  information: OAuthClientInformationMixed | undefined
  stored: OAuthTokens | undefined
  verifier = ""
  sent: URL | undefined
  arrived: URL | undefined
  readonly clientMetadataUrl?: string
  readonly clientMetadata: OAuthClientMetadata
  private readonly user: User

  constructor(by: User, options: { readonly method?: string; readonly documentUrl?: string } = {}) {
    this.user = by
    this.clientMetadata = {
      redirect_uris: [callback],
      client_name: "MCP host",
      token_endpoint_auth_method: options.method ?? "none",
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"]
    }
    if (options.documentUrl !== undefined) this.clientMetadataUrl = options.documentUrl
  }

  state() {
    return "state-of-the-host"
  }

  clientInformation() {
    return this.information
  }

  saveClientInformation(information: OAuthClientInformationMixed) {
    this.information = information
  }

  tokens() {
    return this.stored
  }

  saveTokens(tokens: OAuthTokens) {
    this.calls.push("tokens")
    this.stored = tokens
  }

  saveCodeVerifier(verifier: string) {
    this.verifier = verifier
  }

  codeVerifier() {
    return this.verifier
  }

  async redirectToAuthorization(url: URL) {
    this.calls.push("redirect")
    this.sent = url
    this.arrived = await world.browser().visit(url, this.user)
  }

  invalidateCredentials(scope: string) {
    this.calls.push(`forget ${scope}`)
    if (scope !== "verifier") this.stored = undefined
    if (scope === "all" || scope === "client") this.information = undefined
  }

  get code(): string {
    const { searchParams } = this.arrived!
    expect([searchParams.get("state"), searchParams.get("iss"), searchParams.get("error")]).toEqual([
      this.state(),
      world.issuer,
      null
    ])
    return searchParams.get("code")!
  }
}

let world: World
let user: User
let runtime: Known
let mcp: HttpServer
let url: URL
let challenges = 0

/** The MCP server: challenges as the protocol says, and lets in whom introspection calls active with it as
 *  the audience. */
const serve = async (): Promise<void> => {
  mcp = createServer(async (request, response) => {
    const token = /^Bearer (.+)$/.exec(request.headers.authorization ?? "")?.[1]
    const about =
      token === undefined
        ? undefined
        : (await world.post("/oauth/introspect", { token }, world.basic(runtime))).body
    if (about?.active !== true || about.aud !== url.href) {
      challenges++
      response
        .writeHead(401, {
          "WWW-Authenticate": `Bearer resource_metadata="${world.issuer}/.well-known/oauth-protected-resource/mcp"`
        })
        .end()
      return
    }
    if (request.method !== "POST") {
      response.writeHead(405).end()
      return
    }
    const server = new McpServer({ name: "files", version: "1" })
    const transport = new StreamableHTTPServerTransport({})
    server.registerTool("whoami", { description: "Who asks" }, () => ({
      content: [{ type: "text", text: `${about.sub} ${about.scope}` }]
    }))
    await server.connect(transport as Transport)
    await transport.handleRequest(request, response)
  })
  await new Promise<void>((resolve) => mcp.listen(0, "127.0.0.1", resolve))
  url = new URL(`http://localhost:${(mcp.address() as AddressInfo).port}/mcp`)
}

beforeAll(async () => {
  world = await World.make({ live: true, parts: { documents: { resolve: async () => documented } } })
  const documented = {
    ...(await world.client({ authMethod: "none", source: "cimd" })),
    clientId: documentUrl,
    documentUrl,
    secretHash: null
  }
  user = await world.user()
  runtime = await world.client()
  await serve()
  await world.resource({ slug: "mcp", uri: url.href, runtimeClients: [runtime.clientId] })
})

afterAll(async () => {
  mcp.closeAllConnections()
  mcp.close()
  await world.close()
})

const whoami = async (provider: OAuthClientProvider): Promise<string> => {
  const client = new McpClient({ name: "host", version: "1" })
  const transport = new StreamableHTTPClientTransport(url, { authProvider: provider })
  await client.connect(transport as Transport)
  const { content } = await client.callTool({ name: "whoami", arguments: {} })
  await client.close()
  return (content as ReadonlyArray<{ readonly text: string }>)[0]!.text
}

it("protected resource metadata and this server's metadata are found from the MCP server's URL", async () => {
  const info = await discoverOAuthServerInfo(url, {
    resourceMetadataUrl: new URL(`${world.issuer}/.well-known/oauth-protected-resource/mcp`)
  })
  expect([
    info.authorizationServerUrl,
    info.resourceMetadata?.resource,
    info.authorizationServerMetadata?.issuer
  ]).toEqual([world.issuer, url.href, world.issuer])
})

it.each(["none", "client_secret_basic", "client_secret_post"])(
  "a 401, discovery, registration, consent, code, tool call; then refresh; method %s",
  async (method) => {
    const host = new Host(user, { method })
    const transport = new StreamableHTTPClientTransport(url, { authProvider: host })
    const before = challenges
    await expect(
      new McpClient({ name: "host", version: "1" }).connect(transport as Transport)
    ).rejects.toThrow(UnauthorizedError)
    expect(challenges).toBe(before + 1)
    expect([
      host.sent!.searchParams.get("resource"),
      host.sent!.searchParams.get("scope"),
      host.sent!.searchParams.get("code_challenge_method")
    ]).toEqual([url.href, "files:read files:write", "S256"])
    await transport.finishAuth(host.code)
    expect(world.claimsOf(host.stored!.access_token).aud).toBe(url.href)
    expect(await whoami(host)).toBe(`${user.id} files:read files:write`)

    const first = host.stored!
    expect(
      await auth(host, {
        serverUrl: url,
        resourceMetadataUrl: new URL(`${world.issuer}/.well-known/oauth-protected-resource/mcp`)
      })
    ).toBe("AUTHORIZED")
    expect([host.stored!.refresh_token === first.refresh_token, host.calls]).toEqual([
      false,
      ["redirect", "tokens", "tokens"]
    ])
    expect(await whoami(host)).toBe(`${user.id} files:read files:write`)
  }
)

it("a refresh token used twice: the host is told, forgets its tokens and sends the user again", async () => {
  const host = new Host(user)
  const resourceMetadataUrl = new URL(`${world.issuer}/.well-known/oauth-protected-resource/mcp`)
  const go = (authorizationCode?: string) =>
    auth(host, {
      serverUrl: url,
      resourceMetadataUrl,
      ...(authorizationCode === undefined ? {} : { authorizationCode })
    })
  expect([await go(), await go(host.code)]).toEqual(["REDIRECT", "AUTHORIZED"])
  const first = host.stored!
  await go()
  host.stored = first
  host.calls.length = 0
  expect([await go(), host.calls]).toEqual(["REDIRECT", ["forget tokens", "redirect"]])
  expect(await go(host.code)).toBe("AUTHORIZED")
})

it("a client that the server no longer knows registers again by itself", async () => {
  const host = new Host(user)
  const resourceMetadataUrl = new URL(`${world.issuer}/.well-known/oauth-protected-resource/mcp`)
  await auth(host, { serverUrl: url, resourceMetadataUrl })
  await auth(host, { serverUrl: url, resourceMetadataUrl, authorizationCode: host.code })
  const id = host.information!.client_id
  await world.change({ clientId: id }, { status: "revoked" })
  host.calls.length = 0
  expect([
    await auth(host, { serverUrl: url, resourceMetadataUrl }),
    host.calls,
    host.information!.client_id === id
  ]).toEqual(["REDIRECT", ["forget all", "redirect"], false])
})

it("a client id metadata document instead of registration", async () => {
  const host = new Host(user, { documentUrl })
  const resourceMetadataUrl = new URL(`${world.issuer}/.well-known/oauth-protected-resource/mcp`)
  expect(await auth(host, { serverUrl: url, resourceMetadataUrl })).toBe("REDIRECT")
  expect(host.information!.client_id).toBe(documentUrl)
  expect(await auth(host, { serverUrl: url, resourceMetadataUrl, authorizationCode: host.code })).toBe(
    "AUTHORIZED"
  )
  expect(await whoami(host)).toBe(`${user.id} files:read files:write`)
})

it("a machine, with the SDK's provider of client credentials", async () => {
  const machine = await world.client({ grantTypes: ["client_credentials"], scopes: ["files:read"] })
  expect(
    await whoami(
      new ClientCredentialsProvider({
        clientId: machine.clientId,
        clientSecret: machine.secret,
        scope: "files:read",
        expectedIssuer: world.issuer
      })
    )
  ).toBe(`${machine.clientId} files:read`)
})

it("a token for another resource does not open this one", async () => {
  const other = await world.resource({ slug: "other" })
  const client = await world.client()
  const tokens = await world.tokens(client, user, { resource: other.uri })
  const before = challenges
  expect(
    (await fetch(url, { method: "POST", headers: { Authorization: `Bearer ${tokens.access_token}` } })).status
  ).toBe(401)
  expect(challenges).toBe(before + 1)
})
