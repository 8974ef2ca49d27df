/** Every document format by its extensions, without loading any: what an upload is measured by, and where the code of each lies.
 *  Source: translation 4.6, 4.7; documents 4. */
import type { Format } from "./document.ts"

export interface DocumentType {
  readonly id: string; readonly extensions: ReadonlyArray<string>; readonly mime: string
  /** MiB, free and paid. */ readonly freeMiB: number; readonly paidMiB: number
  /** Characters that are billed at least; undefined: not billed at all. */ readonly billedMin: number | undefined
  readonly load: () => Promise<Format>
}
const type = (id: string, extensions: string, mime: string, freeMiB: number, paidMiB: number, load: () => Promise<Format>, billedMin: number | undefined = 0): DocumentType =>
  ({ id, extensions: extensions.split(" "), mime, freeMiB, paidMiB, billedMin, load })

export const documentTypes: ReadonlyArray<DocumentType> = [
  type("txt", "txt", "text/plain; charset=utf-8", 1, 1, async () => (await import("./txt.ts")).txt),
  type("srt", "srt", "application/x-subrip", 150 / 1_024, 150 / 1_024, async () => (await import("./srt.ts")).srt),
  type("json", "json", "application/json", 1, 1, async () => (await import("./json.ts")).json),
  type("xml", "xml", "application/xml", 10, 10, async () => (await import("./xml.ts")).xml),
  type("dita", "dita", "application/dita+xml", 5, 5, async () => (await import("./dita.ts")).dita)
]
const byExtension = new Map(documentTypes.flatMap((each) => each.extensions.map((extension) => [extension, each] as const)))
export const documentTypeOf = (extension: string): DocumentType | undefined => byExtension.get(extension)
/** Same format under another name is no conversion. */
export const conversions: ReadonlyMap<string, ReadonlyArray<string>> = new Map([["pdf", ["docx"]]])
