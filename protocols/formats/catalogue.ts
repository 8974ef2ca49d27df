/** The table of document formats by file extension: upload limits, billing minimums and possible
 *  conversions. Reading it loads no format's code.
 *  Source: docs/spec/translation.md, sections 4.6, 4.7; docs/spec/documents.md, section 4. */
import type { Format } from "./document.ts"

export interface DocumentType {
  readonly id: string
  readonly extensions: ReadonlyArray<string>
  readonly mime: string
  /** Maximum upload size on free and on paid accounts, in MiB. */
  readonly freeMiB: number
  readonly paidMiB: number
  /** Minimum number of characters billed for a document; null means that the format is not billed. */
  readonly billedMin: number | null
  readonly load: () => Promise<Format>
}

const type = (
  id: string,
  extensions: string,
  mime: string,
  freeMiB: number,
  paidMiB: number,
  load: () => Promise<Format>,
  billedMin: number | null = 0
): DocumentType => ({ id, extensions: extensions.split(" "), mime, freeMiB, paidMiB, billedMin, load })

const office = "application/vnd.openxmlformats-officedocument."
const officeMin = 50_000

export const documentTypes: ReadonlyArray<DocumentType> = [
  type(
    "docx",
    "docx",
    `${office}wordprocessingml.document`,
    10,
    100,
    async () => (await import("./docx.ts")).docx,
    officeMin
  ),
  type(
    "pptx",
    "pptx",
    `${office}presentationml.presentation`,
    10,
    100,
    async () => (await import("./pptx.ts")).pptx,
    officeMin
  ),
  type(
    "xlsx",
    "xlsx",
    `${office}spreadsheetml.sheet`,
    10,
    30,
    async () => (await import("./xlsx.ts")).xlsx,
    officeMin
  ),
  type("pdf", "pdf", "application/pdf", 10, 100, async () => (await import("./pdf.ts")).pdf, officeMin),
  type(
    "idml",
    "idml",
    "application/vnd.adobe.indesign-idml-package",
    10,
    30,
    async () => (await import("./idml.ts")).idml
  ),
  type("txt", "txt", "text/plain; charset=utf-8", 1, 1, async () => (await import("./txt.ts")).txt),
  type(
    "srt",
    "srt",
    "application/x-subrip",
    150 / 1_024,
    150 / 1_024,
    async () => (await import("./srt.ts")).srt
  ),
  type("json", "json", "application/json", 1, 1, async () => (await import("./json.ts")).json),
  type("xml", "xml", "application/xml", 10, 10, async () => (await import("./xml.ts")).xml),
  type("html", "htm html", "text/html; charset=utf-8", 5, 5, async () => (await import("./html.ts")).html),
  type("xliff", "xlf xliff", "application/xliff+xml", 10, 10, async () => (await import("./xliff.ts")).xliff),
  type("mif", "mif", "application/vnd.mif", 10, 30, async () => (await import("./mif.ts")).mif),
  type("dita", "dita", "application/dita+xml", 5, 5, async () => (await import("./dita.ts")).dita),
  type("png", "png", "image/png", 3, 3, async () => (await import("./image.ts")).png, null),
  type("jpeg", "jpg jpeg", "image/jpeg", 3, 3, async () => (await import("./image.ts")).jpeg, null)
]

const byExtension = new Map(
  documentTypes.flatMap((each) => each.extensions.map((extension) => [extension, each] as const))
)

export const documentTypeOf = (extension: string): DocumentType | undefined => byExtension.get(extension)

/** Output extensions that each input extension can be converted to. An alias of the same format, such as
 *  `htm` for `html`, is no conversion. */
export const conversions: ReadonlyMap<string, ReadonlyArray<string>> = new Map([["pdf", ["docx"]]])
