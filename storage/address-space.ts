/** How much a process may map, where the system limits it (`ulimit -v`): LMDB ends the process when it cannot map
 *  its file. */
import { readFileSync } from "node:fs"
import { StorageFault } from "./store.ts"

/** As every Linux of a server has it; a larger page only makes the answer more careful. */
const pageBytes = 4_096

const read = (name: string): string => {
  try {
    return readFileSync(`/proc/self/${name}`, "latin1")
  } catch {
    return ""
  }
}

/** Throws when a map of this size does not fit any more. */
export const checkAddressSpace = (mapBytes: number): void => {
  const limit = Number(/^Max address space\s+(\d+)/m.exec(read("limits"))?.[1] ?? Infinity)
  if (limit === Infinity) return
  const used = Number(read("statm").split(" ")[0]) * pageBytes
  if (used + mapBytes > limit)
    throw new StorageFault({
      reason: "io",
      detail: `the address space is limited to ${limit} bytes (ulimit -v), and the store maps ${mapBytes} beside the ${used} in use`
    })
}
