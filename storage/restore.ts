/** Brings a backup into an empty data folder. Guarantee: nothing stands in its place in the folder before all of it
 *  was copied, compared with the manifest, flushed, opened and checked; a folder in which a restore was cut off is
 *  not opened, and can be restored again. Source: docs/operations.md, "Backup, restore, check". */
import { existsSync } from "node:fs"
import { mkdir, readdir, rename, rm } from "node:fs/promises"
import { join } from "node:path"
import { readManifest, type Manifest } from "./backup.ts"
import { blobsFolder, copiedFiles, dataFolderNames, restoreFolder, storeFile } from "./data-folder.ts"
import { copyFlushed, makeFolder, sync } from "./files.ts"
import { lockFile, lockFolder } from "./folder-lock.ts"
import { openLmdb } from "./lmdb.ts"
import { StorageFault, type Integrity } from "./store.ts"

export interface RestoreOptions {
  readonly backup: string
  /** The data folder. */
  readonly folder: string
  /** Recognizes the master key (seal.ts); the key of other data is refused. */
  readonly keyMark?: string | undefined
}

const fault = (detail: string, reason: StorageFault["reason"] = "io"): StorageFault =>
  new StorageFault({ reason, detail })

/** What a folder may hold before a restore. */
const isAllowed = (name: string): boolean => name === lockFile || dataFolderNames[name] === "apart"

/** Names in the order in which they take their place: the store last. */
const restoredNames = [blobsFolder, ...copiedFiles, storeFile]

/** Removes what an earlier restore left: it began in an empty folder, so all of this is its own. */
const removeUnfinished = async (folder: string): Promise<void> => {
  for (const name of [...restoredNames, `${storeFile}-lock`])
    await rm(join(folder, name), { recursive: true, force: true })
  await rm(join(folder, restoreFolder), { recursive: true, force: true })
}

const copyAll = async ({ files }: Manifest, backup: string, part: string): Promise<void> => {
  await mkdir(join(part, blobsFolder), { mode: 0o700 })
  for (const { name, bytes, sha256 } of files) {
    const copied = await copyFlushed(join(backup, name), join(part, name)).catch((cause: Error) => {
      throw fault(`${join(backup, name)} cannot be read: ${cause.message}`)
    })
    if (copied.bytes !== bytes)
      throw fault(`${join(backup, name)} has ${copied.bytes} bytes, not ${bytes}`, "corrupt")
    if (copied.sha256 !== sha256)
      throw fault(`${join(backup, name)} was changed: its checksum is another`, "corrupt")
  }
  await sync(join(part, blobsFolder))
  await sync(part)
}

/** Opens what was copied as a node does, and checks it. */
const checkCopy = async (
  { entries }: Manifest,
  part: string,
  keyMark: string | undefined
): Promise<Integrity> => {
  const store = await openLmdb({ folder: part })
  let report: Integrity
  try {
    report = await store.check()
    if (report.entries !== entries)
      throw fault(`the backup's store holds ${report.entries} entries, not ${entries}`, "corrupt")
  } finally {
    await store.close()
  }
  if (keyMark !== undefined) await (await openLmdb({ folder: part, keyMark })).close()
  return report
}

/** Restores a backup into an empty or absent data folder, and returns what a check of it found. The master key is
 *  not part of a backup; it may lie in the folder already. */
export const restore = async ({ backup, folder, keyMark }: RestoreOptions): Promise<Integrity> => {
  const manifest = await readManifest(backup)
  makeFolder(folder)
  const unlock = lockFolder(folder)
  const part = join(folder, restoreFolder)
  try {
    if (existsSync(part)) await removeUnfinished(folder)
    const present = (await readdir(folder)).filter((name) => !isAllowed(name))
    if (present.length > 0)
      throw fault(`a backup is restored into an empty folder; ${folder} holds ${present[0]}`)
    await mkdir(part, { mode: 0o700 })
    await sync(folder)
    try {
      await copyAll(manifest, backup, part)
      const report = await checkCopy(manifest, part, keyMark)
      for (const name of restoredNames)
        if (existsSync(join(part, name))) await rename(join(part, name), join(folder, name))
      await sync(folder)
      await rm(part, { recursive: true })
      await sync(folder)
      return report
    } catch (cause) {
      await removeUnfinished(folder)
      throw cause
    }
  } finally {
    unlock()
  }
}
