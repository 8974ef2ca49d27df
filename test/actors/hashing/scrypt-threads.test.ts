/** Hashes on threads of their own. Source: docs/spec/authorization.md, section 7.5. */
import { scryptSync, webcrypto } from "node:crypto"
import { Effect, Fiber } from "effect"
import { afterEach, expect, it, vi } from "vitest"
import { ScryptThreads } from "../../../actors/hashing/scrypt-threads.ts"

let threads: ScryptThreads
afterEach(() => threads.close())

const salt = Buffer.alloc(16, 7)
const cost = { length: 32, N: 16_384, r: 8, p: 1, maxmem: 64 * 1_024 * 1_024 }
const hash = (password: string): Promise<Buffer> =>
  Effect.runPromise(threads.hash({ password, salt, ...cost }))

it("each hash is its own password's, whichever thread computes it", async () => {
  threads = new ScryptThreads({ threadsMax: 2, waitingMax: 8 })
  const passwords = ["a", "b", "ﬁne café 😀", "d", ""]
  const { length, ...rest } = cost
  expect(await Promise.all(passwords.map(hash))).toEqual(
    passwords.map((password) => scryptSync(password, salt, length, rest))
  )
})

it("A-11: while 120 sign-ins hash, no signature waits for a hash", async () => {
  threads = new ScryptThreads({ threadsMax: 4, waitingMax: 256 })
  const { subtle } = webcrypto
  const { privateKey } = await subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, false, ["sign"])
  let hashed = 0
  const all = Array.from({ length: 120 }, (_, at) =>
    Effect.runFork(
      Effect.map(threads.hash({ password: `password ${at}`, salt, ...cost }), () => void hashed++)
    )
  )
  await vi.waitFor(() => expect(hashed).toBeGreaterThan(0), { timeout: 15_000 })
  const before = hashed
  const signatures = 60
  for (let at = 0; at < signatures; at++)
    await subtle.sign({ name: "ECDSA", hash: "SHA-256" }, privateKey, salt)
  expect(hashed - before).toBeLessThan(signatures / 2)
  await Effect.runPromise(Fiber.interruptAll(all))
}, 60_000)

it("parameters that cannot be computed fail their own hash alone", async () => {
  threads = new ScryptThreads({ threadsMax: 1, waitingMax: 8 })
  const refused = Effect.runPromise(threads.hash({ password: "x", salt, ...cost, maxmem: 1_024 }))
  const next = hash("x")
  await expect(refused).rejects.toThrow(/memory limit/i)
  expect(await next).toHaveLength(32)
})
