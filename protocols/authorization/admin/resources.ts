/** /admin/resources: the catalog of resources, and which clients may use each of them.
 *  Source: docs/spec/authorization.md, sections 2.2, 2.3 and 16.2. */
import type { Key } from "../../../storage/store.ts"
import type { AuthContext } from "../auth-context.ts"
import { resourcesMax } from "../cached-tables.ts"
import { Fields } from "../fields.ts"
import { isProblem, type Problem, quoted } from "../problems.ts"
import { Providers, Resources, UniqueNames, type Provider, type Resource } from "../records.ts"
import { isAllowedUrl, scopeToken } from "../settings.ts"
import { audienceName, resourceUriKey, uniqueName } from "../client/unique-names.ts"
import type { Members } from "../wire.ts"
import {
  conflict,
  fieldsOf,
  noContent,
  idOf,
  invalid,
  missing,
  ok,
  timesOf,
  type Answer,
  type AdminCall,
  type Outcome
} from "./call.ts"
import { list, matching } from "./lists.ts"

const slugForm = /^[a-z0-9][a-z0-9-]{0,62}$/
const scopesMax = 200
const scopeLengthMax = 128
const upstreamMax = 20
const descriptionLengthMax = 500
export const policyEntriesMax = 1_000
export const displayNameLengthMax = 200
const memberNames = ["slug", "uri", "display_name", "scopes", "policy", "broker_provider_id"]

type CatalogScope = Resource["scopes"][number]
type Policy = Pick<Resource, "exchangeClients" | "runtimeClients" | "returnUrls">

export const resourceView = (resource: Resource): Readonly<Record<string, unknown>> => ({
  id: resource.id,
  slug: resource.slug,
  uri: resource.uri,
  backend_kind: resource.backend,
  broker_provider_id: resource.providerId,
  display_name: resource.displayName,
  scopes: resource.scopes.map(({ name, description, upstream }) => ({
    name,
    ...(description === "" ? {} : { description }),
    ...(upstream.length === 0 ? {} : { upstream })
  })),
  policy: {
    exchange: { allowed_client_ids: resource.exchangeClients },
    runtime: { client_ids: resource.runtimeClients },
    ...(resource.backend === "broker" ? { connect: { allowed_return_urls: resource.returnUrls } } : {})
  },
  ...timesOf(resource)
})

export const readSlug = (fields: Fields): string | undefined => {
  const slug = fields.string("slug")
  return slug === undefined || slugForm.test(slug)
    ? slug
    : fields.refuse(
        "slug",
        "must be 1 to 63 lower-case letters, digits and hyphens, not beginning with a hyphen"
      )
}

const readUri = (fields: Fields): string | undefined => {
  const uri = fields.token("uri", 2_048, 0)
  return uri === undefined || uri === "" || (resourceUriKey(uri) !== undefined && URL.canParse(uri))
    ? uri
    : fields.refuse("uri", "must be an absolute URI with a host and without a fragment")
}

const readScopes = (fields: Fields, broker: boolean): ReadonlyArray<CatalogScope> | undefined => {
  const scopes = fields
    .objects("scopes", scopesMax, ["name", "description", "upstream"])
    ?.map((scope): CatalogScope => {
      const name = scope.required("name").string("name", scopeLengthMax) ?? ""
      if (scope.has("name") && !scopeToken.test(name)) scope.refuse("name", `is no scope: ${quoted(name)}`)
      const upstream =
        typeof scope.members["upstream"] === "string"
          ? [scope.token("upstream", 256) ?? ""]
          : scope.strings("upstream", { itemsMax: upstreamMax, lengthMax: 256 })
      if (upstream !== undefined && !broker) scope.refuse("upstream", "is for Broker resources")
      if (upstream?.length === 0) scope.refuse("upstream", "must not be empty")
      return {
        name,
        description: scope.text("description", descriptionLengthMax, 0) ?? "",
        upstream: upstream ?? []
      }
    })
  const names = new Set<string>()
  for (const { name } of scopes ?? []) {
    if (names.has(name)) return fields.refuse("scopes", `holds ${quoted(name)} twice`)
    names.add(name)
  }
  return scopes
}

export const isReturnUrl = (url: string, { local }: AuthContext): boolean =>
  /^[\x21-\x7e]+$/.test(url) && !url.includes("\\") && isAllowedUrl(url, local)

/** Each section of the policy in the body replaces that whole section; the others stay. */
const readPolicy = (authority: AuthContext, fields: Fields, before: Policy, broker: boolean): Policy => {
  const policy = fields.object("policy", ["exchange", "runtime", "connect"])
  const part = (name: string, member: string, current: ReadonlyArray<string>): ReadonlyArray<string> => {
    const section = policy?.object(name, [member])
    return section === undefined ? current : (section.strings(member, { itemsMax: policyEntriesMax }) ?? [])
  }
  if (policy?.has("connect") === true && !broker) policy.refuse("connect", "is for Broker resources")
  const after = {
    exchangeClients: part("exchange", "allowed_client_ids", before.exchangeClients),
    runtimeClients: part("runtime", "client_ids", before.runtimeClients),
    returnUrls: part("connect", "allowed_return_urls", before.returnUrls)
  }
  const wrong = after.returnUrls.find((url) => !isReturnUrl(url, authority))
  if (wrong !== undefined)
    fields.refuse("policy.connect.allowed_return_urls", `holds ${quoted(wrong)}, which is no https URL`)
  return after
}

/** Keys of the names that only one resource may have. Renaming a resource releases its old names. */
const names = ({ settings }: AuthContext, resource: Resource): ReadonlyArray<Key> => [
  uniqueName("resource-slug", resource.slug),
  audienceName(settings.issuer, resource)
]

const taken = (authority: AuthContext, resource: Resource): Problem | undefined => {
  for (const [at, key] of names(authority, resource).entries()) {
    const holder = UniqueNames.get(authority.books.store, key)
    if (holder !== undefined && holder.id !== resource.id)
      return conflict(at === 0 ? "a resource of this slug exists" : "a resource of this URI exists")
  }
  return undefined
}

export const providerBySlug = ({ books }: AuthContext, name: string): Provider | undefined => {
  const id = UniqueNames.get(books.store, uniqueName("provider-slug", name))?.id
  return id === undefined ? undefined : books.get(Providers, [id])
}

/** `pending` finds by slug the id of a provider of the same seed, which is not in the store yet. */
export const createResource = (
  authority: AuthContext,
  members: Members,
  pending: (slug: string) => string | undefined = () => undefined
): Outcome => {
  const { books } = authority
  const fields = new Fields(members, "invalid_request", [
    ...memberNames,
    "backend_kind",
    "broker_provider_slug"
  ]).required("slug")
  const name = readSlug(fields) ?? ""
  const backend = fields.choice("backend_kind", ["mint", "broker"]) ?? "mint"
  const broker = backend === "broker"
  const byId = fields.token("broker_provider_id", 64, 0) ?? ""
  const bySlug = fields.token("broker_provider_slug", 64, 0) ?? ""
  const found = bySlug === "" ? "" : (providerBySlug(authority, bySlug)?.id ?? pending(bySlug))
  const providerId = byId === "" ? (found ?? "") : byId
  if (!broker && (byId !== "" || bySlug !== ""))
    fields.refuse("broker_provider_id", "is for Broker resources")
  if (broker && byId === "" && bySlug === "")
    fields.refuse("broker_provider_id", "is required for a Broker resource")
  if (
    found === undefined ||
    (byId !== "" && (books.get(Providers, [byId]) === undefined || (bySlug !== "" && found !== byId)))
  )
    fields.refuse(bySlug === "" ? "broker_provider_id" : "broker_provider_slug", "names no provider")
  const policy = readPolicy(
    authority,
    fields,
    { exchangeClients: [], runtimeClients: [], returnUrls: [] },
    broker
  )
  const nowMs = authority.nowMs()
  const resource: Resource = {
    id: books.id(),
    slug: name,
    uri: readUri(fields) ?? "",
    backend,
    providerId,
    displayName:
      (members["display_name"] === "" ? undefined : fields.text("display_name", displayNameLengthMax)) ??
      name,
    scopes: readScopes(fields, broker) ?? [],
    ...policy,
    createdMs: nowMs,
    updatedMs: nowMs
  }
  if (fields.problem !== undefined) return fields.problem
  const clash = taken(authority, resource)
  if (clash !== undefined) return clash
  if (books.resources().length >= resourcesMax)
    return conflict(`there are ${resourcesMax} resources, which is the limit`)
  return {
    status: 201,
    body: resourceView(resource),
    audit: { action: "resource.created", detail: { id: resource.id, slug: resource.slug } },
    writes: [
      Resources.put([resource.id], resource, "absent"),
      ...names(authority, resource).map((key) => UniqueNames.put(key, { id: resource.id }, "absent"))
    ]
  }
}

export const postResource = ({ authority, members }: AdminCall): Outcome => createResource(authority, members)

export const listResources = (call: AdminCall): Promise<Outcome> =>
  list(call, "resources", {
    table: Resources,
    view: resourceView,
    keep: matching<Resource>(call, {
      backend_kind: (row) => row.backend,
      slug: (row) => row.slug,
      uri: (row) => row.uri
    })
  })

/** Finds a resource by id or slug. */
export const resourceOf = (call: AdminCall): Resource | Problem => {
  const { books } = call.authority
  const ref = idOf(call)
  const id = UniqueNames.get(books.store, uniqueName("resource-slug", ref))?.id
  return (
    (ref === ""
      ? undefined
      : (books.get(Resources, [ref]) ?? (id === undefined ? undefined : books.get(Resources, [id])))) ??
    missing("resource")
  )
}

export const getResource = (call: AdminCall): Outcome => {
  const resource = resourceOf(call)
  return isProblem(resource) ? resource : ok(resourceView(resource))
}

export const storeResource = (
  call: AdminCall,
  before: Resource,
  after: Resource,
  answer: Pick<Answer, "status" | "body" | "audit">
): Answer => {
  const { authority } = call
  const remaining = names(authority, after).map((key) => key.join("\0"))
  const removed = names(authority, before).filter((key) => !remaining.includes(key.join("\0")))
  return {
    ...answer,
    writes: [
      Resources.put([after.id], after, "present"),
      ...removed.map((key) => UniqueNames.delete(key)),
      ...names(authority, after).map((key) => UniqueNames.put(key, { id: after.id }))
    ]
  }
}

export const patchResource = (call: AdminCall): Outcome => {
  const resource = resourceOf(call)
  if (isProblem(resource)) return resource
  const { authority } = call
  const broker = resource.backend === "broker"
  const fields = fieldsOf(call, memberNames)
  const providerId = fields.token("broker_provider_id", 64, 0) ?? resource.providerId
  if (broker ? authority.books.get(Providers, [providerId]) === undefined : providerId !== "")
    fields.refuse("broker_provider_id", broker ? "names no provider" : "is for Broker resources")
  const after: Resource = {
    ...resource,
    slug: readSlug(fields) ?? resource.slug,
    uri: readUri(fields) ?? resource.uri,
    providerId,
    displayName: fields.text("display_name", displayNameLengthMax) ?? resource.displayName,
    scopes: readScopes(fields, broker) ?? resource.scopes,
    ...readPolicy(authority, fields, resource, broker),
    updatedMs: authority.nowMs()
  }
  if (fields.problem !== undefined) return fields.problem
  return (
    taken(authority, after) ??
    storeResource(call, resource, after, {
      status: 200,
      body: resourceView(after),
      audit: {
        action: "resource.patched",
        detail: { id: resource.id, members: Object.keys(call.members).join(",") }
      }
    })
  )
}

export const deleteResource = (call: AdminCall): Outcome => {
  const resource = resourceOf(call)
  if (isProblem(resource)) return resource
  return {
    ...noContent,
    writes: [
      Resources.delete([resource.id]),
      ...names(call.authority, resource).map((key) => UniqueNames.delete(key))
    ],
    audit: { action: "resource.deleted", detail: { id: resource.id, slug: resource.slug } }
  }
}

export const brokerOnly: Problem = invalid("only a Broker resource has return URLs")
