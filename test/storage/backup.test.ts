/** What a backup holds and where it may lie. */
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, expect, it } from "vitest"
import { readManifest } from "../../storage/backup.ts"
import { openLmdb } from "../../storage/lmdb.ts"
import type { Store } from "../../storage/store.ts"
import { keptFolder, rows } from "./kept-folder.ts"

const root = mkdtempSync(join(tmpdir(), "troupe-backup-"))
const data = join(root, "data")
let store: Store
let folders = 0
const folder = (): string => join(root, String(folders++))

beforeAll(async () => {
  await keptFolder(data)
  store = await openLmdb({ folder: data })
})

afterAll(async () => {
  await store.close()
  rmSync(root, { recursive: true, force: true })
})

it("G-5, G-7: a backup holds all but what is apart or of this machine, and names each file in its manifest", async () => {
  const target = join(folder(), "deeper")
  const summary = await store.backup(target)
  const names = ["store.lmdb", "blobs/a", "blobs/b", "local.sealed", "revocation-intents"]
  const manifest = await readManifest(target)
  expect(manifest.files.map(({ name }) => name)).toEqual(names)
  expect(readdirSync(target).sort()).toEqual(
    ["backup.json", "blobs", "local.sealed", "revocation-intents", "store.lmdb"].sort()
  )
  expect(manifest).toMatchObject({ format: 1, schema: 2, entries: summary.entries })
  // Every row, the event, what says that its actor is there, and the number of the schema.
  expect(summary).toMatchObject({ entries: rows + 3, files: names.length })
  expect(readFileSync(join(target, "local.sealed"), "utf8")).toBe("content of local.sealed")
})

it("G-9: nobody else can read a backup, also in a folder that is open to others", async () => {
  const target = folder()
  mkdirSync(target)
  chmodSync(target, 0o755)
  await store.backup(target)
  for (const name of readdirSync(target)) {
    const { mode } = statSync(join(target, name))
    expect(mode & 0o077, name).toBe(0)
  }
})

it("G-14: a backup into the data folder is refused, by whatever way it is named", async () => {
  const link = folder()
  symlinkSync(join(data, "cache"), link)
  for (const target of [
    data,
    join(data, "blobs"),
    join(data, "blobs", "copy"),
    join(data, "copy"),
    join(data, "no", "such", "folder"),
    join(root, "elsewhere", "..", "data", "copy"),
    link,
    join(link, "copy")
  ])
    await expect(store.backup(target), target).rejects.toThrow(/a backup cannot lie in the data folder/)
  expect(await store.check()).toMatchObject({ ok: true })
  expect(await store.blobs.ids()).toEqual(["a", "b"])
})

it("G-14: a target that is no place for a folder is refused at once and by name", async () => {
  const file = folder()
  writeFileSync(file, "")
  await expect(store.backup(file)).rejects.toThrow(`${file} cannot hold a backup (ENOTDIR)`)
  await expect(store.backup(join(file, "below"))).rejects.toThrow(/cannot hold a backup \(ENOTDIR\)/)
  await expect(store.backup("/proc/x")).rejects.toThrow(/the folder \/proc(?:\/x)? cannot be made/)
  const used = folder()
  mkdirSync(used)
  writeFileSync(join(used, "letter"), "")
  await expect(store.backup(used)).rejects.toThrow(/empty or absent folder; .* holds letter/)
  expect(readdirSync(used)).toEqual(["letter"])
})

it("G-5: a backup that fails or is aborted leaves nothing behind", async () => {
  const absent = folder()
  const aborted = new AbortController()
  const backup = store.backup(absent, aborted.signal)
  aborted.abort()
  await expect(backup).rejects.toMatchObject({ reason: "io" })
  expect(existsSync(absent)).toBe(false)
  const empty = folder()
  mkdirSync(empty)
  await expect(store.backup(empty, AbortSignal.abort())).rejects.toMatchObject({ reason: "io" })
  expect(readdirSync(empty)).toEqual([])
})

it("G-5: the walks of backup and check give others their turns, and end when they are aborted", async () => {
  const large = folder()
  const many = await openLmdb({ folder: large })
  const events = 4_500
  many.commit(
    Array.from({ length: events }, (_, n) => ({
      _tag: "put" as const,
      table: "t",
      key: [n],
      value: Buffer.of(1)
    })),
    () => {}
  )
  await many.flushed()
  let turns = 0
  let isDone = false
  const count = (): void => {
    turns++
    many.commit([{ _tag: "append", kind: "k", id: "x", seq: turns, events: [Buffer.of(1)] }], () => {})
    if (!isDone) setImmediate(count)
  }
  setImmediate(count)
  expect(await many.check()).toMatchObject({ ok: true })
  isDone = true
  expect(turns).toBeGreaterThanOrEqual(4)
  const aborted = new AbortController()
  const checked = many.check(aborted.signal)
  aborted.abort()
  await expect(checked).rejects.toThrow(/abort/)
  await many.close()
})
