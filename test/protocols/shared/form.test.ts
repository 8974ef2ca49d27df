import { describe, expect, it } from "vitest"
import { isFormFault, parseForm } from "../../../protocols/shared/form.ts"

const plain = (text: string): unknown => JSON.parse(JSON.stringify(parseForm(text)))

describe("form 1.2.3", () => {
  it.each<[string, string, unknown]>([
    ["one value is a string", "a=1", { a: "1" }],
    ["repeated names give arrays in order", "text=one&x=0&text=two", { text: ["one", "two"], x: "0" }],
    ["`name[]` equals `name`, always an array", "text[]=one", { text: ["one"] }],
    ["`name[]` and `name` mix", "text=one&text%5B%5D=two", { text: ["one", "two"] }],
    [
      "dictionaries[0].source_lang",
      "d[0].source_lang=en&d[0].target_lang=de&d[1].source_lang=fr",
      { d: [{ source_lang: "en", target_lang: "de" }, { source_lang: "fr" }] }
    ],
    [
      "dictionaries[0][source_lang] is the same thing",
      "d%5B0%5D%5Bsource_lang%5D=en",
      { d: [{ source_lang: "en" }] }
    ],
    [
      "indices order, they need not be given in order or without gaps",
      "d[7].a=2&d[1].a=1",
      { d: [{ a: "1" }, { a: "2" }] }
    ],
    ["plus is a blank, escapes are UTF-8", "a=x+y%2B%C3%A4%F0%9F%98%80", { a: "x y+ä😀" }],
    ["a name without =", "a&b=", { a: "", b: "" }],
    ["= in a value stays", "a=b=c", { a: "b=c" }],
    ["bad escapes stay as they are", "a=100%&b=%zz&c=%C3", { a: "100%", b: "%zz", c: "\uFFFD" }],
    ["empty pairs are nothing", "&&a=1&&", { a: "1" }],
    ["a dot alone makes no path", "a.b=1", { "a.b": "1" }],
    ["no path, no parse", "a[=1&[0]=2&b[0]x=3", { "a[": "1", "[0]": "2", "b[0]x": "3" }],
    ["a field called _tag is no fault", "_tag=FormFault", { _tag: "FormFault" }]
  ])("%s", (_, text, value) => expect(plain(text)).toEqual(value))

  it("a field called __proto__ is a field", () => {
    const form = parseForm("__proto__=x&a[0].__proto__=y&constructor=z") as any
    expect(Object.keys(form)).toEqual(["__proto__", "a", "constructor"])
    expect(({} as any).x).toBeUndefined()
    expect(Object.getPrototypeOf(form)).toBe(null)
  })
  it.each([
    ["too many fields", "a=1&".repeat(10_001), "too-many"],
    ["too deep", `a${"[0]".repeat(20)}=1`, "too-deep"],
    ["a huge index", "a[99999999].b=1", "shape"],
    ["a value and an object under one name", "a=1&a[0].b=2", "shape"],
    ["indices and names under one name", "a[0]=1&a[b]=2", "shape"]
  ])("%s is a fault", (_, text, reason) => expect(parseForm(text)).toEqual({ _tag: "FormFault", reason }))

  it("any text parses or is a fault, quickly", () => {
    let seed = 7
    const next = (below: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff
      return seed % below
    }
    const alphabet = [
      "a",
      "b",
      "=",
      "&",
      "[",
      "]",
      ".",
      "0",
      "12",
      "%",
      "%5B",
      "%5D",
      "%F0",
      "+",
      "__proto__",
      "\u{1F600}",
      "\uD800"
    ]
    for (let round = 0; round < 3_000; round++) {
      let text = ""
      for (let i = next(40); i >= 0; i--) text += alphabet[next(alphabet.length)]
      const form = parseForm(text)
      if (!isFormFault(form)) expect(() => JSON.stringify(form)).not.toThrow()
    }
    const hostile = [
      "&".repeat(131_072),
      "[".repeat(131_072),
      `a${"[0".repeat(60_000)}=`,
      "%".repeat(131_072),
      `a${".b".repeat(60_000)}[`
    ]
    for (const text of hostile) expect(() => parseForm(text)).not.toThrow()
  })
})
