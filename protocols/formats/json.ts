/** JSON: only string values are translated; keys, numbers, white space and order are written back byte for
 *  byte. The input is validated by RFC 8259 in one loop, without recursion.
 *  Source: docs/spec/documents.md, section 5.11. */
import { BadDocument, limits, type Format } from "./document.ts"
import { decodePlain, encodePlain } from "./encoding.ts"
import { Builder, Segments, spliced } from "./splice.ts"

export interface JsonString {
  readonly raw: string
  readonly from: number
  readonly to: number
  readonly key: string
}

const number = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y
const blank = /[ \t\r\n]*/y
const word = /true|false|null/y

/** Lists every string value with its position; throws BadDocument unless the text is one JSON value. */
export const jsonStrings = (text: string): ReadonlyArray<JsonString> => {
  const found: Array<JsonString> = []
  const inObject: Array<boolean> = []
  const keys: Array<string> = []
  let at = 0
  const fail = (): never => {
    throw new BadDocument("not valid JSON", `offset ${at}`)
  }
  const take = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at
    const match = pattern.exec(text)?.[0]
    if (match !== undefined) at += match.length
    return match
  }
  /** Reads a string by a loop, because a regular expression overflows its stack on long strings. */
  const takeString = (): { readonly raw: string; readonly from: number } => {
    const from = at + 1
    let end = from
    for (;;) {
      const code = text.charCodeAt(end)
      if (code === 34) break
      if (!(code >= 32)) {
        at = end
        fail()
      }
      if (code === 92) {
        const next = text[end + 1] ?? ""
        if (
          next === "u"
            ? !/^[0-9A-Fa-f]{4}$/.test(text.slice(end + 2, end + 6))
            : next === "" || !'"\\/bfnrt'.includes(next)
        ) {
          at = end
          fail()
        }
        end += next === "u" ? 6 : 2
      } else end++
    }
    at = end + 1
    return { raw: text.slice(from, end), from }
  }
  const takeKey = (): void => {
    take(blank)
    if (text[at] !== '"') fail()
    keys[keys.length - 1] = takeString().raw
    take(blank)
    if (text[at] !== ":") fail()
    at++
  }
  for (let wantsValue = true; ;) {
    take(blank)
    const char = text[at]
    if (wantsValue) {
      if (char === "{" || char === "[") {
        if (inObject.length >= limits.jsonDepthMax) throw new BadDocument("nested too deeply", `offset ${at}`)
        at++
        take(blank)
        const close = char === "{" ? "}" : "]"
        if (text[at] === close) {
          at++
          wantsValue = false
          continue
        }
        inObject.push(char === "{")
        keys.push("")
        if (char === "{") takeKey()
        continue
      }
      if (char === '"') {
        const { raw, from } = takeString()
        found.push({ raw, from, to: from + raw.length, key: keys.findLast((key) => key !== "") ?? "" })
      } else if (take(word) === undefined && (take(number) ?? "") === "") fail()
      wantsValue = false
      continue
    }
    if (inObject.length === 0) {
      if (at !== text.length) fail()
      return found
    }
    at++
    if (char === ",") {
      wantsValue = true
      if (inObject.at(-1) === true) takeKey()
      continue
    }
    if (char !== (inObject.at(-1) === true ? "}" : "]")) {
      at--
      fail()
    }
    inObject.pop()
    keys.pop()
  }
}

const keptKeys = new Set([
  "id",
  "url",
  "href",
  "src",
  "type",
  "class",
  "style",
  "icon",
  "color",
  "locale",
  "lang"
])

/** Placeholders that programs fill in, and lone surrogates; both are written back as they are. */
const lock =
  /\$t\([^()"]{1,200}\)|<\/?\d{1,3}\s*\/?>|\{\{[^{}"]{1,100}\}\}|\$?\{[^{}"]{0,100}\}|%(?:\d{1,2}\$)?[sdif@]|\\u[dD][89abAB][0-9A-Fa-f]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9A-Fa-f]{2})\\u[dD][c-fC-F][0-9A-Fa-f]{2}/g

const ascii = (text: string): string =>
  text.replace(/[\u0080-\uFFFF]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)

/** Decodes the escapes of a string. It returns undefined when the cut falls inside an escape, which happens
 *  where a backslash precedes something that looks like a placeholder. */
const unescaped = (raw: string): string | undefined => {
  try {
    return JSON.parse(`"${raw}"`) as string
  } catch {
    return undefined
  }
}

const plain = (text: string): string => JSON.stringify(text).slice(1, -1)

export const json: Format = {
  id: "json",
  extensions: ["json"],
  mime: "application/json",
  inspect: (bytes) => {
    if (bytes.length === 0) throw new BadDocument("empty")
  },
  extract: (bytes, options) => {
    const file = decodePlain(bytes)
    const segments = new Segments(options)
    for (const { raw, from, key } of jsonStrings(file.text)) {
      if (keptKeys.has(key.toLowerCase())) continue
      const builder = new Builder()
      let at = 0
      const words = (to: number): void => {
        if (to === at) return
        const text = unescaped(raw.slice(at, to))
        if (text === undefined) builder.point(from + at, from + to)
        else builder.text(text, from + at, from + to)
      }
      for (const found of raw.matchAll(lock)) {
        words(found.index)
        at = found.index + found[0].length
        builder.point(from + found.index, from + at, undefined, true)
      }
      words(raw.length)
      const onlyEscapes =
        /\\u(?:00[89a-fA-F]|0[1-9a-fA-F]|[1-9a-fA-F])/.test(raw) && !/[\u0080-\uFFFF]/.test(raw)
      segments.add(
        builder,
        { escape: onlyEscapes ? (text) => ascii(plain(text)) : plain },
        key === "" ? {} : { context: key }
      )
    }
    return {
      segments: segments.list,
      characters: segments.characters,
      warnings: [],
      rebuild: (translated) => {
        const text = spliced(file.text, segments.placed, translated)
        return text === file.text ? bytes : encodePlain(text, file)
      }
    }
  }
}
