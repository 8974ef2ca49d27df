/** Opens a data folder, says so, and holds it until it is ended. Run by folder-lock.test.ts. */
import { openLmdb } from "../../storage/lmdb.ts"

await openLmdb({ folder: process.argv[2]! }).then(
  () => {
    console.log(`open ${process.pid}`)
    setInterval(() => {}, 60_000)
  },
  (cause: Error) => {
    console.log(`refused ${cause.message}`)
  }
)
