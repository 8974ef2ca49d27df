/** Lockouts by source and by account. Source: docs/spec/authorization.md, section 3.5. */
import { Context } from "effect"
import { expect, it } from "vitest"
import { Lockout } from "../../../actors/lockout.ts"
import { Limits } from "../../../protocols/authorization/rate-limit.ts"
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

it("guesses at one account lock it, however its address is written", async () => {
  const { world, limits } = opened()
  const locked: Array<boolean> = []
  for (const email of ["user@example.com", "User@Example.com", "USER@EXAMPLE.COM"])
    locked.push(await limits.loginFailed("192.0.2.7", email))
  expect(locked).toEqual([false, false, true])
  for (const email of ["user@example.com", "uSER@example.com"])
    expect(await limits.loginAllowed("192.0.2.7", email)).toBeDefined()
  expect(await limits.loginAllowed("192.0.2.7", "other@example.com")).toBeUndefined()
  expect(await limits.loginAllowed("198.51.100.1", "user@example.com")).toBeUndefined()
  world.nowMs += rate.lockMs
  expect(await limits.loginAllowed("192.0.2.7", "user@example.com")).toBeUndefined()
})
