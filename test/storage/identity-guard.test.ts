import { Schema } from "effect"
import { describe, expect, it } from "vitest"
import { identityGuard } from "../../storage/identity-guard.ts"
import { packing } from "../../storage/store.ts"

const Row = Schema.Struct({
  id: Schema.String,
  count: Schema.Int,
  tags: Schema.Array(Schema.String),
  kind: Schema.Literals(["a", "b"]),
  at: Schema.NullOr(Schema.Finite),
  inner: Schema.Struct({ on: Schema.Boolean }),
  phase: Schema.TaggedUnion({ Open: { n: Schema.Int }, Shut: {} })
})

const row: typeof Row.Type = {
  id: "x",
  count: 3,
  tags: ["t"],
  kind: "a",
  at: null,
  inner: { on: true },
  phase: { _tag: "Open", n: 1 }
}

const { inner: _, ...other } = row

class Other {
  on = true
}

describe("values that are what their schema makes of them", () => {
  const isPlain = identityGuard(Row.ast)!
  it("is true for the members of the schema, in its order", () => {
    expect(isPlain(row)).toBe(true)
    expect(isPlain({ ...row, at: 1.5, phase: { _tag: "Shut" } })).toBe(true)
  })
  it.each<[string, unknown]>([
    ["an unsafe integer", { ...row, count: 2 ** 60 }],
    ["a fraction", { ...row, count: 0.5 }],
    ["no number", { ...row, at: NaN }],
    ["another literal", { ...row, kind: "c" }],
    ["another tag", { ...row, phase: { _tag: "Ajar" } }],
    ["a member of another case", { ...row, phase: { _tag: "Shut", n: 1 } }],
    ["a wrong item", { ...row, tags: ["t", 1] }],
    ["a member too many", { ...row, more: 1 }],
    ["a member too few", { id: "x" }],
    ["another order", { inner: row.inner, ...other }],
    ["an instance", { ...row, inner: new Other() }],
    ["a list", [row]],
    ["nothing", undefined]
  ])("is false for %s", (_, value) => {
    expect(isPlain(value)).toBe(false)
  })
  it.each<[string, Schema.Codec<any, any>]>([
    ["a transformation", Schema.NumberFromString],
    ["bytes", Schema.Uint8Array],
    ["one deep inside", Schema.Struct({ a: Schema.Array(Schema.NumberFromString) })],
    ["any names", Schema.Record(Schema.String, Schema.String)],
    ["anything", Schema.Unknown]
  ])("does not judge %s", (_, schema) => {
    expect(identityGuard(schema.ast)).toBeUndefined()
  })

  it("packs the same bytes either way, and strips and refuses as the schema does", () => {
    const { pack, unpack } = packing(Row)
    const bytes = Buffer.from(pack(row))
    expect(Buffer.from(pack({ more: 1, inner: row.inner, ...other } as never)).equals(bytes)).toBe(true)
    expect(unpack(bytes)).toEqual(row)
    expect(() => pack({ ...row, count: 0.5 })).toThrow()
    const loose = packing(Schema.Struct({ id: Schema.String, count: Schema.Finite }))
    expect(
      loose.unpack(
        packing(Schema.Struct({ id: Schema.String, count: Schema.Finite, more: Schema.Finite })).pack({
          id: "x",
          count: 1,
          more: 2
        })
      )
    ).toEqual({ id: "x", count: 1 })
    expect(() => unpack(loose.pack({ id: "x", count: 0.5 }))).toThrow()
  })
})
