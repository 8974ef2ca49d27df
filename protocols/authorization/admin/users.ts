/** /admin/users: local and federated accounts. Raising a user's epoch invalidates every session, code, family
 *  and token issued before.
 *  Source: docs/spec/authorization.md, sections 7.5 and 16.6. */
import { Effect } from "effect"
import type { Write } from "../../../storage/store.ts"
import type { AuthContext } from "../auth-context.ts"
import { Fields } from "../fields.ts"
import { passwordFault } from "../passwords.ts"
import { isProblem, type Problem, slowDown } from "../problems.ts"
import {
  BrokerGrants,
  Clients,
  ConsentKeys,
  Consents,
  Issuances,
  Prompts,
  Providers,
  Resources,
  UserEmails,
  UserFederations,
  Users,
  type ConsentGrant,
  type User
} from "../records.ts"
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
  type Answer,
  type AdminCall,
  type Decision,
  type Outcome,
  type Waiting
} from "./call.ts"
import { brokerGrantView, consentView, revokedConsent } from "./grants.ts"
import { issuanceView, liveIssuances } from "./issuances.ts"
import { list, matching } from "./lists.ts"

const nameLengthMax = 200
const emailLengthMax = 254
const grantsMax = 10_000
const memberNames = ["email", "name", "password", "role"]

const userView = (user: User): Readonly<Record<string, unknown>> => ({
  id: user.id,
  email: user.email,
  name: user.name,
  role: user.role,
  status: user.status,
  federated: user.federated !== null,
  ...timesOf(user),
  last_login_at: user.lastLoginMs === null ? null : timeText(user.lastLoginMs)
})

const emailKey = (email: string): readonly [string] => [email.toLowerCase()]

const readEmail = (fields: Fields): string | undefined => {
  const email = fields.text("email", emailLengthMax)
  return email === undefined || /^[^\s@]+@[^\s@]+$/.test(email)
    ? email
    : fields.refuse("email", "is no e-mail address")
}

const readPassword = (fields: Fields): string | undefined => {
  const password = fields.string("password", 4_096)
  const fault = password === undefined ? undefined : passwordFault(password)
  return fault === undefined ? password : fields.refuse("password", fault)
}

interface UserFields {
  readonly email: string | undefined
  readonly name: string | undefined
  readonly role: User["role"] | undefined
  /** Undefined when the request has no password. */
  readonly passwordHash: string | undefined
}

/** Does everything that has to wait, such as hashing, before any row is read. */
const readUser = (
  fields: Fields,
  hashPassword: AdminPorts["hashPassword"]
): Effect.Effect<UserFields | Problem> => {
  const email = readEmail(fields)
  const name = fields.text("name", nameLengthMax, 0)
  const role = fields.choice("role", ["user", "admin"])
  const password = readPassword(fields)
  if (fields.problem !== undefined) return Effect.succeed(fields.problem)
  if (password === undefined) return Effect.succeed({ email, name, role, passwordHash: undefined })
  return hashPassword(password).pipe(
    Effect.map((passwordHash): UserFields | Problem => ({ email, name, role, passwordHash })),
    Effect.catchTag("HashQueueFull", () => Effect.succeed(slowDown(1_000)))
  )
}

const taken = ({ books }: AuthContext, email: string, id: string): Problem | undefined => {
  const holder = UserEmails.get(books.store, emailKey(email))
  return holder === undefined || holder.id === id ? undefined : conflict("a user of this e-mail exists")
}

/** Creates a user from a request body; the seed calls it too. */
export const createUser = (
  authority: AuthContext,
  members: Members,
  hashPassword: AdminPorts["hashPassword"]
): Effect.Effect<Problem | Decision> =>
  Effect.map(
    readUser(new Fields(members, "invalid_request", memberNames).required("email"), hashPassword),
    (read) => (isProblem(read) ? read : creation(authority, read))
  )

const creation =
  (authority: AuthContext, read: UserFields): Decision =>
  () => {
    const { books } = authority
    const nowMs = authority.nowMs()
    const id = books.id()
    const user: User = {
      id,
      email: read.email!,
      name: read.name ?? "",
      role: read.role ?? "user",
      passwordHash: read.passwordHash ?? null,
      federated: null,
      status: "active",
      epoch: 0,
      lastLoginMs: null,
      createdMs: nowMs,
      updatedMs: nowMs
    }
    return (
      taken(authority, user.email, id) ?? {
        status: 201,
        body: userView(user),
        audit: { action: "user.created", detail: { id } },
        writes: [Users.put([id], user, "absent"), UserEmails.put(emailKey(user.email), { id }, "absent")]
      }
    )
  }

export const postUser = ({ authority, members, ports }: AdminCall): Waiting =>
  createUser(authority, members, ports.hashPassword)

export const listUsers = (call: AdminCall): Promise<Outcome> => {
  const email = call.query.get("email")?.toLowerCase()
  const matches = matching<User>(call, { status: (row) => row.status })
  return list(call, "users", {
    table: Users,
    view: userView,
    keep: (row) => matches(row) && (email === undefined || row.email.toLowerCase() === email)
  })
}

const userOf = (call: AdminCall): User | Problem =>
  call.authority.books.get(Users, [idOf(call)]) ?? missing("user")

export const getUser = (call: AdminCall): Outcome => {
  const user = userOf(call)
  return isProblem(user) ? user : ok(userView(user))
}

const changed = (
  call: AdminCall,
  user: User,
  action: string,
  answer: Pick<Answer, "status" | "body">,
  detail: Readonly<Record<string, string | number>> = {}
): Answer => ({
  ...answer,
  writes: [Users.put([user.id], { ...user, updatedMs: call.authority.nowMs() }, "present")],
  audit: { action, detail: { id: user.id, ...detail } }
})

export const patchUser = (call: AdminCall): Outcome | Waiting => {
  const found = userOf(call)
  if (isProblem(found)) return found
  return Effect.map(readUser(fieldsOf(call, memberNames), call.ports.hashPassword), (read) =>
    isProblem(read) ? read : () => patched(call, read)
  )
}

const patched = (call: AdminCall, read: UserFields): Outcome => {
  const user = userOf(call)
  if (isProblem(user)) return user
  const after: User = {
    ...user,
    email: read.email ?? user.email,
    name: read.name ?? user.name,
    role: read.role ?? user.role,
    ...(read.passwordHash === undefined ? {} : { passwordHash: read.passwordHash, epoch: user.epoch + 1 }),
    updatedMs: call.authority.nowMs()
  }
  const clash = taken(call.authority, after.email, user.id)
  if (clash !== undefined) return clash
  const [before, now] = [emailKey(user.email), emailKey(after.email)]
  const answer = changed(
    call,
    after,
    "user.updated",
    { status: 200, body: userView(after) },
    { members: Object.keys(call.members).join(",") }
  )
  return {
    ...answer,
    writes: [
      ...answer.writes!,
      ...(before[0] === now[0] ? [] : [UserEmails.delete(before), UserEmails.put(now, { id: user.id })])
    ]
  }
}

const become =
  (status: User["status"], action: string) =>
  (call: AdminCall): Outcome => {
    const user = userOf(call)
    const fields = fieldsOf(call, [])
    if (isProblem(user)) return user
    if (fields.problem !== undefined) return fields.problem
    return user.status === status
      ? ok({ status })
      : changed(call, { ...user, status, epoch: user.epoch + (status === "disabled" ? 1 : 0) }, action, {
          status: 200,
          body: { status }
        })
  }

export const disableUser = become("disabled", "user.disabled")
export const enableUser = become("active", "user.enabled")

const unrevokedConsents = ({ authority }: AdminCall, userId: string): ReadonlyArray<ConsentGrant> =>
  ConsentKeys.range(authority.books.store, { prefix: [userId], limit: grantsMax })
    .map(({ value }) => authority.books.get(Consents, [value.id]))
    .filter((grant) => grant !== undefined && grant.revokedMs === null) as ReadonlyArray<ConsentGrant>

/** True unless the client or the resource of the consent has ended, which ends the consent without changing
 *  its row. */
const stands =
  ({ authority: { books } }: AdminCall) =>
  (grant: ConsentGrant): boolean => {
    const client = books.get(Clients, [grant.clientId])
    return (
      client !== undefined &&
      client.status !== "revoked" &&
      client.issuedMs === grant.clientIssuedMs &&
      (grant.resourceId === "" || books.get(Resources, [grant.resourceId]) !== undefined)
    )
  }

export const deleteUser = (call: AdminCall): Outcome => {
  const user = userOf(call)
  if (isProblem(user)) return user
  const { authority, ports } = call
  const { store } = authority.books
  const consents = unrevokedConsents(call, user.id)
  const grants = BrokerGrants.range(store, { prefix: [user.id], limit: grantsMax })
  const writes: Array<Write> = [
    Users.delete([user.id]),
    UserEmails.delete(emailKey(user.email)),
    ...consents.flatMap((grant) => revokedConsent(authority, grant)),
    ...grants.map(({ key }) => BrokerGrants.delete(key)),
    ...Prompts.range(store, { prefix: [user.id], limit: grantsMax }).map(({ key }) => Prompts.delete(key))
  ]
  if (user.federated !== null)
    writes.push(UserFederations.delete([user.federated.issuer, user.federated.subject]))
  const revoked = grants.map(({ value }) => value).filter(({ revokedMs }) => revokedMs === null)
  return {
    ...noContent,
    writes,
    audit: {
      action: "user.deleted",
      detail: { id: user.id, revoked_consents: consents.length, revoked_grants: revoked.length }
    },
    after: () => {
      for (const grant of revoked)
        ports.revokeUpstream(grant, authority.books.get(Providers, [grant.providerId]))
    }
  }
}

/** Lists the user's live tokens. */
export const userTokens = async (call: AdminCall): Promise<Outcome> => {
  const user = userOf(call)
  return isProblem(user)
    ? user
    : list(call, "tokens", {
        table: Issuances,
        view: issuanceView,
        keep: (row) => row.userId === user.id && call.ports.isLive(row)
      })
}

export const logOut = async (call: AdminCall): Promise<Problem | Decision> => {
  const found = userOf(call)
  if (isProblem(found)) return found
  const live = await liveIssuances(call, (row) => row.userId === found.id)
  return () => {
    const user = userOf(call)
    return isProblem(user)
      ? user
      : changed(
          call,
          { ...user, epoch: user.epoch + 1 },
          "user.force_logout",
          { status: 200, body: { revoked: live.length } },
          { revoked_issuances: live.length }
        )
  }
}

export const userGrants = (call: AdminCall): Outcome => {
  const user = userOf(call)
  if (isProblem(user)) return user
  const broker = BrokerGrants.range(call.authority.books.store, { prefix: [user.id], limit: grantsMax })
    .map(({ value }) => value)
    .filter(({ revokedMs }) => revokedMs === null)
  return ok({
    consent_grants: unrevokedConsents(call, user.id).filter(stands(call)).map(consentView),
    broker_grants: broker.map(brokerGrantView)
  })
}
