/** Reads the head of an HTTP/1.1 answer: the few fields that a client of model servers needs. It is
 *  guaranteed that a head is refused which frames its body in a way that could be read two ways. Source:
 *  RFC 9112. */

export interface ResponseHead {
  readonly status: number
  readonly type: string
  readonly retryAfter: string | undefined
  /** The body's length in bytes, or -1 when the head does not say. */
  readonly length: number
  readonly chunked: boolean
  /** True when the connection may be reused; the time for which it may follows. */
  readonly keepAlive: boolean
  readonly keepAliveMs: number
}

export const keepAliveMsDefault = 30_000

/** The same head while its fields are read: one object, which becomes the result. */
type Draft = { -readonly [Name in keyof ResponseHead]: ResponseHead[Name] }

/** Reads a length; returns false when it is not a number, or differs from an earlier one. */
const readLength = (head: Draft, value: string): boolean => {
  if (!/^\d{1,15}$/.test(value)) return false
  const length = Number(value)
  if (head.length >= 0 && head.length !== length) return false
  head.length = length
  return true
}

const readTransferEncoding = (head: Draft, value: string): boolean => {
  if (head.chunked || value.toLowerCase() !== "chunked") return false
  head.chunked = true
  return true
}

const readConnection = (head: Draft, value: string): void => {
  const words = value.toLowerCase()
  if (words.includes("close")) head.keepAlive = false
  else if (words.includes("keep-alive")) head.keepAlive = true
}

const readKeepAlive = (head: Draft, value: string): void => {
  const seconds = /timeout=(\d{1,6})/i.exec(value)?.[1]
  // The connection is closed a second before the server would do so.
  if (seconds !== undefined)
    head.keepAliveMs = Math.max(0, Math.min(keepAliveMsDefault, Number(seconds) * 1_000 - 1_000))
}

/** Reads one field into the head; false when the head cannot be trusted. */
const readField = (head: Draft, name: string, value: string): boolean => {
  switch (name) {
    case "content-type":
      head.type = value
      return true
    case "retry-after":
      head.retryAfter = value
      return true
    case "content-length":
      return readLength(head, value)
    case "transfer-encoding":
      return readTransferEncoding(head, value)
    case "connection":
      readConnection(head, value)
      return true
    case "keep-alive":
      readKeepAlive(head, value)
      return true
    default:
      return true
  }
}

/** True for the lengths of the names that `readField` knows: other fields are not even extracted (hot
 *  path). */
const mayBeRead = (nameLength: number): boolean =>
  (nameLength >= 10 && nameLength <= 12) || nameLength === 14 || nameLength === 17

/** Reads all fields into the head; false when one of them is malformed or cannot be trusted. */
const readFields = (head: Draft, text: string): boolean => {
  for (let at = text.indexOf("\r\n"); at >= 0;) {
    const from = at + 2
    const colon = text.indexOf(":", from)
    at = text.indexOf("\r\n", from)
    const to = at < 0 ? text.length : at
    if (colon <= from || colon > to || text.charCodeAt(from) <= 32 || text.charCodeAt(colon - 1) <= 32)
      return false
    if (!mayBeRead(colon - from)) continue
    if (!readField(head, text.slice(from, colon).toLowerCase(), text.slice(colon + 1, to).trim()))
      return false
  }
  return true
}

/** Reads the text before the empty line; undefined when it is not HTTP/1.1 or cannot be trusted. */
export const readHead = (text: string): ResponseHead | undefined => {
  if (!/^HTTP\/1\.[01] \d{3}(?: |\r|$)/.test(text)) return undefined
  const head: Draft = {
    status: Number(text.slice(9, 12)),
    type: "",
    retryAfter: undefined,
    length: -1,
    chunked: false,
    keepAlive: text.charCodeAt(7) === 49,
    keepAliveMs: keepAliveMsDefault
  }
  if (!readFields(head, text)) return undefined

  // Both framings at once may be an attack: the chunks count, and the connection is not used again.
  if (head.chunked && head.length >= 0) {
    head.length = -1
    head.keepAlive = false
  }
  if (head.status === 204 || head.status === 304) {
    head.chunked = false
    head.length = 0
  }
  return head
}
