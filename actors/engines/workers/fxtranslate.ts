/** The worker of a Firefox Translations model: synchronous, one direction. It is guaranteed that
 *  each text is answered once, or the worker dies. Source: docs/spec/engines.md, section 2.3. */
import { existsSync, readFileSync } from "node:fs"
import { createRequire } from "node:module"
import { join } from "node:path"
import { onMessage, post as postMessage, workerOptions } from "../worker-port.ts"

export interface ToFirefox {
  readonly id: number
  readonly text: string
}

export type FromFirefox =
  | { readonly _tag: "Ready" }
  | { readonly _tag: "NotReady"; readonly reason: string }
  | { readonly _tag: "Translated"; readonly id: number; readonly text: string }
  | { readonly _tag: "Failed"; readonly id: number; readonly detail: string }

const post = postMessage<FromFirefox>

try {
  const { folder } = workerOptions<{ readonly folder: string }>()
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
  onMessage(({ id, text }: ToFirefox) => {
    try {
      post({ _tag: "Translated", id, text: translator.translate(text) })
    } catch (cause) {
      // A panic leaves the module unusable: a new worker has to be started.
      if (cause instanceof Error && cause.name === "RuntimeError") throw cause
      post({ _tag: "Failed", id, detail: String(cause) })
    }
  })
  post({ _tag: "Ready" })
} catch (cause) {
  post({ _tag: "NotReady", reason: cause instanceof Error ? cause.message : String(cause) })
}
