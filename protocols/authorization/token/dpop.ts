/** Proof of possession: checks the DPoP header of a token request and its nonce, and accepts each proof once.
 *  Signatures are verified with node:crypto in this thread.
 *  Source: docs/spec/authorization.md, section 6; RFC 9449. */
import { createHash, createHmac, createPublicKey, randomBytes, timingSafeEqual } from "node:crypto"
import { hashOf, type AuthContext } from "../auth-context.ts"
import { isProblem, type Problem, problemOf, unavailable, useDpopNonce } from "../problems.ts"
import { ProofIds } from "../records.ts"
import { parseJwt, thumbprint, verifies } from "./signing-keys.ts"

const proofBytesMax = 8_192
const futureSeconds = 5
const jtiLengthMax = 256
const privateMembers = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"]
const algorithms = ["ES256", "RS256", "PS256"] as const
type Algorithm = (typeof algorithms)[number]
const invalid = (words: string): Problem => problemOf("invalid_dpop_proof", words)

const fits = (algorithm: Algorithm, jwk: Readonly<Record<string, unknown>>): boolean => {
  if (algorithm === "ES256")
    return (
      jwk["kty"] === "EC" &&
      jwk["crv"] === "P-256" &&
      typeof jwk["x"] === "string" &&
      typeof jwk["y"] === "string"
    )
  if (jwk["kty"] !== "RSA" || typeof jwk["n"] !== "string" || typeof jwk["e"] !== "string") return false
  const n = Buffer.from(jwk["n"], "base64url")
  const e = Buffer.from(jwk["e"], "base64url")
  const bits = n.length * 8 - Math.clz32(n[0] ?? 0) + 24
  if (e.length > 6 || e.length === 0) return false
  const exponent = e.readUIntBE(0, e.length)
  return bits >= 2_048 && bits <= 8_192 && exponent % 2 === 1 && exponent >= 65_537
}

/** Normalizes a URL: scheme and host in lower case, without default port, query and fragment. */
const target = (uri: string): string | undefined => {
  const parts = /^(https?):\/\/([^/?#]+)([^?#]*)/i.exec(uri)
  if (parts === null) return undefined
  const scheme = parts[1]!.toLowerCase()
  return `${scheme}://${parts[2]!.toLowerCase().replace(scheme === "https" ? /:443$/ : /:80$/, "")}${parts[3] === "" ? "/" : parts[3]}`
}

export class DpopVerifier {
  private readonly authority: AuthContext
  private readonly nonceKey: string

  /** Expiry in epoch ms of each proof seen; used only when replayDurable is off. */
  private readonly seen = new Map<string, number>()

  /** Counts proofs by outcome, for /metrics. */
  readonly counts = new Map<string, number>()

  constructor(authority: AuthContext) {
    this.authority = authority
    this.nonceKey = authority.seal.hash("nonce", "authorization nonce key")
  }

  /** Returns a stateless nonce: time (8 bytes), random (8 bytes) and a MAC over both (16 bytes). */
  nonce(): string {
    const head = Buffer.alloc(16)
    head.writeBigUInt64BE(BigInt(this.authority.nowMs()))
    randomBytes(8).copy(head, 8)
    return Buffer.concat([head, this.mac(head)]).toString("base64url")
  }

  private mac(head: Uint8Array): Buffer {
    return createHmac("sha256", this.nonceKey).update(head).digest().subarray(0, 16)
  }

  private isNonce(text: unknown): boolean {
    if (typeof text !== "string" || !/^[A-Za-z0-9_-]{43}$/.test(text)) return false
    const bytes = Buffer.from(text, "base64url")
    const head = bytes.subarray(0, 16)
    if (bytes.length !== 32 || !timingSafeEqual(bytes.subarray(16), this.mac(head))) return false
    const ageMs = this.authority.nowMs() - Number(head.readBigUInt64BE())
    return ageMs >= 0 && ageMs < this.authority.settings.dpop.nonceMs
  }

  /** Returns the thumbprint of the proof's key after the checks of section 6.1, in their order; a proof that
   *  passes is spent. Returns undefined when there is no proof or DPoP is off. With `accessToken`, as at a
   *  resource, the proof must be bound to that token (`ath`). */
  check(
    header: string | undefined,
    method: string,
    url: string,
    accessToken?: string
  ): string | Problem | undefined {
    if (header === undefined || !this.authority.settings.dpop.enabled) return undefined
    const result = this.checked(header, method, url, accessToken)
    const outcome = isProblem(result) ? result._tag : "accepted"
    this.counts.set(outcome, (this.counts.get(outcome) ?? 0) + 1)
    return result
  }

  private checked(
    header: string,
    method: string,
    url: string,
    accessToken: string | undefined
  ): string | Problem {
    const { settings, books, nowMs } = this.authority
    const jwt = header.length > proofBytesMax ? undefined : parseJwt(header)
    if (jwt === undefined) return invalid("one compact JWS is wanted")
    if (jwt.header["typ"] !== "dpop+jwt") return invalid("typ is not dpop+jwt")
    const algorithm = algorithms.find((supported) => supported === jwt.header["alg"])
    if (algorithm === undefined) return invalid("alg is not one of ES256, RS256, PS256")
    const jwk = jwt.header["jwk"] as Readonly<Record<string, unknown>> | undefined
    if (typeof jwk !== "object" || jwk === null || Array.isArray(jwk)) return invalid("jwk is missing")
    if (privateMembers.some((name) => name in jwk)) return invalid("jwk holds a private member")
    if (!fits(algorithm, jwk) || "crit" in jwt.header) return invalid("the key does not fit the algorithm")
    let key
    try {
      key = createPublicKey({ key: jwk as never, format: "jwk" })
    } catch {
      return invalid("the key is malformed")
    }
    if (!verifies(algorithm, key, jwt.signed, jwt.signature)) return invalid("the signature does not verify")
    const { htm, htu, iat, jti, nonce } = jwt.claims
    if (htm !== method) return invalid("htm is not the method")
    if (typeof htu !== "string" || target(htu) !== target(url)) return invalid("htu is not this endpoint")
    if (
      accessToken !== undefined &&
      jwt.claims["ath"] !== createHash("sha256").update(accessToken).digest("base64url")
    )
      return invalid("ath is not of this token")
    const nowSeconds = nowMs() / 1_000
    const lifeSeconds = settings.dpop.proofMs / 1_000
    if (
      typeof iat !== "number" ||
      !Number.isInteger(iat) ||
      iat < nowSeconds - lifeSeconds ||
      iat > nowSeconds + futureSeconds
    )
      return invalid("iat is not now")
    if ((settings.dpop.requireNonce || nonce !== undefined) && !this.isNonce(nonce))
      return useDpopNonce(this.nonce())
    if (typeof jti !== "string" || jti === "" || jti.length > jtiLengthMax) return invalid("jti is missing")
    const jkt = thumbprint(jwk)
    const untilMs = nowMs() + settings.dpop.proofMs + 1_000 * futureSeconds * 2
    const id = hashOf(this.authority, `${jkt} ${jti}`, "proof")
    const crowded = unavailable("too many proofs are remembered; try again soon")
    if (settings.dpop.replayDurable) {
      if (books.ceiling(ProofIds)?.isReached === true) return crowded
      // There is no need to wait, because what the request commits later is flushed after this.
      const outcome = books.commit(books.expiring(ProofIds, [id], { expiresMs: untilMs }, untilMs, "absent"))
      if (!(outcome instanceof Promise)) return invalid("the proof was used before")
      outcome.catch(() => {})
    } else {
      if ((this.seen.get(id) ?? 0) > nowMs()) return invalid("the proof was used before")
      for (const [old, atMs] of this.seen) {
        if (atMs > nowMs()) break
        this.seen.delete(old)
      }
      if (this.seen.size >= settings.dpop.proofsMax) return crowded
      this.seen.set(id, untilMs)
    }
    return jkt
  }
}
