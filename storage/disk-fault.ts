/** Says what a failure of LMDB or of the file system means for the store. Guarantee: what only room would mend
 *  is `full`, whatever the operating system calls it. */
import { constants } from "node:os"
import { StorageFault } from "./store.ts"

/** No space, no quota, or a file at its greatest permitted size. */
const fullCodes = new Set<unknown>([
  "ENOSPC",
  "EDQUOT",
  "EFBIG",
  constants.errno.ENOSPC,
  constants.errno.EDQUOT,
  constants.errno.EFBIG
])

const mapFull = /MDB_MAP_FULL/

/** LMDB reports a write that the disk took half of as an input/output error. */
export const isShortWrite = (cause: unknown): boolean => {
  const { code } = (cause ?? {}) as { readonly code?: unknown }
  return code === constants.errno.EIO || code === "EIO"
}

/** True when LMDB itself is full: its map is as large as it may grow. */
export const isMapFull = (fault: StorageFault): boolean => mapFull.test(fault.detail)

const reasonOf = (detail: string, code: unknown): StorageFault["reason"] => {
  if (fullCodes.has(code) || mapFull.test(detail)) return "full"
  return /CORRUPT|PAGE_NOTFOUND|INVALID|VERSION_MISMATCH/i.test(detail) ? "corrupt" : "io"
}

export const faultOf = (cause: unknown): StorageFault => {
  if (cause instanceof StorageFault) return cause
  const detail = cause instanceof Error ? cause.message : String(cause)
  return new StorageFault({ reason: reasonOf(detail, (cause as { readonly code?: unknown })?.code), detail })
}

/** Resolves with why LMDB refused a commit. The error that it rejects with says only that the reason is in
 *  another promise, which rejects too. */
export const commitErrorOf = async (cause: unknown): Promise<unknown> => {
  const { commitError } = (cause ?? {}) as { readonly commitError?: Promise<never> }
  return commitError === undefined ? cause : commitError.catch((inner: unknown) => inner)
}
