/** Models inside this process: a worker thread, so that a busy one does not stall the event loop; and the
 *  translator engine as a model. The module in the worker is an async iterable of steps (ChatModule). Source:
 *  chat section 13.5. */
import { startWorker, type EngineWorker } from "../worker.ts"
import {
  UpstreamFault,
  type ChatModel,
  type Finish,
  type ListedModel,
  type ModelRequest,
  type ModelSink,
  type Usage
} from "./model.ts"

export type Step =
  | { readonly text: string }
  | { readonly reasoning: string }
  | { readonly toolCall: { readonly id: string; readonly name: string; readonly arguments: string } }
  | { readonly finish: Finish; readonly usage: Usage }

export interface ChatModule {
  readonly id: string
  readonly contextTokens: number
  generate(request: ModelRequest, signal: AbortSignal): AsyncIterable<Step>
}

export type ToModel =
  | { readonly id: number; readonly request: ModelRequest }
  | { readonly id: number; readonly abort: true }
  | { readonly id: number; readonly more: number }

export type FromModel =
  | { readonly id: number; readonly steps: ReadonlyArray<Step> }
  | { readonly id: number; readonly over: true }
  | { readonly id: number; readonly failed: string; readonly reason: UpstreamFault["reason"] }

/** Steps a worker may be ahead of its reader. */
export const creditSteps = 256

/** Steps into events, one choice. */
export const stepper = (sink: ModelSink): ((step: Step) => void) => {
  let calls = 0
  return (step) => {
    if ("text" in step) sink.event({ _tag: "text", choice: 0, text: step.text })
    else if ("reasoning" in step) sink.event({ _tag: "reasoning", choice: 0, text: step.reasoning })
    else if ("toolCall" in step) {
      const { id, name, arguments: text } = step.toolCall
      const index = calls++
      sink.event({ _tag: "call", choice: 0, index, id, name })
      if (text !== "") sink.event({ _tag: "arguments", choice: 0, index, text })
    } else {
      sink.event({ _tag: "finish", choice: 0, reason: step.finish })
      sink.event({ _tag: "usage", usage: step.usage })
    }
  }
}

interface Running {
  readonly heard: (message: FromModel) => void
  readonly died: (reason: string) => void
}

/** What the worker chat-model gets. `files`: model name → GGUF file. */
export type Embedded =
  | { readonly module: "echo" }
  | { readonly module: "gguf"; readonly files: Readonly<Record<string, string>> }

/** The models of one worker. */
export const embedded = (models: ReadonlyArray<ListedModel>, data: Embedded): ChatModel => {
  let worker: EngineWorker<ToModel, FromModel> | undefined
  let last = 0
  const running = new Map<number, Running>()
  const start = (): EngineWorker<ToModel, FromModel> => {
    if (worker !== undefined && !worker.dead) return worker
    const started = (worker = startWorker<ToModel, FromModel>("chat-model", data))
    started.listen((message) => running.get(message.id)?.heard(message))
    started.onDeath((reason) => {
      if (worker !== started) return
      const lost = [...running.values()]
      running.clear()
      for (const { died } of lost) died(reason)
    })
    return started
  }
  return {
    supports: {
      images: false,
      audio: false,
      files: false,
      logprobs: false,
      n: false,
      ...(data.module === "echo"
        ? { hints: false }
        : { lacks: ["frequencyPenalty", "presencePenalty", "logitBias", "hints"] }),
      tool_choice_none: true,
      native_tools: data.module === "echo"
    },
    list: async () => models,
    close: () => worker?.kill(),
    generate: (request, sink, signal) =>
      new Promise((resolve, reject) => {
        if (signal.aborted) return reject(new UpstreamFault({ reason: "aborted", detail: "the caller went" }))
        const thread = start()
        const id = ++last
        const step = stepper(sink)
        let begun = false
        let paused = false
        let owed = 0
        const over = (fault?: UpstreamFault): void => {
          running.delete(id)
          signal.removeEventListener("abort", abort)
          if (fault === undefined) resolve()
          else reject(fault)
        }
        const abort = (): void => {
          thread.send({ id, abort: true })
          over(new UpstreamFault({ reason: "aborted", detail: "the caller went" }))
        }
        signal.addEventListener("abort", abort, { once: true })
        const credit = (): void => {
          if (!paused && owed > 0) {
            thread.send({ id, more: owed })
            owed = 0
          }
        }
        running.set(id, {
          died: (reason) =>
            over(new UpstreamFault({ reason: begun ? "broken" : "unavailable", detail: reason })),
          heard: (message) => {
            if ("failed" in message)
              return over(new UpstreamFault({ reason: message.reason, detail: message.failed }))
            if ("over" in message) return over()
            try {
              if (!begun) {
                begun = true
                sink.onFirstEvent({
                  pause: () => {
                    paused = true
                  },
                  resume: () => {
                    paused = false
                    credit()
                  }
                })
              }
              for (const one of message.steps) step(one)
              sink.flush()
              owed += message.steps.length
              credit()
            } catch (fault) {
              thread.send({ id, abort: true })
              running.delete(id)
              signal.removeEventListener("abort", abort)
              reject(fault)
            }
          }
        })
        thread.send({ id, request })
      })
  }
}
