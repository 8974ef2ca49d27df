/** Signing in to the console and out of it. Wrong attempts are counted with the source's other failed ones.
 *  Source: store section 3.4. */
import type { Request, Response, Route } from "../../../runtime/http.ts"
import { cookieName, type Guard } from "../access/guard.ts"
import { sessionMs, type Staff } from "../access/staff.ts"
import { bodyBytesMax, formOf, sameOrigin, textOf, type Gate } from "./gate.ts"
import { html, input, page, root, seeOther } from "./page.ts"

const cookie = (request: Request, value: string, ageS: number): readonly [string, string] => [
  "Set-Cookie",
  `${cookieName(request)}=${value}; Path=/; HttpOnly; SameSite=Lax; Max-Age=${ageS}${request.scheme === "https" ? "; Secure" : ""}`
]

const loginPage = (status = 200, problem?: string, name = ""): Response =>
  page(
    { title: "Sign in", status, problem },
    html`<h1>Sign in</h1><form class="card" method="post" action="${root}/login">${input("username", "User name", name, { required: true, autocomplete: "username" })}${input("password", "Password", "", { type: "password", required: true, autocomplete: "current-password" })}<p><button>Sign in</button></p></form>`
  )

const attemptsMax = 50

export const signInRoutes = (gate: Gate, guard: Guard, staff: Staff): ReadonlyArray<Route> => [
  { method: "GET", path: `${root}/login`, handle: gate.open(() => loginPage()) },
  {
    method: "POST",
    path: `${root}/login`,
    body: { as: "buffer", bytesMax: bodyBytesMax },
    handle: gate.open(async (request) => {
      if (!sameOrigin(request)) return loginPage(403, "This form was not sent from this page.")
      const source = `source:${request.client}`
      if (guard.windows.seen(source) >= attemptsMax)
        return loginPage(429, "Too many attempts. Wait a few seconds.")
      const form = formOf(request)
      const name = textOf(form, "username")
      const session = await staff.signIn(name, textOf(form, "password"))
      if (session === undefined) {
        await new Promise<void>((resolve) => guard.windows.take(source, attemptsMax, () => resolve()))
        return loginPage(401, "User name or password is wrong.", name)
      }
      return seeOther(`${root}/tools/apps`, cookie(request, session, sessionMs / 1_000))
    })
  },
  {
    method: "POST",
    path: `${root}/logout`,
    body: { as: "buffer", bytesMax: bodyBytesMax },
    handle: gate.form(undefined, async ({ request, secret }) => {
      await staff.signOut(secret)
      return seeOther(`${root}/login`, cookie(request, "", 0))
    })
  }
]
