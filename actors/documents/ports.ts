/** The port of a document job: everything that its work needs from outside. The service implements it. This
 *  module holds types, and the fault that ends a job. Source: docs/spec/documents.md, sections 9 and 10. */
import { Context, Data, type Effect, type Scope } from "effect"
import type { Blobs } from "../../storage/store.ts"
import type { EngineFault } from "../engines/ports.ts"
import type { FairScheduler } from "./fair-scheduler.ts"
import type { DocumentKeyring } from "./keyring.ts"
import type { DocumentMeta, TranslationOptions } from "./meta.ts"

/** An EngineFault that names this engine comes from the resources above the engines (glossaries, styles,
 *  memories); its detail is meant for the customer. */
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
  /** Determines the source language, or says why the pair is not available. */
  readonly languageOf: (meta: DocumentMeta, texts: ReadonlyArray<string>) => string | JobFault
  readonly translate: (batch: TranslateBatch) => Effect.Effect<TranslatedBatch, EngineFault>
  /** Identifies everything besides the text that influences a translation. */
  readonly fingerprint: (meta: DocumentMeta, source: string) => string
  /** Reserves what will be billed at the download; answers false when that would exceed a quota. */
  readonly reserve: (id: string, meta: DocumentMeta, characters: number) => boolean
  readonly release: (id: string) => void
  /** Returns how many characters are billed: a format may have a minimum. */
  readonly billed: (meta: DocumentMeta, characters: number) => number
  readonly log: (level: "info" | "warn", message: string, fields: Record<string, unknown>) => void
}

export class DocumentWork extends Context.Service<DocumentWork, DocumentPort>()("actors/DocumentWork") {}
