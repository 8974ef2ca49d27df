/** Names that only one row may have, as keys of the table UniqueNames. They are hashed, because a name may be
 *  longer than a key.
 *  Source: docs/spec/authorization.md, sections 2.2, 2.3 and 2.4. */
import { createHash } from "node:crypto"
import type { Key } from "../../../storage/store.ts"

export type NamedThing = "resource-slug" | "resource-audience" | "provider-slug" | "idp-issuer"

export const uniqueName = (thing: NamedThing, name: string): Key => [
  thing,
  createHash("sha256").update(name).digest("base64url")
]

const absolute = /^([a-z][a-z0-9+.-]*):\/\/([^/?#]+)([^#]*)$/i

/** Returns the same text for two resource URIs that name one resource: scheme and host are compared without
 *  case, all else byte for byte. Returns undefined unless the text is an absolute URI with a host and without
 *  a fragment. */
export const resourceUriKey = (uri: string): string | undefined => {
  const [, scheme, authority, rest] = absolute.exec(uri) ?? []
  if (authority === undefined || authority.endsWith("@") || /^(?:.*@)?:/.test(authority)) return undefined
  const host = authority.lastIndexOf("@") + 1
  return `${scheme!.toLowerCase()}://${authority.slice(0, host)}${authority.slice(host).toLowerCase()}${rest}`
}

/** Returns the resource's URI as registered, never as sent; a resource without a URI gets an address below
 *  the issuer. */
export const audienceOf = (
  issuer: string,
  { uri, slug }: { readonly uri: string; readonly slug: string }
): string => (uri === "" ? `${issuer}/resources/${slug}` : uri)

export const audienceName = (
  issuer: string,
  resource: { readonly uri: string; readonly slug: string }
): Key => {
  const audience = audienceOf(issuer, resource)
  return uniqueName("resource-audience", resourceUriKey(audience) ?? audience)
}
