/** Cache of translations, per account: a text translated before with the same options costs no engine call.
 *  It has two generations: a used entry moves to the young one, and when that is full the old one is dropped,
 *  so neither a hit nor an eviction needs a search. It lives in memory only and does not affect billing: a
 *  hit is counted like a miss.
 *  Source: docs/spec/translation.md, section 3. */

export interface CachedTranslation {
  readonly text: string
  /** Detected language as an upper-case base code. */
  readonly detected: string
  readonly engine: string
}

export class TranslationCache {
  private young = new Map<string, CachedTranslation>()
  private old = new Map<string, CachedTranslation>()
  private chars = 0
  private readonly entriesMax: number
  private readonly charsMax: number

  /** Both limits apply to each generation. */
  constructor(entriesMax = 10_000, charsMax = 4_000_000) {
    this.entriesMax = entriesMax
    this.charsMax = charsMax
  }

  get(key: string): CachedTranslation | undefined {
    const cached = this.young.get(key)
    if (cached !== undefined) return cached
    const older = this.old.get(key)
    if (older !== undefined) this.set(key, older)
    return older
  }

  /** Stores a translation. A text larger than a hundredth of the limit is not stored, because it would evict
   *  too much. */
  set(key: string, remembered: CachedTranslation): void {
    const chars = key.length + remembered.text.length
    if (chars > this.charsMax / 100) return
    if (this.young.size >= this.entriesMax || this.chars + chars > this.charsMax) {
      this.old = this.young
      this.young = new Map()
      this.chars = 0
    }
    this.young.set(key, remembered)
    this.chars += chars
  }

  get size(): number {
    return this.young.size + this.old.size
  }
}
