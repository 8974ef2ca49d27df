/** The store over LMDB: one file, one ordered map, one writer process. Guarantee: a commit counts as durable
 *  only after both the put's promise and `flushed`, so it is safe under either reading of lmdb-js's
 *  documentation. Source: docs/architecture.md, "Storage". */
import { existsSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { open, type RootDatabase, type RootDatabaseOptionsWithPath } from "lmdb"
import { checkAddressSpace } from "./address-space.ts"
import { writeBackup } from "./backup.ts"
import { fileBlobs } from "./blobs.ts"
import { checkedValue, damageOf, valueOf, withChecksum } from "./checksum.ts"
import { blobsFolder, copiedFiles, restoreFolder, storeFile, tighten } from "./data-folder.ts"
import { commitErrorOf, faultOf } from "./disk-fault.ts"
import { makeFolder } from "./files.ts"
import { lockFolder, lockStore } from "./folder-lock.ts"
import { keyMarkKey, schemaKey, schemaVersion } from "./keys.ts"
import { integrityOf } from "./integrity.ts"
import { Room, type RoomListener } from "./room.ts"
import { checkStoreFile } from "./store-file.ts"
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
  /** A keyed hash that only the master key of these data gives; one that differs is refused. */
  readonly keyMark?: string
  /** Hears when the disk is full, and when there is room again. */
  readonly onRoom?: RoomListener
}

export const mapBytesDefault = 64 * 2 ** 30

/** Sorts after every other element of a key, so that it ends a range. */
const lastElement = new Uint8Array([0xff]) as never

class Lmdb implements Backend {
  readonly db: RootDatabase<Buffer, any>
  private readonly room: Room
  private readonly flushesToDisk: boolean

  constructor(db: RootDatabase<Buffer, any>, room: Room, flushesToDisk: boolean) {
    this.db = db
    this.room = room
    this.flushesToDisk = flushesToDisk
  }

  get(key: Key): Buffer | undefined {
    const bytes = this.db.getBinary(key)
    return bytes === undefined ? undefined : checkedValue(key, bytes)
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
        rows.push({ key: parts, value: checkedValue(parts, value) })
    }
    return rows
  }

  async apply(changes: ReadonlyArray<Change>): Promise<void> {
    const refusal = this.room.refusal()
    if (refusal !== undefined) throw refusal
    try {
      await this.db.batch(() => {
        // Within a batch, put and remove return one resolved promise that says nothing: the batch's own is heard.
        for (let i = 0; i < changes.length; i++) {
          const { key, value } = changes[i]!
          if (value === undefined) void this.db.remove(key)
          else void this.db.put(key, (key[0] === "m" ? value : withChecksum(value)) as Buffer)
        }
      })
      if (this.flushesToDisk) await this.db.flushed
    } catch (cause) {
      throw await this.room.failed(await commitErrorOf(cause))
    }
    this.room.wrote()
  }

  /** Ends a refused transaction, which LMDB's close would wait for until the end of time: an empty one behind it,
   *  which touches no disk, makes it forget. */
  async close(): Promise<void> {
    this.room.close()
    const isForgotten = await this.db
      .batch(() => {})
      .then(
        () => true,
        () => false
      )
    if (isForgotten) await this.db.close()
  }
}

const sameKey = (a: Key, b: Key): boolean => a.length === b.length && a.every((part, i) => part === b[i])

/** The lock file holds LMDB's table of readers. */
const lockBytes = 65_536

/** Opens LMDB's file, or refuses it by name (G-8). */
const openDatabase = (
  file: string,
  mapBytes: number,
  durability: Store["durability"]
): RootDatabase<Buffer, any> => {
  checkStoreFile(file)
  checkAddressSpace(mapBytes)
  const isNew = !existsSync(file)
  // LMDB maps its lock file: a hole in it that a full disk cannot fill would be SIGBUS.
  if (!existsSync(`${file}-lock`)) writeFileSync(`${file}-lock`, Buffer.alloc(lockBytes), { mode: 0o600 })
  try {
    return open({
      path: file,
      encoding: "binary",
      mapSize: mapBytes,
      noSync: durability === "relaxed",
      // Writer gathers the commits of a turn. LMDB's own gathering makes promises that nobody can hear.
      eventTurnBatching: false
    } as RootDatabaseOptionsWithPath)
  } catch (cause) {
    // A disk that is full at the first start leaves an empty file, which the next start would refuse.
    if (isNew) rmSync(file, { force: true })
    throw cause
  }
}

/** Checks what the store says of its layout and of its master key, and notes it where it does not yet say so. */
const mark = async (backend: Lmdb, folder: string, keyMark: string | undefined): Promise<void> => {
  const schema = backend.db.getBinary(schemaKey)?.toString()
  if (schema !== undefined && Number(schema) > schemaVersion)
    throw new StorageFault({
      reason: "newer-schema",
      detail: `the data is of version ${schema}, this build knows ${schemaVersion}`
    })
  const stored = backend.db.getBinary(keyMarkKey)?.toString()
  if (stored !== undefined && keyMark !== undefined && stored !== keyMark)
    throw new StorageFault({
      reason: "wrong-key",
      detail: `the master key is not the one that the data in ${folder} were written with: bring that one back`
    })
  const marks: Array<Change> = []
  if (schema !== String(schemaVersion))
    marks.push({ key: schemaKey, value: Buffer.from(String(schemaVersion)) })
  if (stored === undefined && keyMark !== undefined)
    marks.push({ key: keyMarkKey, value: Buffer.from(keyMark) })
  if (marks.length > 0) await backend.apply(marks)
}

/** Reads every entry of a snapshot, and notes those whose values are damaged. */
function* entriesOf(db: RootDatabase<Buffer, any>, damaged: Array<string>): Generator<Row> {
  for (const { key, value } of db.getRange({})) {
    const parts = (Array.isArray(key) ? key : [key]) as Key
    const sound = parts[0] === "m" ? value : valueOf(value)
    if (sound === undefined) damaged.push(damageOf(parts))
    yield { key: parts, value: sound ?? value }
  }
}

/** Refuses a folder whose store is gone: to a new one its other files would be strange. */
const checkPresence = (folder: string, file: string): void => {
  if (existsSync(file)) return
  const rest = copiedFiles.find((name) => existsSync(join(folder, name)))
  if (rest !== undefined)
    throw new StorageFault({
      reason: "corrupt",
      detail: `${file} is missing, but ${rest} is there: bring it back, restore a backup, or begin in an empty folder`
    })
}

export const openLmdb = async ({
  folder,
  durability = "full",
  mapBytes = mapBytesDefault,
  keyMark,
  onRoom = () => {}
}: LmdbOptions): Promise<Store> => {
  makeFolder(folder)
  const unlockFolder = lockFolder(folder)
  let unlockStore = (): void => {}
  const unlock = (): void => {
    unlockStore()
    unlockFolder()
  }
  const file = join(folder, storeFile)
  const room = new Room({ folder, file, listener: onRoom })
  let backend: Lmdb | undefined
  let blobs: Blobs
  try {
    if (existsSync(join(folder, restoreFolder)))
      throw new StorageFault({
        reason: "io",
        detail: `a restore into ${folder} was cut off: run it again (troupe restore)`
      })
    checkPresence(folder, file)
    const isNew = !existsSync(file)
    if (!isNew) unlockStore = lockStore(folder, file)
    const db = openDatabase(file, mapBytes, durability)
    if (isNew) unlockStore = lockStore(folder, file)
    tighten(folder)
    backend = new Lmdb(db, room, durability === "full")
    await mark(backend, folder, keyMark)
    blobs = fileBlobs(join(folder, blobsFolder), (cause) => room.failed(cause))
  } catch (cause) {
    await backend?.close()
    unlock()
    throw faultOf(cause)
  }
  const { db } = backend
  const writer = new Writer(backend)
  /** The backups under way, which read the store. */
  const backups = new Set<Promise<void>>()
  return storeOf(writer, {
    blobs,
    durability,
    writeFault: () => room.fault,
    backup: (target, signal) => {
      const backup = writeBackup({
        folder,
        target,
        blobs,
        copyStore: async (path) => {
          await writer.flushed()
          await db.backup(path, true)
        },
        signal
      }).catch((cause: unknown) => {
        throw faultOf(cause)
      })
      const ended = backup.then(
        () => {},
        () => {}
      )
      backups.add(ended)
      void ended.then(() => backups.delete(ended))
      return backup
    },
    check: async (signal) => {
      await writer.flushed()
      signal?.throwIfAborted()
      // A range reads one snapshot, whatever is written between its turns.
      const damaged: Array<string> = []
      const { entries, faults } = await integrityOf(entriesOf(db, damaged), blobs, signal)
      return { ok: damaged.length + faults.length === 0, entries, faults: [...damaged, ...faults] }
    },
    close: async () => {
      for (const backup of backups) await backup
      await writer.flushed()
      await backend.close()
      unlock()
    }
  })
}
