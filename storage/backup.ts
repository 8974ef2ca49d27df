/** Writes a backup: a folder of the store, the blobs and the files that operating needs, and last its manifest with
 *  the size and the checksum of each. Guarantee: what has a manifest was flushed, opened and counted before; a
 *  folder without one is no backup, whenever the process was killed. Source: docs/operations.md, "Backup, restore,
 *  check". */
import { Schema } from "effect"
import { createHash } from "node:crypto"
import { existsSync } from "node:fs"
import { chmod, mkdir, readdir, readFile, realpath, rename, rm, stat } from "node:fs/promises"
import { dirname, join, resolve } from "node:path"
import { open } from "lmdb"
import { blobsFolder, copiedFiles, storeFile } from "./data-folder.ts"
import { copyFlushed, digestOf, makeFolder, sync, writeWhole, type Digest } from "./files.ts"
import { keyMarkKey, schemaVersion } from "./keys.ts"
import { StorageFault, type BackupSummary, type Blobs } from "./store.ts"
import { checkStoreFile } from "./store-file.ts"
import { entriesPerTurn, turn } from "./turn.ts"

export const manifestFile = "backup.json"

/** The version of the manifest and of the folder that it describes. */
const formatVersion = 1

/** A name that a manifest may list. It is a path below two folders, so it must not lead out of them. */
const listedName = new RegExp(
  `^(?:${[storeFile, ...copiedFiles].map((name) => name.replaceAll(".", "\\.")).join("|")}|${blobsFolder}/[A-Za-z0-9][A-Za-z0-9._-]{0,199})$`
)

const Manifest = Schema.Struct({
  format: Schema.Number,
  /** The version of the store's layout (keys.ts). */
  schema: Schema.Number,
  madeAt: Schema.String,
  /** How many entries the store holds. */
  entries: Schema.Number,
  files: Schema.Array(
    Schema.Struct({
      name: Schema.String.check(Schema.isPattern(listedName)),
      bytes: Schema.Number,
      sha256: Schema.String
    })
  )
})
export type Manifest = typeof Manifest.Type

const decodeManifest = Schema.decodeUnknownSync(Manifest)

const sealOf = (manifest: unknown): string =>
  createHash("sha256").update(JSON.stringify(manifest)).digest("hex")

const fault = (detail: string, reason: StorageFault["reason"] = "io"): StorageFault =>
  new StorageFault({ reason, detail })

/** How long a path may take to say what is there: a file system that hangs is refused. */
const answerMsMax = 10_000

const answered = async <A>(path: string, asked: Promise<A>): Promise<A> => {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(fault(`${path} does not answer`)), answerMsMax)
  })
  return Promise.race([asked, late]).finally(() => clearTimeout(timer))
}

const identityOf = async (path: string): Promise<string | undefined> => {
  const found = await stat(path, { bigint: true }).catch(() => undefined)
  return found === undefined ? undefined : `${found.dev}:${found.ino}`
}

/** Lists the folders that a path lies in, links followed, itself among them where it is there. */
const foldersAbove = async (path: string): Promise<ReadonlyArray<string>> => {
  let at = path
  while ((await identityOf(at)) === undefined) at = dirname(at)
  const folders = [await realpath(at)]
  while (folders[0] !== dirname(folders[0]!)) folders.unshift(dirname(folders[0]!))
  return folders
}

/** Refuses a target that is used already, or lies in the data folder under whatever name or mount. */
const checkTarget = async (target: string, folder: string): Promise<void> => {
  const own = [await identityOf(folder), await identityOf(join(folder, blobsFolder))]
  for (const at of await foldersAbove(target))
    if (own.includes(await identityOf(at))) throw fault(`a backup cannot lie in the data folder: ${target}`)
  const present = await readdir(target).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === "ENOENT") return [] as ReadonlyArray<string>
    throw fault(`${target} cannot hold a backup (${cause.code})`)
  })
  if (present.includes(manifestFile)) throw fault(`${target} holds a backup already`)
  if (present.length > 0)
    throw fault(`a backup goes into an empty or absent folder; ${target} holds ${present[0]}`)
}

/** The mark of the master key is no entry of anybody (integrity.ts). */
const isKeyMark = (key: unknown): boolean =>
  Array.isArray(key) && key[0] === keyMarkKey[0] && key[1] === keyMarkKey[1]

/** Opens a copy of the store, which nobody writes, and reads every entry. */
const countEntries = async (path: string, signal: AbortSignal | undefined): Promise<number> => {
  checkStoreFile(path)
  const db = open({ path, encoding: "binary", readOnly: true })
  let read = 0
  let marks = 0
  try {
    for (const { key } of db.getRange({})) {
      if (isKeyMark(key)) marks++
      if (++read % entriesPerTurn === 0) {
        signal?.throwIfAborted()
        await turn()
      }
    }
  } finally {
    await db.close()
    await rm(`${path}-lock`, { force: true })
  }
  return read - marks
}

export interface BackupOptions {
  readonly folder: string
  readonly target: string
  readonly blobs: Blobs
  /** Writes a consistent copy of the store to a new file. */
  readonly copyStore: (path: string) => Promise<unknown>
  readonly signal: AbortSignal | undefined
}

/** Ignores a missing file: a blob may be deleted while a backup runs, and then the rows that name it are deleted
 *  too. */
const unlessMissing = (cause: NodeJS.ErrnoException): undefined => {
  if (cause.code !== "ENOENT") throw cause
}

const fill = async ({ folder, target, blobs, copyStore, signal }: BackupOptions): Promise<Manifest> => {
  const files: Array<{ readonly name: string } & Digest> = []
  // LMDB makes a file that all may read: it grows in a folder that nobody else may enter.
  const store = join(target, blobsFolder, `${storeFile}.part`)
  await copyStore(store)
  await chmod(store, 0o600)
  await sync(store)
  const entries = await countEntries(store, signal)
  files.push({ name: storeFile, ...(await digestOf(store, signal)) })
  await rename(store, join(target, storeFile))
  for (const name of [...(await blobs.ids()).map((id) => `${blobsFolder}/${id}`), ...copiedFiles]) {
    signal?.throwIfAborted()
    if (!existsSync(join(folder, name))) continue
    const digest = await copyFlushed(join(folder, name), join(target, name), signal).catch(unlessMissing)
    if (digest === undefined) await rm(join(target, name), { force: true })
    else files.push({ name, ...digest })
  }
  return { format: formatVersion, schema: schemaVersion, madeAt: new Date().toISOString(), entries, files }
}

const totalBytes = ({ files }: Manifest): number => files.reduce((sum, { bytes }) => sum + bytes, 0)

/** Writes a backup into an empty or absent folder. What fails, or is aborted, leaves nothing behind. */
export const writeBackup = async (options: BackupOptions): Promise<BackupSummary> => {
  const target = resolve(options.target)
  await answered(target, checkTarget(target, options.folder))
  const isNew = !existsSync(target)
  try {
    makeFolder(target)
    await mkdir(join(target, blobsFolder), { mode: 0o700 })
    const manifest = await fill({ ...options, target })
    for (const path of [join(target, blobsFolder), target, dirname(target)]) await sync(path)
    options.signal?.throwIfAborted()
    const text = JSON.stringify({ sha256: sealOf(manifest), backup: manifest }, undefined, 1)
    await writeWhole(join(target, manifestFile), `${text}\n`)
    return { entries: manifest.entries, files: manifest.files.length, bytes: totalBytes(manifest) }
  } catch (cause) {
    for (const name of isNew ? [""] : await readdir(target))
      await rm(join(target, name), { recursive: true, force: true })
    throw cause
  }
}

/** Reads a manifest. Throws a fault that says why the folder is no backup, or none for this build. */
export const readManifest = async (backup: string): Promise<Manifest> => {
  const path = join(backup, manifestFile)
  if (!existsSync(path))
    throw fault(`${backup} holds no whole backup: it has no ${manifestFile}, which is written last`)
  let manifest: Manifest
  try {
    const { sha256, backup: stored } = JSON.parse(await readFile(path, "utf8")) as Record<string, unknown>
    if (sealOf(stored) !== sha256) throw new Error("its checksum is another")
    if ((stored as Manifest).format !== formatVersion) throw new Error("another build wrote it")
    manifest = decodeManifest(stored)
  } catch (cause) {
    throw fault(`${path} cannot be used: ${(cause as Error).message}`, "corrupt")
  }
  if (manifest.schema > schemaVersion)
    throw fault(
      `the backup is of version ${manifest.schema}, this build knows ${schemaVersion}`,
      "newer-schema"
    )
  return manifest
}
