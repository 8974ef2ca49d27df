/** `POST /oauth/revoke`: revokes the caller's token. The answer is 200 for every authenticated caller,
 *  whether or not the token existed.
 *  Source: docs/spec/authorization.md, section 9.2; RFC 7009. */
import { chainLater, type Later, type Request, type Response } from "../../../runtime/http.ts"
import { authenticate, type Authenticated } from "../client/clients.ts"
import { isProblem, type Problem, problemOf } from "../problems.ts"
import { Issuances } from "../records.ts"
import type { AuthServices } from "../services.ts"
import { isWireFault, readForm, type Form } from "../wire.ts"

/** An answer without a media type: clients would read a body of JSON, and fail on an empty one. */
const answered: Response = {
  status: 200,
  headers: [
    ["Cache-Control", "no-store"],
    ["Pragma", "no-cache"]
  ],
  body: ""
}

export const revoke = (services: AuthServices, request: Request): Later<Response | Problem> => {
  const form = readForm(request.headers.get("content-type"), request.query, request.body)
  if (isWireFault(form)) return problemOf("invalid_request", form.detail)
  return chainLater(
    authenticate(services, request.headers.get("authorization"), form, request.client),
    (caller) => revokedBy(services, request, form, caller)
  )
}

const revokedBy = async (
  services: AuthServices,
  request: Request,
  form: Form,
  caller: Authenticated | Problem
): Promise<Response | Problem> => {
  if (isProblem(caller)) return caller
  const token = form.get("token")
  if (token === undefined) return problemOf("invalid_request", "token is missing")
  const { books, families, refreshTokens, keys, audit, nowMs } = services
  const { clientId } = caller.client
  const event = (detail: Record<string, string>) =>
    audit.event("token.revoked", { clientId, ip: request.client, traceId: request.traceId, detail })

  const refresh = refreshTokens.decode(token)
  if (refresh !== undefined) {
    const family = await families.inspect(refresh.familyId)
    if (isProblem(family)) return family
    if (family._tag === "Active" && family.grant.clientId === clientId)
      await families.revoke(refresh.familyId, "revoked", [event({ family_id: refresh.familyId })])
  } else {
    const jti = keys.verify(token)?.claims["jti"]
    const issuance = typeof jti === "string" ? Issuances.get(books.store, [jti]) : undefined
    if (issuance !== undefined && issuance.clientId === clientId && issuance.revokedMs === null) {
      await books.write([
        Issuances.put([issuance.jti], { ...issuance, revokedMs: nowMs(), revokedReason: "revoked" }),
        event({ jti: issuance.jti })
      ])
    }
  }
  return answered
}
