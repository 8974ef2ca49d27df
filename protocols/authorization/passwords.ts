/** Passwords: normalized to NFKC and hashed with scrypt on threads of their own, a bounded number at a time
 *  behind a bounded queue. An unknown account costs the same time as a known one.
 *  Source: docs/spec/authorization.md, section 7.5. */
import { Effect } from "effect"
import { randomBytes, timingSafeEqual } from "node:crypto"
import { ScryptThreads, type HashQueueFull } from "../../actors/hashing/scrypt-threads.ts"
import { codePointsOf } from "./fields.ts"

interface Cost {
  readonly log2N: number
  readonly r: number
  readonly p: number
}

const cost: Cost = { log2N: 15, r: 8, p: 1 }
const saltBytes = 16
const hashBytes = 32
const queueMax = 256

/** Limit on the memory that the parameters of a stored hash may require, so that no row can exhaust the
 *  process. */
const memoryBytesMax = 256 * 1_024 * 1_024

export const passwordLengthMin = 12
export const passwordLengthMax = 256

/** Returns why a password is not acceptable, or undefined when it is. */
export const passwordFault = (password: string): string | undefined => {
  const length = codePointsOf(password.normalize("NFKC"))
  return length < passwordLengthMin || length > passwordLengthMax
    ? `must be ${passwordLengthMin} to ${passwordLengthMax} characters`
    : undefined
}

const form = /^scrypt\$(\d{1,2})\$(\d{1,2})\$(\d{1,2})\$([\w-]{16,64})\$([\w-]{32,128})$/

interface Stored extends Cost {
  readonly salt: Buffer
  readonly hash: Buffer
}

const parsed = (stored: string): Stored | undefined => {
  const [, log2N, r, p, salt, hash] = form.exec(stored) ?? []
  return hash === undefined
    ? undefined
    : {
        log2N: Number(log2N),
        r: Number(r),
        p: Number(p),
        salt: Buffer.from(salt!, "base64url"),
        hash: Buffer.from(hash, "base64url")
      }
}

/** True when the hash was computed with other parameters than the current ones; it is replaced at the next
 *  successful login. */
export const needsUpgrade = (stored: string): boolean => {
  const storedHash = parsed(stored)
  return (
    storedHash === undefined ||
    storedHash.log2N !== cost.log2N ||
    storedHash.r !== cost.r ||
    storedHash.p !== cost.p
  )
}

export interface Passwords {
  /** Fails when too many passwords are waiting. */
  hash(password: string): Effect.Effect<string, HashQueueFull>
  /** Compares a password with a stored hash. An undefined `stored` (no such account, or no password) costs
   *  the same work and succeeds with false. An interruption leaves the queue; a hash that has begun goes on, and
   *  its verdict with it. */
  verify(stored: string | undefined, password: string): Effect.Effect<boolean, HashQueueFull>
  close(): void
}

const encoded = (salt: Buffer, hash: Buffer): string =>
  `scrypt$${cost.log2N}$${cost.r}$${cost.p}$${salt.toString("base64url")}$${hash.toString("base64url")}`

export const passwordsOf = (concurrency: number): Passwords => {
  const threads = new ScryptThreads({ threadsMax: concurrency, waitingMax: queueMax })
  const derive = (
    password: string,
    salt: Uint8Array,
    length: number,
    { log2N, r, p }: Cost
  ): Effect.Effect<Buffer, HashQueueFull> =>
    threads.hash({
      password: password.normalize("NFKC"),
      salt,
      length,
      N: 2 ** log2N,
      r,
      p,
      maxmem: memoryBytesMax
    })
  const nobody: Stored = { ...cost, salt: randomBytes(saltBytes), hash: randomBytes(hashBytes) }
  return {
    hash: (password) => {
      const salt = randomBytes(saltBytes)
      return Effect.map(derive(password, salt, hashBytes, cost), (hash) => encoded(salt, hash))
    },
    verify: (stored, password) => {
      const storedHash = stored === undefined ? undefined : parsed(stored)
      const { salt, hash: expected, ...against } = storedHash ?? nobody
      return Effect.map(
        derive(password, salt, expected.length, against),
        (hash) => timingSafeEqual(hash, expected) && storedHash !== undefined
      )
    },
    close: () => threads.close()
  }
}
