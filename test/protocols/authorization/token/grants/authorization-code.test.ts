/** Redeeming a code beside another request, and beside a slow disk. Source: docs/spec/authorization.md,
 *  sections 7.7 and 8.3. */
import { afterEach, expect, it } from "vitest"
import { authorizationCode } from "../../../../../protocols/authorization/token/grants/authorization-code.ts"
import { Codes } from "../../../../../protocols/authorization/records.ts"
import { RacedStore } from "../../../../storage/raced-store.ts"
import { heldStore, turned } from "../../upstream/outside.ts"
import { Granted } from "./granted.ts"

let granted: Granted
afterEach(() => granted.world.close())

it("the answer waits for the flush, with and without a refresh token", async () => {
  for (const grantTypes of [["authorization_code"], ["authorization_code", "refresh_token"]]) {
    const { store, hold, waiting, settle } = heldStore()
    granted = await Granted.open({ store }, { grantTypes })
    const code = await granted.code("c")
    hold()
    let answered = false
    const answer = granted.ask(authorizationCode, granted.codeForm(code)).then((body) => {
      answered = true
      return body
    })
    await waiting
    for (let turns = 0; turns < 5; turns++) await turned()
    expect([grantTypes, answered]).toEqual([grantTypes, false])
    settle()
    expect(await answer).toMatchObject({ token_type: "Bearer" })
    if (grantTypes.length === 1) await granted.world.close()
  }
})

it("a code that another request spends meanwhile is not spent again", async () => {
  const raced = new RacedStore()
  granted = await Granted.open({ store: raced.store })
  const code = await granted.code("c")
  const row = granted.codeRow(code)
  raced.race(Codes.name, () => [Codes.put([granted.codeKey(code)], { ...row, usedMs: granted.world.nowMs })])
  expect(await granted.ask(authorizationCode, granted.codeForm(code))).toBe("invalid_grant")
})

it("a wrong attempt never makes a code fresh that another request spends meanwhile", async () => {
  const raced = new RacedStore()
  granted = await Granted.open({ store: raced.store })
  const code = await granted.code("c")
  const row = granted.codeRow(code)
  const usedMs = granted.world.nowMs
  raced.race(Codes.name, () => [Codes.put([granted.codeKey(code)], { ...row, usedMs })])
  const wrong = { ...granted.codeForm(code), code_verifier: "w".repeat(43) }
  expect(await granted.ask(authorizationCode, wrong)).toBe("invalid_grant")
  expect(granted.codeRow(code).usedMs).toBe(usedMs)
})

it("a code is refused from its end on", async () => {
  granted = await Granted.open()
  const code = await granted.code("c")
  granted.world.nowMs = granted.codeRow(code).expiresMs
  expect(await granted.ask(authorizationCode, granted.codeForm(code))).toBe("invalid_grant")
  granted.world.nowMs -= 1
  expect(await granted.ask(authorizationCode, granted.codeForm(code))).toMatchObject({ scope: "files:read" })
})
