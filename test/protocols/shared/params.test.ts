import { describe, expect, it } from "vitest"
import { readBody } from "../../../protocols/shared/body.ts"
import { Params } from "../../../protocols/shared/params.ts"

const read = <A>(value: unknown, how: (params: Params) => A): A | "invalid" => {
  const params = new Params({ a: value })
  const found = how(params)
  return params.fault === undefined ? found : "invalid"
}

describe("parameters 1.2", () => {
  it.each<[unknown, unknown]>([
    [true, true],
    [false, false],
    ["1", true],
    ["0", false],
    [1, true],
    [0, false],
    ["TRUE", true],
    ["False", false],
    [null, undefined],
    [undefined, undefined],
    ["yes", "invalid"],
    [2, "invalid"],
    [{}, "invalid"],
    [["1", "0"], true]
  ])("1.2.4 boolean %j → %j", (input, value) =>
    expect(read(input, (params) => params.boolean("a"))).toBe(value)
  )
  it.each<[unknown, unknown]>([
    [5, 5],
    ["5", 5],
    [" 7 ", 7],
    [0, 0],
    [100, 100],
    [101, "invalid"],
    [-1, "invalid"],
    [1.5, "invalid"],
    ["1.5", "invalid"],
    ["x", "invalid"],
    ["", "invalid"],
    ["1e2", "invalid"],
    [null, undefined]
  ])("1.2.5 integer 0–100 %j → %j", (input, value) =>
    expect(read(input, (params) => params.integer("a", 0, 100))).toBe(value)
  )
  it.each<[unknown, ReadonlyArray<string>]>([
    ["a,b", ["a", "b"]],
    [
      ["a", "b,c"],
      ["a", "b", "c"]
    ],
    [" a , ,b,", ["a", "b"]],
    [[], []],
    [null, []],
    ["", []]
  ])("1.2.6 tag lists %j → %j", (input, value) =>
    expect(read(input, (params) => params.names("a"))).toEqual(value)
  )
  it("1.2.7 scalar given several times: the first value counts", () =>
    expect(read(["x", "y"], (params) => params.string("a"))).toBe("x"))
  it("1.2.8 explicit null equals not given", () => expect(new Params({ a: null }).has("a")).toBe(false))
  it("what objects inherit is no parameter", () =>
    expect(new Params({}).string("constructor")).toBe(undefined))
  it("the first fault is kept", () => {
    const params = new Params({ a: "x", b: "y" })
    params.boolean("a")
    params.boolean("b")
    expect(params.fault).toEqual({ _tag: "Invalid", name: "a" })
  })
})

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)

describe("bodies 1.2", () => {
  it.each<[string, string | undefined, string, unknown]>([
    ["JSON", "application/json", '{"a":1}', { a: 1 }],
    ["charset ignored", "Application/JSON; charset=latin1", '{"a":"ä"}', { a: "ä" }],
    ["form", "application/x-www-form-urlencoded;charset=UTF-8", "a=1", { a: "1" }],
    ["no type, first non-space byte {", undefined, ' \n{"a":1}', { a: 1 }],
    ["no type, else form", undefined, "a=1", { a: "1" }],
    ["nothing", "application/json", "", {}]
  ])("%s", (_, type, text, value) =>
    expect(readBody(type, bytes(text))).toEqual({ bag: expect.objectContaining(value as object) })
  )
  it.each<[string, string | undefined, Uint8Array, string]>([
    ["1.2.2 any other content type: 415", "text/plain", bytes("a=1"), "content-type"],
    ["multipart", "multipart/form-data; boundary=x", bytes(""), "content-type"],
    ["broken JSON", "application/json", bytes("{"), "syntax"],
    ["JSON that is no object", "application/json", bytes("[1]"), "syntax"],
    ["JSON null", "application/json", bytes("null"), "syntax"],
    ["JSON that is no UTF-8", "application/json", new Uint8Array([123, 34, 0xff, 34, 58, 49, 125]), "syntax"],
    ["deep JSON", "application/json", bytes("[".repeat(100_000)), "syntax"]
  ])("%s", (_, type, body, reason) =>
    expect(readBody(type, body)).toMatchObject({ _tag: "BodyRefusal", reason })
  )
})
