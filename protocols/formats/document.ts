/** What a document format is: bytes in, segments of text with codes out, and the same bytes back with some
 *  spans replaced. Guarantee: nothing is ever serialized from a tree, so an unchanged segment leaves its
 *  bytes untouched. Pure. Source: documents 1, 2. */

/** Why a document cannot be had; the words stand inside the message that the client sees. */
export type Reason =
  | "empty"
  | "damaged archive"
  | "too large when unpacked"
  | "too many parts"
  | "unsupported compression"
  | "damaged document"
  | "nested too deeply"
  | "encoding"
  | "not valid UTF-8"
  | "binary"
  | "legacy or password-protected Office file"
  | "not a Word document"
  | "not a PowerPoint document"
  | "not an Excel document"
  | "not an IDML file"
  | "the content does not match the file extension"
  | "not a PDF"
  | "damaged PDF"
  | "password-protected"
  | "no text found"
  | "text cannot be extracted"
  | "no font for this script"
  | "too large"
  | "too large to process"
  | "unsupported XLIFF version"
  | "not an XLIFF file"
  | "not an SRT file"
  | "not valid JSON"
  | "topics only"
  | "MIF 8 or newer"
  | "image too large"
  | "damaged image"
  | "no text recognition for this language"
  | "DOCTYPE is not allowed here"
  | "not a MIF file"
  | "too many characters"

/** `where`: part and offset, never text of the document. */
export class BadDocument extends Error {
  readonly reason: Reason
  readonly where: string | undefined

  constructor(reason: Reason, where?: string) {
    super(where === undefined ? `Invalid file: ${reason}` : `Invalid file: ${reason} (${where})`)
    this.name = "BadDocument"
    this.reason = reason
    this.where = where
  }
}

/** Half-open span of one part's characters. */
export interface Span {
  readonly from: number
  readonly to: number
}

/** How text of a run is written where the source has no place for it. */
export interface Wrap {
  readonly open: string
  readonly close: string
}

/** `pair`: formatting around text. `point`: something between. `lock`: not to be translated, steers only.
 *  Markup stays where it stood. */
export interface Code {
  readonly id: number
  readonly kind: "pair" | "point" | "lock"
  /** A pair that the format cannot do without comes back even when empty. */
  readonly needed?: boolean
  /** How text inside a pair is written; absent: as it is. */
  readonly wrap?: Wrap
}

export type Item =
  | { readonly is: "text"; readonly text: string; readonly from: number; readonly to: number }
  | {
      readonly is: "open" | "close" | "whole"
      readonly id: number
      readonly from: number
      readonly to: number
      /** Around a point inside a run. */
      readonly wrap?: Wrap
    }

export interface Segment {
  /** Dense, document order. */
  readonly id: number
  /** Decoded text with codes as marks (marks.ts). */
  readonly text: string
  /** Code points, codes excluded. */
  readonly billed: number
  readonly context?: string
}

export interface ExtractOptions {
  /** Lower-case BCP 47 code of the target, as `lang` attributes take it. */
  readonly target: string
  /** Lower-case source, when it was given. */
  readonly source?: string
  /** More than this many code points: BadDocument "too many characters". */
  readonly charactersMax: number
  readonly watermark?: string
  /** Extension of the output when it is a conversion. */
  readonly convertTo?: string
}

export interface Extraction {
  readonly segments: ReadonlyArray<Segment>
  /** Code points of the source that count. */
  readonly characters: number
  /** Translations by segment id; undefined leaves the segment as it is. */
  readonly rebuild: (translated: (id: number) => string | undefined) => Uint8Array | Promise<Uint8Array>
  /** Lines for the operator's log, without text of the document. */
  readonly warnings: ReadonlyArray<string>
}

export interface Format {
  readonly id: string
  readonly extensions: ReadonlyArray<string>
  readonly mime: string
  /** Cheap structural checks at upload; throws BadDocument. */
  readonly inspect: (
    bytes: Buffer,
    extension: string,
    options?: { readonly source?: string | undefined; readonly target?: string | undefined }
  ) => void | Promise<void>
  readonly extract: (bytes: Buffer, options: ExtractOptions) => Extraction | Promise<Extraction>
}

/** What all formats may cost at most. */
export const limits = {
  unpackedBytesMax: 512 * 1_048_576,
  partBytesMax: 128 * 1_048_576,
  ratioMax: 200,
  ratioFromBytes: 10 * 1_048_576,
  entriesMax: 20_000,
  depthMax: 256,
  attributesMax: 1_000,
  tokenCharsMax: 64 * 1_048_576,
  jsonDepthMax: 1_000
} as const
