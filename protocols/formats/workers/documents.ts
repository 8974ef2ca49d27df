/** One document in a thread: inspected, extracted, rebuilt. Formats never run on the event loop; what a document costs ends with its thread. */
import { parentPort } from "node:worker_threads"
import { documentTypeOf } from "../catalogue.ts"
import { BadDocument, type Extraction, type ExtractOptions, type Segment } from "../document.ts"

export type ToDocument =
  | { readonly call: "inspect"; readonly bytes: Uint8Array; readonly extension: string; readonly source?: string | undefined; readonly target: string }
  | { readonly call: "extract"; readonly bytes: Uint8Array; readonly extension: string; readonly options: ExtractOptions }
  | { readonly call: "rebuild"; readonly translated: ReadonlyArray<readonly [number, string]> }
export type FromDocument =
  | { readonly is: "inspected" }
  | { readonly is: "segments"; readonly segments: ReadonlyArray<Segment>; readonly last: boolean; readonly characters: number; readonly warnings: ReadonlyArray<string> }
  | { readonly is: "rebuilt"; readonly bytes: Uint8Array }
  | { readonly is: "bad"; readonly text: string }
  /** A fault of ours; `name` says where, without text of the document. */
  | { readonly is: "defect"; readonly name: string }

const segmentsPerMessage = 2_000
const port = parentPort!
let extraction: Extraction | undefined
const buffer = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
const say = (message: FromDocument): void => port.postMessage(message)

const answer = async (message: ToDocument): Promise<void> => {
  if (message.call === "rebuild") {
    const translated = new Map(message.translated), bytes = await extraction!.rebuild((id) => translated.get(id))
    say({ is: "rebuilt", bytes })
    return
  }
  const format = await documentTypeOf(message.extension)!.load()
  if (message.call === "inspect") {
    await format.inspect(buffer(message.bytes), message.extension, { source: message.source, target: message.target })
    return say({ is: "inspected" })
  }
  extraction = await format.extract(buffer(message.bytes), message.options)
  const { segments, characters, warnings } = extraction
  for (let at = 0; at === 0 || at < segments.length; at += segmentsPerMessage) {
    say({ is: "segments", segments: segments.slice(at, at + segmentsPerMessage), last: at + segmentsPerMessage >= segments.length, characters, warnings })
  }
}
port.on("message", (message: ToDocument) => {
  answer(message).catch((cause: unknown) => {
    if (cause instanceof BadDocument) return say({ is: "bad", text: cause.message })
    say({ is: "defect", name: cause instanceof Error ? `${cause.name} ${cause.stack?.split("\n")[1]?.trim() ?? ""}` : "unknown" })
  })
})
