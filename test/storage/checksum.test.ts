/** Values with a flipped bit: found by `check`, and refused to whoever reads them. */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { crc32 } from "node:zlib"
import { open } from "lmdb"
import { afterAll, describe, expect, it } from "vitest"
import { valueOf, withChecksum } from "../../storage/checksum.ts"
import { openLmdb } from "../../storage/lmdb.ts"
import { committed } from "../../storage/store.ts"

const root = mkdtempSync(join(tmpdir(), "troupe-checksum-"))
afterAll(() => rmSync(root, { recursive: true, force: true }))

const bytesOf = (length: number): Buffer => Buffer.from(Array.from({ length }, (_, i) => (i * 31 + 7) & 0xff))

describe("G-8 checksums", () => {
  it.each([1, 2, 63, 64, 65, 1_000])(
    "of %i bytes: the value returns, and every flipped bit shows",
    (length) => {
      const value = bytesOf(length)
      const stored = Buffer.from(withChecksum(value))
      expect(valueOf(stored)).toEqual(value)
      expect(stored.readUInt32LE(1)).toBe(crc32(value))
      for (let bit = 0; bit < stored.length * 8; bit++) {
        const flipped = Buffer.from(stored)
        flipped[bit >> 3]! ^= 1 << (bit & 7)
        expect(valueOf(flipped), `bit ${bit}`).toBeUndefined()
      }
    }
  )

  it("an empty value stays empty, and values without a checksum are read as they are", () => {
    expect(withChecksum(Buffer.alloc(0)).length).toBe(0)
    for (const text of ["", "0", "1795321070", "-1", "\x92\x01\xc0"])
      expect(valueOf(Buffer.from(text, "latin1"))?.toString("latin1")).toBe(text)
    for (const text of ["\xc1", "\xc1\x00\x00\x00\x00", "text"])
      expect(valueOf(Buffer.from(text, "latin1"))).toBeUndefined()
  })

  it("a flipped bit on disk is found by check, hurts whoever reads that value, and nobody else", async () => {
    const folder = join(root, "flipped")
    const store = await openLmdb({ folder })
    for (const id of ["hurt", "well"]) {
      await committed(store, [{ _tag: "append", kind: "k", id, seq: 1, events: [bytesOf(50)] }])
      await committed(store, [{ _tag: "put", table: "t", key: [id], value: bytesOf(200) }])
    }
    expect(await store.check()).toEqual({ ok: true, entries: 7, faults: [] })
    await store.close()

    const raw = open<Buffer, any>({ path: join(folder, "store.lmdb"), encoding: "binary" })
    for (const key of [
      ["j", "k", "hurt", 1],
      ["t", "t", "hurt"]
    ]) {
      const value = Buffer.from(raw.getBinary(key)!)
      value[20]! ^= 4
      await raw.put(key, value)
    }
    await raw.close()

    const again = await openLmdb({ folder })
    expect(await again.check()).toEqual({
      ok: false,
      entries: 7,
      faults: [
        "the value of j/k/hurt/1 does not have its checksum",
        "the value of t/t/hurt does not have its checksum"
      ]
    })
    const corrupt = expect.objectContaining({ reason: "corrupt" })
    expect(() => again.readJournal("k", "hurt", 0)).toThrow(corrupt)
    expect(() => again.get("t", ["hurt"])).toThrow(corrupt)
    expect(again.readJournal("k", "well", 0)).toEqual([{ seq: 1, event: bytesOf(50) }])
    expect(again.get("t", ["well"])).toEqual(bytesOf(200))
    await again.close()
  })
})
