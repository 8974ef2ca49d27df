/** Which scopes a request under a user's grant gets. Source: docs/spec/authorization.md, section 8.1. */
import { afterAll, beforeAll, expect, it } from "vitest"
import { narrowed } from "../../../../../protocols/authorization/token/grants/grant.ts"
import { isProblem, wordingOf } from "../../../../../protocols/authorization/problems.ts"
import { Granted } from "./granted.ts"

let granted: Granted
beforeAll(async () => {
  granted = await Granted.open()
})
afterAll(() => granted.world.close())

const scopesOf = async (
  requested: string | undefined,
  held: ReadonlyArray<string>,
  clientScopes: ReadonlyArray<string> = []
): Promise<ReadonlyArray<string> | string> => {
  await granted.world.change(granted.client, { scopes: clientScopes })
  const call = granted.call(requested === undefined ? {} : { scope: requested })
  const answer = narrowed(call, held, granted.resource)
  return isProblem(answer) ? wordingOf(answer).error : (answer as ReadonlyArray<string>)
}

const both = ["files:read", "files:write"]

it("without a scope parameter: what was granted", async () => {
  expect(await scopesOf(undefined, both)).toEqual(both)
  expect(await scopesOf(undefined, ["files:read"])).toEqual(["files:read"])
})

it("a narrower scope is given, a wider one is refused", async () => {
  expect(await scopesOf("files:read", both)).toEqual(["files:read"])
  expect(await scopesOf("files:read files:write", ["files:read"])).toBe("invalid_scope")
})

it("what was taken from the client is in no token any more, asked for or not", async () => {
  expect(await scopesOf(undefined, both, ["files:read"])).toEqual(["files:read"])
  expect(await scopesOf("files:write", both, ["files:read"])).toBe("invalid_scope")
  expect(await scopesOf(undefined, ["files:write"], ["files:read"])).toBe("invalid_scope")
})

it("what left the catalog is in no token any more", async () => {
  expect(await scopesOf(undefined, ["files:read", "files:gone"])).toEqual(["files:read"])
})
