/** Who may see a page or make a call of the console: signed in, the area held; and for whatever changes
 *  something, from the console's own pages, with the session's token. Source: store sections 3.4, 3.7. */
import type { Handler, Request, Response } from "../../../runtime/http.ts"
import { isFormFault, parseForm, type Form } from "../../shared/form.ts"
import type { Area } from "../access/access.ts"
import { sessionOf, type Guard } from "../access/guard.ts"
import { problem, Refused } from "../problems.ts"
import type { Member, Staff } from "../access/staff.ts"
import { html, page, root, seeOther } from "./page.ts"

export interface Visit {
  readonly request: Request
  readonly member: Member
  readonly secret: string
  readonly csrf: string
  readonly user: { readonly name: string; readonly csrf: string }
}

export const bodyBytesMax = 65_536

/** Sent by a page of this very origin, as far as the browser tells. */
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
  return typeof value === "string"
    ? [value]
    : Array.isArray(value)
      ? value.filter((part): part is string => typeof part === "string")
      : []
}

export class Gate {
  private readonly guard: Guard
  private readonly staff: Staff

  constructor(guard: Guard, staff: Staff) {
    this.guard = guard
    this.staff = staff
  }

  private visit(request: Request): Visit | undefined {
    const secret = sessionOf(request)
    const member = secret === undefined ? undefined : this.staff.session(secret)
    if (secret === undefined || member === undefined) return undefined
    const csrf = this.staff.csrf(secret)
    return { request, member, secret, csrf, user: { name: member.username, csrf } }
  }

  /** The secure way and the host come first, here as everywhere. */
  open(handle: Handler): Handler {
    return (request) => {
      const refused = this.guard.door(request)
      return refused === undefined
        ? handle(request)
        : page({ title: "Refused", status: refused.status, problem: refused.details })
    }
  }

  page(area: Area | undefined, handle: (visit: Visit) => Response | Promise<Response>): Handler {
    return this.open((request) => {
      const visit = this.visit(request)
      if (visit === undefined) return seeOther(`${root}/login`)
      if (area !== undefined && !visit.member.areas.has(area))
        return page({
          title: "Not allowed",
          status: 403,
          user: visit.user,
          problem: `The area ${area} is needed for this page.`
        })
      return this.wording(visit, () => handle(visit))
    })
  }

  /** A form of one of our pages. */
  form(area: Area | undefined, handle: (visit: Visit, form: Form) => Response | Promise<Response>): Handler {
    return this.page(area, (visit) => {
      const form = formOf(visit.request)
      if (!sameOrigin(visit.request) || textOf(form, "csrf") !== visit.csrf)
        return page({
          title: "Not accepted",
          status: 403,
          user: visit.user,
          problem:
            "This form was not sent from the console, or your session has changed. Nothing was done; open the page again."
        })
      return handle(visit, form)
    })
  }

  private async wording(visit: Visit, work: () => Response | Promise<Response>): Promise<Response> {
    try {
      return await work()
    } catch (cause) {
      if (!(cause instanceof Refused)) throw cause
      return page(
        { title: "Not done", status: cause.status, user: visit.user, problem: cause.details },
        html`<p>Go back and try again.</p>`
      )
    }
  }

  /** The console's JSON calls. */
  call(
    area: Area | undefined,
    changes: boolean,
    handle: (visit: Visit) => Response | Promise<Response>
  ): Handler {
    return async (request) => {
      const refused = this.guard.door(request)
      if (refused !== undefined) return problem(refused)
      const visit = this.visit(request)
      if (visit === undefined) return problem({ status: 401, details: "sign in to the console first" })
      if (changes && (!sameOrigin(request) || request.headers.get("x-csrf-token") !== visit.csrf))
        return problem({ status: 403, details: "the header X-CSRF-Token is missing or wrong" })
      if (area !== undefined && !visit.member.areas.has(area))
        return problem({ status: 403, details: `the area ${area} is needed` })
      try {
        return await handle(visit)
      } catch (cause) {
        if (cause instanceof Refused) return problem(cause)
        throw cause
      }
    }
  }
}
