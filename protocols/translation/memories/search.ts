/** Look-ups in translation memories: identical text by hash from disk, the most similar text by an index in
 *  memory, which is built at first use and evicted when other indexes need the space. Long look-ups yield to
 *  other work every few milliseconds.
 *  Source: docs/spec/translation.md, sections 3.1, 3.3.5. */
import { Memories, type Memory } from "../../../actors/memory-job.ts"
import type { Store, Write } from "../../../storage/store.ts"
import type { SupportedLanguage } from "../languages.ts"
import { exactPlaces, LastUsed, normalized, MemorySegments } from "./records.ts"
import { SimilarityIndex, similarityOf } from "./similarity.ts"
import { yieldToEventLoop } from "../../shared/event-loop.ts"

/** A memory with the options of one request. */
export interface MemoryUse {
  readonly memory: Memory
  /** Acceptable target languages, best first. */
  readonly targets: ReadonlyArray<string>
  readonly threshold: number
}

export interface MemoryHit {
  readonly place: number
  readonly similarity: number
  readonly target: string
}

/** Maximum size of all indexes together, in bytes. The index of one memory holds at most the segments that
 *  fit. */
const indexBytesMax = 256 * 1_048_576

/** Maximum number of texts measured per look-up, most likely first. */
const measuredMax = 5_000

const measuredSlice = 200
const pageRows = 1_000

export class MemorySearch {
  private readonly store: Store
  private readonly bytesMax: number
  private readonly indexes = new Map<string, { readonly index: Promise<SimilarityIndex>; bytes: number }>()

  constructor(store: Store, bytesMax = indexBytesMax) {
    this.store = store
    this.bytesMax = bytesMax
  }

  /** Returns undefined when the memory is unknown, another account's, or not of this pair. */
  use(
    accountId: string,
    memoryId: string,
    source: SupportedLanguage | undefined,
    target: SupportedLanguage,
    threshold: number
  ): MemoryUse | undefined {
    const memory = Memories.get(this.store, [accountId, memoryId])
    if (memory === undefined || (source !== undefined && source.base !== memory.source)) return undefined
    const code = target.code.toLowerCase()
    const targets = [code, target.base].filter(
      (language, i, all) => all.indexOf(language) === i && memory.targets.includes(language)
    )
    return targets.length === 0 ? undefined : { memory, targets, threshold }
  }

  /** Rejects when `signal` aborts. */
  async find(
    { memory: { memoryId }, targets, threshold }: MemoryUse,
    source: string,
    signal?: AbortSignal
  ): Promise<MemoryHit | undefined> {
    const text = normalized(source)
    if (text === "") return undefined
    const found: { best?: MemoryHit } = {}
    const measure = (place: number): void => {
      const segment = MemorySegments.get(this.store, [memoryId, place])
      if (segment === undefined) return
      const target = targets
        .map((language) => segment.targets.find(([code]) => code === language))
        .find((found) => found !== undefined)
      if (target === undefined) return
      const similarity = similarityOf(text, normalized(segment.text))
      if (similarity >= threshold && similarity > (found.best?.similarity ?? -1))
        found.best = { place, similarity, target: target[1] }
    }
    for (const place of exactPlaces(this.store, memoryId, text)) measure(place)
    const exact = found.best as MemoryHit | undefined
    if (exact !== undefined || threshold >= 100) return exact
    const breath = (): Promise<void> => yieldToEventLoop(signal)
    const likely = await (await this.indexOf(memoryId)).likely(text, threshold, breath)
    for (let i = 0; i < likely.length && i < measuredMax; i++) {
      if (found.best !== undefined && likely[i]!.ceiling <= found.best.similarity) break
      if (i % measuredSlice === measuredSlice - 1) await breath()
      measure(likely[i]!.place)
    }
    return found.best
  }

  /** Returns the rows that record when segments were applied. */
  applied(
    { memory: { memoryId } }: MemoryUse,
    places: ReadonlyArray<number>,
    nowMs: number
  ): ReadonlyArray<Write> {
    return [...new Set(places)].map((place) => LastUsed.put([memoryId, place], nowMs))
  }

  forget(memoryId: string): void {
    this.indexes.delete(memoryId)
  }

  private indexOf(memoryId: string): Promise<SimilarityIndex> {
    const cached = this.indexes.get(memoryId)
    if (cached !== undefined) {
      this.indexes.delete(memoryId)
      this.indexes.set(memoryId, cached)
      return cached.index
    }
    const held = { index: this.build(memoryId), bytes: 0 }
    this.indexes.set(memoryId, held)
    held.index.then(
      (index) => {
        held.bytes = index.bytes
        this.makeRoom(memoryId)
      },
      () => this.indexes.delete(memoryId)
    )
    return held.index
  }

  private async build(memoryId: string): Promise<SimilarityIndex> {
    const index = new SimilarityIndex()
    for (let after: number | undefined; index.bytes < this.bytesMax;) {
      const rows = MemorySegments.range(this.store, {
        prefix: [memoryId],
        limit: pageRows,
        ...(after === undefined ? {} : { after: [memoryId, after] })
      })
      for (const { key, value } of rows) index.add(key[1] as number, normalized(value.text))
      if (rows.length < pageRows) break
      after = rows.at(-1)!.key[1] as number
      await yieldToEventLoop()
    }
    index.seal()
    return index
  }

  private makeRoom(keeping: string): void {
    let sum = 0
    for (const { bytes } of this.indexes.values()) sum += bytes
    for (const [memoryId, { bytes }] of this.indexes) {
      if (sum <= this.bytesMax) break
      if (memoryId === keeping) continue
      this.indexes.delete(memoryId)
      sum -= bytes
    }
  }
}
