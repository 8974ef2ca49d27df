/** Signing keys: at rest, through rotations, and withdrawn. Source: docs/spec/authorization.md, sections 4.3 and
 *  15. */
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { describe, expect, it } from "vitest"
import { SigningKeys } from "../../../../protocols/authorization/records.ts"
import { SigningKeyRing } from "../../../../protocols/authorization/token/signing-keys.ts"
import { SealFault } from "../../../../storage/seal.ts"
import { World } from "../upstream/outside.ts"

const hourMs = 3_600_000
const retainedMs = 2 * hourMs

const opened = async (settings: ConstructorParameters<typeof World>[0] = {}) => {
  const world = new World(settings)
  const { authority, store } = world
  const ring = new SigningKeyRing(authority)
  await ring.load()
  const statuses = () =>
    [...authority.books.rows(SigningKeys)].map(({ value: { kid, status } }) => [kid, status]).sort()
  const signed = (by: SigningKeyRing = ring) => {
    const token = by.sign({ jti: authority.books.id() })
    if (typeof token !== "string") throw new Error("nothing signs")
    return token
  }
  const restarted = async () => {
    const after = new SigningKeyRing(authority)
    await after.load()
    return after
  }
  return { world, authority, store, ring, statuses, signed, restarted }
}

const kidOf = (token: string): string =>
  JSON.parse(Buffer.from(token.split(".")[0]!, "base64url").toString())["kid"]

const nothingElse = () => []

it("a private key that was copied to another key's row does not open there", async () => {
  const { authority, store, ring } = await opened()
  const first = SigningKeys.range(store, { limit: 9 })[0]!.value
  await ring.rotate()
  const rows = SigningKeys.range(store, { limit: 9 }).map(({ value }) => value)
  const second = rows.find(({ kid }) => kid !== first.kid)!
  await new SigningKeyRing(authority).load()
  await authority.books.write([SigningKeys.put([second.kid], { ...second, privateKey: first.privateKey })])
  await expect(new SigningKeyRing(authority).load()).rejects.toThrow(SealFault)
})

it("A-2: a token that was verified does not keep the body that it came in", async () => {
  const { ring, signed } = await opened()
  setFlagsFromString("--expose-gc")
  const collect = runInNewContext("gc") as () => void
  collect()
  const before = process.memoryUsage().heapUsed
  for (let i = 0; i < 500; i++) {
    const token = signed()
    const body = Buffer.from(`token=${token}&${"x".repeat(65_536)}`).toString()
    expect(ring.verify(body.slice(6, 6 + token.length))).toBeDefined()
  }
  collect()
  // The bodies are 32 MiB together.
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(8 * 2 ** 20)
})

describe("rotation", () => {
  const rotations = 150
  it("A-1: a restart finds every key, after however many rotations", async () => {
    const { world, ring, signed, restarted } = await opened()
    const first = signed()
    for (let i = 0; i < rotations; i++) {
      world.nowMs += 1
      await ring.rotate()
    }
    const last = signed()
    const after = await restarted()
    expect(after.jwks).toHaveLength(rotations + 1)
    expect(after.jwks[0]!["kid"]).toBe(kidOf(last))
    expect([after.verify(first), after.verify(last)]).not.toContain(undefined)
    expect(kidOf(signed(after))).toBe(kidOf(last))
  })
  it("A-1: the row of a retired key leaves when nothing that it signed can live", async () => {
    const { world, ring, statuses, signed } = await opened()
    const token = signed()
    await ring.rotate()
    const active = [kidOf(signed()), "active"]
    world.nowMs += retainedMs - 1
    await ring.age()
    expect(statuses()).toContainEqual([kidOf(token), "retiring"])
    expect(ring.verify(token)).toBeDefined()
    world.nowMs += 1
    await ring.age()
    expect(statuses()).toContainEqual([kidOf(token), "retired"])
    expect(ring.verify(token)).toBeUndefined()
    await ring.age()
    expect(statuses()).toEqual([active])
    expect(ring.rows).toHaveLength(1)
  })
  it("A-1: with rotate_every, rows do not gather, and each token verifies while it lives", async () => {
    const { world, ring, statuses, signed, restarted } = await opened({ signing: { rotateEveryMs: hourMs } })
    for (let hours = 0; hours < 110; hours++) {
      const token = signed()
      world.nowMs += hourMs
      await ring.age()
      expect(ring.verify(token)).toBeDefined()
      expect(statuses().length).toBeLessThanOrEqual(5)
    }
    expect((await restarted()).verify(signed())).toBeDefined()
  })
  it("A-1: of two rotations at once one key signs, and the other retires", async () => {
    const { ring, statuses } = await opened()
    await Promise.all([ring.rotate(), ring.rotate()])
    expect(
      statuses()
        .map(([, status]) => status)
        .sort()
    ).toEqual(["active", "retiring", "retiring"])
  })
})

describe("withdrawal", () => {
  it("A-11: the key that signs is withdrawn: its tokens stop verifying, it is not published, another signs", async () => {
    const { ring, signed, restarted } = await opened()
    const token = signed()
    expect(ring.verify(token)).toBeDefined()
    const withdrawn = await ring.withdraw(kidOf(token), nothingElse)
    const successor = kidOf(signed())
    expect(withdrawn).toEqual({ kid: kidOf(token), successor })
    for (const each of [ring, await restarted()]) {
      expect(each.verify(token)).toBeUndefined()
      expect(each.jwks.map(({ kid }) => kid)).toEqual([successor])
    }
  })
  it("A-11: its private part is destroyed, and its row leaves when nothing that it signed can live", async () => {
    const { world, store, ring, statuses, signed } = await opened()
    const { kid } = ring.rows[0]!
    await ring.withdraw(kid, nothingElse)
    expect(SigningKeys.get(store, [kid])).toMatchObject({ status: "retired", privateKey: null })
    await ring.age()
    expect(statuses()).toContainEqual([kid, "retired"])
    world.nowMs += retainedMs
    await ring.age()
    expect(statuses()).toEqual([[kidOf(signed()), "active"]])
  })
  it("A-11: a retiring key is withdrawn, and the active one goes on", async () => {
    const { ring, signed } = await opened()
    const token = signed()
    await ring.rotate()
    const active = kidOf(signed())
    expect(await ring.withdraw(kidOf(token), nothingElse)).toEqual({
      kid: kidOf(token),
      successor: undefined
    })
    expect(ring.verify(token)).toBeUndefined()
    expect(ring.jwks.map(({ kid }) => kid)).toEqual([active])
  })
  it("A-11: a key that waits for its time signs at once when the active one is withdrawn", async () => {
    const { ring, signed, statuses } = await opened({ signing: { publishLeadMs: hourMs } })
    const compromised = kidOf(signed())
    const { kid: pending } = await ring.rotate()
    expect(await ring.withdraw(compromised, nothingElse)).toEqual({ kid: compromised, successor: pending })
    expect(kidOf(signed())).toBe(pending)
    expect(statuses()).toEqual(
      [
        [compromised, "retired"],
        [pending, "active"]
      ].sort()
    )
  })
  it("A-11: a pending key is withdrawn before it signs; an unknown one is nobody's", async () => {
    const { ring, signed } = await opened({ signing: { publishLeadMs: hourMs } })
    const active = kidOf(signed())
    const { kid: pending } = await ring.rotate()
    expect(await ring.withdraw(pending, nothingElse)).toEqual({ kid: pending, successor: undefined })
    expect(ring.jwks.map(({ kid }) => kid)).toEqual([active])
    expect(await ring.withdraw("nobody", nothingElse)).toBeUndefined()
  })
})
