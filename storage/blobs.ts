/** Stores blobs as files. A blob is written under a temporary name, flushed and renamed, and its folder is
 *  flushed too. Guarantee: a reader never sees half a blob, and temporary files that a crash left behind are
 *  removed at the next opening. */
import { createReadStream, existsSync, mkdirSync, readdirSync, rmSync } from "node:fs"
import { open, readdir, rename, rm } from "node:fs/promises"
import { join } from "node:path"
import { faultOf } from "./disk-fault.ts"
import type { Blobs, StorageFault } from "./store.ts"

const idPattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$/
const unfinished = ".part"

const writingCalls = new Set<unknown>(["open", "write", "writev", "fsync", "close", "rename"])

/** True of what the file system says, and false of what the source of the bytes says. */
const isOfDisk = (cause: unknown): boolean =>
  cause instanceof Error && writingCalls.has((cause as NodeJS.ErrnoException).syscall)

/** `failed` resolves with the fault that a failure of the file system means. */
export const fileBlobs = (
  folder: string,
  failed: (cause: unknown) => Promise<StorageFault> = async (cause) => faultOf(cause)
): Blobs => {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  for (const name of readdirSync(folder)) if (name.endsWith(unfinished)) rmSync(join(folder, name))
  const pathOf = (id: string): string => {
    if (!idPattern.test(id) || id.endsWith(unfinished))
      throw new TypeError("a blob's id is 1 to 200 letters, digits, dots, dashes or underscores")
    return join(folder, id)
  }
  const syncFolder = async (): Promise<void> => {
    const handle = await open(folder, "r")
    try {
      await handle.sync()
    } finally {
      await handle.close()
    }
  }
  return {
    write: async (id, bytes) => {
      const path = pathOf(id)
      const temporary = `${path}.${crypto.randomUUID()}${unfinished}`
      let size = 0
      try {
        const handle = await open(temporary, "wx", 0o600)
        try {
          for await (const chunk of bytes) {
            await handle.writeFile(chunk)
            size += chunk.length
          }
          await handle.sync()
        } finally {
          await handle.close()
        }
        await rename(temporary, path)
      } catch (cause) {
        await rm(temporary, { force: true })
        throw isOfDisk(cause) ? await failed(cause) : cause
      }
      await syncFolder()
      return size
    },
    read: (id) =>
      existsSync(pathOf(id)) ? createReadStream(pathOf(id), { highWaterMark: 65_536 }) : undefined,
    delete: (id) => rm(pathOf(id), { force: true }),
    ids: async () => (await readdir(folder)).filter((name) => !name.endsWith(unfinished)).sort()
  }
}
