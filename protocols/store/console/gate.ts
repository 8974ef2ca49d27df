/** Decides who may see a page or make a call of the console: the user must be signed in and have its area. A
 *  change must also come from the console's own pages, with the session's token. Exceptions become a page or
 *  a JSON answer here.
 *  Source: docs/spec/store.md, sections 3.4, 3.7. */
import { Cause, Effect } from "effect"
import { defined } from "../../../runtime/defined.ts"
import type { Handler, Request, Response } from "../../../runtime/http.ts"
import { isFormFault, parseForm, type Form } from "../../shared/form.ts"
import type { Area } from "../access/scopes.ts"
import { sessionOf, type Guard } from "../access/guard.ts"
import type { Later } from "../later.ts"
import { problemOf, problemResponse, withCause, wordingOf, type Problem, type Refusal } from "../problems.ts"
import type { Member, Staff } from "../access/staff.ts"
import { html, page, root, seeOther } from "./page.ts"

/** A request of a signed-in user. */
export interface Visit {
  readonly request: Request
  readonly member: Member
  readonly secret: string
  readonly csrf: string
  readonly user: { readonly name: string; readonly csrf: string }
}

export const bodyBytesMax = 65_536

const foreignForm =
  "This form was not sent from the console, or your session has changed. Nothing was done; open the page again."

/** Returns whether a page of this origin sent the request, as far as the browser reports it. */
export const sameOrigin = (request: Request): boolean => {
  const site = request.headers.get("sec-fetch-site")
  const origin = request.headers.get("origin")
  return (
    (site === undefined || site === "same-origin" || site === "none") &&
    (origin === undefined || origin === `${request.scheme}://${request.headers.get("host")}`)
  )
}

export const formOf = (request: Request): Form => {
  const form = parseForm(new TextDecoder().decode(request.body))
  return isFormFault(form) ? {} : form
}

export const textOf = (form: Form, name: string): string => {
  const value = Object.hasOwn(form, name) ? form[name] : ""
  return typeof value === "string" ? value : ""
}

export const textsOf = (form: Form, name: string): ReadonlyArray<string> => {
  const value = Object.hasOwn(form, name) ? form[name] : []
  if (typeof value === "string") return [value]
  return Array.isArray(value) ? value.filter((part): part is string => typeof part === "string") : []
}

type Handle = (visit: Visit) => Later<Response>
type HandleForm = (visit: Visit, form: Form) => Later<Response>

/** Converts a problem to an answer. */
type Word = (problem: Problem) => Response

/** A page that says why something was not done. */
const refusalPage =
  (title: string, user?: Visit["user"]) =>
  (problem: Problem): Response => {
    const { status, details, text = details } = wordingOf(problem)
    return page(defined({ title, status, user, problem: text }))
  }

const notDonePage =
  (user: Visit["user"]) =>
  (problem: Problem): Response => {
    const { status, details, text = details } = wordingOf(problem)
    return page({ title: "Not done", status, user, problem: text }, html`<p>Go back and try again.</p>`)
  }

const isAllowed = ({ member }: Visit, area: Area | undefined): boolean =>
  area === undefined || member.areas.has(area)

export class Gate {
  private readonly guard: Guard
  private readonly staff: Staff

  constructor(guard: Guard, staff: Staff) {
    this.guard = guard
    this.staff = staff
  }

  /** Wraps a public page; transport and host are checked first, as everywhere. */
  open(handle: (request: Request) => Later<Response>): Handler {
    return (request) => {
      const problem = this.guard.checkTransport(request)
      if (problem !== undefined) return refusalPage("Refused")(problem)
      return this.answered(request, () => handle(request), refusalPage("Not done"))
    }
  }

  page(area: Area | undefined, handle: Handle): Handler {
    return this.open((request) => {
      const visit = this.visit(request)
      if (visit === undefined) return seeOther(`${root}/login`)
      if (!isAllowed(visit, area))
        return refusalPage(
          "Not allowed",
          visit.user
        )({ _tag: "Forbidden", details: `The area ${area} is needed for this page.` })
      return this.answered(request, () => handle(visit), notDonePage(visit.user))
    })
  }

  /** Wraps the handler of a form of our own pages. */
  form(area: Area | undefined, handle: HandleForm): Handler {
    return this.page(area, (visit) => {
      const form = formOf(visit.request)
      if (!sameOrigin(visit.request) || textOf(form, "csrf") !== visit.csrf)
        return refusalPage("Not accepted", visit.user)({ _tag: "Forbidden", details: foreignForm })
      return handle(visit, form)
    })
  }

  /** Wraps a JSON call of the console; `changes` is true when it changes data. */
  call(area: Area | undefined, changes: boolean, handle: Handle): Handler {
    return (request) => {
      const refused = this.guard.checkTransport(request)
      if (refused !== undefined) return problemResponse(refused)
      const visit = this.visit(request)
      if (visit === undefined)
        return problemResponse({ _tag: "NotAuthenticated", details: "sign in to the console first" })
      if (changes && (!sameOrigin(request) || request.headers.get("x-csrf-token") !== visit.csrf))
        return problemResponse({ _tag: "Forbidden", details: "the header X-CSRF-Token is missing or wrong" })
      if (!isAllowed(visit, area))
        return problemResponse({ _tag: "Forbidden", details: `the area ${area} is needed` })
      return this.answered(request, () => handle(visit), problemResponse)
    }
  }

  private visit(request: Request): Visit | undefined {
    const secret = sessionOf(request)
    const member = secret === undefined ? undefined : this.staff.session(secret)
    if (secret === undefined || member === undefined) return undefined
    const csrf = this.staff.csrf(secret)
    return { request, member, secret, csrf, user: { name: member.username, csrf } }
  }

  private answered(
    { traceId }: Request,
    work: () => Later<Response>,
    word: Word
  ): Response | Effect.Effect<Response> {
    const failed = (cause: unknown): Response => {
      const problem = problemOf(cause, traceId)
      return withCause(problem, word(problem))
    }
    try {
      const answer = work()
      if (!Effect.isEffect(answer)) return answer as Response
      return Effect.catchCause(answer as Effect.Effect<Response, Refusal>, (cause) =>
        Cause.hasInterruptsOnly(cause) ? Effect.interrupt : Effect.sync(() => failed(Cause.squash(cause)))
      )
    } catch (cause) {
      return failed(cause)
    }
  }
}
