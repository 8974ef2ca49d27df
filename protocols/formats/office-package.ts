/** A ZIP package of XML parts (Office, InDesign): parts are found by content type, decoded on request, and
 *  written only when changed. Guarantee: relationships are never followed outside the package, and embedded
 *  packages are never opened.
 *  Source: docs/spec/documents.md, sections 3.4, 3.5; ECMA-376 part 2. */
import { BadDocument, type ExtractOptions, type Extraction, type Reason } from "./document.ts"
import { decodeXml, encodeXml, type Decoded } from "./encoding.ts"
import { Segments, spliced, type Edit, type Placed } from "./splice.ts"
import { attributesOf } from "./xml-scan.ts"
import { openPackage, type Zip } from "./zip.ts"

const ooxml = (short: string, path: string): ReadonlyArray<readonly [string, string]> => [
  [`http://schemas.openxmlformats.org/${path}`, short],
  [`http://purl.oclc.org/ooxml/${path.replace("/2006", "")}`, short]
]

/** Namespace addresses, transitional and strict, of the vocabularies that the formats read, with the prefix
 *  used for each. */
export const namespaces: ReadonlyMap<string, string> = new Map([
  ...ooxml("w", "wordprocessingml/2006/main"),
  ...ooxml("a", "drawingml/2006/main"),
  ...ooxml("p", "presentationml/2006/main"),
  ...ooxml("x", "spreadsheetml/2006/main"),
  ...ooxml("m", "officeDocument/2006/math"),
  ...ooxml("c", "drawingml/2006/chart"),
  ...ooxml("dgm", "drawingml/2006/diagram"),
  ...ooxml("wp", "drawingml/2006/wordprocessingDrawing"),
  ["http://schemas.openxmlformats.org/markup-compatibility/2006", "mc"]
])

/** Maps each content type to part names without the leading slash. */
export const contentTypesOf = (zip: Zip): ReadonlyMap<string, string> | undefined => {
  const part = zip.part("[Content_Types].xml")
  if (part === undefined) return undefined
  const text = decodeXml(part).text
  const defaults = new Map<string, string>()
  const types = new Map<string, string>()
  for (const [tag] of text.matchAll(/<(?:[\w.-]+:)?(?:Default|Override)\s[^>]*>/g)) {
    const found = new Map(attributesOf(tag).map(({ name, value }) => [name, value]))
    const type = found.get("ContentType") ?? ""
    if (found.has("PartName")) types.set(found.get("PartName")!.replace(/^\//, ""), type)
    else if (found.has("Extension")) defaults.set(found.get("Extension")!.toLowerCase(), type)
  }
  for (const { name } of zip.entries) {
    if (types.has(name)) continue
    const type = defaults.get(name.slice(name.lastIndexOf(".") + 1).toLowerCase())
    if (type !== undefined) types.set(name, type)
  }
  return types
}

const anyMain = /^application\/(?:vnd\.openxmlformats-officedocument|vnd\.ms-)[\w.-]+\.main\+xml$/

/** Opens the package when its main part has the type that the file name promises, and refuses it
 *  otherwise. */
export const inspectOffice = (bytes: Buffer, main: RegExp, otherwise: Reason): void => {
  const zip = openPackage(bytes, otherwise)
  let types: ReadonlyMap<string, string> | undefined
  try {
    types = contentTypesOf(zip)
  } catch (cause) {
    if (cause instanceof BadDocument && cause.reason === "encoding") throw new BadDocument(otherwise)
    throw cause
  }
  if (types === undefined) throw new BadDocument(otherwise)
  const mains = [...types].filter(([name, type]) => zip.has(name) && anyMain.test(type))
  if (mains.some(([, type]) => main.test(type))) return
  throw new BadDocument(
    mains.length > 0 || zip.has("designmap.xml") ? "the content does not match the file extension" : otherwise
  )
}

interface Part {
  readonly name: string
  readonly file: Decoded
  readonly placed: ReadonlyArray<Placed>
  readonly edits: ReadonlyArray<Edit>
  readonly before: Buffer
  readonly after: Buffer
}

export class PackageReading {
  readonly zip: Zip
  readonly segments: Segments
  readonly warnings: Array<string> = []
  private readonly parts: Array<Part> = []

  constructor(zip: Zip, options: ExtractOptions) {
    this.zip = zip
    this.segments = new Segments(options)
  }

  /** Reads a part, or the piece of it between two byte offsets. The edits that `read` returns are applied
   *  only when a segment of the part has changed. */
  part(
    name: string,
    read: (text: string, segments: Segments) => ReadonlyArray<Edit> | void,
    window?: { readonly from: number; readonly to: number }
  ): void {
    const bytes = this.zip.part(name)
    if (bytes === undefined) return
    const within = window === undefined ? bytes : bytes.subarray(window.from, window.to)
    const file = decodeXml(within)
    const first = this.segments.placed.length
    let edits: ReadonlyArray<Edit> = []
    try {
      edits = read(file.text, this.segments) ?? []
    } catch (cause) {
      if (cause instanceof BadDocument && cause.where !== undefined && !cause.where.startsWith(name))
        throw new BadDocument(cause.reason, `${name} ${cause.where}`)
      throw cause
    }
    const placed = this.segments.placed.slice(first)
    if (placed.length > 0)
      this.parts.push({
        name,
        file,
        placed,
        edits,
        before: window === undefined ? nothing : bytes.subarray(0, window.from),
        after: window === undefined ? nothing : bytes.subarray(window.to)
      })
  }

  done(
    more: {
      readonly accept?: (text: string, id: number) => boolean
      readonly finish?: (zip: Zip, changed: Map<string, Buffer>) => Buffer
    } = {}
  ): Extraction {
    const { zip, segments } = this
    return {
      segments: segments.list,
      characters: segments.characters,
      warnings: this.warnings,
      rebuild: (translated) => {
        const asked = (id: number): string | undefined => {
          const text = translated(id)
          return text === undefined || more.accept?.(text, id) === false ? undefined : text
        }
        const changed = new Map<string, Buffer>()
        // Windows of one part are written from the last to the first, so that earlier offsets remain valid.
        for (const { name, file, placed, edits, before, after } of this.parts.toReversed()) {
          const plain = spliced(file.text, placed, asked)
          if (plain === file.text) continue
          const encoded = encodeXml(
            edits.length === 0 ? plain : spliced(file.text, placed, asked, edits),
            file
          )
          const rest = changed.get(name)?.subarray(before.length + Buffer.byteLength(file.text)) ?? after
          changed.set(
            name,
            before.length === 0 && rest.length === 0 ? encoded : Buffer.concat([before, encoded, rest])
          )
        }
        return more.finish === undefined ? zip.with(changed) : more.finish(zip, changed)
      }
    }
  }
}

const nothing = Buffer.alloc(0)
