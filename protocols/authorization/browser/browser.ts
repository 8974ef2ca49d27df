/** The browser's routes: connects sessions and pages with the upstream parts, and continues a federated
 *  login.
 *  Source: docs/spec/authorization.md, sections 7.5, 7.9 and 12.2. */
import type { Request, Response, Route } from "../../../runtime/http.ts"
import { completeLogin, goTo, refusedTo, requestOf } from "./authorize.ts"
import type { UpstreamServices } from "../upstream/upstream-services.ts"
import { connectionsPage, errorPage } from "./pages/pages.ts"
import { isProblem, type Problem, problemOf, wordingOf } from "../problems.ts"
import { Users, type User } from "../records.ts"
import { resourceOf } from "../token/resources.ts"
import type { AuthServices } from "../services.ts"
import type { BrowserSessions } from "./sessions.ts"

export const browserRoutes = (
  services: AuthServices,
  sessions: BrowserSessions,
  outside: UpstreamServices
): ReadonlyArray<Route> => {
  const { books } = services
  const error = (problem: Problem, request: Request): Response =>
    errorPage(problem, request.traceId, { headers: wordingOf(problem).headers })
  const logIn = async (user: User, req: string, request: Request): Promise<Response> => {
    const answer = await completeLogin(services, sessions, request, {
      user,
      method: "fed",
      req,
      landing: "/connections",
      action: "user.oidc_login"
    })
    return isProblem(answer) ? error(answer, request) : answer
  }
  return outside.routes({
    resource: (value) => resourceOf(services, value),
    sessions: {
      of: (request) => {
        const signedIn = sessions.of(request)
        return signedIn === undefined
          ? undefined
          : { userId: signedIn.user.id, sessionHash: signedIn.sessionHash }
      },
      csrf: (sessionHash, purpose) => sessions.csrf(purpose, sessionHash),
      login: (returnTo) => goTo(`/login?next=${encodeURIComponent(returnTo)}`)
    },
    pages: {
      error,
      connections: ({ connections, csrfToken }, request) => {
        const signedIn = sessions.of(request)
        return connectionsPage(
          connections,
          csrfToken,
          signedIn === undefined ? "" : sessions.csrf("logout", signedIn.sessionHash),
          signedIn === undefined ? "" : (books.get(Users, [signedIn.user.id])?.email ?? "")
        )
      }
    },
    waits: (req) => requestOf(services, req)?.request.phase === "login",
    logIn,
    redirectError: (req, code, description) => {
      const pending = requestOf(services, req)
      return pending === undefined
        ? undefined
        : refusedTo(services, pending.request, problemOf(code, description))
    }
  })
}
