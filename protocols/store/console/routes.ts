/** Every page and call below /store/admin.
 *  Source: docs/spec/store.md, sections 3.4, 3.7. */
import type { Route } from "../../../runtime/http.ts"
import type { AppRegistry } from "../access/apps.ts"
import type { Engine } from "../engine/engine.ts"
import type { Guard } from "../access/guard.ts"
import type { Staff } from "../access/staff.ts"
import type { Webhooks } from "../calls/webhooks.ts"
import { appCallRoutes } from "./app-calls.ts"
import { appRoutes } from "./apps.ts"
import { Gate } from "./gate.ts"
import { root, seeOther, stylesheet } from "./page.ts"
import { productRoutes } from "./products.ts"
import { signInRoutes } from "./sign-in.ts"
import { webhookRoutes } from "./webhooks.ts"

export interface ConsoleDeps {
  readonly engine: Engine
  readonly guard: Guard
  readonly apps: AppRegistry
  readonly staff: Staff
  readonly webhooks: Webhooks
}

export const consoleRoutes = ({
  engine,
  guard,
  apps,
  staff,
  webhooks
}: ConsoleDeps): ReadonlyArray<Route> => {
  const gate = new Gate(guard, staff)
  return [
    { method: "GET", path: root, handle: gate.open(() => seeOther(`${root}/tools/apps`)) },
    { method: "GET", path: `${root}/style.css`, handle: stylesheet },
    ...signInRoutes(gate, guard.rateLimiter, staff),
    ...appRoutes(gate, apps),
    ...appCallRoutes(gate, apps),
    ...productRoutes(gate, engine, webhooks.replies),
    ...webhookRoutes(gate, engine, webhooks)
  ]
}
