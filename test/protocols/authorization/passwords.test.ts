/** Password hashing: form, normal form, bounds. Section 7.5. */
import { scryptSync } from "node:crypto"
import { Effect, Fiber } from "effect"
import { expect, it } from "vitest"
import {
  needsUpgrade,
  passwordFault,
  passwordsOf,
  type Passwords
} from "../../../protocols/authorization/passwords.ts"

const password = "correct horse battery"

const hashed = (passwords: Passwords, text = password): Promise<string> =>
  Effect.runPromise(passwords.hash(text))

const verified = (passwords: Passwords, stored: string | undefined, guess: string): Promise<boolean> =>
  Effect.runPromise(passwords.verify(stored, guess))

it("the string form, with a salt of its own each time; verified by an independent derivation", async () => {
  const passwords = passwordsOf(2)
  const [one, two] = await Promise.all([hashed(passwords), hashed(passwords)])
  expect(one).toMatch(/^scrypt\$15\$8\$1\$[\w-]{22}\$[\w-]{43}$/)
  expect(one).not.toBe(two)
  const [, , , , salt, hash] = one.split("$")
  expect(
    scryptSync(password, Buffer.from(salt!, "base64url"), 32, {
      N: 32_768,
      r: 8,
      p: 1,
      maxmem: 64 * 1_024 * 1_024
    }).toString("base64url")
  ).toBe(hash)
  expect([
    await verified(passwords, one, password),
    await verified(passwords, one, `${password} `),
    await verified(passwords, undefined, password),
    await verified(passwords, "plain", password)
  ]).toEqual([true, false, false, false])
})

it("what looks the same under NFKC is the same", async () => {
  const passwords = passwordsOf(2)
  const stored = await hashed(passwords, "ﬁne café ①23456")
  expect(await verified(passwords, stored, "fine cafe\u0301 123456")).toBe(true)
})

it("a hash of other parameters verifies and asks to be made anew", async () => {
  const salt = Buffer.alloc(16, 7)
  const old = `scrypt$14$8$1$${salt.toString("base64url")}$${scryptSync(password, salt, 32, { N: 16_384, r: 8, p: 1 }).toString("base64url")}`
  expect([
    await verified(passwordsOf(1), old, password),
    needsUpgrade(old),
    needsUpgrade(await hashed(passwordsOf(1))),
    needsUpgrade("")
  ]).toEqual([true, true, false, true])
})

it("12 to 256 characters, counted after NFKC", () => {
  expect(
    ["x".repeat(11), "x".repeat(12), "😀".repeat(12), "x".repeat(256), "x".repeat(257), "ﬁ".repeat(6)].map(
      (text) => passwordFault(text) === undefined
    )
  ).toEqual([false, true, true, true, false, true])
})

const cheap = `scrypt$1$1$1$${Buffer.alloc(16).toString("base64url")}$${Buffer.alloc(32).toString("base64url")}`

it("no more at once than allowed, 256 wait, the next is refused, and all that waited are served", async () => {
  const passwords = passwordsOf(1)
  const asked = Array.from({ length: 257 }, () => verified(passwords, cheap, "x"))
  await expect(verified(passwords, cheap, "x")).rejects.toMatchObject({ _tag: "HashQueueFull" })
  await expect(hashed(passwords)).rejects.toMatchObject({ _tag: "HashQueueFull" })
  expect(new Set(await Promise.all(asked))).toEqual(new Set([false]))
  expect(await verified(passwords, cheap, "x")).toBe(false)
})

it("who is interrupted leaves the queue; a hash that has begun gives its verdict all the same", async () => {
  const passwords = passwordsOf(1)
  const fork = () => {
    const heard: Array<boolean> = []
    const attempt = Effect.map(passwords.verify(cheap, "x"), (right) => heard.push(right))
    return { heard, fiber: Effect.runFork(Effect.uninterruptible(attempt)) }
  }
  const begun = fork()
  const waiting = fork()
  begun.fiber.interruptUnsafe()
  waiting.fiber.interruptUnsafe()
  await Effect.runPromise(Fiber.await(waiting.fiber))
  expect([waiting.heard, begun.heard]).toEqual([[], []])
  await Effect.runPromise(Fiber.await(begun.fiber))
  expect(begun.heard).toEqual([false])
  expect(await verified(passwords, cheap, "x")).toBe(false)
})
