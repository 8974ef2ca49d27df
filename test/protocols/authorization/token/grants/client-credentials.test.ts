/** What a client may ask for itself. Source: docs/spec/authorization.md, section 8.6. */
import { afterAll, beforeAll, expect, it } from "vitest"
import { clientCredentials } from "../../../../../protocols/authorization/token/grants/client-credentials.ts"
import { Granted } from "./granted.ts"

let granted: Granted
beforeAll(async () => {
  granted = await Granted.open({}, { scopes: ["files:read", "other"], grantTypes: ["client_credentials"] })
})
afterAll(() => granted.world.close())

const ask = (form: Record<string, string>) => granted.ask(clientCredentials, form)

it("a scope that the client does not hold is refused, at a resource that has it and without one", async () => {
  const resource = granted.resource.uri
  expect(await ask({ scope: "files:write", resource })).toBe("invalid_scope")
  expect(await ask({ scope: "files:write" })).toBe("invalid_scope")
  expect(await ask({ scope: "files:read files:write", resource })).toBe("invalid_scope")
})

it("the client's scopes that the resource has are given, others of the client are not", async () => {
  const resource = granted.resource.uri
  expect(await ask({ resource })).toMatchObject({ scope: "files:read" })
  expect(await ask({ scope: "other", resource })).toBe("invalid_scope")
  expect(await ask({})).toMatchObject({ scope: "files:read other" })
})
