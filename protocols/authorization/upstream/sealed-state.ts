/** The `state` of a round trip through someone else's site: sealed, so that it can neither be read nor made
 *  elsewhere, and good once, for a while.
 *  Source: authorization sections 7.9 and 12.2. */
import { createHash, randomBytes } from "node:crypto"
import { hashOf, type AuthContext } from "../auth-context.ts"
import { Expiries, UsedStates } from "../records.ts"

/** `atMs` is when it was made. */
export interface Stamped {
  readonly atMs: number
}

const stateLengthMax = 16_384

export class SealedStates<A extends Stamped> {
  private readonly authority: AuthContext
  private readonly address: string
  private readonly maxAgeMs: number

  constructor(authority: AuthContext, address: "connect" | "federation", maxAgeMs: number) {
    this.authority = authority
    this.address = address
    this.maxAgeMs = maxAgeMs
  }

  /** Never twice the same: sealing draws its own nonce. */
  seal(value: A): string {
    return Buffer.from(
      this.authority.seal.seal(Buffer.from(JSON.stringify(value)), "state", this.address)
    ).toString("base64url")
  }

  /** Undefined: not ours, changed, or too old. */
  open(state: string | undefined): A | undefined {
    if (state === undefined || state.length > stateLengthMax || !/^[\w-]+$/.test(state)) return undefined
    try {
      const value = JSON.parse(
        Buffer.from(
          this.authority.seal.open(Buffer.from(state, "base64url"), "state", this.address)
        ).toString("utf8")
      ) as A
      return this.authority.nowMs() - value.atMs <= this.maxAgeMs ? value : undefined
    } catch {
      return undefined
    }
  }

  /** True for one caller only, also of several at once; durable when it resolves. */
  async spend(state: string, { atMs }: A): Promise<boolean> {
    // Trailing bits of base64url may differ for the same bytes: the canonical form is what counts.
    const key = [hashOf(this.authority, Buffer.from(state, "base64url").toString("base64url"), "state")]
    const expiresMs = atMs + this.maxAgeMs
    const spent = this.authority.books.commit([
      UsedStates.put(key, { expiresMs }, "absent"),
      Expiries.put([expiresMs + 1, UsedStates.name, ...key], {})
    ])
    if (!(spent instanceof Promise)) return false
    await spent
    return true
  }
}

export const newVerifier = (): string => randomBytes(32).toString("base64url")

/** S256 of RFC 7636. */
export const challengeOf = (verifier: string): string =>
  createHash("sha256").update(verifier).digest("base64url")
