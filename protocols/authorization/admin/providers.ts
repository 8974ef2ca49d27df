/** /admin/broker-providers: the upstreams whose tokens are vended.
 *  Source: docs/spec/authorization.md, sections 12.1 and 16.3. */
import type { Write } from "../../../storage/store.ts"
import type { AuthContext } from "../auth-context.ts"
import { Fields } from "../fields.ts"
import { isProblem, type Problem } from "../problems.ts"
import {
  protocols,
  providerConfigFault,
  sealSecret,
  maskedConfig,
  splitSecrets,
  type Protocol
} from "../upstream/providers.ts"
import { BrokerGrants, Providers, UniqueNames, type BrokerGrant, type Provider } from "../records.ts"
import { uniqueName } from "../client/unique-names.ts"
import type { Members } from "../wire.ts"
import {
  conflict,
  fieldsOf,
  noContent,
  idOf,
  missing,
  ok,
  timesOf,
  type AdminCall,
  type Decision,
  type Outcome
} from "./call.ts"
import { list, matching, rowsOf } from "./lists.ts"
import { displayNameLengthMax, providerBySlug, readSlug } from "./resources.ts"

export const providerView = (provider: Provider): Readonly<Record<string, unknown>> => ({
  id: provider.id,
  slug: provider.slug,
  display_name: provider.displayName,
  protocol: provider.protocol,
  config_data: maskedConfig(provider),
  ...timesOf(provider)
})

/** Splits `config_data` into its public members and its sealed secret. When it contains neither a secret nor
 *  a reference to one, the existing `sealed` secret stays. */
const readConfig = (
  { seal, local }: AuthContext,
  fields: Fields,
  protocol: Protocol,
  id: string,
  sealed: Uint8Array | null
): Pick<Provider, "config" | "sealedSecret"> => {
  const fault = providerConfigFault(protocol, fields.members, local, sealed !== null)
  if (fault !== undefined) {
    const [, name, why] = /^config_data\.(\S+) (.*)$/.exec(fault)!
    fields.refuse(name!, why!)
  }
  const { config, secret } = splitSecrets(fields.members)
  const referred = Object.keys(config).some((name) => name.endsWith("_ref"))
  if (secret !== undefined) return { config, sealedSecret: sealSecret(seal, id, secret) }
  return { config, sealedSecret: referred ? null : sealed }
}

/** Creates a provider from a request body; the seed calls it too. */
export const createProvider = (authority: AuthContext, members: Members): Outcome => {
  const { books } = authority
  const fields = new Fields(members, "invalid_request", [
    "slug",
    "display_name",
    "protocol",
    "config_data"
  ]).required("slug", "protocol", "config_data")
  const slug = readSlug(fields) ?? ""
  const protocol = fields.choice("protocol", protocols)
  const config = fields.object("config_data")
  const displayName =
    (members["display_name"] === "" ? undefined : fields.text("display_name", displayNameLengthMax)) ?? slug
  const id = books.id()
  const read =
    protocol === undefined || config === undefined
      ? undefined
      : readConfig(authority, config, protocol, id, null)
  if (fields.problem !== undefined) return fields.problem
  if (providerBySlug(authority, slug) !== undefined) return conflict("a provider of this slug exists")
  const nowMs = authority.nowMs()
  const provider: Provider = {
    id,
    slug,
    displayName,
    protocol: protocol!,
    ...read!,
    createdMs: nowMs,
    updatedMs: nowMs
  }
  return {
    status: 201,
    body: providerView(provider),
    audit: { action: "broker_provider.created", detail: { id, slug } },
    writes: [
      Providers.put([id], provider, "absent"),
      UniqueNames.put(uniqueName("provider-slug", slug), { id }, "absent")
    ]
  }
}

export const postProvider = ({ authority, members }: AdminCall): Outcome => createProvider(authority, members)

export const listProviders = (call: AdminCall): Promise<Outcome> =>
  list(call, "broker_providers", {
    table: Providers,
    view: providerView,
    keep: matching<Provider>(call, { slug: (row) => row.slug, protocol: (row) => row.protocol })
  })

const providerOf = (call: AdminCall): Provider | Problem =>
  call.authority.books.get(Providers, [idOf(call)]) ?? missing("provider")

export const getProvider = (call: AdminCall): Outcome => {
  const provider = providerOf(call)
  return isProblem(provider) ? provider : ok(providerView(provider))
}

/** A `config_data` with neither a secret nor a reference to one leaves the secret unchanged, because a client
 *  cannot read the secret in order to send it again. */
export const patchProvider = (call: AdminCall): Outcome => {
  const provider = providerOf(call)
  if (isProblem(provider)) return provider
  const { authority } = call
  const fields = fieldsOf(call, ["slug", "display_name", "config_data"])
  const slug = readSlug(fields) ?? provider.slug
  const config = fields.object("config_data")
  const displayName = fields.text("display_name", displayNameLengthMax) ?? provider.displayName
  const read =
    config === undefined
      ? undefined
      : readConfig(authority, config, provider.protocol, provider.id, provider.sealedSecret)
  if (fields.problem !== undefined) return fields.problem
  const holder = providerBySlug(authority, slug)
  if (holder !== undefined && holder.id !== provider.id) return conflict("a provider of this slug exists")
  const after: Provider = { ...provider, slug, displayName, ...read, updatedMs: authority.nowMs() }
  return {
    status: 200,
    body: providerView(after),
    audit: {
      action: "broker_provider.updated",
      detail: { id: provider.id, members: Object.keys(call.members).join(",") }
    },
    writes: [
      Providers.put([provider.id], after, "present"),
      ...(slug === provider.slug
        ? []
        : [
            UniqueNames.delete(uniqueName("provider-slug", provider.slug)),
            UniqueNames.put(uniqueName("provider-slug", slug), { id: provider.id })
          ])
    ]
  }
}

/** Deletes a provider together with its grants and their credentials. A grant created while they are
 *  collected is void, because its provider no longer exists. */
export const deleteProvider = async (call: AdminCall): Promise<Decision> => {
  const { books } = call.authority
  const writes: Array<Write> = []
  const grants: Array<BrokerGrant> = []
  for await (const { key, value } of rowsOf(call, BrokerGrants)) {
    if (value.providerId !== call.params["id"]) continue
    writes.push(BrokerGrants.delete(key))
    if (value.revokedMs === null) grants.push(value)
  }
  return () => {
    const provider = providerOf(call)
    if (isProblem(provider)) return provider
    if (books.resources().some(({ providerId }) => providerId === provider.id))
      return conflict("a resource refers to the provider")
    return {
      ...noContent,
      writes: [
        ...writes,
        Providers.delete([provider.id]),
        UniqueNames.delete(uniqueName("provider-slug", provider.slug))
      ],
      audit: {
        action: "broker_provider.deleted",
        detail: { id: provider.id, slug: provider.slug, revoked_grants: grants.length }
      },
      after: () => {
        for (const grant of grants) call.ports.revokeUpstream(grant, provider)
      }
    }
  }
}
