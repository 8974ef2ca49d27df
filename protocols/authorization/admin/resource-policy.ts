/** The three lists of a resource's policy, changed one entry at a time. A listed client id need not exist
 *  yet.
 *  Source: docs/spec/authorization.md, section 16.2. */
import { isProblem, type Problem } from "../problems.ts"
import type { Resource } from "../records.ts"
import {
  conflict,
  fieldsOf,
  noContent,
  missing,
  ok,
  type Action,
  type AdminCall,
  type Outcome
} from "./call.ts"
import { brokerOnly, isReturnUrl, policyEntriesMax, resourceOf, storeResource } from "./resources.ts"

interface PolicyList {
  readonly member: "exchangeClients" | "runtimeClients" | "returnUrls"
  /** Name of the list in the audit log. */
  readonly name: string
  /** Member of the request body that contains the entry to add. */
  readonly entry: "client_id" | "url"
  readonly plural: string
}

const exchange: PolicyList = {
  member: "exchangeClients",
  name: "exchange",
  entry: "client_id",
  plural: "client_ids"
}

const runtime: PolicyList = {
  member: "runtimeClients",
  name: "runtime",
  entry: "client_id",
  plural: "client_ids"
}

const connect: PolicyList = {
  member: "returnUrls",
  name: "connect",
  entry: "url",
  plural: "allowed_return_urls"
}

const subjectOf = (call: AdminCall, { member }: PolicyList): Resource | Problem => {
  const resource = resourceOf(call)
  return !isProblem(resource) && member === "returnUrls" && resource.backend !== "broker"
    ? brokerOnly
    : resource
}

const stored = (
  call: AdminCall,
  policy: PolicyList,
  resource: Resource,
  entries: ReadonlyArray<string>,
  what: "added" | "removed",
  entry: string
): Outcome => {
  const after = { ...resource, [policy.member]: entries, updatedMs: call.authority.nowMs() }
  return storeResource(call, resource, after, {
    ...(what === "added" ? { status: 201, body: { [policy.plural]: entries } } : noContent),
    audit: {
      action: `resource.policy.${policy.name}.${what}`,
      ...(policy.entry === "client_id" ? { clientId: entry } : {}),
      detail: { id: resource.id, [policy.entry]: entry }
    }
  })
}

const listPolicy =
  (policy: PolicyList): Action =>
  (call) => {
    const resource = subjectOf(call, policy)
    return isProblem(resource) ? resource : ok({ [policy.plural]: resource[policy.member] })
  }

const addPolicy =
  (policy: PolicyList): Action =>
  (call) => {
    const resource = subjectOf(call, policy)
    if (isProblem(resource)) return resource
    const fields = fieldsOf(call, [policy.entry]).required(policy.entry)
    const entry = fields.token(policy.entry)
    if (entry !== undefined && policy.entry === "url" && !isReturnUrl(entry, call.authority))
      fields.refuse("url", "must be an absolute https URL")
    if (fields.problem !== undefined) return fields.problem
    const entries = resource[policy.member]
    if (entries.includes(entry!)) return conflict("the entry is in the list")
    if (entries.length >= policyEntriesMax)
      return conflict(`the list holds ${policyEntriesMax} entries, which is the limit`)
    return stored(call, policy, resource, [...entries, entry!], "added", entry!)
  }

const removed =
  (policy: PolicyList): Action =>
  (call) => {
    const resource = subjectOf(call, policy)
    if (isProblem(resource)) return resource
    const entry = policy.entry === "url" ? call.query.get("url") : call.params["client"]
    const entries = resource[policy.member]
    return entry === undefined || !entries.includes(entry)
      ? missing("entry")
      : stored(
          call,
          policy,
          resource,
          entries.filter((other) => other !== entry),
          "removed",
          entry
        )
  }

const actions = (policy: PolicyList) => ({
  get: listPolicy(policy),
  post: addPolicy(policy),
  delete: removed(policy)
})

export const policyActions = {
  exchange: actions(exchange),
  runtime: actions(runtime),
  connect: actions(connect)
}
