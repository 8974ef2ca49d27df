/** Passwords: NFKC, scrypt, a bounded number at once and a bounded queue. Unknown accounts cost what known
 *  ones do.
 *  Source: authorization section 7.5. */
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

/** What a stored hash may ask of us: no row makes the process allocate more. */
const memoryBytesMax = 256 * 1_024 * 1_024

export const passwordLengthMin = 12
export const passwordLengthMax = 256

/** Why a password cannot be chosen. */
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

/** Made with other parameters than a hash of today: to be made again at the next successful login. */
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
  /** undefined: too many are waiting. */
  hash(password: string): Promise<string> | undefined
  /** `stored` undefined (no such account, or none with a password): the same work, false. undefined: too many
   *  are waiting. */
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
      // Whoever leaves hands its place to the one who waited longest.
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
