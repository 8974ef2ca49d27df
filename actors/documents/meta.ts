/** All that is known of a document job in clear. What would tell of the document's content is sealed. The
 *  schema is stored in the job's journal, so its field names stay.
 *  Source: docs/spec/documents.md, section 9. */
import { Schema } from "effect"

/** One value steers the translation. Versions of what it names are part of a checkpoint's fingerprint. */
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
  /** The extension of the result, as it was asked for. */
  extension: Schema.String,
  convertTo: Schema.NullOr(Schema.String),
  /** The sealed file name is stored as base64. */
  sealedName: Schema.String,
  /** The check recognizes the document key without telling anything about it. */
  check: Schema.String,
  sourceBytes: Schema.Int,
  /** Languages are codes as in the language table, base and variant. */
  source: Schema.NullOr(Schema.String),
  target: Schema.String,
  options: TranslationOptions,
  watermark: Schema.Boolean,
  tag: Schema.NullOr(Schema.String),
  charactersMax: Schema.Int,
  /** The start of the billing period whose count of documents this one is in. */
  periodMs: Schema.Int
})

export type DocumentMeta = typeof DocumentMeta.Type
