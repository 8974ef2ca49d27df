/** Firefox Translations models in a thread: synchronous, one direction each. */
import { existsSync, readFileSync } from "node:fs"
import { createRequire } from "node:module"
import { join } from "node:path"
import { parentPort, workerData } from "node:worker_threads"

export interface ToFirefox {
  readonly id: number
  readonly text: string
}

export type FromFirefox =
  | { readonly is: "ready" }
  | { readonly is: "failed"; readonly reason: string }
  | { readonly id: number; readonly text: string }
  | { readonly id: number; readonly failed: string }

const say = (message: FromFirefox): void => parentPort!.postMessage(message)

try {
  const { folder } = workerData as { folder: string }
  const { Translator } = createRequire(import.meta.url)("fxtranslate") as {
    Translator: new (
      model: Uint8Array,
      source: Uint8Array,
      target: Uint8Array
    ) => { translate(text: string): string }
  }
  const file = (name: string): Uint8Array => readFileSync(join(folder, name))
  const source = file("vocab.spm")
  const translator = new Translator(
    file("model.bin"),
    source,
    existsSync(join(folder, "trgvocab.spm")) ? file("trgvocab.spm") : source
  )
  parentPort!.on("message", ({ id, text }: ToFirefox) => {
    try {
      say({ id, text: translator.translate(text) })
    } catch (cause) {
      // a panic leaves nothing to go on with: a new thread will
      if (cause instanceof Error && cause.name === "RuntimeError") throw cause
      say({ id, failed: String(cause) })
    }
  })
  say({ is: "ready" })
} catch (cause) {
  say({ is: "failed", reason: cause instanceof Error ? cause.message : String(cause) })
}
