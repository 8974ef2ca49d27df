/** Signing in to the console and out of it.
 *  Source: docs/spec/store.md, section 3.4. */
import { Effect } from "effect"
import type { Request, Response, Route } from "../../../runtime/http.ts"
import { HashQueueFull } from "../../../actors/hashing/scrypt-threads.ts"
import { cookieName } from "../access/guard.ts"
import type { RateLimiter } from "../access/rate-limit.ts"
import { promised, toItsEnd } from "../later.ts"
import { wordingOf, type Problem } from "../problems.ts"
import { sessionMs, type Staff } from "../access/staff.ts"
import { bodyBytesMax, formOf, sameOrigin, textOf, type Gate } from "./gate.ts"
import { html, input, page, root, seeOther } from "./page.ts"

const cookie = (request: Request, value: string, ageS: number): readonly [string, string] => [
  "Set-Cookie",
  `${cookieName(request)}=${value}; Path=/; HttpOnly; SameSite=Lax; Max-Age=${ageS}${request.scheme === "https" ? "; Secure" : ""}`
]

const signedOut = { status: 200, details: undefined }
const wrongPassword: Problem = { _tag: "NotAuthenticated", details: "User name or password is wrong." }
const tooManySignIns: Problem = { _tag: "TooManySignIns" }
const foreignForm: Problem = { _tag: "Forbidden", details: "This form was not sent from this page." }

const loginPage = (problem?: Problem, name = ""): Response => {
  const { status, details } = problem === undefined ? signedOut : wordingOf(problem)
  return page(
    { title: "Sign in", status, problem: details },
    html`<h1>Sign in</h1><form class="card" method="post" action="${root}/login">${input("username", "User name", name, { required: true, autocomplete: "username" })}${input("password", "Password", "", { type: "password", required: true, autocomplete: "current-password" })}<p><button>Sign in</button></p></form>`
  )
}

export const signInRoutes = (gate: Gate, rateLimiter: RateLimiter, staff: Staff): ReadonlyArray<Route> => [
  { method: "GET", path: `${root}/login`, handle: gate.open(() => loginPage()) },
  {
    method: "POST",
    path: `${root}/login`,
    body: { as: "buffer", bytesMax: bodyBytesMax },
    handle: gate.open((request) => {
      if (!sameOrigin(request)) return loginPage(foreignForm)
      const attempt = rateLimiter.reserveSignIn(request.client)
      if (attempt === undefined) return loginPage(tooManySignIns)
      const form = formOf(request)
      const name = textOf(form, "username")
      const signedIn = async (): Promise<Response> => {
        let isFailed = false
        try {
          const session = await staff.signIn(name, textOf(form, "password"))
          isFailed = session === undefined
          return session === undefined
            ? loginPage(wrongPassword, name)
            : seeOther(`${root}/tools/apps`, cookie(request, session, sessionMs / 1_000))
        } catch (cause) {
          if (cause instanceof HashQueueFull) return loginPage(tooManySignIns)
          throw cause
        } finally {
          await attempt.settle(isFailed)
        }
      }
      // A wrong attempt counts, also when its client does not wait for the answer.
      return toItsEnd(promised(signedIn))
    })
  },
  {
    method: "POST",
    path: `${root}/logout`,
    body: { as: "buffer", bytesMax: bodyBytesMax },
    handle: gate.form(undefined, ({ request, secret }) =>
      Effect.as(
        promised(() => staff.signOut(secret)),
        seeOther(`${root}/login`, cookie(request, "", 0))
      )
    )
  }
]
