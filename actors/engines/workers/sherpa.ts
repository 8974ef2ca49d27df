/** The worker of sherpa-onnx's streaming recognizer, with the operator's model. The package is
 *  optional: it is guaranteed that a missing one is reported in one line. Source: docs/spec/engines.md,
 *  section 4.3. */
import { existsSync, readdirSync } from "node:fs"
import { createRequire } from "node:module"
import { join } from "node:path"
import type { FromRecognizer, ToRecognizer } from "../speech/worker-recognizer.ts"
import { onMessage, post as postMessage, workerOptions } from "../worker-port.ts"

const post = postMessage<FromRecognizer>
const { folder } = workerOptions<{ readonly folder: string }>()

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
  const report = (isLast: boolean): void => {
    while (recognizer.isReady(stream)) recognizer.decode(stream)
    const text = String(recognizer.getResult(stream).text).trim().toLowerCase()
    const isFinal = isLast || recognizer.isEndpoint(stream)
    const endMs = Math.round(samples / 16)
    if (text !== "" && (isFinal || text !== last))
      post({ _tag: isFinal ? "Final" : "Partial", text, startMs, endMs })
    last = isFinal ? "" : text
    if (isFinal) {
      recognizer.reset(stream)
      startMs = endMs
    }
  }
  onMessage((message: ToRecognizer) => {
    if (message._tag === "Audio") {
      samples += message.pcm.length
      stream.acceptWaveform({
        sampleRate: 16_000,
        samples: Float32Array.from(message.pcm, (sample) => sample / 32_768)
      })
      report(false)
      return post({ _tag: "Consumed", samples: message.pcm.length })
    }
    if (message._tag === "End") {
      stream.inputFinished()
      report(true)
      post({ _tag: "Done" })
    }
    stream = recognizer.createStream()
    samples = startMs = 0
    last = ""
  })
  post({ _tag: "Ready" })
} catch (cause) {
  post({ _tag: "NotReady", reason: cause instanceof Error ? cause.message.split("\n")[0]! : String(cause) })
}
