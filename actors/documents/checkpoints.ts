/** Stores the translations of a document so far, on disk in sealed pieces. Guarantee: a piece is whole or
 *  absent, and after a crash no engine is asked again for a text that a piece contains. Source:
 *  docs/spec/documents.md, sections 9.6 and 9.7. */
import { Data, Effect } from "effect"
import type { Blobs } from "../../storage/store.ts"
import { blobOf } from "./blobs.ts"
import { opened, sealing, type DocumentKeys } from "./sealed.ts"

const pairsMax = 512
const intervalMs = 2_000
const checkpointsMax = 100_000

/** A piece could not be written. */
export class CheckpointFault extends Data.TaggedError("CheckpointFault")<{}> {}

interface CheckpointOptions {
  readonly id: string
  /** Identifies engine and options: pieces with another fingerprint are ignored and overwritten. */
  readonly fingerprint: string
  readonly keys: DocumentKeys
  readonly blobs: Blobs
}

/** The piece's JSON; `of` is the fingerprint. */
interface Piece {
  readonly of: string
  readonly pairs: ReadonlyArray<readonly [text: string, translation: string]>
}

export class Checkpoints {
  private readonly options: CheckpointOptions
  private next = 0
  private pending: Array<readonly [string, string]> = []
  private sinceMs = Date.now()

  constructor(options: CheckpointOptions) {
    this.options = options
  }

  /** Loads text → translation from all pieces up to the first that is absent, damaged or of another
   *  fingerprint. */
  get load(): Effect.Effect<Map<string, string>> {
    return Effect.promise(async () => {
      const translations = new Map<string, string>()
      while (this.next < checkpointsMax) {
        const piece = await this.read(this.next)
        if (piece === undefined) break
        for (const [text, translation] of piece.pairs) translations.set(text, translation)
        this.next++
      }
      return translations
    })
  }

  private async read(n: number): Promise<Piece | undefined> {
    const { id, fingerprint, keys, blobs } = this.options
    const sealed = blobs.read(blobOf.checkpoint(id, n))
    if (sealed === undefined) return undefined
    try {
      const piece = JSON.parse((await opened(sealed, keys, "segments")).toString("utf8")) as Piece
      return piece.of === fingerprint ? piece : undefined
    } catch {
      return undefined
    }
  }

  /** Adds translations, and writes a piece when enough have accumulated. */
  add(
    texts: ReadonlyArray<string>,
    translations: ReadonlyArray<string>
  ): Effect.Effect<void, CheckpointFault> {
    for (const [i, text] of texts.entries()) this.pending.push([text, translations[i]!])
    return this.pending.length >= pairsMax || Date.now() - this.sinceMs >= intervalMs
      ? this.flush
      : Effect.void
  }

  get flush(): Effect.Effect<void, CheckpointFault> {
    return Effect.suspend(() => {
      if (this.pending.length === 0) return Effect.void
      const { id, fingerprint, keys, blobs } = this.options
      const piece: Piece = { of: fingerprint, pairs: this.pending }
      const n = this.next++
      this.pending = []
      this.sinceMs = Date.now()
      const bytes = Buffer.from(JSON.stringify(piece))
      return Effect.asVoid(
        Effect.tryPromise({
          try: () => blobs.write(blobOf.checkpoint(id, n), sealing([bytes], keys, "segments")),
          catch: () => new CheckpointFault()
        })
      )
    })
  }
}
