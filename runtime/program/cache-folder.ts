/** The folder of compiled engines and rewritten libraries. Source: docs/operations.md, "Data folder". */
import { makeFolder } from "../../storage/files.ts"
import { cacheFolderOf, type Config } from "./config/config.ts"

/** Makes the folder. One that cannot be made costs what is kept there, not the start: whoever writes there says
 *  what is missing. */
export const openCacheFolder = (config: Config): string => {
  const folder = cacheFolderOf(config)
  try {
    makeFolder(folder)
  } catch {
    /* Said by its users. */
  }
  return folder
}
