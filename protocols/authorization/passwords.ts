/** Passwords: normalized to NFKC and hashed with scrypt, a bounded number at a time behind a bounded queue.
 *  An unknown account costs the same time as a known one.
 *  Source: docs/spec/authorization.md, section 7.5. */
import { randomBytes, scrypt, timingSafeEqual } from "node:crypto"
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

const derive = (password: string, salt: Uint8Array, bytes: number, { log2N, r, p }: Cost): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    scrypt(
      password.normalize("NFKC"),
      salt,
      bytes,
      { N: 2 ** log2N, r, p, maxmem: memoryBytesMax },
      (fault, hash) => (fault === null ? resolve(hash) : reject(fault))
    )
  })

export interface Passwords {
  /** Returns undefined when too many passwords are waiting. */
  hash(password: string): Promise<string> | undefined
  /** Compares a password with a stored hash. An undefined `stored` (no such account, or no password) costs
   *  the same work and resolves to false. Returns undefined when too many passwords are waiting. */
  verify(stored: string | undefined, password: string): Promise<boolean> | undefined
}

export const passwordsOf = (concurrency: number): Passwords => {
  const waiting: Array<() => void> = []
  let running = 0
  const limited = <A>(work: () => Promise<A>): Promise<A> | undefined => {
    if (running >= concurrency && waiting.length >= queueMax) return undefined
    const run = async (): Promise<A> => {
      if (running >= concurrency) await new Promise<void>((resolve) => waiting.push(resolve))
      else running++
      // The finished task passes its place on to the task that has waited longest.
      try {
        return await work()
      } finally {
        const next = waiting.shift()
        if (next === undefined) running--
        else next()
      }
    }
    return run()
  }
  const nobody: Stored = { ...cost, salt: randomBytes(saltBytes), hash: randomBytes(hashBytes) }
  return {
    hash: (password) =>
      limited(async () => {
        const salt = randomBytes(saltBytes)
        const hash = await derive(password, salt, hashBytes, cost)
        return `scrypt$${cost.log2N}$${cost.r}$${cost.p}$${salt.toString("base64url")}$${hash.toString("base64url")}`
      }),
    verify: (stored, password) =>
      limited(async () => {
        const storedHash = stored === undefined ? undefined : parsed(stored)
        const against = storedHash ?? nobody
        const hash = await derive(password, against.salt, against.hash.length, against)
        return timingSafeEqual(hash, against.hash) && storedHash !== undefined
      })
  }
}
