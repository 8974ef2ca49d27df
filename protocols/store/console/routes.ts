/** The console's pages and calls. */
import type { Route } from "../../../runtime/http.ts"
import type { AppRegistry } from "../apps.ts"
import type { Engine } from "../engine.ts"
import type { Guard } from "../guard.ts"
import type { Staff } from "../staff.ts"
import type { Webhooks } from "../webhooks.ts"

export interface ConsoleDeps { readonly engine: Engine; readonly guard: Guard; readonly apps: AppRegistry; readonly staff: Staff; readonly webhooks: Webhooks }
export const consoleRoutes = (_: ConsoleDeps): ReadonlyArray<Route> => []
