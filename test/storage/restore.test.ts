/** A backup that is not whole is refused by name, and a kill at any moment of a backup or a restore leaves
 *  either the whole or what is refused. */
import { spawnSync } from "node:child_process"
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync
} from "node:fs"
import { createHash } from "node:crypto"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { afterAll, beforeAll, expect, it, vi } from "vitest"
import { openLmdb } from "../../storage/lmdb.ts"
import { restore } from "../../storage/restore.ts"
import { buildChild } from "../child.ts"
import { keptFolder, rows } from "./kept-folder.ts"

vi.setConfig({ testTimeout: 240_000, hookTimeout: 60_000 })

const root = mkdtempSync(join(tmpdir(), "troupe-restore-"))
const data = join(root, "data")
const whole = join(root, "whole")
let program = ""
let folders = 0
const folder = (): string => join(root, String(folders++))

beforeAll(async () => {
  await keptFolder(data)
  const store = await openLmdb({ folder: data })
  await store.backup(whole)
  await store.close()
  program = await buildChild("test/storage/killed-child.ts")
})

afterAll(() => {
  rmSync(root, { recursive: true, force: true })
  rmSync(dirname(program), { recursive: true, force: true })
})

/** Expects everything of the first folder in another. */
const expectWhole = async (restored: string): Promise<void> => {
  const store = await openLmdb({ folder: restored })
  expect(store.range("t", { limit: rows + 1 })).toHaveLength(rows)
  expect(await store.check()).toMatchObject({ ok: true, entries: rows + 3 })
  expect(await store.blobs.ids()).toEqual(["a", "b"])
  await store.close()
  for (const name of ["blobs/a", "blobs/b", "local.sealed", "revocation-intents"])
    expect(readFileSync(join(restored, name)), name).toEqual(readFileSync(join(data, name)))
}

const rewriteManifest = (at: string, change: (manifest: any) => void): void => {
  const path = join(at, "backup.json")
  const { backup } = JSON.parse(readFileSync(path, "utf8"))
  change(backup)
  const sha256 = createHash("sha256").update(JSON.stringify(backup)).digest("hex")
  writeFileSync(path, JSON.stringify({ sha256, backup }))
}

const flip = (path: string, at: number): void => {
  const bytes = readFileSync(path)
  bytes[at]! ^= 1
  writeFileSync(path, bytes)
}

const harms: ReadonlyArray<readonly [string, RegExp, (at: string) => void]> = [
  ["no manifest", /no whole backup: it has no backup\.json/, (at) => rmSync(join(at, "backup.json"))],
  ["a torn manifest", /backup\.json cannot be used/, (at) => truncateSync(join(at, "backup.json"), 300)],
  [
    "a changed manifest",
    /backup\.json cannot be used: its checksum is another/,
    (at) => {
      const path = join(at, "backup.json")
      writeFileSync(path, readFileSync(path, "utf8").replace(/"entries": \d+/, '"entries": 7'))
    }
  ],
  ["an empty manifest", /backup\.json cannot be used/, (at) => writeFileSync(join(at, "backup.json"), "{}")],
  [
    "a manifest that leads out of the folder",
    /backup\.json cannot be used/,
    (at) => rewriteManifest(at, (manifest) => (manifest.files[1].name = "blobs/../../escaped"))
  ],
  [
    "a manifest of a later format",
    /another build wrote it/,
    (at) => rewriteManifest(at, (manifest) => (manifest.format = 2))
  ],
  [
    "a later schema",
    /storage \(newer-schema\): the backup is of version 99/,
    (at) => rewriteManifest(at, (manifest) => (manifest.schema = 99))
  ],
  [
    "another count",
    /the backup's store holds \d+ entries, not 7/,
    (at) => rewriteManifest(at, (manifest) => (manifest.entries = 7))
  ],
  [
    "a store of one page",
    /store\.lmdb has 4096 bytes, not/,
    (at) => truncateSync(join(at, "store.lmdb"), 4_096)
  ],
  ["an empty store", /store\.lmdb has 0 bytes, not/, (at) => truncateSync(join(at, "store.lmdb"))],
  ["a longer store", /store\.lmdb has \d+ bytes, not/, (at) => appendFileSync(join(at, "store.lmdb"), "x")],
  ["no store", /store\.lmdb cannot be read: ENOENT/, (at) => rmSync(join(at, "store.lmdb"))],
  ["one flipped bit of the store", /store\.lmdb was changed/, (at) => flip(join(at, "store.lmdb"), 20_000)],
  ["one flipped bit of a blob", /blobs\/b was changed/, (at) => flip(join(at, "blobs/b"), 70_000)],
  ["a torn blob", /blobs\/a has 5 bytes, not 100000/, (at) => truncateSync(join(at, "blobs/a"), 5)],
  ["a missing blob", /blobs\/a cannot be read/, (at) => rmSync(join(at, "blobs/a"))],
  ["no sealed secrets", /local\.sealed cannot be read/, (at) => rmSync(join(at, "local.sealed"))]
]

it.each(harms)(
  "G-5: a backup with %s is refused by name, and the folder stays empty",
  async (_, said, harm) => {
    const [backup, restored] = [folder(), folder()]
    cpSync(whole, backup, { recursive: true })
    harm(backup)
    await expect(restore({ backup, folder: restored })).rejects.toThrow(said)
    const left = existsSync(restored) ? readdirSync(restored) : []
    expect(left.filter((name) => name !== "writer.pid")).toEqual([])
    await restore({ backup: whole, folder: restored })
    await expectWhole(restored)
  }
)

it("G-5: what stands in the folder stays: it is not restored into", async () => {
  const other = folder()
  await keptFolder(other)
  await expect(restore({ backup: whole, folder: other })).rejects.toThrow(/into an empty folder; .* holds /)
  await expectWhole(other)
  const store = await openLmdb({ folder: other })
  await expect(restore({ backup: whole, folder: other })).rejects.toMatchObject({ reason: "locked" })
  await store.close()
})

it("G-5: data of another master key are not put in their place; data without a mark take the one at hand", async () => {
  const [backup, marked, restored] = [folder(), folder(), folder()]
  const unmarked = await openLmdb({ folder: data, keyMark: "ours" })
  await unmarked.backup(backup)
  await unmarked.close()
  await expect(restore({ backup, folder: restored, keyMark: "theirs" })).rejects.toMatchObject({
    reason: "wrong-key"
  })
  expect(readdirSync(restored)).toEqual(["writer.pid"])
  expect(await restore({ backup, folder: restored, keyMark: "ours" })).toMatchObject({ ok: true })
  await restore({ backup: whole, folder: marked, keyMark: "new" })
  await expect(openLmdb({ folder: marked, keyMark: "ours" })).rejects.toMatchObject({ reason: "wrong-key" })
})

/** Runs the child until it is not killed any more; `look` gets what each kill left. */
const killEverywhere = async (
  what: "backup" | "restore",
  from: string,
  look: (target: string) => Promise<string>
): Promise<ReadonlyArray<string>> => {
  const seen: Array<string> = []
  for (let at = 0; ; at++) {
    const target = folder()
    if (what === "restore") {
      mkdirSync(target)
      writeFileSync(join(target, "master.key"), "the key")
    }
    const { status, signal } = spawnSync(process.execPath, [program, what, from, target, String(at)], {
      stdio: "inherit"
    })
    seen.push(await look(target))
    if (signal === "SIGKILL") continue
    expect(status).toBe(0)
    return seen
  }
}

it("G-5: a backup killed at any moment is none, or whole", async () => {
  const seen = await killEverywhere("backup", data, async (target) => {
    const restored = folder()
    const fault = await restore({ backup: target, folder: restored }).then(
      () => undefined,
      (cause: Error) => cause.message
    )
    if (fault !== undefined) {
      expect(fault).toContain("holds no whole backup")
      return "none"
    }
    await expectWhole(restored)
    return "whole"
  })
  expect(seen.length).toBeGreaterThan(20)
  expect([seen[0], seen.at(-1)]).toEqual(["none", "whole"])
})

it("G-5: a restore killed at any moment is not opened, or whole, and runs again; the key stays", async () => {
  const seen = await killEverywhere("restore", whole, async (target) => {
    const fault = existsSync(join(target, "restore.part"))
      ? await openLmdb({ folder: target }).catch((cause: Error) => cause.message)
      : undefined
    if (fault !== undefined) expect(fault).toMatch(/a restore into .* was cut off: run it again/)
    const isWhole = fault === undefined && existsSync(join(target, "store.lmdb"))
    if (!isWhole) await restore({ backup: whole, folder: target })
    await expectWhole(target)
    expect(readFileSync(join(target, "master.key"), "utf8")).toBe("the key")
    if (isWhole) return "whole"
    return fault === undefined ? "not begun" : "cut off"
  })
  expect(seen.length).toBeGreaterThan(20)
  expect([seen[0], seen.at(-1)]).toEqual(["not begun", "whole"])
  expect(seen).toContain("cut off")
})
