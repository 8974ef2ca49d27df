import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { parseObject, valuesMax as authorizationMax } from "../../../protocols/authorization/wire.ts"
import { membersMax, readBody as readChatBody } from "../../../protocols/chat/request/json-body.ts"
import { Refusal as ChatRefusal } from "../../../protocols/chat/problems.ts"
import { readBody } from "../../../protocols/shared/body.ts"
import {
  holdsTooManyValues,
  jsonExcess,
  parseBounded,
  valuesMax
} from "../../../protocols/shared/json-values.ts"
import { Refusal as StoreRefusal, wordingOf } from "../../../protocols/store/problems.ts"
import { jsonOf } from "../../../protocols/store/request-body.ts"
import { problem } from "../../../protocols/translation/problems.ts"
import { jsonCodec } from "../../../protocols/translation/voice/wire.ts"
import type { Request } from "../../../runtime/http.ts"

/** Returns an object with one array in it, of that many values with the array itself and its name. */
const bodyOf = (values: number, item = "0"): Buffer =>
  Buffer.from(`{"a":[${Array.from({ length: values - 2 }, () => item).join()}]}`)

const thrownBy = (work: () => unknown): unknown => {
  try {
    work()
  } catch (thrown) {
    return thrown
  }
  throw new Error("nothing was thrown")
}

describe("JSON values", () => {
  it.each<[string, number]>([
    ["[1]", 1],
    ["[1,2,3]", 3],
    ['{"a":1,"b":[1,2]}', 6],
    ["[{},{},{}]", 6],
    ["[[],[[]]]", 5],
    [' { "a" : 1 } ', 2],
    [`["${"{[,:".repeat(100)}"]`, 1],
    [`["${",".repeat(28)}\\\\",2]`, 2],
    [String.raw`["\",\",",2]`, 2],
    [String.raw`["\\",2,"\\\",,",4]`, 4],
    [`["${String.raw`\"`.repeat(50)},,,",2]`, 2],
    [`["${String.raw`\\`.repeat(50)}",2]`, 2],
    [`["${String.raw`\\`.repeat(50)}\\",,",2]`, 2],
    ['["é,💡,","ü"]', 2]
  ])("counts %s", (text, count) => {
    const json = Buffer.from(text)
    expect(jsonExcess(json, Infinity, count)).toBeUndefined()
    expect(jsonExcess(json, Infinity, count - 1)).toBe("values")
  })

  it("reads escapes alike wherever they are in a string", () => {
    for (let before = 0; before < 80; before++)
      for (let backslashes = 0; backslashes < 6; backslashes++) {
        const written = `${"x".repeat(before)}${"\\\\".repeat(backslashes)}`
        for (const text of [`["${written}",2,3]`, `["${written}\\",,,",2,3]`]) {
          expect(JSON.parse(text)).toHaveLength(3)
          expect(jsonExcess(Buffer.from(text), 1, 3)).toBeUndefined()
          expect(jsonExcess(Buffer.from(text), 1, 2)).toBe("values")
        }
      }
  })

  it("counts levels", () => {
    expect(jsonExcess(Buffer.from('[[{"a":"[["}]]'), 3, 9)).toBeUndefined()
    expect(jsonExcess(Buffer.from('[[{"a":"[["}]]'), 2, 9)).toBe("levels")
  })

  it("ends with text that is cut inside of a string", () => {
    for (const text of ['["', '["\\', `["${"x".repeat(40)}`, `["${"x".repeat(40)}\\"`])
      expect(jsonExcess(Buffer.from(text), 1, 1)).toBeUndefined()
  })

  it("takes text as it takes bytes", () => {
    expect(holdsTooManyValues("[1,2,3]", 3)).toBe(false)
    expect(holdsTooManyValues("[1,2,3]", 2)).toBe(true)
    expect(parseBounded("[1,2,3]", 3)).toEqual([1, 2, 3])
    expect(() => parseBounded("[1,2,3]", 2)).toThrow(SyntaxError)
  })

  it("chat refuses a body beyond the limit with 413, before it is parsed", () => {
    expect(readChatBody(bodyOf(valuesMax)).object).toHaveProperty("a")
    const thrown = thrownBy(() => readChatBody(bodyOf(valuesMax + 1))) as ChatRefusal
    expect(thrown.problem).toEqual({ _tag: "BodyTooManyValues", valuesMax })
    const broken = Buffer.from(`{"a":[${"{},".repeat(valuesMax)}`)
    expect(thrownBy(() => readChatBody(broken))).toMatchObject({ problem: { _tag: "BodyTooManyValues" } })
  })

  it("chat refuses more members of the body than could mean anything", () => {
    const membersOf = (count: number): Buffer =>
      Buffer.from(`{${Array.from({ length: count }, (_, i) => `"k${i}":1`).join()}}`)
    expect(readChatBody(membersOf(membersMax)).object).toHaveProperty("k1")
    expect(thrownBy(() => readChatBody(membersOf(membersMax + 1)))).toMatchObject({
      problem: { _tag: "BodyTooManyMembers", membersMax }
    })
  })

  it("chat counts no text", () => {
    const content = ',{}[]:"\\'.repeat(valuesMax)
    expect(readChatBody(Buffer.from(JSON.stringify({ content }))).object["content"]).toBe(content)
  })

  it("translation answers 413 beyond the limit", () => {
    expect(readBody("application/json", bodyOf(valuesMax))).toHaveProperty("bag")
    const refusal = readBody("application/json", bodyOf(valuesMax + 1))
    if (!("_tag" in refusal)) throw new Error("it was read")
    const { status, body } = problem(refusal)
    expect(status).toBe(413)
    expect(JSON.parse(body as string)).toMatchObject({
      code: "payload_too_large",
      message: `The body holds more than ${valuesMax} JSON values.`
    })
  })

  it("the store answers 413 beyond the limit", () => {
    const request = { headers: new Headers({ "content-type": "application/json" }) } as unknown as Request
    expect(jsonOf(request, bodyOf(valuesMax))).toHaveProperty("a")
    const thrown = thrownBy(() => jsonOf(request, bodyOf(valuesMax + 1))) as StoreRefusal
    expect(wordingOf(thrown.problem)).toMatchObject({
      status: 413,
      details: `the body must have at most ${valuesMax} JSON values`
    })
  })

  it("authorization refuses documents and bodies beyond its own limit", () => {
    expect(parseObject(bodyOf(authorizationMax))).toHaveProperty("a")
    expect(parseObject(bodyOf(authorizationMax + 1))).toMatchObject({
      detail: `the JSON holds more than ${authorizationMax} values`
    })
  })

  it("voice does not decode a message beyond the limit", () => {
    expect(jsonCodec.decode(bodyOf(valuesMax), true)).toMatchObject({ is: "unknown" })
    expect(jsonCodec.decode(bodyOf(valuesMax + 1), true)).toEqual({ is: "undecodable" })
  })

  it("every other JSON.parse of the protocols reads what is bounded otherwise", () => {
    const root = join(import.meta.dirname, "../../../protocols")
    const parsing = readdirSync(root, { recursive: true, encoding: "utf8" })
      .filter(
        (file) => file.endsWith(".ts") && readFileSync(join(root, file), "utf8").includes("JSON.parse(")
      )
      .sort()
    expect(parsing).toEqual([
      // Our own rows and sealed states.
      "authorization/admin/idempotency.ts",
      // A token of at most 16 KiB.
      "authorization/token/signing-keys.ts",
      "authorization/upstream/sealed-state.ts",
      "authorization/upstream/upstream-tokens.ts",
      "authorization/wire.ts",
      "chat/answer/background-responses.ts",
      "chat/answer/interrupted-response.ts",
      "chat/answer/responses.ts",
      "chat/answer/sessions.ts",
      "chat/request/json-body.ts",
      // In a document's own thread.
      "formats/json.ts",
      "shared/body.ts",
      "shared/json-values.ts",
      // A record that we have written ourselves.
      "store/engine/writes.ts",
      "store/request-body.ts",
      "translation/jobs/quality.ts",
      // Our own answers.
      "translation/test-mode/test-mode.ts"
    ])
  })
})
