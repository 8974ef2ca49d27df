/** A small disk of a child's own: a tmpfs in a mount namespace that ends with the child, so that a test can fill
 *  it with real bytes. The parent sees its files through /proc. Source: mount_namespaces(7). */
import { execFileSync } from "node:child_process"
import { appendFileSync, rmSync, statfsSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const mounting = 'mount -t tmpfs -o "size=$1" troupe "$0" && shift && exec "$@"'

/** As root, and as anybody where namespaces of users are permitted. */
const flags = ["-m", "-Urm"].find((flag) => {
  try {
    execFileSync("unshare", [flag, "sh", "-c", mounting, tmpdir(), "64k", "true"], { stdio: "ignore" })
    return true
  } catch {
    return false
  }
})

/** Why no test can have a small disk here; undefined when one can. */
export const noSmallDisk =
  flags === undefined ? "no mount namespace can be had here (unshare -m, unshare -Urm)" : undefined

/** Returns the words that run a command with a disk of that size mounted over the folder. */
export const onSmallDisk = (folder: string, size: string, command: ReadonlyArray<string>): Array<string> => [
  "unshare",
  flags!,
  "sh",
  "-c",
  mounting,
  folder,
  size,
  ...command
]

export class SmallDisk {
  /** The mounted folder, as this process sees it. */
  readonly folder: string

  constructor(pid: number, folder: string) {
    this.folder = join(`/proc/${pid}/root`, folder)
  }

  get freeBytes(): number {
    const { bavail, bsize } = statfsSync(this.folder)
    return bavail * bsize
  }

  /** Fills the disk until so much is left. */
  fill(leftBytes = 0): void {
    const piece = Buffer.alloc(4_096)
    try {
      while (this.freeBytes > leftBytes) appendFileSync(join(this.folder, "ballast"), piece)
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code !== "ENOSPC") throw cause
    }
  }

  /** Removes what filled it. */
  empty(): void {
    rmSync(join(this.folder, "ballast"), { force: true })
  }
}
