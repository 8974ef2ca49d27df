/** A small data folder with everything that a backup holds, for the tests of backup and restore. */
import { mkdirSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { openLmdb } from "../../storage/lmdb.ts"
import { committed } from "../../storage/store.ts"

const text = new TextEncoder()

export const rows = 500

/** Makes the folder; its store stays closed. */
export const keptFolder = async (folder: string): Promise<void> => {
  const store = await openLmdb({ folder })
  for (let n = 0; n < rows; n++)
    store.commit([{ _tag: "put", table: "t", key: [n], value: text.encode(`row ${n}`.repeat(20)) }], () => {})
  await committed(store, [{ _tag: "append", kind: "k", id: "x", seq: 1, events: [text.encode("event")] }])
  for (const id of ["a", "b"])
    await store.blobs.write(
      id,
      (async function* () {
        yield text.encode(id.repeat(100_000))
      })()
    )
  await store.close()
  for (const name of ["local.sealed", "revocation-intents", "master.key", "cache/compiled"]) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), `content of ${name}`)
  }
}
