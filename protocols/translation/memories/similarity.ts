/** Finds the most similar of many texts without comparing with each. A signature of letter pairs per text
 *  gives a lower bound of the edit distance, so that only likely texts are read and measured. Plain loops
 *  over typed arrays (bench/memory). Pure. Similarity = round(100·(1 − Levenshtein/longer)), in UTF-16 units;
 *  it is below 100 unless the texts are identical.
 *  Source: docs/spec/translation.md, section 3.3.5. */
import { distance } from "fastest-levenshtein"

export const similarityOf = (a: string, b: string): number => {
  if (a === b) return 100
  if (a.length === b.length && a.toLowerCase() === b.toLowerCase()) return 99
  const longer = Math.max(a.length, b.length)
  return Math.min(99, Math.round(100 * (1 - distance(a, b) / longer)))
}

/** 32-bit words per signature, by the length of the text: about five bits per letter pair, so that few pairs
 *  share a bit. With two bits per pair, 80 % of the unlike texts were still measured. */
const classes = [
  { words: 16, charsMax: 96 },
  { words: 40, charsMax: 224 },
  { words: 80, charsMax: Infinity }
] as const

const classOf = (length: number): number => classes.findIndex(({ charsMax }) => length <= charsMax)

const sign = (text: string, words: number, into: Uint32Array, at: number): void => {
  const bits = words * 32
  for (let i = 0; i + 1 < text.length; i++) {
    const bit = (Math.imul(text.charCodeAt(i) * 31 + text.charCodeAt(i + 1), 0x9e3779b1) >>> 12) % bits
    into[at + (bit >> 5)]! |= 1 << (bit & 31)
  }
}

const ones = (word: number): number => {
  let x = word - ((word >>> 1) & 0x55555555)
  x = (x & 0x33333333) + ((x >>> 2) & 0x33333333)
  return Math.imul((x + (x >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24
}

/** An edit removes at most two letter pairs and adds at most two, so it changes at most four bits. */
const bitsPerEdit = 4

/** Signatures of one class: appended first, then ordered by text length. */
class Shelf {
  count = 0
  places = new Uint32Array(256)
  lengths = new Uint16Array(256)
  signatures: Uint32Array
  readonly words: number

  constructor(words: number) {
    this.words = words
    this.signatures = new Uint32Array(256 * words)
  }

  add(place: number, text: string): void {
    if (this.count === this.places.length) {
      const grown = <A extends Uint32Array | Uint16Array>(old: A, grownArray: A): A => {
        grownArray.set(old as any)
        return grownArray
      }
      const size = this.count * 2
      this.places = grown(this.places, new Uint32Array(size))
      this.lengths = grown(this.lengths, new Uint16Array(size))
      this.signatures = grown(this.signatures, new Uint32Array(size * this.words))
    }
    this.places[this.count] = place
    this.lengths[this.count] = Math.min(65_535, text.length)
    sign(text, this.words, this.signatures, this.count++ * this.words)
  }

  seal(): void {
    const { count, words } = this
    const order = new Uint32Array(count)
      .map((_, i) => i)
      .sort((a, b) => this.lengths[a]! - this.lengths[b]! || a - b)
    const places = new Uint32Array(count)
    const lengths = new Uint16Array(count)
    const signatures = new Uint32Array(count * words)
    for (let i = 0; i < count; i++) {
      const from = order[i]!
      places[i] = this.places[from]!
      lengths[i] = this.lengths[from]!
      signatures.set(this.signatures.subarray(from * words, (from + 1) * words), i * words)
    }
    this.places = places
    this.lengths = lengths
    this.signatures = signatures
  }

  firstAtLeast(length: number): number {
    let low = 0
    let high = this.count
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.lengths[middle]! < length) low = middle + 1
      else high = middle
    }
    return low
  }

  get bytes(): number {
    return this.places.byteLength + this.lengths.byteLength + this.signatures.byteLength
  }
}

export interface Likely {
  readonly place: number
  /** Upper bound of the similarity. */
  readonly ceiling: number
}

/** Signatures compared before other work may run: about two milliseconds. */
const sliceEntries = 50_000

export class SimilarityIndex {
  private readonly shelves = classes.map(({ words }) => new Shelf(words))

  /** Adds a normalized text. */
  add(place: number, text: string): void {
    this.shelves[classOf(text.length)]!.add(place, text)
  }

  /** Orders the signatures; it is called once, after the last `add`. */
  seal(): void {
    for (const shelf of this.shelves) shelf.seal()
  }

  get size(): number {
    return this.shelves.reduce((sum, { count }) => sum + count, 0)
  }

  get bytes(): number {
    return this.shelves.reduce((sum, { bytes }) => sum + bytes, 0)
  }

  /** Returns the texts that may reach the similarity `threshold`, most likely first. It yields between
   *  slices. */
  async likely(text: string, threshold: number, breath: () => Promise<void>): Promise<ReadonlyArray<Likely>> {
    const share = Math.min(1, (100.5 - threshold) / 100)
    const { length } = text
    const found: Array<Likely> = []
    const shortest = Math.ceil(length * (1 - share))
    const longest = share >= 1 ? Infinity : length / (1 - share)
    let looked = 0
    for (const shelf of this.shelves) {
      const { words, lengths, signatures, places, count } = shelf
      const own = new Uint32Array(words)
      sign(text, words, own, 0)
      for (let i = shelf.firstAtLeast(shortest); i < count && lengths[i]! <= longest; i++) {
        if (++looked % sliceEntries === 0) await breath()
        const longer = Math.max(length, lengths[i]!)
        const bitsMax = Math.floor(longer * share) * bitsPerEdit
        let bits = 0
        for (let word = 0, at = i * words; word < words; word++, at++) {
          bits += ones(own[word]! ^ signatures[at]!)
          if (bits > bitsMax) break
        }
        if (bits > bitsMax) continue
        const edits = Math.max(Math.ceil(bits / bitsPerEdit), Math.abs(length - lengths[i]!))
        found.push({ place: places[i]!, ceiling: Math.round(100 * (1 - edits / longer)) })
      }
    }
    return found.sort((a, b) => b.ceiling - a.ceiling || a.place - b.place)
  }
}
