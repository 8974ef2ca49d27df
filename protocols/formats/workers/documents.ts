/** Entry point of a document thread, which inspects, extracts and rebuilds one document. Formats never run
 *  on the event loop, and the memory that a document uses is released with its thread.
 *  Source: docs/spec/documents.md, sections 10 and 11. */
import { parentPort } from "node:worker_threads"
import { documentTypeOf } from "../catalogue.ts"
import { BadDocument, type Extraction, type ExtractOptions, type Segment } from "../document.ts"

export type ToDocument =
  | {
      readonly call: "inspect"
      readonly bytes: Uint8Array
      readonly extension: string
      readonly source?: string | undefined
      readonly target: string
    }
  | {
      readonly call: "extract"
      readonly bytes: Uint8Array
      readonly extension: string
      readonly options: ExtractOptions
    }
  /** Requests the next segments. Messages that arrive in one turn of the event loop are all read in that
   *  turn, so each piece is requested separately. */
  | { readonly call: "more" }
  | {
      readonly call: "rebuild"
      readonly translated: ReadonlyArray<readonly [number, string]>
      /** False when more segments follow. */
      readonly last: boolean
    }

export type FromDocument =
  | { readonly is: "inspected" }
  | {
      readonly is: "segments"
      readonly segments: ReadonlyArray<Segment>
      readonly last: boolean
      readonly characters: number
      readonly warnings: ReadonlyArray<string>
    }
  | { readonly is: "rebuilt"; readonly bytes: Uint8Array }
  | { readonly is: "bad"; readonly text: string }
  /** A defect of the program. `name` says where, without text of the document. */
  | { readonly is: "defect"; readonly name: string }

const segmentsPerMessage = 1_000
const port = parentPort!
let extraction: Extraction | undefined
let sent = 0
const translated = new Map<number, string>()
const buffer = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)

const say = (message: FromDocument, handed: ReadonlyArray<ArrayBuffer> = []): void =>
  port.postMessage(message, handed as ReadonlyArray<any>)

const sayMore = ({ segments, characters, warnings }: Extraction): void => {
  const from = sent
  sent += segmentsPerMessage
  say({
    is: "segments",
    segments: segments.slice(from, sent),
    last: sent >= segments.length,
    characters,
    warnings
  })
}

const answer = async (message: ToDocument): Promise<void> => {
  if (message.call === "rebuild") {
    for (const [id, text] of message.translated) translated.set(id, text)
    if (!message.last) return
    const bytes = await extraction!.rebuild((id) => translated.get(id))
    const { buffer: memory } = bytes
    return say(
      { is: "rebuilt", bytes },
      memory instanceof ArrayBuffer && bytes.byteLength === memory.byteLength ? [memory] : []
    )
  }
  if (message.call === "more") return sayMore(extraction!)
  const format = await documentTypeOf(message.extension)!.load()
  if (message.call === "inspect") {
    await format.inspect(buffer(message.bytes), message.extension, {
      source: message.source,
      target: message.target
    })
    return say({ is: "inspected" })
  }
  extraction = await format.extract(buffer(message.bytes), message.options)
  sayMore(extraction)
}

port.on("message", (message: ToDocument) => {
  answer(message).catch((cause: unknown) => {
    if (cause instanceof BadDocument) return say({ is: "bad", text: cause.message })
    say({
      is: "defect",
      name: cause instanceof Error ? `${cause.name} ${cause.stack?.split("\n")[1]?.trim() ?? ""}` : "unknown"
    })
  })
})
