/** /admin/idps: the identity providers whose assertions are trusted. Their keys are fetched when an assertion
 *  needs them, or when an administrator asks.
 *  Source: docs/spec/authorization.md, sections 13.2 and 16.4. */
import { Effect } from "effect"
import type { Write } from "../../../storage/store.ts"
import type { AuthContext } from "../auth-context.ts"
import { Fields } from "../fields.ts"
import { badGateway, isProblem, type Problem } from "../problems.ts"
import { Idps, MappingKeys, Mappings, Policies, UniqueNames, type Idp } from "../records.ts"
import { isAllowedUrl } from "../settings.ts"
import { uniqueName } from "../client/unique-names.ts"
import type { Members } from "../wire.ts"
import {
  conflict,
  fieldsOf,
  noContent,
  idOf,
  missing,
  ok,
  timeText,
  timesOf,
  type AdminPorts,
  type AdminCall,
  type Decision,
  type Outcome,
  type Waiting
} from "./call.ts"
import { list, matching, rowsOf } from "./lists.ts"

const nameLengthMax = 200
type FetchedMs = AdminPorts["idpKeys"]["fetchedMs"]

const idpView =
  (fetchedMs: FetchedMs) =>
  (idp: Idp): Readonly<Record<string, unknown>> => {
    const atMs = fetchedMs(idp.id)
    return {
      id: idp.id,
      name: idp.name,
      issuer: idp.issuer,
      jwks_uri: idp.jwksUri,
      audience: idp.audience,
      enabled: idp.enabled,
      keys_fetched_at: atMs === undefined ? null : timeText(atMs),
      ...timesOf(idp)
    }
  }

/** Reads an https URL; http is accepted only where private addresses are allowed too. */
const readUrl = (fields: Fields, name: string, { settings }: AuthContext, min = 1): string | undefined => {
  const url = fields.token(name, 2_048, min)
  return url === undefined ||
    (url === "" && min === 0) ||
    (isAllowedUrl(url, settings.xaa.allowPrivateAddresses) && !url.includes("#"))
    ? url
    : fields.refuse(name, "must be an https URL")
}

/** Creates an IdP from a request body; the seed calls it too. */
export const createIdp = (
  authority: AuthContext,
  members: Members,
  fetchedMs: FetchedMs = () => undefined
): Outcome => {
  const { books, settings } = authority
  const fields = new Fields(members, "invalid_request", [
    "name",
    "issuer",
    "jwks_uri",
    "audience",
    "enabled"
  ]).required("name", "issuer")
  const nowMs = authority.nowMs()
  const id = books.id()
  const idp: Idp = {
    id,
    name: fields.text("name", nameLengthMax) ?? "",
    issuer: readUrl(fields, "issuer", authority) ?? "",
    jwksUri: readUrl(fields, "jwks_uri", authority, 0) ?? "",
    audience: fields.token("audience", 2_048, 0) || settings.issuer,
    enabled: fields.boolean("enabled") ?? true,
    createdMs: nowMs,
    updatedMs: nowMs
  }
  if (fields.problem !== undefined) return fields.problem
  const name = uniqueName("idp-issuer", idp.issuer)
  if (UniqueNames.get(books.store, name) !== undefined) return conflict("an IdP of this issuer exists")
  return {
    status: 201,
    body: idpView(fetchedMs)(idp),
    audit: { action: "idp.created", detail: { id, issuer: idp.issuer } },
    writes: [Idps.put([id], idp, "absent"), UniqueNames.put(name, { id }, "absent")]
  }
}

export const postIdp = ({ authority, members, ports }: AdminCall): Outcome =>
  createIdp(authority, members, ports.idpKeys.fetchedMs)

export const listIdps = (call: AdminCall): Promise<Outcome> =>
  list(call, "idps", {
    table: Idps,
    view: idpView(call.ports.idpKeys.fetchedMs),
    keep: matching<Idp>(call, { enabled: (row) => String(row.enabled) })
  })

const idpOf = (call: AdminCall): Idp | Problem =>
  call.authority.books.get(Idps, [idOf(call)]) ?? missing("IdP")

export const getIdp = (call: AdminCall): Outcome => {
  const idp = idpOf(call)
  return isProblem(idp) ? idp : ok(idpView(call.ports.idpKeys.fetchedMs)(idp))
}

export const putIdp = (call: AdminCall): Outcome => {
  const idp = idpOf(call)
  if (isProblem(idp)) return idp
  const { authority, ports } = call
  const fields = fieldsOf(call, ["name", "jwks_uri", "audience", "enabled"])
  const after: Idp = {
    ...idp,
    name: fields.text("name", nameLengthMax) ?? idp.name,
    jwksUri: readUrl(fields, "jwks_uri", authority, 0) ?? idp.jwksUri,
    audience: fields.token("audience") ?? idp.audience,
    enabled: fields.boolean("enabled") ?? idp.enabled,
    updatedMs: authority.nowMs()
  }
  if (fields.problem !== undefined) return fields.problem
  const moved = after.jwksUri !== idp.jwksUri
  return {
    status: 200,
    body: idpView(ports.idpKeys.fetchedMs)(after),
    writes: [Idps.put([idp.id], after, "present")],
    audit: { action: "idp.updated", detail: { id: idp.id, members: Object.keys(call.members).join(",") } },
    ...(moved ? { after: () => ports.idpKeys.forget(idp.id) } : {})
  }
}

/** Deletes an IdP together with its policies and subject mappings. */
export const deleteIdp = async (call: AdminCall): Promise<Decision> => {
  const writes: Array<Write> = []
  const id = idOf(call)
  for await (const { key, value } of rowsOf(call, Policies))
    if (value.idpId === id) writes.push(Policies.delete(key))
  for await (const { key, value } of rowsOf(call, MappingKeys, { prefix: [id] }))
    writes.push(MappingKeys.delete(key), Mappings.delete([value.id]))
  return () => {
    const idp = idpOf(call)
    return isProblem(idp)
      ? idp
      : {
          ...noContent,
          writes: [...writes, Idps.delete([id]), UniqueNames.delete(uniqueName("idp-issuer", idp.issuer))],
          audit: { action: "idp.deleted", detail: { id, issuer: idp.issuer } },
          after: () => call.ports.idpKeys.forget(id)
        }
  }
}

export const refreshKeys = (call: AdminCall): Outcome | Waiting => {
  const idp = idpOf(call)
  if (isProblem(idp)) return idp
  const fields = fieldsOf(call, [])
  if (fields.problem !== undefined) return fields.problem
  return Effect.match(call.ports.idpKeys.refresh(idp), {
    onFailure: (fault) => badGateway("the keys could not be fetched", fault),
    onSuccess: (keys) => ok({ status: "refreshed", keys })
  })
}
