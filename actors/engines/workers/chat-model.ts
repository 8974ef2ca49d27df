/** Embedded chat models in a thread: local/echo, deterministic and without files, or a GGUF file through
 *  node-llama-cpp where the user has installed it.
 *  Source: chat section 13.5. */
import { parentPort, workerData } from "node:worker_threads"
import {
  creditSteps,
  type ChatModule,
  type Embedded,
  type FromModel,
  type Step,
  type ToModel
} from "../chat/embedded-model.ts"
import { echo } from "../chat/echo.ts"
import { gguf } from "../chat/gguf.ts"
import { UpstreamFault } from "../chat/model.ts"

const data = workerData as Embedded
const say = (message: FromModel): void => parentPort!.postMessage(message)
const modules = new Map<string, Promise<ChatModule>>()

/** Loaded when it is first asked; after a failure the next request tries again. */
const moduleOf = (name: string): Promise<ChatModule> => {
  if (data.module === "echo") return Promise.resolve(echo)
  const known = modules.get(name)
  if (known !== undefined) return known
  const loading = gguf(data.files[name]!)
  modules.set(name, loading)
  loading.catch(() => modules.delete(name))
  return loading
}

class Running {
  readonly controller = new AbortController()
  credit = creditSteps
  wake: (() => void) | undefined = undefined
}

const running = new Map<number, Running>()
const batchSteps = 32

const run = async (id: number, request: Parameters<ChatModule["generate"]>[0]): Promise<void> => {
  const state = new Running()
  running.set(id, state)
  try {
    let waiting: Array<Step> = []
    const send = (): void => {
      if (waiting.length > 0) {
        say({ id, steps: waiting })
        waiting = []
      }
    }
    for await (const step of (await moduleOf(request.model)).generate(request, state.controller.signal)) {
      if (state.controller.signal.aborted) return
      waiting.push(step)
      // A slow model's word leaves at once; a fast one's leave in batches, and it lets the thread hear an
      // abort between them.
      if (waiting.length === 1) setImmediate(send)
      if (waiting.length >= batchSteps) {
        send()
        await new Promise((resolve) => {
          setImmediate(resolve)
        })
      }
      while (--state.credit <= 0 && !state.controller.signal.aborted) {
        send()
        await new Promise<void>((resolve) => {
          state.wake = resolve
        })
      }
    }
    send()
    say({ id, over: true })
  } catch (cause) {
    if (!state.controller.signal.aborted)
      say(
        cause instanceof UpstreamFault
          ? { id, failed: cause.detail, reason: cause.reason }
          : { id, failed: String(cause), reason: "error" }
      )
  } finally {
    running.delete(id)
  }
}

parentPort!.on("message", (message: ToModel) => {
  if ("request" in message) {
    void run(message.id, message.request)
    return
  }
  const state = running.get(message.id)
  if (state === undefined) return
  if ("abort" in message) state.controller.abort()
  else state.credit += message.more
  state.wake?.()
  state.wake = undefined
})
