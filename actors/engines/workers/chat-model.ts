/** The worker of embedded chat models: local/echo, deterministic and without files, or GGUF files
 *  through node-llama-cpp where the user has installed it. It is guaranteed that each request is answered
 *  by `Ended` or `Failed`, unless it was aborted. Source: docs/spec/chat.md, section 13.5. */
import {
  creditSteps,
  type ChatModule,
  type EmbeddedModels,
  type FromModel,
  type Step,
  type ToModel
} from "../chat/embedded-model.ts"
import { echo } from "../chat/echo.ts"
import { gguf } from "../chat/gguf.ts"
import { UpstreamFault } from "../chat/model.ts"
import { onMessage, post as postMessage, workerOptions } from "../worker-port.ts"

const models = workerOptions<EmbeddedModels>()
const post = postMessage<FromModel>
const modules = new Map<string, Promise<ChatModule>>()

/** Loads a module at its first use; after a failure the next request tries again. */
const moduleOf = (name: string): Promise<ChatModule> => {
  if (models._tag === "echo") return Promise.resolve(echo)
  const loaded = modules.get(name)
  if (loaded !== undefined) return loaded
  const loading = gguf(models.files[name]!)
  modules.set(name, loading)
  loading.catch(() => modules.delete(name))
  return loading
}

class Generation {
  readonly controller = new AbortController()
  credit = creditSteps
  wake: (() => void) | undefined = undefined
}

const running = new Map<number, Generation>()
const batchSteps = 32

const run = async (id: number, request: Parameters<ChatModule["generate"]>[0]): Promise<void> => {
  const generation = new Generation()
  running.set(id, generation)
  try {
    let waiting: Array<Step> = []
    const send = (): void => {
      if (waiting.length > 0) {
        post({ _tag: "Steps", id, steps: waiting })
        waiting = []
      }
    }
    for await (const step of (await moduleOf(request.model)).generate(
      request,
      generation.controller.signal
    )) {
      if (generation.controller.signal.aborted) return
      waiting.push(step)
      // A slow model's words are sent at once and a fast one's in batches; sending also yields, so that the
      // thread can receive an abort.
      if (waiting.length === 1) setImmediate(send)
      if (waiting.length >= batchSteps) {
        send()
        await new Promise((resolve) => {
          setImmediate(resolve)
        })
      }
      while (--generation.credit <= 0 && !generation.controller.signal.aborted) {
        send()
        await new Promise<void>((resolve) => {
          generation.wake = resolve
        })
      }
    }
    send()
    post({ _tag: "Ended", id })
  } catch (cause) {
    if (!generation.controller.signal.aborted)
      post(
        cause instanceof UpstreamFault
          ? { _tag: "Failed", id, detail: cause.detail, reason: cause.reason }
          : { _tag: "Failed", id, detail: String(cause), reason: "error" }
      )
  } finally {
    running.delete(id)
  }
}

onMessage((message: ToModel) => {
  if (message._tag === "Generate") {
    void run(message.id, message.request)
    return
  }
  const generation = running.get(message.id)
  if (generation === undefined) return
  if (message._tag === "Abort") generation.controller.abort()
  else generation.credit += message.steps
  generation.wake?.()
  generation.wake = undefined
})
