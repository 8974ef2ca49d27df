/** The interface of a document format: it turns bytes into segments of text with inline codes, and rebuilds
 *  the same bytes with some spans replaced. Guarantee: no output is serialized from a tree, so an unchanged
 *  segment leaves its bytes untouched. Pure.
 *  Source: docs/spec/documents.md, sections 1, 2. */

/** The reason for which a document is refused. Clients see these words inside the error message. */
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

/** Refusal of a document. `where` names the part and the offset, and never contains text of the document. */
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

/** Half-open range of character offsets in one part. */
export interface Span {
  readonly from: number
  readonly to: number
}

/** Markup to write around text where the source has no text element to hold it. */
export interface Wrap {
  readonly open: string
  readonly close: string
}

/** Inline markup of a segment. A `pair` formats the text between its two edges, a `point` is a single piece
 *  of markup, and a `lock` is content that is not translated but that the engine may see. The markup itself
 *  stays at its place in the source. */
export interface Code {
  readonly id: number
  readonly kind: "pair" | "point" | "lock"
  /** The pair is restored even when the translation leaves it empty, because the format requires it. */
  readonly needed?: boolean
  /** Markup to write around text inside the pair; the text is written as it is when absent. */
  readonly wrap?: Wrap
}

export type Item =
  | { readonly is: "text"; readonly text: string; readonly from: number; readonly to: number }
  | {
      readonly is: "open" | "close" | "whole"
      readonly id: number
      readonly from: number
      readonly to: number
      /** Markup to write around the point inside a run. */
      readonly wrap?: Wrap
    }

export interface Segment {
  /** Segment ids are consecutive and follow document order. */
  readonly id: number
  /** Decoded text in which each code is a mark (see marks.ts). */
  readonly text: string
  /** Number of code points that are billed; codes are not counted. */
  readonly billed: number
  readonly context?: string
}

export interface ExtractOptions {
  /** Lower-case BCP 47 code of the target language, as `lang` attributes take it. */
  readonly target: string
  /** Lower-case code of the source language, when the request names one. */
  readonly source?: string
  /** Maximum number of code points in a document; a longer one is refused with "too many characters". */
  readonly charactersMax: number
  readonly watermark?: string
  /** Extension of the output format, present only when the document is converted. */
  readonly convertTo?: string
}

export interface Extraction {
  readonly segments: ReadonlyArray<Segment>
  /** Number of billable code points in the source. */
  readonly characters: number
  /** Writes the document with the translation of each segment; undefined leaves a segment unchanged. */
  readonly rebuild: (translated: (id: number) => string | undefined) => Uint8Array | Promise<Uint8Array>
  /** Warnings for the operator's log. They contain no text of the document. */
  readonly warnings: ReadonlyArray<string>
}

export interface Format {
  readonly id: string
  readonly extensions: ReadonlyArray<string>
  readonly mime: string
  /** Runs cheap structural checks at upload and throws BadDocument when one fails. */
  readonly inspect: (
    bytes: Buffer,
    extension: string,
    options?: { readonly source?: string | undefined; readonly target?: string | undefined }
  ) => void | Promise<void>
  readonly extract: (bytes: Buffer, options: ExtractOptions) => Extraction | Promise<Extraction>
}

/** Resource limits that apply to every format. */
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
