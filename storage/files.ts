/** What the storage does with files and folders beyond the file system's own calls. */
import { mkdirSync, statSync } from "node:fs"
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
