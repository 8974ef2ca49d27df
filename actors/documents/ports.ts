/** The port of a document job: all that its work asks of the outside. The service implements it. Types only,
 *  and the fault that ends a job.
 *  Source: docs/spec/documents.md, sections 9 and 10. */
import { Context, Data, type Effect, type Scope } from "effect"
import type { Blobs } from "../../storage/store.ts"
import type { EngineFault } from "../engines/ports.ts"
import type { FairScheduler } from "./fair-scheduler.ts"
import type { DocumentKeyring } from "./keyring.ts"
import type { DocumentMeta, TranslationOptions } from "./meta.ts"

/** An EngineFault of this engine comes from what stands above the engines (glossaries, styles, memories): its
 *  detail is for the customer. */
export const customizationsEngine = "aids"

/** The job ends in `error` with this message. */
export class JobFault extends Data.TaggedError("JobFault")<{ readonly text: string }> {}

export interface WorkSegment {
  readonly id: number
  readonly text: string
  readonly billed: number
  readonly context?: string
}

/** One document, open in a thread of its own. */
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

export interface TranslatedBatch {
  readonly texts: ReadonlyArray<string>
  readonly engine: string
}

export interface DocumentPort {
  readonly blobs: Blobs
  readonly keyring: DocumentKeyring
  readonly scheduler: FairScheduler
  /** Opens the document in a thread that knows its format; the thread ends with the scope. */
  readonly work: (
    meta: DocumentMeta,
    source: Buffer
  ) => Effect.Effect<ExtractedDocument, JobFault, Scope.Scope>
  /** The source's code, or why the pair cannot be had. */
  readonly languageOf: (meta: DocumentMeta, texts: ReadonlyArray<string>) => string | JobFault
  readonly translate: (batch: TranslateBatch) => Effect.Effect<TranslatedBatch, EngineFault>
  /** Names everything besides the text that shapes a translation. */
  readonly fingerprint: (meta: DocumentMeta, source: string) => string
  /** Sets aside what will be billed at the download; false: it is over a quota. */
  readonly reserve: (id: string, meta: DocumentMeta, characters: number) => boolean
  readonly release: (id: string) => void
  /** What is billed for so many characters: a format may have a minimum. */
  readonly billed: (meta: DocumentMeta, characters: number) => number
  readonly log: (level: "info" | "warn", message: string, fields: Record<string, unknown>) => void
}

export class DocumentWork extends Context.Service<DocumentWork, DocumentPort>()("actors/DocumentWork") {}
