/** The body of a request: UTF-8, valid JSON, an object, not nested without end; and a member of it as the
 *  client wrote it, so that it can be forwarded without being serialized again.
 *  Guarantee: the depth and the number of values are limited before anything is parsed.
 *  Source: docs/spec/chat.md, sections 3.5 and 19. */
import { isUtf8 } from "node:buffer"
import { jsonExcess, valuesMax, type JsonExcess } from "../../shared/json-values.ts"
import { Refusal } from "../problems.ts"

export type Json = { readonly [name: string]: unknown }

export const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const levelsMax = 64

/** Of the body itself, which has some thirty; those without a meaning are copied when they are forwarded. */
export const membersMax = 1_024

const quote = 34
const backslash = 92
const comma = 44
const openBrace = 123
const closeBrace = 125
const openBracket = 91
const closeBracket = 93

/** Returns true when the body has no more opening brackets than levels allowed, strings included; it then
 *  needs no closer check. */
const opensAtMost = (body: Buffer, max: number): boolean => {
  let opens = 0
  for (const bracket of [openBrace, openBracket])
    for (let index = body.indexOf(bracket); index >= 0; index = body.indexOf(bracket, index + 1))
      if (++opens > max) return false
  return true
}

/** The raw bytes are read, because a value of such a depth or size would already have cost its parse. */
const excessOf = (body: Buffer): JsonExcess | undefined =>
  body.length <= valuesMax && opensAtMost(body, levelsMax)
    ? undefined
    : jsonExcess(body, levelsMax, valuesMax)

export interface JsonBody {
  readonly object: Json
  /** The text that the object was parsed from. */
  readonly text: string
}

export const readBody = (bytes: Uint8Array): JsonBody => {
  const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (body.length === 0) throw new Refusal({ _tag: "BodyEmpty" })
  if (!isUtf8(body)) throw new Refusal({ _tag: "BodyNotUtf8" })
  const excess = excessOf(body)
  if (excess === "levels") throw new Refusal({ _tag: "BodyTooDeep", levelsMax })
  if (excess === "values") throw new Refusal({ _tag: "BodyTooManyValues", valuesMax })
  const text = body.toString("utf8")
  let object: unknown
  try {
    object = JSON.parse(text)
  } catch {
    throw new Refusal({ _tag: "BodyNotJson" })
  }
  if (!isObject(object)) throw new Refusal({ _tag: "BodyNotObject" })
  if (Object.keys(object).length > membersMax) throw new Refusal({ _tag: "BodyTooManyMembers", membersMax })
  return { object, text }
}

/** The index of the quote that closes the string which opens at `start`. */
const stringEnd = (text: string, start: number): number => {
  for (let end = text.indexOf('"', start + 1); ; end = text.indexOf('"', end + 1)) {
    let before = end - 1
    while (text.charCodeAt(before) === backslash) before--
    if ((end - before) % 2 === 1) return end
  }
}

/** Returns a member of an object's valid JSON text, as the client wrote it; the last of that name counts.
 *  `strings` is the number of strings that it must contain, names included: a name that occurs twice would be
 *  read as the last here and perhaps differently elsewhere, so a member with another count is undefined. So
 *  is a member of an object in which a name is escaped. One loop without helpers, because it runs for every
 *  chat request. */
export const memberText = (text: string, name: string, strings?: number): string | undefined => {
  let depth = 0
  let nameComes = false
  let start = -1
  let stringCount = 0
  let found: string | undefined
  const member = (end: number): string | undefined =>
    strings === undefined || stringCount === strings ? text.slice(start, end) : undefined
  for (let index = 0; index < text.length; index++) {
    switch (text.charCodeAt(index)) {
      case quote: {
        const end = stringEnd(text, index)
        if (depth === 1 && nameComes) {
          nameComes = false
          const written = text.slice(index + 1, end)
          if (written.includes("\\")) return undefined
          if (written === name) {
            start = text.indexOf(":", end) + 1
            stringCount = 0
          }
        } else stringCount++
        index = end
        break
      }
      case openBrace:
      case openBracket:
        if (++depth === 1) nameComes = true
        break
      case comma:
        if (depth === 1) {
          nameComes = true
          if (start >= 0) {
            found = member(index)
            start = -1
          }
        }
        break
      case closeBrace:
      case closeBracket:
        if (--depth === 0 && start >= 0) return member(index)
    }
  }
  return found
}
