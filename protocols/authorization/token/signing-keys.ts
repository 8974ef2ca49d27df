/** The signing keys: one signs, earlier ones still verify, and all are sealed at rest. A key's row leaves when
 *  nothing that it signed can still live. An operator can withdraw a key at once. Tokens are signed with
 *  node:crypto in this thread, because jose's WebCrypto makes a signature cost 3.4 times as much
 *  (bench/authorization).
 *  Source: docs/spec/authorization.md, sections 4.3 and 15; RFC 7515, RFC 7517, RFC 7638. */
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPair,
  sign,
  verify,
  type KeyObject
} from "node:crypto"
import { promisify } from "node:util"
import type { Write } from "../../../storage/store.ts"
import { flatText } from "../../shared/flat-text.ts"
import type { AuthContext } from "../auth-context.ts"
import { type Problem, unavailable } from "../problems.ts"
import { SigningKeys, type SigningKey } from "../records.ts"

interface Loaded {
  row: SigningKey
  readonly publicKey: KeyObject
  readonly privateKey: KeyObject | undefined
  /** JOSE header of the key's tokens, base64url. */
  readonly header: string
}

export interface Jwt {
  readonly header: Readonly<Record<string, unknown>>
  readonly claims: Readonly<Record<string, unknown>>
}

export type Algorithm = SigningKey["algorithm"]

export interface Withdrawn {
  readonly kid: string
  /** The key that signs instead; undefined when the withdrawn one was not the key that signs. */
  readonly successor: string | undefined
}

const generate = promisify(generateKeyPair)
export const jwtBytesMax = 16_384
const verifiedMax = 20_000
const base64url = (text: string): string => Buffer.from(text).toString("base64url")

/** Computes the thumbprint of a public JWK (RFC 7638). */
export const thumbprint = (jwk: Readonly<Record<string, unknown>>): string => {
  const members = jwk["kty"] === "EC" ? ["crv", "kty", "x", "y"] : ["e", "kty", "n"]
  return createHash("sha256")
    .update(JSON.stringify(Object.fromEntries(members.map((name) => [name, jwk[name]]))))
    .digest("base64url")
}

/** Splits a compact JWS of three base64url parts, the first two of which must be JSON objects. Nothing is
 *  verified yet. */
export const parseJwt = (
  text: string
): (Jwt & { readonly signed: string; readonly signature: string }) | undefined => {
  if (text.length > jwtBytesMax) return undefined
  const parts = text.split(".")
  if (parts.length !== 3 || parts.some((part) => !/^[A-Za-z0-9_-]+$/.test(part))) return undefined
  try {
    const [header, claims] = parts
      .slice(0, 2)
      .map((part) => JSON.parse(Buffer.from(part, "base64url").toString("utf8")) as unknown)
    if (
      typeof header !== "object" ||
      header === null ||
      Array.isArray(header) ||
      typeof claims !== "object" ||
      claims === null ||
      Array.isArray(claims)
    )
      return undefined
    return {
      header: header as Jwt["header"],
      claims: claims as Jwt["claims"],
      signed: `${parts[0]}.${parts[1]}`,
      signature: parts[2]!
    }
  } catch {
    return undefined
  }
}

export const verifies = (
  algorithm: "ES256" | "RS256" | "PS256",
  key: KeyObject,
  signed: string,
  signature: string
): boolean => {
  const bytes = Buffer.from(signature, "base64url")
  const data = Buffer.from(signed)
  try {
    switch (algorithm) {
      case "ES256":
        return bytes.length === 64 && verify("sha256", data, { key, dsaEncoding: "ieee-p1363" }, bytes)
      case "RS256":
        return verify("sha256", data, key, bytes)
      case "PS256":
        return verify("sha256", data, { key, padding: 6, saltLength: 32 }, bytes)
    }
  } catch {
    return false
  }
}

export class SigningKeyRing {
  private readonly authority: AuthContext
  private readonly keys = new Map<string, Loaded>()

  /** Verified tokens by their full text, because an ES256 verification costs more than the rest of an
   *  introspection. */
  private readonly verified = new Map<string, Jwt>()

  private active: Loaded | undefined

  /** Changes of the ring follow one another, because each waits for the disk. */
  private changing: Promise<unknown> = Promise.resolve()

  constructor(authority: AuthContext) {
    this.authority = authority
  }

  get ready(): boolean {
    return this.active !== undefined
  }

  /** Loads the stored keys, and creates the first key when there is none. */
  async load(): Promise<void> {
    const { books } = this.authority
    this.keys.clear()
    for (const { value } of books.rows(SigningKeys)) this.keep(value)
    if (this.active === undefined) await this.rotate(this.authority.settings.signing.algorithm)
  }

  private keep(row: SigningKey): void {
    const privateKey =
      row.privateKey === null
        ? undefined
        : createPrivateKey({
            key: Buffer.from(this.authority.seal.open(row.privateKey, "signing-key", row.kid)),
            format: "der",
            type: "pkcs8"
          })
    const header = base64url(JSON.stringify({ typ: "at+jwt", alg: row.algorithm, kid: row.kid }))
    const loaded: Loaded = {
      row,
      publicKey: createPublicKey({ key: row.publicJwk as never, format: "jwk" }),
      privateKey,
      header
    }
    this.keys.set(row.kid, loaded)
    if (row.status === "active") this.active = loaded
    else if (this.active?.row.kid === row.kid) this.active = undefined
  }

  /** Creates a key, which is durable before it signs. The previous key retires when the last token it signed
   *  has expired. */
  rotate(
    algorithm: Algorithm = this.authority.settings.signing.algorithm,
    also: (kid: string) => ReadonlyArray<Write> = (kid) => [
      this.authority.audit.event("key.rotated", { detail: { kid } })
    ]
  ): Promise<SigningKey> {
    return this.inTurn(() => this.rotateNow(algorithm, also))
  }

  private inTurn<A>(change: () => Promise<A>): Promise<A> {
    const changed = this.changing.then(change)
    this.changing = changed.catch(() => {})
    return changed
  }

  private async rotateNow(
    algorithm: Algorithm,
    also: (kid: string) => ReadonlyArray<Write>
  ): Promise<SigningKey> {
    const { books, settings } = this.authority
    const waits = settings.signing.publishLeadMs > 0 && this.active !== undefined
    const created = await this.create(algorithm, waits ? "pending" : "active")
    const before = waits ? [] : this.retiring(books.nowMs())
    await books.write([
      SigningKeys.put([created.kid], created, "absent"),
      ...before.map((old) => SigningKeys.put([old.kid], old)),
      ...also(created.kid)
    ])
    for (const old of before) this.keep(old)
    this.keep(created)
    return created
  }

  private async create(algorithm: Algorithm, status: "pending" | "active"): Promise<SigningKey> {
    const { books, seal } = this.authority
    const pair =
      algorithm === "ES256"
        ? await generate("ec", { namedCurve: "P-256" })
        : await generate("rsa", { modulusLength: 3_072 })
    const nowMs = books.nowMs()
    const publicJwk = pair.publicKey.export({ format: "jwk" }) as Record<string, string>
    const kid = thumbprint(publicJwk)
    return {
      kid,
      algorithm,
      privateKey: seal.seal(pair.privateKey.export({ format: "der", type: "pkcs8" }), "signing-key", kid),
      publicJwk,
      status,
      createdMs: nowMs,
      activatedMs: status === "active" ? nowMs : null,
      retiredMs: null
    }
  }

  private withStatus(status: SigningKey["status"]): ReadonlyArray<SigningKey> {
    return [...this.keys.values()].map(({ row }) => row).filter((row) => row.status === status)
  }

  /** The rows of the keys that sign now, as they are once another signs. */
  private retiring(nowMs: number): ReadonlyArray<SigningKey> {
    return this.withStatus("active").map((row) => ({ ...row, status: "retiring", retiredMs: nowMs }))
  }

  /** Withdraws a compromised key: from now on it neither signs nor verifies, and it is published no more. Where
   *  it was the key that signs, its successor takes over in the same transaction. Resolves to undefined when
   *  there is no such key. */
  withdraw(
    kid: string,
    also: (withdrawn: Withdrawn) => ReadonlyArray<Write>
  ): Promise<Withdrawn | undefined> {
    return this.inTurn(async () => {
      const row = this.keys.get(kid)?.row
      if (row === undefined) return undefined
      const { books } = this.authority
      const successor = row.status === "active" ? await this.successor() : undefined
      const nowMs = books.nowMs()
      const withdrawn = { kid, successor: successor?.kid }
      const rows: ReadonlyArray<SigningKey> = [
        ...(row.status === "retired"
          ? []
          : [{ ...row, status: "retired" as const, privateKey: null, retiredMs: nowMs }]),
        ...(successor === undefined ? [] : [successor])
      ]
      await books.write([...rows.map((each) => SigningKeys.put([each.kid], each)), ...also(withdrawn)])
      for (const each of rows) this.keep(each)
      this.verified.clear()
      return withdrawn
    })
  }

  /** The key that signs after the active one: the pending one, if there is one, or else a new one. */
  private async successor(): Promise<SigningKey> {
    const pending = this.withStatus("pending").at(-1)
    return pending === undefined
      ? this.create(this.authority.settings.signing.algorithm, "active")
      : { ...pending, status: "active", activatedMs: this.authority.books.nowMs() }
  }

  /** Advances the keys with time: pending ones become active, retiring ones become retired, and the rows of
   *  retired ones leave. The sweeper calls it. */
  age(): Promise<void> {
    return this.inTurn(() => this.ageNow())
  }

  private async ageNow(): Promise<void> {
    const { books, settings } = this.authority
    const { publishLeadMs, rotateEveryMs } = settings.signing
    const nowMs = books.nowMs()
    const isOver = ({ retiredMs }: SigningKey) => nowMs >= (retiredMs ?? nowMs) + this.retainedMs
    const ended = this.withStatus("retired").filter(isOver)
    const retired = this.withStatus("retiring")
      .filter(isOver)
      .map((row): SigningKey => ({ ...row, status: "retired", privateKey: null }))
    const next = this.withStatus("pending").find((row) => nowMs >= row.createdMs + publishLeadMs)
    const changed: ReadonlyArray<SigningKey> = [
      ...retired,
      ...(next === undefined ? [] : this.retiring(nowMs)),
      ...(next === undefined ? [] : [{ ...next, status: "active" as const, activatedMs: nowMs }])
    ]
    if (ended.length + changed.length > 0)
      await books.write([
        ...ended.map(({ kid }) => SigningKeys.delete([kid])),
        ...changed.map((row) => SigningKeys.put([row.kid], row))
      ])
    for (const { kid } of ended) this.keys.delete(kid)
    for (const row of changed) this.keep(row)
    if (retired.length > 0) this.verified.clear()
    const active = this.active?.row
    const isDue = active !== undefined && rotateEveryMs > 0 && nowMs >= active.createdMs + rotateEveryMs
    if (isDue && this.withStatus("pending").length === 0)
      await this.rotateNow(settings.signing.algorithm, (kid) => [
        this.authority.audit.event("key.rotated", { detail: { kid } })
      ])
  }

  /** How long a key that signs no more is still of use: as long as any token lives, and an hour. */
  private get retainedMs(): number {
    const { registration, clientCredentials, tokenExchange, xaa } = this.authority.settings
    const lives = [registration.tokenMs, clientCredentials.tokenMs, tokenExchange.tokenMs, xaa.tokenMs]
    return Math.max(...lives) + 3_600_000
  }

  /** Signs an access token (RFC 9068). */
  sign(claims: Readonly<Record<string, unknown>>): string | Problem {
    const key = this.active
    if (key?.privateKey === undefined) return unavailable("there is no signing key")
    const signed = `${key.header}.${base64url(JSON.stringify(claims))}`
    const signature = sign(
      "sha256",
      Buffer.from(signed),
      key.row.algorithm === "ES256" ? { key: key.privateKey, dsaEncoding: "ieee-p1363" } : key.privateKey
    )
    return `${signed}.${signature.toString("base64url")}`
  }

  /** Verifies the signature and header of one of our access tokens, but neither its times nor its revocation.
   *  Keys come from the ring alone, never from the token (RFC 8725). */
  verify(token: string): Jwt | undefined {
    const cached = this.verified.get(token)
    if (cached !== undefined) return cached
    // Every header of ours starts with "{", which is "e" in base64url. The check spares other tokens with
    // three parts, such as refresh tokens.
    const jwt = token[0] === "e" ? parseJwt(token) : undefined
    if (jwt === undefined) return undefined
    const { header } = jwt
    const key = typeof header["kid"] === "string" ? this.keys.get(header["kid"]) : undefined
    if (
      key === undefined ||
      key.row.status === "retired" ||
      header["alg"] !== key.row.algorithm ||
      "crit" in header ||
      header["b64"] === false
    )
      return undefined
    if (header["typ"] !== "at+jwt" && header["typ"] !== "application/at+jwt") return undefined
    if (!verifies(key.row.algorithm, key.publicKey, jwt.signed, jwt.signature)) return undefined
    if (this.verified.size >= verifiedMax) this.verified.delete(this.verified.keys().next().value!)
    const verified = { header, claims: jwt.claims }
    this.verified.set(flatText(token), verified)
    return verified
  }

  /** Returns the public members only: the active key, then pending, then retiring ones, newest first. */
  get jwks(): ReadonlyArray<Readonly<Record<string, string>>> {
    const order = { active: 0, pending: 1, retiring: 2, retired: 3 }
    return [...this.keys.values()]
      .map(({ row }) => row)
      .filter(({ status }) => status !== "retired")
      .sort((a, b) => order[a.status] - order[b.status] || b.createdMs - a.createdMs)
      .map(({ kid, algorithm, publicJwk: { kty, crv, x, y, n, e } }) => ({
        ...(kty === "EC" ? { kty: "EC", crv: crv!, x: x!, y: y! } : { kty: "RSA", n: n!, e: e! }),
        kid,
        use: "sig",
        alg: algorithm
      }))
  }

  get rows(): ReadonlyArray<SigningKey> {
    return [...this.keys.values()].map(({ row }) => row).sort((a, b) => b.createdMs - a.createdMs)
  }
}
