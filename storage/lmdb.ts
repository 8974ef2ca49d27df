/** The store over LMDB: one file, one ordered map, one writer process. Guarantee: a commit counts as durable
 *  only after both the put's promise and `flushed`, so it is safe under either reading of lmdb-js's
 *  documentation. The data folder holds store.lmdb, store.lmdb-lock, blobs/ and writer.pid. Source:
 *  docs/architecture.md, "Storage". */
import { cp, mkdir, readdir } from "node:fs/promises"
import { existsSync } from "node:fs"
import { join } from "node:path"
import { open, type RootDatabase } from "lmdb"
import { fileBlobs } from "./blobs.ts"
import { makeFolder } from "./files.ts"
import { lockFolder } from "./folder-lock.ts"
import { schemaKey, schemaVersion } from "./keys.ts"
import { integrityOf } from "./integrity.ts"
import { StorageFault, type Blobs, type Key, type Row, type Store } from "./store.ts"
import { storeOf, Writer, type Backend, type Change } from "./writer.ts"

export interface LmdbOptions {
  readonly folder: string
  /** With `relaxed`, answers leave when a commit is written but not flushed; it is meant for benches and
   *  development only. */
  readonly durability?: "full" | "relaxed"
  /** The size in bytes up to which the file may grow. The default is 64 GiB of address space; the file is
   *  sparse on disk. */
  readonly mapBytes?: number
}

export const mapBytesDefault = 64 * 2 ** 30

/** Sorts after every other element of a key, so that it ends a range. */
const lastElement = new Uint8Array([0xff]) as never

const faultReasonOf = (detail: string): StorageFault["reason"] => {
  if (/MAP_FULL|ENOSPC|No space/i.test(detail)) return "full"
  return /CORRUPT|PAGE_NOTFOUND|INVALID/i.test(detail) ? "corrupt" : "io"
}

const faultOf = (cause: unknown): StorageFault => {
  const detail = cause instanceof Error ? cause.message : String(cause)
  return new StorageFault({ reason: faultReasonOf(detail), detail })
}

class Lmdb implements Backend {
  readonly db: RootDatabase<Buffer, any>
  private readonly flushesToDisk: boolean

  constructor(db: RootDatabase<Buffer, any>, flushesToDisk: boolean) {
    this.db = db
    this.flushesToDisk = flushesToDisk
  }

  get(key: Key): Uint8Array | undefined {
    return this.db.getBinary(key)
  }

  range(prefix: Key, after: Key | undefined, limit: number, reverse: boolean): ReadonlyArray<Row> {
    const above = [...prefix, lastElement]
    const bounds = reverse ? { start: after ?? above, end: prefix } : { start: after ?? prefix, end: above }
    const rows: Array<Row> = []
    for (const { key, value } of this.db.getRange({
      ...bounds,
      reverse,
      exclusiveStart: true,
      ...(limit === Infinity ? {} : { limit: limit + 1 })
    } as never)) {
      const parts = (Array.isArray(key) ? key : [key]) as Key
      if (rows.length >= limit) break
      if (parts.length > prefix.length && (after === undefined || !sameKey(parts, after)))
        rows.push({ key: parts, value })
    }
    return rows
  }

  async apply(changes: ReadonlyArray<Change>): Promise<void> {
    try {
      await this.db.batch(() => {
        for (let i = 0; i < changes.length; i++) {
          const { key, value } = changes[i]!
          if (value === undefined) void this.db.remove(key)
          else void this.db.put(key, value as Buffer)
        }
      })
      if (this.flushesToDisk) await this.db.flushed
    } catch (cause) {
      throw faultOf(cause)
    }
  }
}

const sameKey = (a: Key, b: Key): boolean => a.length === b.length && a.every((part, i) => part === b[i])

export const openLmdb = async ({
  folder,
  durability = "full",
  mapBytes = mapBytesDefault
}: LmdbOptions): Promise<Store> => {
  makeFolder(folder)
  const unlock = lockFolder(folder)
  let db: RootDatabase<Buffer, any>
  let blobs: Blobs
  try {
    db = open({
      path: join(folder, "store.lmdb"),
      encoding: "binary",
      mapSize: mapBytes,
      noSync: durability === "relaxed"
    })
    const stored = db.getBinary(schemaKey)
    if (stored !== undefined && Number(stored.toString()) > schemaVersion) {
      await db.close()
      throw new StorageFault({
        reason: "newer-schema",
        detail: `the data is of version ${stored.toString()}, this build knows ${schemaVersion}`
      })
    }
    if (stored === undefined) await db.put(schemaKey, Buffer.from(String(schemaVersion)))
    blobs = fileBlobs(join(folder, "blobs"))
  } catch (cause) {
    unlock()
    throw cause instanceof StorageFault ? cause : faultOf(cause)
  }
  const writer = new Writer(new Lmdb(db, durability === "full"))
  return storeOf(writer, {
    blobs,
    durability,
    backup: async (target) => {
      if (existsSync(target) && (await readdir(target)).length > 0)
        throw new StorageFault({ reason: "io", detail: "a backup goes into an empty or absent folder" })
      await mkdir(join(target, "blobs"), { recursive: true, mode: 0o700 })
      await writer.flushed()
      try {
        await db.backup(join(target, "store.lmdb"), true)
        for (const id of await blobs.ids())
          await cp(join(folder, "blobs", id), join(target, "blobs", id)).catch(unlessMissing)
      } catch (cause) {
        throw faultOf(cause)
      }
    },
    check: async () => {
      await writer.flushed()
      const entries = db
        .getRange({})
        .map(({ key, value }) => ({ key: (Array.isArray(key) ? key : [key]) as Key, value }))
      return integrityOf(entries as Iterable<Row>, blobs)
    },
    close: async () => {
      await writer.flushed()
      await db.close()
      unlock()
    }
  })
}

/** Ignores a missing blob: it may be deleted while a backup runs, and then the rows that name it are deleted
 *  too. */
const unlessMissing = (cause: NodeJS.ErrnoException): void => {
  if (cause.code !== "ENOENT") throw cause
}

/** Restores a backup into an empty or absent data folder. The master key is not part of a backup and has to
 *  be stored separately. */
export const restore = async (backup: string, folder: string): Promise<void> => {
  if (!existsSync(join(backup, "store.lmdb")))
    throw new StorageFault({ reason: "io", detail: `${backup} holds no backup` })
  const present = existsSync(folder) ? (await readdir(folder)).filter((name) => name !== "master.key") : []
  if (present.length > 0) throw new StorageFault({ reason: "io", detail: `${folder} is not empty` })
  await mkdir(folder, { recursive: true, mode: 0o700 })
  for (const name of ["store.lmdb", "blobs"])
    await cp(join(backup, name), join(folder, name), { recursive: true })
}
