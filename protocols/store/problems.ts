/** Every refusal of the store, to its status and body. Source: store section 5. */
import type { Response, Header } from "../../runtime/http.ts"
import type { FieldFault } from "./engine/fields.ts"

const phrases: Record<number, string> = {
  400: "Bad Request",
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  408: "Request Timeout",
  409: "Conflict",
  412: "Precondition Failed",
  413: "Content Too Large",
  414: "URI Too Long",
  415: "Unsupported Media Type",
  421: "Misdirected Request",
  429: "Too Many Requests",
  431: "Request Header Fields Too Large",
  500: "Internal Server Error",
  503: "Service Unavailable"
}

const faultsMax = 50

export interface Problem {
  readonly status: number
  readonly details: string
  readonly errors?: ReadonlyArray<FieldFault>
}

/** A refusal on its way out of a write; nothing of it was kept. */
export class Refused extends Error implements Problem {
  readonly status: number
  readonly details: string
  readonly errors?: ReadonlyArray<FieldFault>

  constructor(status: number, details: string, errors?: ReadonlyArray<FieldFault>) {
    super(details)
    this.name = "Refused"
    this.status = status
    this.details = details
    if (errors !== undefined) this.errors = errors
  }
}

export const fieldsRefused = (status: 400 | 409, errors: ReadonlyArray<FieldFault>): Refused =>
  new Refused(
    status,
    errors
      .map(({ field, message }) => `${field} ${message}`)
      .slice(0, 5)
      .join("; "),
    errors.slice(0, faultsMax)
  )

export const problemBody = ({ status, details, errors }: Problem): string =>
  JSON.stringify({
    status_code: status,
    message: phrases[status] ?? "Error",
    details,
    ...(errors === undefined ? {} : { errors })
  })

export const jsonType: Header = ["Content-Type", "application/json; charset=utf-8"]
export const noStore: Header = ["Cache-Control", "no-store"]

export const problem = (given: Problem, ...headers: ReadonlyArray<Header>): Response => ({
  status: given.status,
  headers: [jsonType, noStore, ...headers],
  body: problemBody(given)
})
