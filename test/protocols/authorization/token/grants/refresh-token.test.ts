/** The walk of a refresh token from one generation to the next. Source: docs/spec/authorization.md, section
 *  8.4. */
import { afterAll, beforeAll, expect, it } from "vitest"
import { authorizationCode } from "../../../../../protocols/authorization/token/grants/authorization-code.ts"
import { refreshToken } from "../../../../../protocols/authorization/token/grants/refresh-token.ts"
import type { Body } from "../../../../../protocols/authorization/token/grants/grant.ts"
import { Granted } from "./granted.ts"

let granted: Granted
beforeAll(async () => {
  granted = await Granted.open()
})
afterAll(() => granted.world.close())

it("each refresh yields the token of the next generation, and one that was used before ends the family", async () => {
  const code = await granted.code("c")
  const texts = [
    String(((await granted.ask(authorizationCode, granted.codeForm(code))) as Body)["refresh_token"])
  ]
  for (let refresh = 0; refresh < 3; refresh++) {
    const body = (await granted.ask(refreshToken, { refresh_token: texts.at(-1)! })) as Body
    texts.push(String(body["refresh_token"]))
  }
  const { refreshTokens } = granted.services
  expect(texts.map((text) => refreshTokens.decode(text)?.generation)).toEqual([1, 2, 3, 4])
  expect(await granted.ask(refreshToken, { refresh_token: texts[2]! })).toBe("invalid_grant")
  expect(await granted.ask(refreshToken, { refresh_token: texts[3]! })).toBe("invalid_grant")
})
