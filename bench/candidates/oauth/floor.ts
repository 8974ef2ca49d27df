/** The floor of authorization: uWebSockets.js, node:crypto and durable LMDB in the code of one file. It has
 *  one client, no limits, no worded errors and no audit. */
import crypto from "node:crypto"
import { join } from "node:path"
import { open } from "lmdb"
import type uWS from "uWebSockets.js"
import {
  accessTokenSeconds,
  announce,
  audience,
  clientId,
  clientSecret,
  isIntrospection,
  issuer,
  refreshTokenSeconds,
  requestAccessToken,
  scopes,
  temporaryFolder,
  type Seeds
} from "./shared.ts"
import { loadLibrary } from "../../../runtime/transport/uws-library.ts"

interface RefreshRow {
  readonly sub: string
  readonly family: string
  readonly generation: number
  readonly scope: string
  readonly exp: number
  used: boolean
}

interface AccessRow {
  readonly revokedMs: number | null
}

type Response = uWS.HttpResponse & { aborted?: boolean }

const inactive = '{"active":false}'

const sha256 = (text: string): Buffer => crypto.createHash("sha256").update(text).digest()
const random = (bytes: number): string => crypto.randomBytes(bytes).toString("base64url")
const refreshKeyOf = (token: string): string => `r:${sha256(token).toString("base64url")}`
const secretHash = sha256(clientSecret)

export const isAuthenticated = (authorization: string): boolean => {
  const text = Buffer.from(authorization.slice(6), "base64").toString()
  const colon = text.indexOf(":")
  return (
    text.slice(0, colon) === clientId && crypto.timingSafeEqual(sha256(text.slice(colon + 1)), secretHash)
  )
}

/** Stores tokens in one LMDB file; rows are on their way to the disk when a method returns. */
export class FloorTokens {
  private readonly db = open({ path: join(temporaryFolder(), "floor.lmdb") })
  private readonly keys = crypto.generateKeyPairSync("ec", { namedCurve: "P-256" })
  private readonly header = Buffer.from(
    JSON.stringify({ typ: "at+jwt", alg: "ES256", kid: random(32) })
  ).toString("base64url")

  issueAccess(sub: string, scope: string, family: string): string {
    const iat = Math.floor(Date.now() / 1_000)
    const jti = crypto.randomUUID()
    const claims = {
      iss: issuer,
      sub,
      aud: audience,
      exp: iat + accessTokenSeconds,
      iat,
      jti,
      client_id: clientId,
      scope
    }
    const signed = `${this.header}.${Buffer.from(JSON.stringify(claims)).toString("base64url")}`
    void this.db.put(`i:${jti}`, { ...claims, family, revokedMs: null })
    const key = { key: this.keys.privateKey, dsaEncoding: "ieee-p1363" } as const
    return `${signed}.${crypto.sign("sha256", Buffer.from(signed), key).toString("base64url")}`
  }

  issueRefresh(previous: Omit<RefreshRow, "used">): string {
    const token = random(32)
    void this.db.put(refreshKeyOf(token), { ...previous, generation: previous.generation + 1, used: false })
    return token
  }

  /** Answers a refresh once it is durable, and undefined for a token that is unknown or was used before. */
  async rotate(presented: string): Promise<string | undefined> {
    const key = refreshKeyOf(presented)
    let body: string | undefined
    await this.db.transaction(() => {
      const row = this.db.get(key) as RefreshRow | undefined
      if (row === undefined) return
      if (row.used) {
        void this.db.put(`f:${row.family}`, { revoked: true })
        return
      }
      void this.db.put(key, { ...row, used: true })
      body = `{"access_token":"${this.issueAccess(row.sub, row.scope, row.family)}","token_type":"Bearer","expires_in":${accessTokenSeconds},"refresh_token":"${this.issueRefresh(row)}","scope":"${row.scope}"}`
    })
    await this.db.flushed
    return body
  }

  async clientCredentials(scope: string): Promise<string> {
    const token = this.issueAccess(clientId, scope, "")
    await this.db.committed
    await this.db.flushed
    return `{"access_token":"${token}","token_type":"Bearer","expires_in":${accessTokenSeconds},"scope":"${scope}"}`
  }

  introspect(token: string): string {
    const parts = token.split(".")
    return parts.length === 3 ? this.introspectAccess(parts) : this.introspectRefresh(token)
  }

  private introspectRefresh(token: string): string {
    const row = this.db.get(refreshKeyOf(token)) as RefreshRow | undefined
    return row === undefined || row.used || row.exp < Date.now() / 1_000
      ? inactive
      : JSON.stringify({ active: true, client_id: clientId, sub: row.sub, scope: row.scope, exp: row.exp })
  }

  private introspectAccess(parts: ReadonlyArray<string>): string {
    const isSigned = crypto.verify(
      "sha256",
      Buffer.from(`${parts[0]}.${parts[1]}`),
      { key: this.keys.publicKey, dsaEncoding: "ieee-p1363" },
      Buffer.from(parts[2]!, "base64url")
    )
    const claims = JSON.parse(Buffer.from(parts[1]!, "base64url").toString()) as {
      readonly jti: string
      readonly exp: number
    }
    const row = isSigned ? (this.db.get(`i:${claims.jti}`) as AccessRow | undefined) : undefined
    return row === undefined || row.revokedMs !== null || claims.exp < Date.now() / 1_000
      ? inactive
      : JSON.stringify({ active: true, ...claims })
  }

  async refreshTokens(count: number): Promise<ReadonlyArray<string>> {
    const tokens = Array.from({ length: count }, (_, i) =>
      this.issueRefresh({
        sub: `user-${i}`,
        family: crypto.randomUUID(),
        generation: 0,
        scope: scopes.join(" "),
        exp: Math.floor(Date.now() / 1_000) + refreshTokenSeconds
      })
    )
    await this.db.flushed
    return tokens
  }
}

const send = (res: Response, body: string | undefined): void => {
  if (res.aborted) return
  res.cork(() => {
    if (body === undefined) res.writeStatus("400 Bad Request")
    res.writeHeader("Content-Type", "application/json")
    res.writeHeader("Cache-Control", "no-store")
    res.end(body ?? "{}")
  })
}

const post =
  (handle: (form: URLSearchParams) => string | undefined | Promise<string | undefined>) =>
  (res: Response, req: uWS.HttpRequest): void => {
    const authenticated = isAuthenticated(req.getHeader("authorization"))
    let body = ""
    res.onAborted(() => {
      res.aborted = true
    })
    res.onData((chunk, last) => {
      body += Buffer.from(chunk).toString("latin1")
      if (!last) return
      const text = authenticated ? handle(new URLSearchParams(body)) : undefined
      if (text instanceof Promise) void text.then((later) => send(res, later))
      else send(res, text)
    })
  }

/** Runs the floor; `introspected` selects whether its JWTs or opaque tokens are introspected. */
export const floor = (introspected: string | undefined): void => {
  const { App, us_socket_local_port } = loadLibrary()
  const tokens = new FloorTokens()
  let port = 0

  const seedsOf = async (kind: string, count: number): Promise<Seeds> => ({
    path: isIntrospection(kind) ? "/introspect" : "/token",
    tokens:
      kind === "introspect-jwt" && introspected === "jwt"
        ? [await requestAccessToken(port, "/token")]
        : await tokens.refreshTokens(count),
    expect: isIntrospection(kind) ? '"active":true' : '"access_token"'
  })

  App()
    .post(
      "/token",
      post((form) =>
        form.get("grant_type") === "refresh_token"
          ? tokens.rotate(form.get("refresh_token")!)
          : tokens.clientCredentials(form.get("scope")!)
      )
    )
    .post(
      "/introspect",
      post((form) => tokens.introspect(form.get("token")!))
    )
    .get("/seed", (res, req) => {
      const seeds = seedsOf(req.getQuery("of") ?? "", Number(req.getQuery("n")))
      res.onAborted(() => {})
      void seeds.then((found) => send(res, JSON.stringify(found)))
    })
    .listen("127.0.0.1", 0, (token) => {
      port = us_socket_local_port(token as never)
      announce(port)
    })
}
