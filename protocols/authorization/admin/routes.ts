/** The admin API's routes, and the steps around every action: the admin key, the body and the Idempotency-Key
 *  come before it. After it, one transaction commits its writes, its audit event and the Idempotency-Key
 *  record, and the answer is sent when that is durable.
 *  Source: docs/spec/authorization.md, section 16. */
import { defined } from "../../../runtime/defined.ts"
import { createHash, timingSafeEqual } from "node:crypto"
import {
  flatMapLater,
  mapLater,
  type Handler,
  type Later,
  type Request,
  type Response,
  type Route
} from "../../../runtime/http.ts"
import { Conflict, type Write } from "../../../storage/store.ts"
import type { AuthContext } from "../auth-context.ts"
import { isProblem, type Problem, problemOf, problemResponse, slowDown } from "../problems.ts"
import { isWireFault, readJson, readPairs } from "../wire.ts"
import {
  conflict,
  invalid,
  type Action,
  type AdminCall,
  type AdminPorts,
  type Answer,
  type Decision,
  type Outcome
} from "./call.ts"
import {
  deleteClient,
  getClient,
  listClients,
  patchClient,
  postClient,
  reactivateClient,
  revokeClient,
  rotateSecret,
  suspendClient
} from "./clients.ts"
import { deleteBrokerGrant, deleteConsent } from "./grants.ts"
import { deleteIdp, getIdp, listIdps, postIdp, putIdp, refreshKeys } from "./idps.ts"
import { memoryOf, type Memory } from "./idempotency.ts"
import { deleteIssuance, deleteToken, getIssuance, listIssuances, listTokens } from "./issuances.ts"
import { deleteProvider, getProvider, listProviders, patchProvider, postProvider } from "./providers.ts"
import { policyActions } from "./resource-policy.ts"
import { deleteResource, getResource, listResources, patchResource, postResource } from "./resources.ts"
import {
  config,
  getRegistration,
  listAudit,
  listKeys,
  patchRegistration,
  rotateKey,
  stats,
  status,
  verifyKey,
  withdrawKey
} from "./system.ts"
import {
  deleteUser,
  disableUser,
  enableUser,
  getUser,
  listUsers,
  logOut,
  patchUser,
  postUser,
  userGrants,
  userTokens
} from "./users.ts"
import {
  deleteMapping,
  deletePolicy,
  getPolicy,
  listMappings,
  listPolicies,
  postMapping,
  postPolicy,
  putPolicy
} from "./xaa.ts"

export const adminBytesMax = 262_144
const actor = "admin"

const digest = (text: string): Buffer => createHash("sha256").update(text).digest()

/** Compares the hashes of both keys in constant time, so that timing reveals neither length nor content. When
 *  no key is configured, access is free if the issuer is on this machine, and denied otherwise. */
const keyCheck = ({ settings, local }: AuthContext): ((authorization: string | undefined) => boolean) => {
  const { adminApiKey } = settings
  const expected = digest(adminApiKey)
  if (adminApiKey === "") return () => local
  return (authorization) =>
    timingSafeEqual(digest(/^bearer +(.*)$/is.exec(authorization ?? "")?.[1] ?? ""), expected)
}

const readCall = (authority: AuthContext, ports: AdminPorts, request: Request): AdminCall | Problem => {
  const query = readPairs(request.query)
  if (isWireFault(query)) return invalid(query.detail)
  if (query.repeated.length > 0) return invalid("a query parameter appears twice")
  // A GET or DELETE needs no body, and neither does an action without members.
  const members = request.body.length === 0 ? {} : readJson(request.headers.get("content-type"), request.body)
  return isWireFault(members)
    ? invalid(members.detail)
    : { authority, ports, request, params: request.params, query, members }
}

/** Waits until the recorded answer is durable before repeating it. */
const recalled = async (
  call: AdminCall,
  memory: Memory | undefined
): Promise<Answer | Problem | undefined> => {
  if (memory?.recalled() === undefined) return undefined
  await call.authority.books.store.flushed()
  return memory.recalled()
}

/** An action that waits stops with its client; what it has decided is then written whatever the client does. */
const changedMeanwhile = (): Problem => conflict("the row changed meanwhile; try again")

const run = (action: Action, call: AdminCall): Later<Answer | Problem> => {
  const memory = memoryOf(call.authority, call.request)
  if (isProblem(memory)) return memory
  const acted = (): Later<Answer | Problem> => actedOn(action, call, memory)
  return memory?.recalled() === undefined
    ? acted()
    : flatMapLater(recalled(call, memory), (before) => before ?? acted())
}

const actedOn = (action: Action, call: AdminCall, memory: Memory | undefined): Later<Answer | Problem> =>
  flatMapLater<Outcome | Decision, Answer | Problem>(action(call), (decided) => {
    // No wait may come between here and the commit.
    const outcome = typeof decided === "function" ? decided() : decided
    if (memory?.recalled() !== undefined)
      return recalled(call, memory).then((answer) => answer ?? changedMeanwhile())
    return isProblem(outcome) ? outcome : carriedOut(call, memory, outcome)
  })

/** Commits what an action has decided, with its audit event and the record of the answer. */
const carriedOut = async (
  call: AdminCall,
  memory: Memory | undefined,
  outcome: Answer
): Promise<Answer | Problem> => {
  const {
    authority: { books, audit },
    request
  } = call
  const also = (answer: Answer): ReadonlyArray<Write> => [
    ...(answer.audit === undefined
      ? []
      : [
          audit.event(
            answer.audit.action,
            defined({
              actorId: actor,
              clientId: answer.audit.clientId,
              ip: request.client,
              traceId: request.traceId,
              detail: answer.audit.detail
            })
          )
        ]),
    ...(memory?.writes(answer) ?? [])
  ]
  try {
    if (outcome.perform !== undefined) return await outcome.perform(also)
    const writes = [...(outcome.writes ?? []), ...also(outcome)]
    if (writes.length > 0) await books.write(writes)
    // The row already has the wanted state, but the change that led to it may not be durable yet.
    else if (request.method !== "GET") await books.store.flushed()
    outcome.after?.()
    return outcome
  } catch (fault) {
    if (!(fault instanceof Conflict)) throw fault
    // A concurrent request came first, with the same Idempotency-Key or with a change of the same row.
    return (await recalled(call, memory)) ?? changedMeanwhile()
  }
}

const headers = [
  ["Cache-Control", "no-store"],
  ["Pragma", "no-cache"]
] as const

const responseOf = ({ status, body }: Answer): Response =>
  body === undefined
    ? { status, headers }
    : { status, headers: [["Content-Type", "application/json"], ...headers], body: JSON.stringify(body) }

/** Every route checks the admin key first; nothing is read or answered before that. */
export const adminRoutes = (authority: AuthContext, ports: AdminPorts): ReadonlyArray<Route> => {
  const isKey = keyCheck(authority)
  const { adminFailures } = ports
  const guarded =
    (action: Action): Handler =>
    (request) => {
      const refuse = (problem: Problem): Response => problemResponse(problem, request, authority.settings)
      const lockedMs = adminFailures.retryAfterMs(request.client)
      if (lockedMs > 0) return refuse(slowDown(lockedMs))
      if (!isKey(request.headers.get("authorization"))) {
        const { client: ip, traceId } = request
        authority.audit.strangerLater("admin.auth_failed", { ip, traceId })
        if (adminFailures.count(ip)) authority.audit.strangerLater("auth.locked_out", { ip, traceId })
        return refuse(problemOf("invalid_admin_key", "the admin key is missing or wrong"))
      }
      const call = readCall(authority, ports, request)
      return mapLater(isProblem(call) ? call : run(action, call), (answer) =>
        isProblem(answer) ? refuse(answer) : responseOf(answer)
      )
    }
  const policyRoutes = (
    path: string,
    actions: { readonly get: Action; readonly post: Action; readonly delete: Action },
    entry: string
  ): ReadonlyArray<readonly [string, string, Action]> => [
    ["GET", path, actions.get],
    ["POST", path, actions.post],
    ["DELETE", path + entry, actions.delete]
  ]
  const policy = "/admin/resources/:id/policy"
  const table: ReadonlyArray<readonly [method: string, path: string, action: Action]> = [
    ["POST", "/admin/clients", postClient],
    ["GET", "/admin/clients", listClients],
    ["GET", "/admin/clients/:id", getClient],
    ["PATCH", "/admin/clients/:id", patchClient],
    ["DELETE", "/admin/clients/:id", deleteClient],
    ["PATCH", "/admin/clients/:id/suspend", suspendClient],
    ["PATCH", "/admin/clients/:id/reactivate", reactivateClient],
    ["PATCH", "/admin/clients/:id/revoke", revokeClient],
    ["POST", "/admin/clients/:id/rotate-secret", rotateSecret],
    ["POST", "/admin/resources", postResource],
    ["GET", "/admin/resources", listResources],
    ["GET", "/admin/resources/:id", getResource],
    ["PATCH", "/admin/resources/:id", patchResource],
    ["DELETE", "/admin/resources/:id", deleteResource],
    ...policyRoutes(`${policy}/exchange/allowed-clients`, policyActions.exchange, "/:client"),
    ...policyRoutes(`${policy}/runtime/client-ids`, policyActions.runtime, "/:client"),
    ...policyRoutes(`${policy}/connect/allowed-return-urls`, policyActions.connect, ""),
    ["POST", "/admin/broker-providers", postProvider],
    ["GET", "/admin/broker-providers", listProviders],
    ["GET", "/admin/broker-providers/:id", getProvider],
    ["PATCH", "/admin/broker-providers/:id", patchProvider],
    ["DELETE", "/admin/broker-providers/:id", deleteProvider],
    ["POST", "/admin/idps", postIdp],
    ["GET", "/admin/idps", listIdps],
    ["GET", "/admin/idps/:id", getIdp],
    ["PUT", "/admin/idps/:id", putIdp],
    ["DELETE", "/admin/idps/:id", deleteIdp],
    ["POST", "/admin/idps/:id/refresh-keys", refreshKeys],
    ["POST", "/admin/xaa/policies", postPolicy],
    ["GET", "/admin/xaa/policies", listPolicies],
    ["GET", "/admin/xaa/policies/:id", getPolicy],
    ["PUT", "/admin/xaa/policies/:id", putPolicy],
    ["DELETE", "/admin/xaa/policies/:id", deletePolicy],
    ["POST", "/admin/xaa/subject-mappings", postMapping],
    ["GET", "/admin/xaa/subject-mappings", listMappings],
    ["DELETE", "/admin/xaa/subject-mappings/:id", deleteMapping],
    ["POST", "/admin/users", postUser],
    ["GET", "/admin/users", listUsers],
    ["GET", "/admin/users/:id", getUser],
    ["PATCH", "/admin/users/:id", patchUser],
    ["DELETE", "/admin/users/:id", deleteUser],
    ["PATCH", "/admin/users/:id/disable", disableUser],
    ["PATCH", "/admin/users/:id/enable", enableUser],
    ["GET", "/admin/users/:id/tokens", userTokens],
    ["DELETE", "/admin/users/:id/tokens", logOut],
    ["GET", "/admin/users/:id/grants", userGrants],
    ["DELETE", "/admin/grants/consent/:id", deleteConsent],
    ["DELETE", "/admin/grants/broker/:id", deleteBrokerGrant],
    ["GET", "/admin/issuances", listIssuances],
    ["GET", "/admin/issuances/:id", getIssuance],
    ["DELETE", "/admin/issuances/:id", deleteIssuance],
    ["GET", "/admin/tokens", listTokens],
    ["DELETE", "/admin/tokens/:jti", deleteToken],
    ["GET", "/admin/keys", listKeys],
    ["POST", "/admin/keys/rotate", rotateKey],
    ["POST", "/admin/keys/:id/withdraw", withdrawKey],
    ["GET", "/admin/audit", listAudit],
    ["GET", "/admin/settings/dcr", getRegistration],
    ["PATCH", "/admin/settings/dcr", patchRegistration],
    ["POST", "/admin/auth/verify", verifyKey],
    ["GET", "/admin/stats", stats],
    ["GET", "/admin/system/status", status],
    ["GET", "/admin/system/config", config]
  ]
  return table.map(([method, path, action]) => ({
    method,
    path,
    body: { as: "buffer", bytesMax: adminBytesMax },
    handle: guarded(action)
  }))
}
