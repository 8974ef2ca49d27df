/** Rows that an installation needs at its first start, written as bodies of the admin API. A row is created
 *  only when none of its slug, client id, e-mail or issuer exists. Every entry is validated before the first
 *  is written.
 *  Source: docs/spec/authorization.md, section 17, `seed.*`. */
import { Effect } from "effect"
import { defined } from "../../runtime/defined.ts"
import { effectOf } from "../../runtime/http.ts"
import { Conflict } from "../../storage/store.ts"
import type { AdminPorts, Answer, Decision, Outcome } from "./admin/call.ts"
import { createClient } from "./admin/clients.ts"
import { createIdp } from "./admin/idps.ts"
import { createProvider } from "./admin/providers.ts"
import { createResource, providerBySlug } from "./admin/resources.ts"
import { createUser } from "./admin/users.ts"
import type { AuthContext } from "./auth-context.ts"
import { canBeKey } from "./fields.ts"
import { isProblem } from "./problems.ts"
import { Clients, UniqueNames, UserEmails } from "./records.ts"
import { uniqueName } from "./client/unique-names.ts"
import type { Members } from "./wire.ts"

export interface SeedInput {
  readonly brokerProviders?: ReadonlyArray<Members>
  readonly resources?: ReadonlyArray<Members>
  readonly clients?: ReadonlyArray<Members>
  readonly users?: ReadonlyArray<Members>
  readonly idps?: ReadonlyArray<Members>
}

export interface Seeded {
  /** Reasons not to start; when there are any, nothing was written. */
  readonly faults: ReadonlyArray<string>
  /** The created rows. The secret of a confidential client appears only here. */
  readonly created: ReadonlyArray<{
    readonly list: string
    readonly name: string
    readonly clientSecret?: string
  }>
}

interface Kind {
  readonly list: keyof SeedInput
  readonly key: string
  readonly name: string
  exists(name: string): boolean
  create(members: Members): Outcome | Promise<Outcome | Decision> | Effect.Effect<Outcome | Decision>
}

export const seedRows = async (
  authority: AuthContext,
  seeds: SeedInput,
  ports: Pick<AdminPorts, "hashPassword">
): Promise<Seeded> => {
  const { books, audit } = authority
  const { store } = books
  const isNamed = (thing: Parameters<typeof uniqueName>[0], name: string): boolean =>
    UniqueNames.get(store, uniqueName(thing, name)) !== undefined
  /** Ids of this seed's providers by slug, because a resource of the same seed may name one. */
  const pending = new Map<string, string>()
  const kinds: ReadonlyArray<Kind> = [
    {
      list: "brokerProviders",
      key: "seed.broker_providers",
      name: "slug",
      exists: (name) => providerBySlug(authority, name) !== undefined,
      create: (members) => createProvider(authority, members)
    },
    {
      list: "resources",
      key: "seed.resources",
      name: "slug",
      exists: (name) => isNamed("resource-slug", name),
      create: (members) => createResource(authority, members, (slug) => pending.get(slug))
    },
    {
      list: "clients",
      key: "seed.clients",
      name: "client_id",
      exists: (name) => books.get(Clients, [name]) !== undefined,
      create: (members) => createClient(authority, members)
    },
    {
      list: "users",
      key: "seed.users",
      name: "email",
      exists: (name) => UserEmails.get(store, [name.toLowerCase()]) !== undefined,
      create: (members) => createUser(authority, members, ports.hashPassword)
    },
    {
      list: "idps",
      key: "seed.idps",
      name: "issuer",
      exists: (name) => isNamed("idp-issuer", name),
      create: (members) => createIdp(authority, members)
    }
  ]
  const faults: Array<string> = []
  const answers: Array<{ readonly list: string; readonly name: string; readonly answer: Answer }> = []
  for (const { list, key, name, exists, create } of kinds) {
    const names = new Set<string>()
    for (const [at, members] of (seeds[list] ?? []).entries()) {
      const bears = members[name]
      const where = `${key}[${at}]`
      // An entry without a name would be created again at every start.
      if (typeof bears !== "string" || !canBeKey(bears)) {
        faults.push(`${where}: ${name} is required`)
        continue
      }
      if (names.has(bears.toLowerCase())) {
        faults.push(`${where}: ${name} appears twice`)
        continue
      }
      names.add(bears.toLowerCase())
      if (exists(bears)) continue
      const decided = await Effect.runPromise(effectOf<Outcome | Decision>(create(members)))
      const outcome = typeof decided === "function" ? decided() : decided
      if (isProblem(outcome)) {
        faults.push(`${where}: ${outcome.description}`)
        continue
      }
      if (list === "brokerProviders") pending.set(bears, String(outcome.body?.["id"]))
      answers.push({ list: key, name: bears, answer: outcome })
    }
  }
  if (faults.length > 0 || answers.length === 0) return { faults, created: [] }
  const written = books.commit(
    answers.flatMap(({ answer }) => [
      ...(answer.writes ?? []),
      ...(answer.audit === undefined
        ? []
        : [
            audit.event(
              answer.audit.action,
              defined({ actorId: "seed", clientId: answer.audit.clientId, detail: answer.audit.detail })
            )
          ])
    ])
  )
  if (written instanceof Conflict) return { faults: ["seed: two entries claim one URI"], created: [] }
  await written
  return {
    faults,
    created: answers.map(({ list, name, answer }) => {
      const secret = answer.body?.["client_secret"]
      return { list, name, ...(typeof secret === "string" ? { clientSecret: secret } : {}) }
    })
  }
}
