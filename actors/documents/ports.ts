/** What the work of a document job needs of the world: blobs, the keys that clients have shown, a turn among
 *  the others, a thread that knows the format, the translator. Types, and the two small registers that live
 *  in memory only. Source: documents 9, 10. */
import { Context, Data, type Effect, type Scope } from "effect"
import type { Blobs } from "../../storage/store.ts"
import type { EngineFault } from "../engines/ports.ts"
import type { DocumentKeys } from "./sealed.ts"

/** All that is known of a job in clear; what would tell of its content is sealed. */
export interface DocumentMeta {
  readonly accountId: string
  readonly keyId: string
  readonly format: string
  /** Of the result, as it was asked for. */
  readonly extension: string
  readonly convertTo: string | null
  /** base64. */
  readonly sealedName: string
  readonly check: string
  readonly sourceBytes: number
  /** Codes as in the language table, base and variant. */
  readonly source: string | null
  readonly target: string
  readonly options: TranslationOptions
  readonly watermark: boolean
  readonly tag: string | null
  readonly charactersMax: number
  /** The billing period whose count of documents this one is in. */
  readonly periodMs: number
}

/** Behind one value: what steers the translation. Versions of what they name are part of a checkpoint's
 *  fingerprint. */
export interface TranslationOptions {
  readonly formality: "default" | "more" | "less"
  readonly glossaryIds: ReadonlyArray<string>
  readonly styleId: string | null
  readonly memoryId: string | null
  readonly memoryThreshold: number
}

/** What stands above the engines (glossaries, styles, memories), as the engine of a fault: its words are for
 *  the customer. */
export const customizationsEngine = "aids"

/** The job ends in `error` with this message. */
export class JobFault extends Data.TaggedError("JobFault")<{ readonly text: string }> {}

export interface WorkSegment {
  readonly id: number
  readonly text: string
  readonly billed: number
  readonly context?: string
}

/** One document in a thread of its own. */
export interface ExtractedDocument {
  readonly segments: ReadonlyArray<WorkSegment>
  readonly characters: number
  readonly rebuild: (translated: ReadonlyMap<number, string>) => Effect.Effect<Buffer, JobFault>
}

export interface TranslateBatch {
  readonly source: string
  readonly target: string
  readonly accountId: string
  readonly options: TranslationOptions
  readonly texts: ReadonlyArray<string>
  readonly context?: string
}

export interface DocumentPort {
  readonly blobs: Blobs
  readonly keyring: DocumentKeyring
  readonly scheduler: FairScheduler
  readonly work: (
    meta: DocumentMeta,
    source: Buffer
  ) => Effect.Effect<ExtractedDocument, JobFault, Scope.Scope>
  /** The source's code, or why the pair cannot be had. */
  readonly languageOf: (meta: DocumentMeta, texts: ReadonlyArray<string>) => string | JobFault
  readonly translate: (
    batch: TranslateBatch
  ) => Effect.Effect<{ readonly texts: ReadonlyArray<string>; readonly engine: string }, EngineFault>
  /** Names everything besides the text that shapes a translation. */
  readonly fingerprint: (meta: DocumentMeta, source: string) => string
  /** What will be billed at the download, set aside; false: over a quota. */
  readonly reserve: (id: string, meta: DocumentMeta, characters: number) => boolean
  readonly release: (id: string) => void
  /** What a document of this format costs at least. */
  readonly billed: (meta: DocumentMeta, characters: number) => number
  readonly log: (level: "info" | "warn", message: string, fields: Record<string, unknown>) => void
}

export class DocumentWork extends Context.Service<DocumentWork, DocumentPort>()("actors/DocumentPorts") {}

export const blobOf = {
  source: (id: string) => `doc-${id}.source`,
  result: (id: string) => `doc-${id}.result`,
  checkpoint: (id: string, n: number) => `doc-${id}.segments.${n}`
}

export const jobOfBlob = (blob: string): string | undefined => /^doc-([0-9A-F]{32})\./.exec(blob)?.[1]

/** Keys that clients have shown, while their jobs run. Never on disk. */
export class DocumentKeyring {
  private readonly keys = new Map<string, DocumentKeys>()

  put(id: string, keys: DocumentKeys): void {
    if (!this.keys.has(id)) this.keys.set(id, keys)
  }

  get(id: string): DocumentKeys | undefined {
    return this.keys.get(id)
  }

  drop(id: string): void {
    this.keys.get(id)?.forget()
    this.keys.delete(id)
  }
}

interface Waiting {
  readonly id: string
  readonly accountId: string
  readonly resume: () => void
}

export interface Progress {
  done: number
  readonly all: number
  readonly startedMs: number
  saidSeconds: number
}

/** Characters in a second until an engine has shown its own. */
const rateDefault = 500

/** Whose turn it is: so many documents at once, so many of one account, in order of arrival otherwise; and
 *  how far each is. */
export class FairScheduler {
  private readonly running = new Map<string, string>()
  private readonly waiting: Array<Waiting> = []
  private readonly progress = new Map<string, Progress>()
  private readonly atOnce: number
  private readonly perAccount: number
  private readonly nowMs: () => number

  constructor({
    atOnce,
    perAccount,
    nowMs
  }: {
    readonly atOnce: number
    readonly perAccount: number
    readonly nowMs: () => number
  }) {
    this.atOnce = atOnce
    this.perAccount = perAccount
    this.nowMs = nowMs
  }

  enter(id: string, accountId: string, resume: () => void): void {
    this.waiting.push({ id, accountId, resume })
    this.admit()
  }

  leave(id: string): void {
    this.running.delete(id)
    this.progress.delete(id)
    const at = this.waiting.findIndex((one) => one.id === id)
    if (at >= 0) this.waiting.splice(at, 1)
    this.admit()
  }

  private admit(): void {
    while (this.running.size < this.atOnce) {
      const counts = new Map<string, number>()
      for (const account of this.running.values()) counts.set(account, (counts.get(account) ?? 0) + 1)
      // The account with the fewest running goes first, so that one with many documents does not hold up the
      // others.
      let best = -1
      let fewest = this.perAccount
      for (const [i, { accountId }] of this.waiting.entries()) {
        const count = counts.get(accountId) ?? 0
        if (count < fewest) {
          best = i
          fewest = count
        }
      }
      if (best < 0) return
      const [next] = this.waiting.splice(best, 1)
      this.running.set(next!.id, next!.accountId)
      next!.resume()
    }
  }

  begin(id: string, all: number, done: number): void {
    this.progress.set(id, {
      all,
      done,
      startedMs: this.nowMs() - (done / rateDefault) * 1_000,
      saidSeconds: Infinity
    })
  }

  advance(id: string, characters: number): void {
    const progress = this.progress.get(id)
    if (progress !== undefined) progress.done += characters
  }

  /** At least 1; never more than twice what was said last. */
  secondsRemaining(id: string): number {
    const progress = this.progress.get(id)
    if (progress === undefined) return 1
    const seconds = (this.nowMs() - progress.startedMs) / 1_000
    const rate = progress.done > 0 && seconds > 0.5 ? progress.done / seconds : rateDefault
    return (progress.saidSeconds = Math.max(
      1,
      Math.min(Math.ceil((progress.all - progress.done) / rate), progress.saidSeconds * 2)
    ))
  }
}
