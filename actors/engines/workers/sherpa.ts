/** sherpa-onnx's streaming recognizer in a thread, with the operator's model. The package is optional: a
 *  missing one is said in a line. */
import { existsSync, readdirSync } from "node:fs"
import { createRequire } from "node:module"
import { join } from "node:path"
import { parentPort, workerData } from "node:worker_threads"
import type { FromThread, ToThread } from "../speech/thread-recognizer.ts"

const say = (message: FromThread): void => parentPort!.postMessage(message)
const { folder } = workerData as { folder: string }

const file = (part: string): string =>
  join(
    folder,
    readdirSync(folder).find((name) => name.startsWith(part) && name.endsWith(".onnx")) ?? `${part}.onnx`
  )

try {
  const sherpa = createRequire(join(process.cwd(), "package.json"))("sherpa-onnx-node") as any
  if (!existsSync(join(folder, "tokens.txt"))) throw new Error(`${folder} holds no model`)
  const recognizer = new sherpa.OnlineRecognizer({
    featConfig: { sampleRate: 16_000, featureDim: 80 },
    modelConfig: {
      transducer: { encoder: file("encoder"), decoder: file("decoder"), joiner: file("joiner") },
      tokens: join(folder, "tokens.txt"),
      numThreads: 1,
      provider: "cpu"
    },
    decodingMethod: "greedy_search",
    enableEndpoint: true,
    rule1MinTrailingSilence: 2.4,
    rule2MinTrailingSilence: 0.6,
    rule3MinUtteranceLength: 15
  })
  let stream = recognizer.createStream()
  let samples = 0
  let startMs = 0
  let last = ""
  const look = (final: boolean): void => {
    while (recognizer.isReady(stream)) recognizer.decode(stream)
    const text = String(recognizer.getResult(stream).text).trim().toLowerCase()
    const over = final || recognizer.isEndpoint(stream)
    const endMs = Math.round(samples / 16)
    if (text !== "" && (over || text !== last)) say({ is: over ? "final" : "partial", text, startMs, endMs })
    last = over ? "" : text
    if (over) {
      recognizer.reset(stream)
      startMs = endMs
    }
  }
  parentPort!.on("message", (message: ToThread) => {
    if (message.op === "audio") {
      samples += message.pcm.length
      stream.acceptWaveform({
        sampleRate: 16_000,
        samples: Float32Array.from(message.pcm, (sample) => sample / 32_768)
      })
      look(false)
      return say({ is: "heard", samples: message.pcm.length })
    }
    if (message.op === "end") {
      stream.inputFinished()
      look(true)
      say({ is: "done" })
    }
    stream = recognizer.createStream()
    samples = startMs = 0
    last = ""
  })
  say({ is: "ready" })
} catch (cause) {
  say({ is: "failed", reason: cause instanceof Error ? cause.message.split("\n")[0]! : String(cause) })
}
