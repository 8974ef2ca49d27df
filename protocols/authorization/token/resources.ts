/** Resources and scopes: how a `resource` value finds its row, which audience a token gets, and which scopes
 *  a limit leaves. The functions depend on nothing but their arguments and the rows.
 *  Source: docs/spec/authorization.md, sections 2.2 and 2.3; RFC 8707. */
import type { AuthContext } from "../auth-context.ts"
import { type Problem, problemOf, quoted } from "../problems.ts"
import type { Resource } from "../records.ts"
import { scopeToken } from "../settings.ts"
import { audienceOf as audienceOfResource, resourceUriKey } from "../client/unique-names.ts"

const scopesMax = 100
const scopeLengthMax = 4_096

const comparable = (uri: string, rootSlash: boolean): string | undefined => {
  const key = resourceUriKey(uri)
  return rootSlash && key !== undefined && /^[^:]+:\/\/[^/]+\/$/.test(key) ? key.slice(0, -1) : key
}

export const resourceByUri = ({ books, settings }: AuthContext, value: string): Resource | undefined => {
  const wanted = comparable(value, settings.acceptRootSlash)
  return wanted === undefined
    ? undefined
    : books.resources().find(({ uri }) => uri !== "" && comparable(uri, settings.acceptRootSlash) === wanted)
}

export const resourceBySlug = ({ books }: AuthContext, slug: string): Resource | undefined =>
  books.resources().find((resource) => resource.slug === slug)

/** Finds a resource by its URI, then by its slug. */
export const resourceOf = (authority: AuthContext, value: string): Resource | undefined =>
  resourceByUri(authority, value) ?? resourceBySlug(authority, value)

export const resourceById = ({ books }: AuthContext, id: string): Resource | undefined =>
  id === "" ? undefined : books.resources().find((resource) => resource.id === id)

/** Returns the resource's audience, or the issuer when there is no resource. */
export const audienceOf = ({ settings: { issuer } }: AuthContext, resource: Resource | undefined): string =>
  resource === undefined ? issuer : audienceOfResource(issuer, resource)

/** Finds the resource that has this audience. */
export const resourceOfAudience = (authority: AuthContext, audience: unknown): Resource | undefined =>
  authority.books.resources().find((resource) => audienceOf(authority, resource) === audience)

/** Reads scope tokens in order, without duplicates. Returns undefined when the text names none, and a Problem
 *  when it is malformed. */
export const readScope = (value: string | undefined): ReadonlyArray<string> | Problem | undefined => {
  if (value === undefined) return undefined
  const scopes = [...new Set(value.split(" ").filter((scope) => scope !== ""))]
  if (value.length > scopeLengthMax || scopes.length > scopesMax)
    return problemOf("invalid_scope", "too many scopes")
  const malformed = scopes.find((scope) => !scopeToken.test(scope))
  if (malformed !== undefined) return problemOf("invalid_scope", `${quoted(malformed)} is not a scope`)
  return scopes.length === 0 ? problemOf("invalid_scope", "the scope names none") : scopes
}

export const namesOf = (resource: Resource): ReadonlyArray<string> => resource.scopes.map(({ name }) => name)

/** True when the resource's catalog has the scope; without a resource, when any catalog has it. */
export const catalogHas = ({ books }: AuthContext, resource: Resource | undefined, scope: string): boolean =>
  resource !== undefined
    ? resource.scopes.some(({ name }) => name === scope)
    : books.resources().some(({ scopes }) => scopes.some(({ name }) => name === scope))

/** Sorts scopes into the order of the catalog; others follow in their own order. */
export const inCatalogOrder = (
  resource: Resource | undefined,
  scopes: ReadonlyArray<string>
): ReadonlyArray<string> => {
  if (resource === undefined) return scopes
  const names = namesOf(resource)
  return [
    ...names.filter((name) => scopes.includes(name)),
    ...scopes.filter((scope) => !names.includes(scope))
  ]
}

export const within = (scopes: ReadonlyArray<string>, bound: ReadonlyArray<string>): boolean =>
  scopes.every((scope) => bound.includes(scope))

export const refusedScope = (scope: string): Problem =>
  problemOf("invalid_scope", `the scope ${quoted(scope)} is not permitted`)
