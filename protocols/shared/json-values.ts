/** The bound on JSON of strangers: how many values it holds is counted before it is parsed, because each of them
 *  costs the event loop a hundred times what its bytes do.
 *  Guarantee: text with fewer bytes than values permitted is not walked; other text is walked once at most,
 *  and only until the limit.
 *  Source: docs/security.md, limits against strangers. */

/** What a body holds at most where its reader has no limit of its own. */
export const valuesMax = 100_000

const quote = 34
const comma = 44
const colon = 58
const openBracket = 91
const backslash = 92
const closeBracket = 93
const openBrace = 123
const closeBrace = 125

/** How far the end of a string is looked for here, before native code does it, which costs a call. */
const step = 32

export type JsonExcess = "levels" | "values"

/** 1 for the bytes that mean something outside of strings. */
const structural = new Uint8Array(256)
for (const byte of [quote, comma, colon, openBracket, closeBracket, openBrace, closeBrace])
  structural[byte] = 1

/** Returns the index of the quote that ends the string which starts at `start`, or at least the length. */
const stringEnd = (json: Buffer, start: number): number => {
  let index = start
  for (;;) {
    const near = Math.min(json.length, index + step)
    while (index < near) {
      const byte = json[index]!
      if (byte === quote) return index
      index += byte === backslash ? 2 : 1
    }
    const end = json.indexOf(quote, index)
    if (end < 0) return json.length
    let before = end
    while (before > index && json[before - 1] === backslash) before--
    if ((end - before) % 2 === 0) return end
    index = end + 1
  }
}

/** Returns which limit the text breaks first. Elements are counted, and members twice because of their
 *  names: by commas, colons and the brackets around them. An empty array or object counts as one more. */
export const jsonExcess = (json: Buffer, levels: number, values: number): JsonExcess | undefined => {
  let depth = 0
  let count = 0
  for (let index = 0; index < json.length; index++) {
    const byte = json[index]!
    if (structural[byte] === 0) continue
    if (byte === quote) index = stringEnd(json, index + 1)
    else if (byte === closeBrace || byte === closeBracket) depth--
    else {
      if (byte !== comma && byte !== colon && ++depth > levels) return "levels"
      if (++count > values) return "values"
    }
  }
  return undefined
}

/** Returns true for text that must not be parsed. */
export const holdsTooManyValues = (json: Uint8Array | string, max = valuesMax): boolean => {
  if (json.length <= max) return false
  const bytes =
    typeof json === "string" ? Buffer.from(json) : Buffer.from(json.buffer, json.byteOffset, json.byteLength)
  return jsonExcess(bytes, Infinity, max) !== undefined
}

/** Parses text as JSON.parse does; text with too many values throws as text that is no JSON does. */
export const parseBounded = (text: string, max = valuesMax): unknown => {
  if (holdsTooManyValues(text, max)) throw new SyntaxError(`more than ${max} JSON values`)
  return JSON.parse(text)
}
