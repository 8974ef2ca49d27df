/** Redirect URIs: which may be registered, and which a request may name. They are compared exactly, without
 *  normalisation. All functions are pure.
 *  Source: docs/spec/authorization.md, section 7.2; RFC 8252 section 7.3 for the loopback port. */
import { isLoopbackHost } from "../shared/addresses.ts"

export const redirectUriLengthMax = 2_048
const responseNames = new Set(["code", "state", "iss", "error", "error_description"])

/** Returns why a redirect URI cannot be registered, or undefined when it can. */
export const redirectUriFault = (uri: string): string | undefined => {
  if (uri.length > redirectUriLengthMax) return "is too long"
  if (!/^[A-Za-z0-9._~:/?#[\]@!$&'()+,;=%-]+$/.test(uri)) return "holds a character that is not allowed"
  if (uri.includes("#")) return "has a fragment"
  const parts = /^([a-z][a-z0-9+.-]*):\/\/([^/?]+)(\/[^?]*)?(\?.*)?$/i.exec(uri)
  if (parts === null) return "is not an absolute URI with a host"
  const [, , authority, path = "", query = ""] = parts
  let url: URL
  try {
    url = new URL(uri)
  } catch {
    return "is not an absolute URI"
  }
  if (authority!.includes("@") || url.username !== "" || url.password !== "") return "has user information"
  if (url.hostname === "") return "has no host"
  // Reads the host as written, because the URL parser turns 2130706433 and 0x7f.1 into 127.0.0.1.
  const literal = /^(.*?)(?::\d{0,5})?$/.exec(authority!.toLowerCase())![1]!
  if (
    url.protocol !== "https:" &&
    !(url.protocol === "http:" && literal === url.hostname && isLoopbackHost(literal))
  )
    return "wants https, or http on a loopback address"
  if (/%(?:2f|5c|2e)/i.test(path)) return "has an encoded separator in its path"
  if (path.split("/").some((part) => part === "." || part === "..")) return "has dot segments"
  for (const name of new URLSearchParams(query).keys())
    if (responseNames.has(name)) return `has a parameter named ${name}`
  return undefined
}

const loopbackUri = /^http:\/\/(localhost|127\.\d+\.\d+\.\d+|\[::1\])(?::\d{1,5})?(\/[^?]*)?(\?.*)?$/

/** True when `sent` is one of `registered`; with `loopbackAnyPort`, loopback URIs may differ in their
 *  port. */
export const isRegistered = (
  sent: string,
  registered: ReadonlyArray<string>,
  loopbackAnyPort: boolean
): boolean => {
  if (registered.includes(sent)) return true
  if (!loopbackAnyPort) return false
  const [, host, path = "", query = ""] = loopbackUri.exec(sent) ?? []
  if (host === undefined) return false
  return registered.some((uri) => {
    const [, itsHost, itsPath = "", itsQuery = ""] = loopbackUri.exec(uri) ?? []
    return host === itsHost && path === itsPath && query === itsQuery
  })
}

/** Returns the source that `form-action` must list for a form whose answer redirects to `uri`, because
 *  browsers apply it to redirects too. A Content-Security-Policy cannot contain an IPv6 address, so its
 *  scheme is listed instead. */
export const formTargetOf = (uri: string): string => {
  const { protocol, hostname, origin } = new URL(uri)
  return hostname.startsWith("[") ? protocol : origin
}

export const isLoopbackUri = (uri: string): boolean => isLoopbackHost(new URL(uri).hostname)
