/** The lock of a data folder: the kernel's, on its file writer.pid. Guarantee: one holder at a time, in whatever
 *  container, PID namespace or mount path, because the lock belongs to the open file; the kernel frees it when its
 *  process ends, however that ends. The file stays: whoever removed it could remove another's lock. Source:
 *  fcntl(2), open file description locks; flock(2) on macOS. */
import { closeSync, ftruncateSync, openSync, readFileSync, writeSync } from "node:fs"
import { createRequire } from "node:module"
import { join } from "node:path"
import { StorageFault } from "./store.ts"

export const lockFile = "writer.pid"

interface Binding {
  /** Throws EAGAIN when another open file holds the lock. */
  readonly tryLock: (file: number, offset: number, length: number, exclusive: boolean) => void
}

const textOf = (cause: unknown): string => (cause as Error).message.split("\n")[0]!

/** Loads the prebuilt binary itself: the package's own search for it costs a start some ten milliseconds. */
const binding = (platform: string): Binding => {
  try {
    return createRequire(import.meta.url)(
      `fs-native-extensions/prebuilds/${platform}/fs-native-extensions.node`
    ) as Binding
  } catch (cause) {
    throw new StorageFault({
      reason: "io",
      detail: `no data folder can be locked on this platform (${platform}): ${textOf(cause)}`
    })
  }
}

const openFile = (folder: string): number => {
  try {
    return openSync(join(folder, lockFile), "a+", 0o600)
  } catch (cause) {
    throw new StorageFault({ reason: "io", detail: `${folder} cannot be written: ${textOf(cause)}` })
  }
}

/** The holder's own number, which another PID namespace may count differently. */
const holderOf = (folder: string): string => {
  const text = readFileSync(join(folder, lockFile), "latin1").split(" ")[0]!.trim()
  return /^\d+$/.test(text) ? ` (process ${text})` : ""
}

/** Writes this process's number. It is for people, so that a full disk may lose it. */
const nameHolder = (file: number): void => {
  try {
    ftruncateSync(file)
    writeSync(file, String(process.pid))
  } catch {
    /* the lock itself needs no room */
  }
}

const thisPlatform = `${process.platform}-${process.arch}`

/** Takes the lock of an open file, or closes it. `holder` says who has it. */
const take = (file: number, folder: string, platform: string, holder: () => string): void => {
  const { tryLock } = binding(platform)
  try {
    tryLock(file, 0, 0, true)
  } catch (cause) {
    closeSync(file)
    if ((cause as NodeJS.ErrnoException).code !== "EAGAIN")
      throw new StorageFault({ reason: "io", detail: `${folder} cannot be locked: ${textOf(cause)}` })
    throw new StorageFault({ reason: "locked", detail: `another process writes ${folder}${holder()}` })
  }
}

/** Locks the folder for this process, because a folder has one writer. Returns the function that unlocks. */
export const lockFolder = (folder: string, platform = thisPlatform): (() => void) => {
  const file = openFile(folder)
  take(file, folder, platform, () => holderOf(folder))
  nameHolder(file)
  return () => closeSync(file)
}

/** Locks the store's file as well, because people delete lock files. */
export const lockStore = (folder: string, path: string): (() => void) => {
  const file = openSync(path, "r+")
  take(file, folder, thisPlatform, () => "")
  return () => closeSync(file)
}
