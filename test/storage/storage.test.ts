import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { open } from "lmdb"
import { afterAll, describe, expect, it } from "vitest"
import { schemaKey } from "../../storage/keys.ts"
import { openLmdb } from "../../storage/lmdb.ts"
import { restore } from "../../storage/restore.ts"
import { openMemory } from "../../storage/memory.ts"
import { equalSecrets, masterKey, randomToken, SealFault, sealer } from "../../storage/seal.ts"
import { committed, StorageFault, type Write } from "../../storage/store.ts"
import { storeOf, Writer, type Backend } from "../../storage/writer.ts"

const root = mkdtempSync(join(tmpdir(), "troupe-storage-"))
afterAll(() => rmSync(root, { recursive: true, force: true }))
let folders = 0
const folder = (): string => join(root, String(folders++))
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)

const put = (key: string, value: string): Write => ({
  _tag: "put",
  table: "t",
  key: [key],
  value: bytes(value)
})

describe("LMDB on disk", () => {
  it("what was committed is there after closing and opening", async () => {
    const at = folder()
    const store = await openLmdb({ folder: at })
    await committed(store, [
      put("a", "1"),
      { _tag: "append", kind: "k", id: "x", seq: 1, events: [bytes("e")] },
      { _tag: "add", table: "c", key: ["n"], amount: 5 }
    ])
    await store.close()
    const again = await openLmdb({ folder: at })
    expect([
      again.get("t", ["a"])?.length,
      again.readJournal("k", "x", 0).length,
      again.counter("c", ["n"])
    ]).toEqual([1, 1, 5])
    expect(
      again.commit([{ _tag: "append", kind: "k", id: "x", seq: 1, events: [bytes("e")] }], () => {})
    ).toMatchObject({ reason: "sequence" })
    await again.close()
  })
  it("newer data is refused and left alone", async () => {
    const at = folder()
    await (await openLmdb({ folder: at })).close()
    const raw = open({ path: join(at, "store.lmdb"), encoding: "binary" })
    await raw.put(schemaKey as never, Buffer.from("99"))
    await raw.close()
    await expect(openLmdb({ folder: at })).rejects.toMatchObject({ reason: "newer-schema" })
    await expect(openLmdb({ folder: at })).rejects.toMatchObject({ reason: "newer-schema" })
  })
  it("a full disk is a clear fault, corrupts nothing, and passes when there is room", async () => {
    const at = folder()
    const store = await openLmdb({ folder: at })
    await committed(store, [put("before", "1")])
    await store.close()
    let full = true
    const inner = await openLmdb({ folder: at })
    const backend: Backend = {
      get: (key) => inner.get("t", key.slice(2)),
      range: () => [],
      apply: async () => {
        if (full) throw new StorageFault({ reason: "full", detail: "MDB_MAP_FULL" })
      }
    }
    const guarded = storeOf(new Writer(backend), inner)
    await expect(committed(guarded, [put("x", "1")])).rejects.toMatchObject({ reason: "full" })
    expect(guarded.get("t", ["x"])).toBeUndefined()
    full = false
    await committed(guarded, [put("x", "1")])
    expect(await inner.check()).toMatchObject({ ok: true })
    await inner.close()
  })
  it("a fault loses every commit accepted since, each hears it, and reads fall back to what is on disk", async () => {
    let release: ((cause?: StorageFault) => void) | undefined
    const rows = new Map<string, Uint8Array>()
    const backend: Backend = {
      get: (key) => rows.get(key.join()),
      range: () => [],
      apply: (changes) =>
        new Promise((resolve, reject) => {
          release = (cause) => {
            if (cause === undefined) {
              for (const { key, value } of changes) rows.set(key.join(), value!)
              resolve()
            } else reject(cause)
          }
        })
    }
    const store = storeOf(new Writer(backend), openMemory())
    const heard: Array<string> = []
    const commit = (name: string) =>
      store.commit([put(name, name)], (fault) => heard.push(`${name} ${fault?.reason ?? "ok"}`))
    const turn = () =>
      new Promise((resolve) => {
        setImmediate(resolve)
      })
    commit("a")
    await turn()
    release!()
    await turn()
    commit("b")
    await turn()
    commit("c")
    expect(store.get("t", ["c"])).toBeDefined()
    release!(new StorageFault({ reason: "io", detail: "torn cable" }))
    await turn()
    expect(heard).toEqual(["a ok", "b io", "c io"])
    expect(
      [store.get("t", ["a"]), store.get("t", ["b"]), store.get("t", ["c"])].map(
        (value) => value !== undefined
      )
    ).toEqual([true, false, false])
    commit("d")
    await turn()
    release!()
    await turn()
    expect(heard.at(-1)).toBe("d ok")
  })
  it("a backup taken while writes go on is whole, restores, and passes the integrity check", async () => {
    const at = folder()
    const copy = folder()
    const restored = folder()
    const store = await openLmdb({ folder: at })
    await store.blobs.write(
      "b",
      (async function* () {
        yield bytes("blob")
      })()
    )
    let writing = true
    let n = 0
    const writer = (async () => {
      while (writing)
        await committed(store, [
          put(`k${n}`, "v"),
          { _tag: "append", kind: "k", id: "x", seq: ++n, events: [bytes("e")] }
        ])
    })()
    while (n < 20)
      await new Promise((resolve) => {
        setImmediate(resolve)
      })
    await store.backup(copy)
    const atBackup = n
    writing = false
    await writer
    await store.close()
    await expect(restore({ backup: copy, folder: at })).rejects.toThrow(/empty folder/)
    await restore({ backup: copy, folder: restored })
    const back = await openLmdb({ folder: restored })
    const events = back.readJournal("k", "x", 0).length
    expect(events).toBeGreaterThanOrEqual(20)
    expect(events).toBeLessThanOrEqual(atBackup + 1)
    expect(back.range("t", { limit: 100_000 })).toHaveLength(events)
    expect(await back.check()).toMatchObject({ ok: true })
    expect(await back.blobs.ids()).toEqual(["b"])
    await expect(back.backup(copy)).rejects.toThrow(/holds a backup already/)
    await back.close()
    await expect(restore({ backup: join(root, "nowhere"), folder: folder() })).rejects.toThrow(
      /no whole backup/
    )
  })
  it("the integrity check names what is wrong", async () => {
    const at = folder()
    await (await openLmdb({ folder: at })).close()
    const raw = open({ path: join(at, "store.lmdb"), encoding: "binary" })
    await raw.put(["j", "k", "gap", 1] as never, Buffer.from("e"))
    await raw.put(["j", "k", "gap", 3] as never, Buffer.from("e"))
    await raw.put(["x", 5, "k", "lost"] as never, Buffer.from(""))
    await raw.close()
    const store = await openLmdb({ folder: at })
    const { ok, faults } = await store.check()
    expect(ok).toBe(false)
    expect(faults.join("\n")).toMatch(/event 3 follows 1[^]*kept but not listed[^]*names k\/lost wrongly/)
    await store.close()
  })
  it("blob ids are no paths, and what a crash left half-written is swept away", async () => {
    const at = folder()
    const store = await openLmdb({ folder: at })
    for (const id of ["../x", "a/b", "", ".hidden", "x.part"])
      expect(() => store.blobs.read(id)).toThrow(TypeError)
    await store.close()
    writeFileSync(join(at, "blobs", "x.123.part"), "half")
    const again = await openLmdb({ folder: at })
    expect(existsSync(join(at, "blobs", "x.123.part"))).toBe(false)
    await again.close()
  })
})

describe("secrets at rest", () => {
  it("the master key: from the environment as base64 or hex, else a file of mode 0600 that stays", () => {
    const at = folder()
    const created = masterKey(at, undefined)
    expect(masterKey(at, "").equals(created)).toBe(true)
    expect(statSync(join(at, "master.key")).mode & 0o777).toBe(0o600)
    expect(masterKey(at, created.toString("hex")).equals(masterKey(at, created.toString("base64")))).toBe(
      true
    )
    expect(() => masterKey(at, "short")).toThrow(SealFault)
    writeFileSync(join(at, "master.key"), "nonsense")
    expect(() => masterKey(at, undefined)).toThrow(SealFault)
  })
  it("a sealed value opens at its address, for its purpose, unchanged, under its key, and nowhere else", () => {
    const seal = sealer(new Uint8Array(32).fill(1))
    const other = sealer(new Uint8Array(32).fill(2))
    const sealed = seal.seal(bytes("secret"), "p", "table/1")
    expect(Buffer.from(seal.open(sealed, "p", "table/1")).toString()).toBe("secret")
    expect(Buffer.from(sealed).includes("secret")).toBe(false)
    for (const attempt of [
      () => seal.open(sealed, "p", "table/2"),
      () => seal.open(sealed, "q", "table/1"),
      () => other.open(sealed, "p", "table/1"),
      () => seal.open(sealed.slice(0, 20), "p", "table/1"),
      ...Array.from(
        { length: sealed.length },
        (_, i) => () =>
          seal.open(
            sealed.map((byte, at) => (at === i ? byte ^ 1 : byte)),
            "p",
            "table/1"
          )
      )
    ])
      expect(attempt).toThrow(SealFault)
    expect(Buffer.from(seal.seal(bytes("secret"), "p", "table/1")).equals(Buffer.from(sealed))).toBe(false)
  })
  it("hashes are keyed by master key and purpose", () => {
    const seal = sealer(new Uint8Array(32).fill(1))
    expect(seal.hash("t", "a")).toBe(seal.hash("t", "a"))
    expect(
      new Set([
        seal.hash("t", "a"),
        seal.hash("t", "b"),
        seal.hash("u", "a"),
        sealer(new Uint8Array(32)).hash("t", "a")
      ]).size
    ).toBe(4)
  })
  it("tokens are 256 bits and never repeat; comparison knows equal from unequal", () => {
    const tokens = new Set(Array.from({ length: 2_000 }, randomToken))
    expect(tokens.size).toBe(2_000)
    for (const token of tokens) expect(Buffer.from(token, "base64url")).toHaveLength(32)
    expect([
      equalSecrets("a", "a"),
      equalSecrets("a", "b"),
      equalSecrets("a", "ab"),
      equalSecrets("", "")
    ]).toEqual([true, false, false, true])
  })
})
