/** The browser's routes: connects sessions and pages with the upstream parts, and continues a federated
 *  login.
 *  Source: docs/spec/authorization.md, sections 7.5, 7.9 and 12.2. */
import type { Request, Response, Route } from "../../../runtime/http.ts"
import { goTo, refusedTo, requestOf, sessionExpired } from "./authorize.ts"
import type { UpstreamServices } from "../upstream/upstream-services.ts"
import { connectionsPage, errorPage } from "./pages/pages.ts"
import { type Problem, problemOf, wordingOf } from "../problems.ts"
import { Requests, Users, type User } from "../records.ts"
import { resourceOf } from "../token/resources.ts"
import type { AuthServices } from "../services.ts"
import type { BrowserSessions } from "./sessions.ts"

export const browserRoutes = (
  services: AuthServices,
  sessions: BrowserSessions,
  outside: UpstreamServices
): ReadonlyArray<Route> => {
  const { books, audit } = services
  const error = (problem: Problem, request: Request): Response =>
    errorPage(problem, request.traceId, { headers: wordingOf(problem).headers })
  const logIn = async (user: User, req: string, request: Request): Promise<Response> => {
    const pending = requestOf(services, req)
    const begun = sessions.begin(user, "fed", request.client)
    if (req !== "" && pending?.request.phase !== "login") return error(sessionExpired(), request)
    const rows =
      pending === undefined
        ? []
        : [
            Requests.put(
              [pending.key],
              {
                ...pending.request,
                userId: user.id,
                sessionHash: begun.sessionHash,
                phase: "consent" as const
              },
              Requests.unchanged(pending.request)
            )
          ]
    const outcome = books.commit([
      ...begun.rows,
      ...rows,
      audit.event("user.oidc_login", { actorId: user.id, ip: request.client, traceId: request.traceId })
    ])
    if (!(outcome instanceof Promise)) return error(sessionExpired(), request)
    await outcome
    return goTo(pending === undefined ? "/connections" : `/oauth/authorize/continue?req=${req}`, 303, [
      begun.cookie
    ])
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
