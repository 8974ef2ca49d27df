/** Whom a token's meaning is told. Source: docs/spec/authorization.md, section 9.1. */
import { afterAll, beforeAll, expect, it } from "vitest"
import { authorizationCode } from "../../../../protocols/authorization/token/grants/authorization-code.ts"
import { Resources } from "../../../../protocols/authorization/records.ts"
import type { Body } from "../../../../protocols/authorization/token/grants/grant.ts"
import { Granted } from "./grants/granted.ts"

let granted: Granted
let token: string
beforeAll(async () => {
  granted = await Granted.open()
  const code = await granted.code("c")
  const body = (await granted.ask(authorizationCode, granted.codeForm(code))) as Body
  token = String(body["access_token"])
})
afterAll(() => granted.world.close())

it("a client that is not the token's, and no runtime client of its resource, hears inactive", async () => {
  const { world, resource, services } = granted
  const stranger = await world.client()
  expect(await world.active(stranger, token)).toBe(false)
  await services.books.write([
    Resources.put([resource.id], { ...resource, runtimeClients: [stranger.clientId] })
  ])
  expect(await world.active(stranger, token)).toBe(true)
  await services.books.write([Resources.put([resource.id], { ...resource, runtimeClients: ["another"] })])
  expect(await world.active(stranger, token)).toBe(false)
})
