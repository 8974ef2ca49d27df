/** Engines for formats, without any job: nothing changed, or every letter to a look-alike and more of it;
 *  codes kept in their places. */
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { documentTypeOf } from "../../../protocols/formats/catalogue.ts"
import { BadDocument, type Extraction, type ExtractOptions } from "../../../protocols/formats/document.ts"
import { piecesOf, textOf } from "../../../protocols/formats/marks.ts"

export const samples = new URL("../../samples/", import.meta.url).pathname
export const sampleFiles = (folder: string): ReadonlyArray<string> => readdirSync(join(samples, folder))
export const sample = (path: string): Buffer => readFileSync(join(samples, path))

const plainOptions: ExtractOptions = { target: "de", charactersMax: 10_000_000 }

export const extracted = async (
  extension: string,
  bytes: Buffer,
  options: Partial<ExtractOptions> = {}
): Promise<Extraction> => {
  const format = await documentTypeOf(extension)!.load()
  await format.inspect(bytes, extension, { target: options.target ?? plainOptions.target })
  return format.extract(bytes, { ...plainOptions, ...options })
}

/** What `change` makes of the text pieces of each segment. */
export const changed = async (
  extension: string,
  bytes: Buffer,
  change: (text: string) => string,
  options: Partial<ExtractOptions> = {}
): Promise<Buffer> => {
  const extraction = await extracted(extension, bytes, options)
  const rebuilt = await extraction.rebuild((id) =>
    textOf(
      piecesOf(extraction.segments[id]!.text).map((piece) =>
        typeof piece === "string" ? change(piece) : piece
      )
    )
  )
  return Buffer.from(rebuilt.buffer, rebuilt.byteOffset, rebuilt.byteLength)
}

export const identity = (text: string): string => text

/** A letter of the Latin alphabet becomes one of another script, so that no source word is left. */
export const pseudo = (text: string): string =>
  text.replace(/\p{L}+/gu, (word) =>
    [...word]
      .map((letter) =>
        /[a-z]/i.test(letter)
          ? String.fromCodePoint(0x0430 + (letter.toLowerCase().codePointAt(0)! - 97))
          : letter
      )
      .join("")
  )

/** Latin words of a text. */
export const latin = (text: string): ReadonlyArray<string> => text.match(/[A-Za-z]{3,}/g) ?? []

export const refusal = async (work: () => unknown): Promise<string> => {
  try {
    await work()
  } catch (cause) {
    if (cause instanceof BadDocument) return cause.reason
    throw cause
  }
  return "accepted"
}
