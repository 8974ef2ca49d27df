/** Passwords: normalized to NFKC and hashed with scrypt, a bounded number at a time behind a bounded queue.
 *  An unknown account costs the same time as a known one.
 *  Source: docs/spec/authorization.md, section 7.5. */
import { Data, Effect, Exit, Fiber, Semaphore } from "effect"
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

/** Too many passwords are waiting. */
export class PasswordsBusy extends Data.TaggedError("PasswordsBusy")<{}> {}

export interface Passwords {
  /** Returns undefined when too many passwords are waiting. */
  hash(password: string): Promise<string> | undefined
  /** Compares a password with a stored hash. An undefined `stored` (no such account, or no password) costs
   *  the same work and succeeds with false. An interruption leaves the queue; a hash that has begun goes on, and
   *  its verdict with it, so that a client that goes cannot keep a wrong password from being counted. */
  verify(stored: string | undefined, password: string): Effect.Effect<boolean, PasswordsBusy>
}

export const passwordsOf = (concurrency: number): Passwords => {
  const places = Semaphore.makeUnsafe(concurrency)
  let present = 0
  const limited = <A>(work: () => Promise<A>): Effect.Effect<A, PasswordsBusy> =>
    Effect.suspend(() => {
      if (present >= concurrency + queueMax) return Effect.fail(new PasswordsBusy())
      present++
      let result: { readonly value: A } | undefined
      const begun = Effect.promise(async () => {
        result = { value: await work() }
      })
      const waiting = Effect.interruptible(places.withPermit(Effect.uninterruptible(begun)))
      return Effect.exit(waiting).pipe(
        Effect.ensuring(Effect.sync(() => void present--)),
        Effect.flatMap((exit) =>
          Exit.isFailure(exit) && result === undefined
            ? Effect.failCause(exit.cause)
            : Effect.succeed(result!.value)
        )
      )
    }).pipe(Effect.uninterruptible)
  const nobody: Stored = { ...cost, salt: randomBytes(saltBytes), hash: randomBytes(hashBytes) }
  return {
    hash: (password) => {
      const hashing = limited(async () => {
        const salt = randomBytes(saltBytes)
        const hash = await derive(password, salt, hashBytes, cost)
        return `scrypt$${cost.log2N}$${cost.r}$${cost.p}$${salt.toString("base64url")}$${hash.toString("base64url")}`
      })
      const fiber = Effect.runFork(hashing)
      const refused = fiber.pollUnsafe()
      return refused === undefined ? Effect.runPromise(Fiber.join(fiber)) : undefined
    },
    verify: (stored, password) =>
      limited(async () => {
        const storedHash = stored === undefined ? undefined : parsed(stored)
        const against = storedHash ?? nobody
        const hash = await derive(password, against.salt, against.hash.length, against)
        return timingSafeEqual(hash, against.hash) && storedHash !== undefined
      })
  }
}
