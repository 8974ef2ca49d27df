/** What the storage does with files and folders beyond the file system's own calls. */
import { createHash } from "node:crypto"
import {
  closeSync,
  createReadStream,
  fsyncSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync
} from "node:fs"
import { open, rename } from "node:fs/promises"
import { dirname, resolve } from "node:path"

const codeOf = (cause: unknown): string => (cause as NodeJS.ErrnoException).code ?? String(cause)

const isFolder = (path: string): boolean => {
  try {
    return statSync(path).isDirectory()
  } catch {
    return false
  }
}

/** Makes a folder and those above it that are missing, for its owner alone. `mkdir` with `recursive` never
 *  answers where a folder refuses new names by ENOENT, as those of /proc do. */
export const makeFolder = (path: string): void => {
  const missing: Array<string> = []
  for (let at = resolve(path); !isFolder(at); at = dirname(at)) missing.push(at)
  for (const folder of missing.toReversed())
    try {
      mkdirSync(folder, { mode: 0o700 })
    } catch (cause) {
      if (!isFolder(folder))
        throw new Error(`the folder ${folder} cannot be made (${codeOf(cause)})`, { cause })
    }
}

/** Does what `writeWhole` does, in this turn. On failure nothing of it remains. */
export const writeWholeSync = (path: string, bytes: Uint8Array): void => {
  const temporary = `${path}.part`
  try {
    writeFileSync(temporary, bytes, { mode: 0o600, flush: true })
    renameSync(temporary, path)
  } catch (cause) {
    rmSync(temporary, { force: true })
    throw cause
  }
  const folder = openSync(dirname(path), "r")
  try {
    fsyncSync(folder)
  } finally {
    closeSync(folder)
  }
}

/** Flushes a file, or the names in a folder. */
export const sync = async (path: string): Promise<void> => {
  const handle = await open(path, "r")
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** A file's size and checksum. */
export interface Digest {
  readonly bytes: number
  readonly sha256: string
}

const chunkBytes = 1 << 20

/** Reads a file in chunks, which `each` may write elsewhere. */
export const digestOf = async (
  path: string,
  signal?: AbortSignal,
  each?: (chunk: Uint8Array) => Promise<unknown>
): Promise<Digest> => {
  const hash = createHash("sha256")
  let bytes = 0
  for await (const chunk of createReadStream(path, { highWaterMark: chunkBytes, signal })) {
    hash.update(chunk as Buffer)
    bytes += (chunk as Buffer).length
    await each?.(chunk as Buffer)
  }
  return { bytes, sha256: hash.digest("hex") }
}

/** Copies a file to a new name and flushes it. The digest is of what was read. */
export const copyFlushed = async (from: string, to: string, signal?: AbortSignal): Promise<Digest> => {
  const handle = await open(to, "wx", 0o600)
  try {
    const digest = await digestOf(from, signal, (chunk) => handle.writeFile(chunk))
    await handle.sync()
    return digest
  } finally {
    await handle.close()
  }
}

/** Writes a file under a temporary name, flushes it and renames it, then flushes its folder: a reader sees all
 *  of it or nothing. */
export const writeWhole = async (path: string, text: string): Promise<void> => {
  const temporary = `${path}.part`
  const handle = await open(temporary, "w", 0o600)
  try {
    await handle.writeFile(text)
    await handle.sync()
  } finally {
    await handle.close()
  }
  await rename(temporary, path)
  await sync(dirname(path))
}
