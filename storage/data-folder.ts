/** Every name in a data folder, and what a backup does with it. Source: docs/operations.md, "Data folder". */
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
