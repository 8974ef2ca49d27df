/** The outward side put together: every path that it owns, and its limits apart. */
import { expect, it } from "vitest"
import { upstreamServices } from "../../../../protocols/authorization/upstream/upstream-services.ts"
import { World } from "./outside.ts"

it("its routes, once each", () => {
  const never = (): never => {
    throw new Error("not asked")
  }
  const routes = upstreamServices(new World().authority, {}).routes({
    resource: never,
    sessions: { of: never, csrf: never, login: never },
    pages: { error: never, connections: never },
    waits: never,
    logIn: never,
    redirectError: never
  })
  expect(routes.map(({ method, path }) => `${method} ${path}`)).toEqual([
    "GET /connect/:provider",
    "GET /connect/:provider/callback",
    "GET /connections",
    "DELETE /connections/:provider",
    "GET /oidc/start",
    "GET /oidc/callback"
  ])
})
