/** Answers already given, per account: a text translated once with the same options costs no engine. Two
 *  generations: what is used moves to the young one, and when that is full the old one is dropped, so neither
 *  a hit nor an entry leaving costs a search. What it holds never outlives the process, and it changes no
 *  bill: a hit is counted like a miss. */

export interface CachedTranslation {
  readonly text: string
  /** Upper-case base code. */
  readonly detected: string
  readonly engine: string
}

export class TranslationCache {
  private young = new Map<string, CachedTranslation>()
  private old = new Map<string, CachedTranslation>()
  private chars = 0
  private readonly entriesMax: number
  private readonly charsMax: number

  /** Limits of each generation. */
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

  /** A text of more than a hundredth of the whole is not worth what it would push out. */
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
