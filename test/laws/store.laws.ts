/** What every store promises (storage/store.ts), as one suite. */
import { Schema } from "effect"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { committed, table, type Key, type Store, type Write } from "../../storage/store.ts"

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)

const textOf = (value: Uint8Array | undefined): string | undefined =>
  value === undefined ? undefined : new TextDecoder().decode(value)

const append = (id: string, seq: number, ...events: Array<string>): Write => ({
  _tag: "append",
  kind: "k",
  id,
  seq,
  events: events.map(bytes)
})

const snapshot = (id: string, seq: number, state: string): Write => ({
  _tag: "snapshot",
  kind: "k",
  id,
  seq,
  state: bytes(state)
})

const put = (key: Key, value: string, when?: "absent" | "present"): Write => ({
  _tag: "put",
  table: "t",
  key,
  value: bytes(value),
  ...(when === undefined ? {} : { when })
})

const expire = (id: string, atMs: number | undefined): Write => ({ _tag: "expire", kind: "k", id, atMs })
const nothing = (): void => {}

export const storeLaws = (name: string, open: () => Promise<Store>): void => {
  describe(name, () => {
    let store: Store
    beforeEach(async () => {
      store = await open()
    })
    afterEach(() => store.close())
    const journal = (id: string, after = 0) =>
      store.readJournal("k", id, after).map(({ seq, event }) => `${seq}:${textOf(event)}`)
    const keys = (range: Parameters<Store["range"]>[1]) =>
      store.range("t", range).map(({ key }) => key.join("/"))

    it("reads see a commit as soon as it is accepted, and still after it is flushed", async () => {
      expect(store.commit([put(["a"], "1"), append("x", 1, "e1", "e2")], nothing)).toBeUndefined()
      const look = () => [
        textOf(store.get("t", ["a"])),
        journal("x"),
        store.ids("k", undefined, 10),
        keys({ limit: 5 })
      ]
      const before = look()
      await store.flushed()
      expect(look()).toEqual(before)
      expect(before).toEqual(["1", ["1:e1", "2:e2"], ["x"], ["a"]])
    })
    it("settled is called once per commit, in order of acceptance, after this turn", async () => {
      const order: Array<number> = []
      for (let i = 0; i < 5; i++)
        store.commit([put([i], "v")], (fault) => {
          expect(fault).toBeUndefined()
          order.push(i)
        })
      expect(order).toEqual([])
      store.commit([put(["later"], "v")], () => {
        store.commit([put(["nested"], "v")], () => order.push(99))
      })
      await store.flushed()
      await store.flushed()
      expect(order).toEqual([0, 1, 2, 3, 4, 99])
    })
    it("a refused commit says which write and why, changes nothing, and never settles", async () => {
      await committed(store, [put(["a"], "1"), append("x", 1, "e1")])
      const never = () => {
        throw new Error("settled")
      }
      expect(
        store.commit([put(["b"], "2"), append("y", 1, "e"), put(["a"], "3", "absent")], never)
      ).toMatchObject({ index: 2, reason: "condition" })
      expect(store.commit([put(["b"], "2", "present")], never)).toMatchObject({
        index: 0,
        reason: "condition"
      })
      expect(store.commit([append("x", 3, "gap")], never)).toMatchObject({ reason: "sequence" })
      expect(store.commit([append("x", 1, "again")], never)).toMatchObject({ reason: "sequence" })
      await store.flushed()
      expect([store.get("t", ["b"]), journal("y"), journal("x"), textOf(store.get("t", ["a"]))]).toEqual([
        undefined,
        [],
        ["1:e1"],
        "1"
      ])
      expect(store.commit([append("y", 1, "e")], nothing)).toBeUndefined()
    })
    it("each write of a commit sees those before it; conditions compare with what is accepted, not only with what is on disk", () => {
      expect(
        store.commit(
          [
            put(["a"], "1", "absent"),
            { _tag: "check", table: "t", key: ["a"], when: "present" },
            { _tag: "delete", table: "t", key: ["a"], when: { equals: bytes("1") } },
            put(["a"], "2", "absent")
          ],
          nothing
        )
      ).toBeUndefined()
      expect(store.commit([put(["a"], "3", "absent")], nothing)).toMatchObject({ reason: "condition" })
      expect(
        store.commit([{ _tag: "check", table: "t", key: ["a"], when: { equals: bytes("1") } }], nothing)
      ).toMatchObject({ reason: "condition" })
      expect(
        store.commit([{ _tag: "check", table: "t", key: ["a"], when: { equals: bytes("2") } }], nothing)
      ).toBeUndefined()
    })
    it("counters add up, never pass max or fall below zero", async () => {
      const add = (amount: number, max?: number) =>
        store.commit(
          [{ _tag: "add", table: "t", key: ["n"], amount, ...(max === undefined ? {} : { max }) }],
          nothing
        )
      for (let i = 0; i < 10; i++) expect(add(1, 10)).toBeUndefined()
      expect(add(1, 10)).toMatchObject({ reason: "limit" })
      expect(add(-11)).toMatchObject({ reason: "limit" })
      expect(add(-4)).toBeUndefined()
      await store.flushed()
      expect(add(5, 10)).toMatchObject({ reason: "limit" })
      expect(store.counter("t", ["n"])).toBe(6)
      expect(store.counter("t", ["other"])).toBe(0)
    })
    it("a snapshot truncates what it covers and the journal goes on behind it", async () => {
      await committed(store, [append("x", 1, "a", "b", "c"), snapshot("x", 3, "abc")])
      await committed(store, [append("x", 4, "d")])
      expect([
        store.readSnapshot("k", "x")?.seq,
        textOf(store.readSnapshot("k", "x")?.state),
        journal("x"),
        journal("x", 4)
      ]).toEqual([3, "abc", ["4:d"], []])
      expect(store.commit([snapshot("x", 2, "old")], nothing)).toMatchObject({ reason: "sequence" })
      await committed(store, [snapshot("x", 9, "jump")])
      expect(store.commit([append("x", 9, "e")], nothing)).toMatchObject({ reason: "sequence" })
      await committed(store, [append("x", 10, "e")])
      expect(journal("x", 9)).toEqual(["10:e"])
      expect(await store.check()).toMatchObject({ ok: true })
    })
    it("forget removes journal, snapshot and expiry, and the address starts anew", async () => {
      await committed(store, [append("x", 1, "a", "b"), snapshot("x", 1, "a"), expire("x", 50)])
      await committed(store, [{ _tag: "forget", kind: "k", id: "x" }])
      expect([
        journal("x"),
        store.readSnapshot("k", "x"),
        store.ids("k", undefined, 9),
        store.expired(99, 9)
      ]).toEqual([[], undefined, [], []])
      await committed(store, [append("x", 1, "anew")])
      expect(journal("x")).toEqual(["1:anew"])
      expect(await store.check()).toMatchObject({ ok: true })
    })
    it("the expiry index is ordered by time, moves with the actor's one time, and clears", async () => {
      await committed(store, [expire("b", 20), expire("a", 10), expire("c", 30)])
      store.commit([expire("b", 5), expire("c", undefined)], nothing)
      expect(store.expired(100, 10).map(({ id, atMs }) => [id, atMs])).toEqual([
        ["b", 5],
        ["a", 10]
      ])
      expect(store.expired(9, 10).map(({ id }) => id)).toEqual(["b"])
      expect(store.expired(10, 10).map(({ id }) => id)).toEqual(["b", "a"])
      expect(store.expired(100, 1).map(({ id }) => id)).toEqual(["b"])
      expect(store.expired(100, 10, store.expired(100, 1)[0]).map(({ id }) => id)).not.toContain("b")
      expect(await store.check()).toMatchObject({ ok: true })
    })
    it("ranges: by prefix, after a cursor, reversed, limited, ordered with numbers before strings", async () => {
      await committed(store, [
        put(["p", 2], ""),
        put(["p", 10], ""),
        put(["p", "a"], ""),
        put(["p", "ä"], ""),
        put(["q", 1], ""),
        put(["p"], "")
      ])
      store.commit(
        [put(["p", 3], ""), { _tag: "delete", table: "t", key: ["p", 10] }, put(["p", "b"], "")],
        nothing
      )
      const all = ["p", "p/2", "p/3", "p/a", "p/b", "p/ä", "q/1"]
      const look = () => [
        keys({ limit: 99 }),
        keys({ prefix: ["p"], limit: 99 }),
        keys({ prefix: ["p"], limit: 2, after: ["p", 3] }),
        keys({ prefix: ["p"], limit: 2, reverse: true }),
        keys({ prefix: ["p"], limit: 9, reverse: true, after: ["p", "a"] })
      ]
      const expected = [all, all.slice(1, 6), ["p/a", "p/b"], ["p/ä", "p/b"], ["p/3", "p/2"]]
      expect(look()).toEqual(expected)
      await store.flushed()
      expect(look()).toEqual(expected)
    })
    it("ids page through the actors of a kind", async () => {
      await committed(store, [
        append("b", 1, "e"),
        snapshot("a", 1, "s"),
        append("c", 1, "e"),
        { _tag: "append", kind: "other", id: "z", seq: 1, events: [bytes("e")] }
      ])
      expect([
        store.ids("k", undefined, 2),
        store.ids("k", "b", 2),
        store.ids("nobody", undefined, 9)
      ]).toEqual([["a", "b"], ["c"], []])
    })
    it("keys that cannot be kept are refused before anything is written", () => {
      for (const key of [["a\0b"], ["x".repeat(2_000)], [1.5], ["\ud800"]])
        expect(() => store.commit([put(key, "v")], nothing)).toThrow(TypeError)
      expect(store.range("t", { limit: 9 })).toEqual([])
    })
    it("blobs: whole or not at all, in chunks, deletable", async () => {
      const chunks = async function* (...parts: Array<Uint8Array>) {
        yield* parts
      }
      const big = new Uint8Array(200_000).map((_, i) => i)
      expect(await store.blobs.write("b1", chunks(big, bytes("end")))).toBe(200_003)
      const read: Array<Uint8Array> = []
      for await (const chunk of store.blobs.read("b1")!) {
        expect(chunk.length).toBeLessThanOrEqual(65_536)
        read.push(chunk.slice())
      }
      expect(Buffer.concat(read).equals(Buffer.concat([big, bytes("end")]))).toBe(true)
      await expect(
        store.blobs.write(
          "b2",
          (async function* () {
            yield big
            throw new Error("client gone")
          })()
        )
      ).rejects.toThrow("client gone")
      expect([store.blobs.read("b2"), await store.blobs.ids()]).toEqual([undefined, ["b1"]])
      await store.blobs.delete("b1")
      expect(store.blobs.read("b1")).toBeUndefined()
    })
    it("tables: typed rows, versions pass through upcast, newer ones are refused, optimistic locking", async () => {
      const old = table("people", Schema.Struct({ name: Schema.String }))
      const people = table("people", Schema.Struct({ name: Schema.String, age: Schema.Int }), 2, (was) => ({
        ...was,
        age: 0
      }))
      await committed(store, [old.put(["1"], { name: "Ada" }), people.put(["2"], { name: "Bob", age: 7 })])
      expect(people.range(store, { limit: 9 }).map(({ value }) => value)).toEqual([
        { name: "Ada", age: 0 },
        { name: "Bob", age: 7 }
      ])
      expect(() => old.get(store, ["2"])).toThrow(/version 2/)
      const bob = people.get(store, ["2"])!
      await committed(store, [people.put(["2"], { ...bob, age: 8 }, people.unchanged(bob))])
      await expect(
        committed(store, [people.put(["2"], { ...bob, age: 9 }, people.unchanged(bob))])
      ).rejects.toMatchObject({ reason: "condition" })
    })
    it("equals a naive model over random sequences of writes", async () => {
      let seed = 42
      const random = (below: number) => {
        seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff
        return (seed >> 8) % below
      }
      const rows = new Map<string, string>()
      const journals = new Map<string, { last: number; base: number }>()
      for (let step = 0; step < 400; step++) {
        const key = `r${random(12)}`
        const id = `j${random(5)}`
        const tail = journals.get(id) ?? { last: 0, base: 0 }
        switch (random(5)) {
          case 0:
            store.commit([put([key], `${step}`)], nothing)
            rows.set(key, `${step}`)
            break
          case 1:
            store.commit([{ _tag: "delete", table: "t", key: [key] }], nothing)
            rows.delete(key)
            break
          case 2:
            expect(store.commit([put([key], `${step}`, "absent")], nothing) === undefined).toBe(
              !rows.has(key)
            )
            if (!rows.has(key)) rows.set(key, `${step}`)
            break
          case 3:
            expect(store.commit([append(id, tail.last + 1, "e", "f")], nothing)).toBeUndefined()
            journals.set(id, { ...tail, last: tail.last + 2 })
            break
          case 4:
            if (tail.last > tail.base) {
              store.commit([snapshot(id, tail.last, "s")], nothing)
              journals.set(id, { last: tail.last, base: tail.last })
            }
        }
        if (random(7) === 0) await store.flushed()
        if (random(10) === 0) {
          expect(store.range("t", { limit: 99 }).map(({ key: [k], value }) => [k, textOf(value)])).toEqual(
            [...rows].sort(([a], [b]) => (a < b ? -1 : 1))
          )
          for (const [j, { last, base }] of journals) expect(journal(j)).toHaveLength(last - base)
        }
      }
      expect(await store.check()).toMatchObject({ ok: true })
    })
  })
}
