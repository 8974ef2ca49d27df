/** The console's JSON calls for apps and their tokens. A secret is in the answer to its creation, and nowhere
 *  after.
 *  Source: docs/spec/store.md, section 3.7. */
import { Effect } from "effect"
import { json, type Response, type Route } from "../../../runtime/http.ts"
import { noStore } from "../../shared/headers.ts"
import { parseBounded } from "../../shared/json-values.ts"
import type { AdminToken, App, AppRegistry } from "../access/apps.ts"
import { promised, type Later } from "../later.ts"
import { invalid, notFound } from "../problems.ts"
import type { JsonObject } from "../wire.ts"
import { bodyBytesMax, type Gate, type Visit } from "./gate.ts"
import { root } from "./page.ts"

const id = ({ request }: Visit): string => request.params["id"]!

const appBody = ({
  appId,
  name,
  kind,
  scopes: held,
  redirectUris,
  runWithoutUser,
  allowedOrigins,
  suspended,
  createdMs
}: App) => ({
  app_id: appId,
  name,
  kind,
  scopes: held,
  redirect_uris: redirectUris,
  run_without_user: runWithoutUser,
  allowed_origins: allowedOrigins,
  suspended,
  created_at: new Date(createdMs).toISOString()
})

const tokenBody = ({ id: tokenId, scopes: held, label, createdMs }: AdminToken) => ({
  id: tokenId,
  scopes: held,
  label,
  created_at: new Date(createdMs).toISOString()
})

const bodyOf = ({ request }: Visit): JsonObject => {
  try {
    const value: unknown = parseBounded(new TextDecoder("utf-8", { fatal: true }).decode(request.body))
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as JsonObject
  } catch {
    // Refused below.
  }
  throw invalid("the body is not a JSON object")
}

const deleted: Response = { status: 204, headers: [noStore] }

const ok = (status: number, value: unknown): Response => json(status, value, [noStore])

export const appCallRoutes = (gate: Gate, apps: AppRegistry): ReadonlyArray<Route> => {
  const call = (method: string, path: string, handle: (visit: Visit) => Later<Response>): Route => ({
    method,
    path: `${root}/api${path}`,
    ...(method === "GET" ? {} : { body: { as: "buffer", bytesMax: bodyBytesMax } }),
    handle: gate.call(path === "/session" ? undefined : "StoreSettings", method !== "GET", handle)
  })
  return [
    call("GET", "/session", ({ csrf, member }) =>
      ok(200, { csrf_token: csrf, username: member.username, areas: [...member.areas] })
    ),
    call("GET", "/apps", () => {
      const list = apps.list().map(appBody)
      return ok(200, { total_count: list.length, apps: list })
    }),
    call("POST", "/apps", (visit) => {
      const body = bodyOf(visit)
      return Effect.map(
        promised(() => apps.create(body)),
        ({ app, secret }) => ok(201, { ...appBody(app), app_secret: secret })
      )
    }),
    call("GET", "/apps/:id", (visit) => {
      const app = apps.get(id(visit))
      if (app === undefined) throw notFound("there is no such app")
      return ok(200, appBody(app))
    }),
    call("PUT", "/apps/:id", (visit) => {
      const body = bodyOf(visit)
      return Effect.map(
        promised(() => apps.change(id(visit), body)),
        (app) => ok(200, appBody(app))
      )
    }),
    call("DELETE", "/apps/:id", (visit) =>
      Effect.as(
        promised(() => apps.remove(id(visit))),
        deleted
      )
    ),
    call("POST", "/apps/:id/rotate_secret", (visit) =>
      Effect.map(
        promised(() => apps.rotate(id(visit))),
        (secret) => ok(200, { app_id: id(visit), app_secret: secret })
      )
    ),
    call("GET", "/apps/:id/tokens", (visit) => {
      const list = apps.listTokens(id(visit)).map(tokenBody)
      return ok(200, { total_count: list.length, tokens: list })
    }),
    call("POST", "/apps/:id/tokens", (visit) => {
      const body = bodyOf(visit)
      return Effect.map(
        promised(() => apps.createToken(id(visit), body)),
        ({ token, adminToken }) => ok(201, { ...tokenBody(adminToken), token })
      )
    }),
    call("DELETE", "/apps/:id/tokens/:token", (visit) =>
      Effect.as(
        promised(() => apps.revokeToken(id(visit), Number(visit.request.params["token"]))),
        deleted
      )
    )
  ]
}
