/** Damaged store files, each refused by name before LMDB maps it. */
import {
  closeSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { openLmdb } from "../../storage/lmdb.ts"
import { checkStoreFile } from "../../storage/store-file.ts"
import { committed, type Write } from "../../storage/store.ts"

const root = mkdtempSync(join(tmpdir(), "troupe-store-file-"))
const sound = join(root, "sound")
const pageBytes = 4_096
const rows = 800
let folders = 0

beforeAll(async () => {
  const store = await openLmdb({ folder: sound })
  const write = (first: number, last: number): Promise<void> => {
    const writes: Array<Write> = []
    for (let i = first; i < last; i++) {
      const value = Buffer.alloc(i % 100 === 0 ? 10_000 : 100, i)
      writes.push({ _tag: "put", table: "t", key: [`row ${i}`], value })
    }
    return committed(store, writes)
  }
  for (let first = 0; first < rows; first += 200) await write(first, first + 200)
  // Leaves free pages behind, whose bytes nobody reads.
  await write(0, 200)
  await store.close()
})

afterAll(() => rmSync(root, { recursive: true, force: true }))

/** A copy of the sound folder whose file is damaged. */
const damaged = (damage: (file: string) => void): { readonly folder: string; readonly file: string } => {
  const folder = join(root, String(folders++))
  mkdirSync(folder, { mode: 0o700 })
  const file = join(folder, "store.lmdb")
  copyFileSync(join(sound, "store.lmdb"), file)
  damage(file)
  return { folder, file }
}

const overwrite = (file: string, at: number, bytes: Uint8Array): void => {
  const handle = openSync(file, "r+")
  writeSync(handle, bytes, 0, bytes.length, at)
  closeSync(handle)
}

const garbage = (bytes: number, seed: number): Buffer => {
  const noise = Buffer.alloc(bytes)
  let state = seed * 2_654_435_761
  for (let i = 0; i < bytes; i++) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0
    noise[i] = state >>> 16
  }
  return noise
}

const sizeOf = (file: string): number => statSync(file).size

describe("G-8", () => {
  it.each<readonly [string, (file: string) => void, RegExp]>([
    ["of 0 bytes", (file) => truncateSync(file, 0), /empty \(0 bytes\)/],
    ["of 1 byte", (file) => truncateSync(file, 1), /cut off/],
    ["cut to 4,096 bytes", (file) => truncateSync(file, pageBytes), /cut off/],
    ["cut to 8,192 bytes", (file) => truncateSync(file, 2 * pageBytes), /cut off/],
    ["cut in the middle", (file) => truncateSync(file, sizeOf(file) >> 1), /cut off/],
    ["with a first page of garbage", (file) => overwrite(file, 0, garbage(pageBytes, 1)), /first page/],
    ["with a first page of zeros", (file) => overwrite(file, 0, Buffer.alloc(pageBytes)), /first page/],
    [
      "with a second page of garbage",
      (file) => overwrite(file, pageBytes, garbage(pageBytes, 2)),
      /second page/
    ],
    ["that is a text", (file) => writeFileSync(file, "text\n".repeat(5_000)), /first page/],
    ["of another format", (file) => overwrite(file, 28, Buffer.from([9, 0, 0, 0])), /format 9/],
    [
      "with garbage in the middle",
      (file) => overwrite(file, 2 * pageBytes, garbage(sizeOf(file) - 2 * pageBytes, 3)),
      /damaged in its page/
    ]
  ])("a store file %s is refused by name, and stays as it is", async (_, damage, says) => {
    const { folder, file } = damaged(damage)
    const bytes = sizeOf(file)
    await expect(openLmdb({ folder })).rejects.toMatchObject({
      reason: "corrupt",
      detail: expect.stringMatching(says)
    })
    await expect(openLmdb({ folder })).rejects.toThrow(file)
    expect(sizeOf(file)).toBe(bytes)
  })

  it("every single page of garbage is refused, or hurts one value, or was in no use", async () => {
    const pages = sizeOf(join(sound, "store.lmdb")) / pageBytes
    let refused = 0
    for (let page = 2; page < pages; page++) {
      const { folder, file } = damaged((path) => overwrite(path, page * pageBytes, garbage(pageBytes, page)))
      try {
        checkStoreFile(file)
      } catch (fault) {
        expect(fault).toMatchObject({ reason: "corrupt", detail: expect.stringContaining(file) })
        refused++
        rmSync(folder, { recursive: true })
        continue
      }
      const store = await openLmdb({ folder })
      for (let i = 0; i < rows; i++)
        try {
          store.get("t", [`row ${i}`])
        } catch (fault) {
          expect(fault).toMatchObject({ reason: "corrupt" })
        }
      await store.close()
      rmSync(folder, { recursive: true })
    }
    // The pages behind an overflow's first one hold nothing but a value: its checksum is their guard.
    expect(refused).toBeGreaterThan(pages / 3)
  }, 120_000)

  it("a sound file passes, and one that is not there", () => {
    checkStoreFile(join(sound, "store.lmdb"))
    checkStoreFile(join(root, "absent", "store.lmdb"))
  })

  it("data open with their own master key only", async () => {
    const folder = join(root, "marked")
    const open = (keyMark?: string) => openLmdb({ folder, ...(keyMark === undefined ? {} : { keyMark }) })
    await (await open()).close()
    await (await open("one")).close()
    await expect(open("other")).rejects.toMatchObject({ reason: "wrong-key" })
    await (await open("one")).close()
  })
})
