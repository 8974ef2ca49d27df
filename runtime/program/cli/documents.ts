/** `troupe translate FILE…` uploads documents one after another, draws a progress bar on standard error while
 *  each is translated, and writes the result beside its source or to --out. */
import { defined } from "../../defined.ts"
import { createWriteStream, existsSync, openAsBlob, statSync, type Stats } from "node:fs"
import { basename, dirname, extname, join } from "node:path"
import { Readable } from "node:stream"
import { pipeline } from "node:stream/promises"
import { documentTypeOf } from "../../../protocols/formats/catalogue.ts"
import { call, type Client } from "./client.ts"

export interface DocumentTranslation {
  readonly to: string
  readonly from?: string
  readonly formality?: string
  /** The output file when there is one document, otherwise the output folder. */
  readonly out?: string
  readonly format?: string
  readonly watermark?: boolean
}

export interface Translated {
  readonly file: string
  readonly output?: string
  readonly billedCharacters?: number
  readonly error?: string
}

interface Status {
  readonly status: "queued" | "translating" | "done" | "error"
  readonly seconds_remaining?: number
  readonly billed_characters?: number
  readonly error_message?: string
}

const pollMs = 300
const barColumns = 30

const isDocumentName = (word: string): boolean =>
  documentTypeOf(extname(word).slice(1).toLowerCase()) !== undefined

/** A single word that only a file would be called. */
const looksLikeFile = (word: string): boolean =>
  !/\s/.test(word) && (isDocumentName(word) || /^(?:\.{0,2}|~)\/./.test(word))

const asText = "(--text translates it as text)"

/** A text may be longer than any path. */
const statOf = (word: string): Stats | undefined => {
  try {
    return statSync(word)
  } catch {
    return undefined
  }
}

/** Says what a word names. Throws when it names something that cannot be translated, or a file that is missing. */
const kindOf = (word: string): "document" | "text" => {
  const found = statOf(word)
  if (found === undefined) {
    if (looksLikeFile(word)) throw new Error(`${word}: no such file ${asText}`)
    return "text"
  }
  if (found.isDirectory()) throw new Error(`${word} is a folder: name the documents in it ${asText}`)
  if (!isDocumentName(word)) throw new Error(`${word} is a file of no known document format ${asText}`)
  return "document"
}

/** True when the words name documents, false when they are text. Throws when it cannot be what was meant. */
export const areDocuments = (words: ReadonlyArray<string>): boolean => {
  const texts = words.filter((word) => kindOf(word) === "text")
  if (texts.length > 0 && texts.length < words.length)
    throw new Error(`documents and text are translated apart: ${texts[0]} is no file`)
  return texts.length === 0
}

/** Formats a progress bar for a share from 0 to 1, as one line. */
export const bar = (share: number, columns = barColumns): string => {
  const full = Math.round(Math.min(1, Math.max(0, share)) * columns)
  return `[${"#".repeat(full)}${"-".repeat(columns - full)}] ${String(Math.round(share * 100)).padStart(3)} %`
}

const draw = (line: string): void => {
  if (process.stderr.isTTY) process.stderr.write(`\r\u001B[K${line}`)
}

export const translateDocuments = async (
  client: Client,
  files: ReadonlyArray<string>,
  options: DocumentTranslation
): Promise<ReadonlyArray<Translated>> => {
  if (
    options.out !== undefined &&
    files.length > 1 &&
    !(existsSync(options.out) && statSync(options.out).isDirectory())
  )
    throw new Error("with several documents --out names a folder that exists")
  const results: Array<Translated> = []
  for (const file of files)
    results.push(
      await translateDocument(client, file, options).catch((cause: Error): Translated => ({
        file,
        error: cause.message
      }))
    )
  draw("")
  return results
}

/** Chooses the output path: beside the source, in the folder `out`, or the file `out`. */
const outputOf = (file: string, name: string, out: string | undefined): string => {
  if (out === undefined) return join(dirname(file), name)
  return existsSync(out) && statSync(out).isDirectory() ? join(out, name) : out
}

const translateDocument = async (
  client: Client,
  file: string,
  { to, from, formality, out, format, watermark }: DocumentTranslation
): Promise<Translated> => {
  const form = new FormData()
  const fields = {
    target_lang: to,
    source_lang: from,
    formality,
    output_format: format,
    enable_watermark: watermark === true ? "1" : undefined
  }
  for (const [name, value] of Object.entries(fields)) if (value !== undefined) form.append(name, value)
  form.append("file", await openAsBlob(file), basename(file))
  draw(`${basename(file)}  uploading`)
  const answer = await fetch(`${client.url}/v2/document`, {
    method: "POST",
    headers: { Authorization: `DeepL-Auth-Key ${client.key ?? ""}` },
    body: form
  }).catch((cause: Error) => {
    throw new Error(`no server answers at ${client.url} (${cause.message})`)
  })
  const handle = (await answer.json()) as {
    readonly document_id: string
    readonly document_key: string
    readonly message?: string
  }
  if (!answer.ok) throw new Error(`${answer.status}: ${handle.message ?? "no message"}`)
  const key = { document_key: handle.document_key }
  const path = `/v2/document/${handle.document_id}`
  const beganMs = Date.now()
  let status: Status
  for (;;) {
    status = await call<Status>(client, "POST", path, key)
    if (status.status === "done" || status.status === "error") break
    const elapsedMs = Date.now() - beganMs
    const leftMs = (status.seconds_remaining ?? 0) * 1_000
    draw(
      `${basename(file)}  ${bar(status.status === "queued" ? 0 : elapsedMs / (elapsedMs + leftMs + 1))}  ${status.status === "queued" ? "queued" : `${status.seconds_remaining ?? 1} s left`}`
    )
    await new Promise((resolve) => setTimeout(resolve, pollMs))
  }
  if (status.status === "error") throw new Error(status.error_message ?? "the translation failed")
  const extension = format?.toLowerCase() ?? extname(file).slice(1)
  const name = `${basename(file, extname(file))}.${to.toLowerCase()}.${extension}`
  const output = outputOf(file, name, out)
  const result = await fetch(`${client.url}${path}/result`, {
    method: "POST",
    headers: { Authorization: `DeepL-Auth-Key ${client.key ?? ""}`, "Content-Type": "application/json" },
    body: JSON.stringify(key)
  })
  if (!result.ok || result.body === null) throw new Error(`${result.status}: the result could not be fetched`)
  await pipeline(Readable.fromWeb(result.body as any), createWriteStream(output))
  return defined({ file, output, billedCharacters: status.billed_characters })
}
