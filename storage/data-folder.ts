/** Every name in a data folder, and what a backup does with it. Source: docs/operations.md, "Data folder". */
import { chmodSync, statSync } from "node:fs"
import { join } from "node:path"
import { lockFile } from "./folder-lock.ts"

export const storeFile = "store.lmdb"
export const blobsFolder = "blobs"
/** What restore.ts has not yet put in its place; a folder that holds it is not opened. */
export const restoreFolder = "restore.part"

/** - `store`, `blobs`: copied consistently.
 *  - `copied`: as it is.
 *  - `apart`: never in a backup, because it opens what is sealed there. Whoever operates the node keeps it.
 *  - `left`: of this process or machine, made anew where it is missing. */
export type Treatment = "store" | "blobs" | "copied" | "apart" | "left"

export const dataFolderNames: Readonly<Record<string, Treatment>> = {
  [storeFile]: "store",
  [`${storeFile}-lock`]: "left",
  [blobsFolder]: "blobs",
  "local.sealed": "copied",
  "revocation-intents": "copied",
  "master.key": "apart",
  "first-start.txt": "left",
  [lockFile]: "left",
  cache: "left"
}

/** The files beside the store that a restored node needs in order to be operated. */
export const copiedFiles: ReadonlyArray<string> = Object.keys(dataFolderNames).filter(
  (name) => dataFolderNames[name] === "copied"
)

/** Takes what the program keeps from the machine's other users (G-9): LMDB makes its files readable for all, and a
 *  copy may have lost its modes. The folder itself is left as its owner made it. */
export const tighten = (folder: string): void => {
  for (const name of Object.keys(dataFolderNames)) {
    const path = join(folder, name)
    const stat = statSync(path, { throwIfNoEntry: false })
    if (stat !== undefined && (stat.mode & 0o077) !== 0) chmodSync(path, stat.mode & 0o700)
  }
}

/** True when others than its owner may look into the folder, or change it. */
export const isOpenToOthers = (folder: string): boolean => (statSync(folder).mode & 0o077) !== 0
