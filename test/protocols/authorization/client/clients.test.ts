/** What a stranger leaves behind who names clients that do not exist. Source: docs/spec/authorization.md,
 *  sections 3.5 and 5. */
import { afterAll, beforeAll, expect, it } from "vitest"
import { authenticate } from "../../../../protocols/authorization/client/clients.ts"
import { isProblem } from "../../../../protocols/authorization/problems.ts"
import { Form } from "../../../../protocols/authorization/wire.ts"
import { World } from "../world.ts"

const identitiesMax = 100
let world: World

beforeAll(async () => {
  world = await World.make({ settings: { rate: { enabled: true, identitiesMax } } })
})
afterAll(() => world.close())

const claim = (clientId: string, ip: string) =>
  authenticate(
    world.open.services,
    undefined,
    new Form(
      new Map([
        ["client_id", [clientId]],
        ["client_secret", ["wrong"]]
      ])
    ),
    ip
  )

it("A-2: unknown client ids leave no actor, no cached row, and a bounded number of counts", async () => {
  const { services } = world.open
  for (let i = 0; i < 5_000; i++)
    expect(isProblem(await claim(`unknown-${i}-${"x".repeat(i % 1_500)}`, `198.51.100.${i % 200}`))).toBe(
      true
    )
  expect(services.limits.tracked["clients"]).toBe(identitiesMax)
  expect(services.actors.residents).toBe(0)
  expect(services.books.cachedRows).toBe(0)
})

it("A-2: a known client that fails is locked out, and its lock outlives a flood of unknown ones", async () => {
  const { clientId, secret } = await world.client()
  for (let i = 0; i < 20; i++) await claim(clientId, "192.0.2.7")
  for (let i = 0; i < 1_000; i++) await claim(`other-${i}`, "192.0.2.7")
  const right = new Form(
    new Map([
      ["client_id", [clientId]],
      ["client_secret", [secret]]
    ])
  )
  expect(await authenticate(world.open.services, undefined, right, "192.0.2.7")).toMatchObject({
    _tag: "slow_down"
  })
  expect(await authenticate(world.open.services, undefined, right, "192.0.2.8")).toMatchObject({
    confidential: true
  })
})

it("A-2: counts of failures leave with the sweep, once their window has ended", async () => {
  world.nowMs += 120_000
  await world.open.sweep()
  expect(world.open.services.limits.tracked).toEqual({
    calls: 0,
    registrations: 0,
    registrationsInHour: 0,
    clients: 0,
    administrators: 0
  })
})
