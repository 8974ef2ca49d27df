/** Backs up or restores a folder, and kills itself before the nth call to the file system. Run by restore.test.ts:
 *  `killed-child backup|restore FROM TO N`. */
import promises from "node:fs/promises"
import { syncBuiltinESMExports } from "node:module"
import { openLmdb } from "../../storage/lmdb.ts"
import { restore } from "../../storage/restore.ts"

const [what, from, to, at] = process.argv.slice(2) as [string, string, string, string]

const counted = ["mkdir", "open", "readdir", "readFile", "rename", "rm", "stat"] as const

const store = what === "backup" ? await openLmdb({ folder: from }) : undefined

let calls = 0
const watched = promises as unknown as Record<string, (...args: Array<unknown>) => unknown>
for (const name of counted) {
  const call = watched[name]!
  watched[name] = (...args) => {
    if (calls++ === Number(at)) process.kill(process.pid, "SIGKILL")
    return call(...args)
  }
}
syncBuiltinESMExports()

if (store === undefined) await restore({ backup: from, folder: to })
else {
  await store.backup(to)
  await store.close()
}
