/** Lockouts by source and by account. Source: docs/spec/authorization.md, section 3.5. */
import { Context } from "effect"
import { expect, it } from "vitest"
import { Lockout } from "../../../actors/lockout.ts"
import { isProblem } from "../../../protocols/authorization/problems.ts"
import { Limits, type LoginReservation } from "../../../protocols/authorization/rate-limit.ts"
import { World } from "./upstream/outside.ts"

const rate = {
  enabled: true,
  failuresMax: 3,
  sourceFailuresMax: 100,
  failureWindowMs: 60_000,
  lockMs: 60_000
}

const opened = () => {
  const world = new World({ rate })
  world.authority.actors.host(Lockout, Context.empty())
  return { world, limits: new Limits(world.authority) }
}

const ip = "192.0.2.7"

const reserved = async (limits: Limits, email: string, from = ip): Promise<LoginReservation | undefined> => {
  const reservation = await limits.reserveLogin(from, email)
  return isProblem(reservation) ? undefined : reservation
}

/** Whether an attempt to sign in would be judged. */
const isAllowed = async (limits: Limits, email: string, from = ip): Promise<boolean> => {
  const reservation = await reserved(limits, email, from)
  await reservation?.settle("unjudged")
  return reservation !== undefined
}

it("guesses at one account lock it, however its address is written", async () => {
  const { world, limits } = opened()
  const locked: Array<boolean> = []
  for (const email of ["user@example.com", "User@Example.com", "USER@EXAMPLE.COM"])
    locked.push(await (await reserved(limits, email))!.settle("failed"))
  expect(locked).toEqual([false, false, true])
  for (const email of ["user@example.com", "uSER@example.com"])
    expect(await isAllowed(limits, email)).toBe(false)
  expect(await isAllowed(limits, "other@example.com")).toBe(true)
  expect(await isAllowed(limits, "user@example.com", "198.51.100.1")).toBe(true)
  world.nowMs += rate.lockMs
  expect(await isAllowed(limits, "user@example.com")).toBe(true)
})

it("A-4: attempts that are being judged count; what succeeds or was never judged is given back", async () => {
  const { limits } = opened()
  const email = "user@example.com"
  const attempts = await Promise.all(Array.from({ length: 150 }, () => reserved(limits, email)))
  const judged = attempts.filter((attempt) => attempt !== undefined)
  expect(judged).toHaveLength(rate.failuresMax)
  await judged[0]!.settle("unjudged")
  const again = (await reserved(limits, email))!
  expect(await reserved(limits, email)).toBeUndefined()
  await judged[1]!.settle("failed")
  await judged[2]!.settle("failed")
  expect(await reserved(limits, email)).toBeUndefined()
  expect(await again.settle("succeeded")).toBe(false)
  expect(await isAllowed(limits, email)).toBe(true)
})

it("A-4: what is refused for the account is not held against its source", async () => {
  const { limits } = opened()
  for (let failed = 0; failed < rate.failuresMax; failed++)
    await (await reserved(limits, "user@example.com"))!.settle("failed")
  for (let refused = 0; refused < rate.sourceFailuresMax; refused++)
    expect(await reserved(limits, "user@example.com")).toBeUndefined()
  expect(await isAllowed(limits, "other@example.com")).toBe(true)
})
