/** The `state` parameter of a round trip through another site: sealed, so that nobody else can read or forge
 *  it, and accepted once, for a limited time.
 *  Source: docs/spec/authorization.md, sections 7.9 and 12.2. */
import { createHash, randomBytes } from "node:crypto"
import { hashOf, type AuthContext } from "../auth-context.ts"
import { Expiries, UsedStates } from "../records.ts"

/** `atMs` is the time of creation in epoch ms. */
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

  /** Returns a different text for each call, because sealing uses a fresh nonce. */
  seal(value: A): string {
    return Buffer.from(
      this.authority.seal.seal(Buffer.from(JSON.stringify(value)), "state", this.address)
    ).toString("base64url")
  }

  /** Returns undefined when the state is not ours, was changed or is too old. */
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

  /** Resolves to true for exactly one caller, even of several at once, and not before that is durable. */
  async spend(state: string, { atMs }: A): Promise<boolean> {
    // Different base64url texts can decode to the same bytes, so the canonical form is hashed.
    const key = [hashOf(this.authority, Buffer.from(state, "base64url").toString("base64url"), "state")]
    const expiresMs = atMs + this.maxAgeMs
    if (this.authority.books.ceiling(UsedStates)?.isReached === true) return false
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

/** Computes the S256 challenge of RFC 7636. */
export const challengeOf = (verifier: string): string =>
  createHash("sha256").update(verifier).digest("base64url")
