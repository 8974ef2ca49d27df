/** Whether a token is valid: each row above it that says otherwise, singly. Source:
 *  docs/spec/authorization.md, sections 16.8 and 18.4. */
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest"
import {
  Clients,
  Consents,
  Issuances,
  Users,
  type Issuance
} from "../../../../protocols/authorization/records.ts"
import { generationsMax, isLive, isRevoked } from "../../../../protocols/authorization/token/liveness.ts"
import { isProblem } from "../../../../protocols/authorization/problems.ts"
import { issuanceRow, mint } from "../../../../protocols/authorization/token/tokens.ts"
import { Granted } from "./grants/granted.ts"

let granted: Granted
beforeAll(async () => {
  granted = await Granted.open()
})
afterAll(() => granted.world.close())

let issuance: Issuance
beforeEach(() => {
  issuance = issued()
})

const lifetimeMs = 3_600_000
const families = { hasEnded: () => false }

const issued = (parent?: Issuance): Issuance => {
  const { services, client, resource, user, consent } = granted
  const minted = mint(services, {
    grantType: "authorization_code",
    sub: user.id,
    client,
    resource,
    scopes: ["files:read"],
    lifetimeMs,
    user: { id: user.id, epoch: user.epoch, authMs: 0 },
    consentId: consent.id,
    ...(parent === undefined ? {} : { parent })
  })
  if (isProblem(minted)) throw new Error(minted.description)
  return minted.issuance
}

const live = (row = issuance): boolean => isLive(granted.services, families, row)

it("a token is live until its end", () => {
  const { world } = granted
  const beforeMs = world.nowMs
  world.nowMs = issuance.expiresMs - 1
  expect(live()).toBe(true)
  world.nowMs = issuance.expiresMs
  expect(live()).toBe(false)
  world.nowMs = beforeMs
})

it("what is above a token ends it: its family, its user's epoch, its client's issuance, its consent", async () => {
  const { services, user, client, consent } = granted
  const { books } = services
  expect(live()).toBe(true)
  expect(isLive(services, { hasEnded: (id) => id === "family" }, { ...issuance, familyId: "family" })).toBe(
    false
  )
  expect(live({ ...issuance, revokedMs: granted.world.nowMs })).toBe(false)

  await books.write([Users.put([user.id], { ...user, epoch: user.epoch + 1 })])
  expect(live()).toBe(false)
  await books.write([Users.put([user.id], user)])
  expect(live()).toBe(true)

  const row = books.get(Clients, [client.clientId])!
  await books.write([Clients.put([row.clientId], { ...row, issuedMs: row.issuedMs + 1 })])
  expect(live()).toBe(false)
  await books.write([Clients.put([row.clientId], row)])
  expect(live()).toBe(true)

  await books.write([Consents.put([consent.id], { ...consent, revokedMs: granted.world.nowMs })])
  expect(live()).toBe(false)
  await books.write([Consents.put([consent.id], consent)])
  expect(live()).toBe(true)
})

it("a chain of exchanges is live as deep as exchanges go, and dead with any ancestor", async () => {
  const { books } = granted.services
  const chain: Array<Issuance> = [issuance]
  while (chain.length <= generationsMax) chain.push(issued(chain.at(-1)))
  await books.write(chain.map(issuanceRow))
  const deepest = chain.at(-1)!
  expect([deepest.generation, isRevoked(granted.services, families, deepest)]).toEqual([
    generationsMax,
    false
  ])
  const middle = chain[generationsMax >> 1]!
  await books.write([Issuances.put([middle.jti], { ...middle, revokedMs: granted.world.nowMs })])
  expect(isRevoked(granted.services, families, deepest)).toBe(true)
})
