/** The store in memory, for tests and `--memory`: it has the same semantics, but nothing survives the
 *  process, and a backup is refused. */
import { compareKeys, mapKeyOf, startsWith } from "./keys.ts"
import { integrityOf } from "./integrity.ts"
import { StorageFault, type Blobs, type Key, type Row, type Store } from "./store.ts"
import { storeOf, Writer, type Backend, type Change } from "./writer.ts"

class SortedRows implements Backend {
  private readonly rows = new Map<string, Row>()
  private sorted: Array<Row> | undefined

  get(key: Key): Uint8Array | undefined {
    return this.rows.get(mapKeyOf(key))?.value
  }

  all(): ReadonlyArray<Row> {
    return (this.sorted ??= [...this.rows.values()].sort((a, b) => compareKeys(a.key, b.key)))
  }

  range(prefix: Key, after: Key | undefined, limit: number, reverse: boolean): ReadonlyArray<Row> {
    const rows = this.all().filter(
      ({ key }) =>
        key.length > prefix.length &&
        startsWith(key, prefix) &&
        (after === undefined || (reverse ? compareKeys(key, after) < 0 : compareKeys(key, after) > 0))
    )
    return (reverse ? rows.toReversed() : rows).slice(0, limit)
  }

  async apply(changes: ReadonlyArray<Change>): Promise<void> {
    for (const { key, value } of changes) {
      const name = mapKeyOf(key)
      const before = this.rows.get(name)
      if (value === undefined) {
        this.rows.delete(name)
        if (before !== undefined) this.sorted = undefined
      } else {
        this.rows.set(name, { key, value })
        this.sorted = undefined
      }
    }
  }
}

const memoryBlobs = (): Blobs => {
  const blobs = new Map<string, Uint8Array>()
  return {
    write: async (id, bytes) => {
      const chunks: Array<Uint8Array> = []
      for await (const chunk of bytes) chunks.push(chunk.slice())
      const whole = Buffer.concat(chunks)
      blobs.set(id, whole)
      return whole.length
    },
    read: (id) => {
      const whole = blobs.get(id)
      return whole === undefined
        ? undefined
        : (async function* () {
            for (let at = 0; at < whole.length; at += 65_536) yield whole.subarray(at, at + 65_536)
          })()
    },
    delete: async (id) => {
      blobs.delete(id)
    },
    ids: async () => [...blobs.keys()].sort()
  }
}

export const openMemory = (): Store => {
  const rows = new SortedRows()
  const writer = new Writer(rows)
  const blobs = memoryBlobs()
  return storeOf(writer, {
    blobs,
    durability: "relaxed",
    writeFault: () => undefined,
    backup: async () => {
      throw new StorageFault({ reason: "io", detail: "a memory store has nothing to back up" })
    },
    check: async (signal) => {
      await writer.flushed()
      return integrityOf([...rows.all()], blobs, signal)
    },
    close: () => writer.flushed()
  })
}
