/** The cache of answers to GETs. An entry names the version of every collection it is made of; a write raises
 *  them, so nothing stale is ever served. The least recently used entries leave.
 *  Source: docs/spec/store.md, section 7. */

export interface Entry {
  readonly body: string
  readonly etag: string | undefined
  readonly lastModifiedMs: number
  readonly storedMs: number
  readonly expiresMs: number
  /** The versions of its collections when it was computed. */
  readonly versions: ReadonlyArray<readonly [collection: string, version: number]>
}

const bytesMaxDefault = 64 * 1_048_576

/** Divisor of the cache size: an entry above 1/8 of it is not stored, because it would evict too much. */
const shareMax = 8

export class AnswerCache {
  private readonly entries = new Map<string, Entry>()
  private readonly version: (collection: string) => number
  private readonly bytesMax: number
  private bytes = 0

  constructor(version: (collection: string) => number, bytesMax = bytesMaxDefault) {
    this.version = version
    this.bytesMax = bytesMax
  }

  get(key: string, nowMs: number): Entry | undefined {
    const entry = this.entries.get(key)
    if (entry === undefined) return undefined
    if (
      entry.expiresMs <= nowMs ||
      entry.versions.some(([collection, version]) => this.version(collection) !== version)
    ) {
      this.drop(key)
      return undefined
    }
    this.entries.delete(key)
    this.entries.set(key, entry)
    return entry
  }

  private cost(key: string, { body }: Entry): number {
    return 2 * (key.length + body.length) + 200
  }

  set(key: string, entry: Entry): void {
    this.drop(key)
    const cost = this.cost(key, entry)
    if (cost > this.bytesMax / shareMax) return
    for (const oldest of this.entries.keys()) {
      if (this.bytes + cost <= this.bytesMax) break
      this.drop(oldest)
    }
    this.entries.set(key, entry)
    this.bytes += cost
  }

  drop(key: string): void {
    const entry = this.entries.get(key)
    if (entry === undefined) return
    this.entries.delete(key)
    this.bytes -= this.cost(key, entry)
  }

  get size(): number {
    return this.entries.size
  }
}
