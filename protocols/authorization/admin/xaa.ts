/** /admin/xaa: the policies that decide which assertions are accepted for which clients, and the mappings
 *  from an IdP's subjects to local accounts.
 *  Source: docs/spec/authorization.md, sections 13.3, 13.4 and 16.5. */
import type { Fields } from "../fields.ts"
import { isProblem, type Problem } from "../problems.ts"
import { Idps, MappingKeys, Mappings, Policies, Users, type Policy, type SubjectMapping } from "../records.ts"
import {
  conflict,
  fieldsOf,
  noContent,
  idOf,
  invalid,
  missing,
  ok,
  timesOf,
  type AdminCall,
  type Outcome
} from "./call.ts"
import { list, matching } from "./lists.ts"

const nameLengthMax = 200
const entriesMax = 1_000
const subjectLengthMax = 255
const policyMembers = ["name", "idp_id", "client_ids", "scopes", "resources", "enabled"]

const policyView = (policy: Policy): Readonly<Record<string, unknown>> => ({
  id: policy.id,
  name: policy.name,
  idp_id: policy.idpId,
  client_ids: policy.clientIds,
  scopes: policy.scopes,
  resources: policy.resources,
  enabled: policy.enabled,
  ...timesOf(policy)
})

const mappingView = (mapping: SubjectMapping): Readonly<Record<string, unknown>> => ({
  id: mapping.id,
  idp_id: mapping.idpId,
  idp_subject: mapping.idpSubject,
  local_user_id: mapping.userId,
  ...timesOf(mapping)
})

const readPolicy = ({ authority }: AdminCall, fields: Fields, before: Policy): Policy | Problem => {
  const entries = (name: string, current: ReadonlyArray<string>): ReadonlyArray<string> =>
    fields.strings(name, { itemsMax: entriesMax }) ?? current
  const after: Policy = {
    ...before,
    name: fields.text("name", nameLengthMax) ?? before.name,
    idpId: fields.token("idp_id", 64) ?? before.idpId,
    clientIds: entries("client_ids", before.clientIds),
    scopes: entries("scopes", before.scopes),
    resources: entries("resources", before.resources),
    enabled: fields.boolean("enabled") ?? before.enabled,
    updatedMs: authority.nowMs()
  }
  return (
    fields.problem ??
    (authority.books.get(Idps, [after.idpId]) === undefined ? invalid("idp_id names no IdP") : after)
  )
}

export const postPolicy = (call: AdminCall): Outcome => {
  const { authority } = call
  const nowMs = authority.nowMs()
  const id = authority.books.id()
  const policy = readPolicy(call, fieldsOf(call, policyMembers).required("name", "idp_id"), {
    id,
    name: "",
    idpId: "",
    clientIds: [],
    scopes: [],
    resources: [],
    enabled: true,
    createdMs: nowMs,
    updatedMs: nowMs
  })
  return isProblem(policy)
    ? policy
    : {
        status: 201,
        body: policyView(policy),
        writes: [Policies.put([id], policy, "absent")],
        audit: { action: "xaa_policy.created", detail: { id, idp_id: policy.idpId } }
      }
}

export const listPolicies = (call: AdminCall): Promise<Outcome> =>
  list(call, "policies", {
    table: Policies,
    view: policyView,
    keep: matching<Policy>(call, { idp_id: (row) => row.idpId })
  })

const policyOf = (call: AdminCall): Policy | Problem =>
  call.authority.books.get(Policies, [idOf(call)]) ?? missing("policy")

export const getPolicy = (call: AdminCall): Outcome => {
  const policy = policyOf(call)
  return isProblem(policy) ? policy : ok(policyView(policy))
}

export const putPolicy = (call: AdminCall): Outcome => {
  const before = policyOf(call)
  if (isProblem(before)) return before
  const policy = readPolicy(call, fieldsOf(call, policyMembers), before)
  return isProblem(policy)
    ? policy
    : {
        status: 200,
        body: policyView(policy),
        writes: [Policies.put([policy.id], policy, "present")],
        audit: {
          action: "xaa_policy.updated",
          detail: { id: policy.id, members: Object.keys(call.members).join(",") }
        }
      }
}

export const deletePolicy = (call: AdminCall): Outcome => {
  const policy = policyOf(call)
  return isProblem(policy)
    ? policy
    : {
        ...noContent,
        writes: [Policies.delete([policy.id])],
        audit: { action: "xaa_policy.deleted", detail: { id: policy.id } }
      }
}

export const postMapping = (call: AdminCall): Outcome => {
  const { books } = call.authority
  const fields = fieldsOf(call, ["idp_id", "idp_subject", "local_user_id"]).required(
    "idp_id",
    "idp_subject",
    "local_user_id"
  )
  const idpId = fields.token("idp_id", 64)
  const idpSubject = fields.string("idp_subject", subjectLengthMax)
  const userId = fields.token("local_user_id", 64)
  if (idpSubject !== undefined && !/^\P{Cc}+$/u.test(idpSubject))
    fields.refuse("idp_subject", "must not be empty or hold control characters")
  if (fields.problem !== undefined) return fields.problem
  if (books.get(Idps, [idpId!]) === undefined) return invalid("idp_id names no IdP")
  if (books.get(Users, [userId!]) === undefined) return missing("user")
  const key = [idpId!, idpSubject!]
  const nowMs = call.authority.nowMs()
  const id = books.id()
  if (MappingKeys.get(books.store, key) !== undefined) return conflict("the subject is mapped")
  const mapping: SubjectMapping = {
    id,
    idpId: idpId!,
    idpSubject: idpSubject!,
    userId: userId!,
    createdMs: nowMs,
    updatedMs: nowMs
  }
  return {
    status: 201,
    body: mappingView(mapping),
    writes: [Mappings.put([id], mapping, "absent"), MappingKeys.put(key, { id }, "absent")],
    audit: { action: "subject_mapping.created", detail: { id, idp_id: idpId!, local_user_id: userId! } }
  }
}

export const listMappings = (call: AdminCall): Promise<Outcome> =>
  list(call, "subject_mappings", {
    table: Mappings,
    view: mappingView,
    keep: matching<SubjectMapping>(call, { idp_id: (row) => row.idpId, local_user_id: (row) => row.userId })
  })

export const deleteMapping = (call: AdminCall): Outcome => {
  const mapping = call.authority.books.get(Mappings, [idOf(call)])
  return mapping === undefined
    ? missing("mapping")
    : {
        ...noContent,
        writes: [Mappings.delete([mapping.id]), MappingKeys.delete([mapping.idpId, mapping.idpSubject])],
        audit: { action: "subject_mapping.deleted", detail: { id: mapping.id } }
      }
}
