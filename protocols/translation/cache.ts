/** Answers already given, per account: a text translated once with the same options costs no engine. Bounded by count and size, least
 *  recently used first. What it holds never outlives the process, and it changes no bill: a hit is counted like a miss. */

export interface Remembered { readonly text: string; /** Upper-case base code. */ readonly detected: string; readonly engine: string }
interface Entry extends Remembered { readonly chars: number }

export class TranslationCache {
  private readonly entries = new Map<string, Entry>()
  private readonly entriesMax: number
  private readonly charsMax: number
  private chars = 0

  constructor(entriesMax = 20_000, charsMax = 8_000_000) {
    this.entriesMax = entriesMax
    this.charsMax = charsMax
  }
  get(key: string): Remembered | undefined {
    const entry = this.entries.get(key)
    if (entry === undefined) return undefined
    this.entries.delete(key)
    this.entries.set(key, entry)
    return entry
  }
  /** A text of more than a hundredth of the whole is not worth what it would push out. */
  set(key: string, { text, detected, engine }: Remembered): void {
    const chars = key.length + text.length
    if (chars > this.charsMax / 100) return
    const before = this.entries.get(key)
    if (before !== undefined) { this.chars -= before.chars; this.entries.delete(key) }
    this.entries.set(key, { text, detected, engine, chars })
    this.chars += chars
    for (const [oldest, { chars: freed }] of this.entries) {
      if (this.chars <= this.charsMax && this.entries.size <= this.entriesMax) break
      this.entries.delete(oldest)
      this.chars -= freed
    }
  }
  get size(): number { return this.entries.size }
}
