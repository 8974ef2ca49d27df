/** Describes a document job in clear; whatever would reveal the document's content is sealed. The schema is
 *  stored in the job's journal, so its field names must not change. Source: docs/spec/documents.md, section
 *  9. */
import { Schema } from "effect"

/** The options of a translation. The versions of the resources that they name are part of a checkpoint's
 *  fingerprint. */
const TranslationOptions = Schema.Struct({
  formality: Schema.Literals(["default", "more", "less"]),
  glossaryIds: Schema.Array(Schema.String),
  styleId: Schema.NullOr(Schema.String),
  memoryId: Schema.NullOr(Schema.String),
  memoryThreshold: Schema.Int
})

export type TranslationOptions = typeof TranslationOptions.Type

export const DocumentMeta = Schema.Struct({
  accountId: Schema.String,
  keyId: Schema.String,
  format: Schema.String,
  /** The file extension that was requested for the result. */
  extension: Schema.String,
  convertTo: Schema.NullOr(Schema.String),
  /** The sealed file name is stored as base64. */
  sealedName: Schema.String,
  /** Recognizes the document key without revealing anything about it. */
  check: Schema.String,
  sourceBytes: Schema.Int,
  /** Language codes as in the language table: base and variant. */
  source: Schema.NullOr(Schema.String),
  target: Schema.String,
  options: TranslationOptions,
  watermark: Schema.Boolean,
  tag: Schema.NullOr(Schema.String),
  charactersMax: Schema.Int,
  /** The start of the billing period that counts this document (epoch ms). */
  periodMs: Schema.Int
})

export type DocumentMeta = typeof DocumentMeta.Type
