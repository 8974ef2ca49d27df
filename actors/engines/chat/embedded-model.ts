/** Runs chat models on this machine, in a worker, so that a busy model does not block the event
 *  loop. The module in the worker is an async iterable of steps (ChatModule). It is guaranteed that a worker
 *  is at most `creditSteps` ahead of its reader. Source: docs/spec/chat.md, section 13.5. */
import { startWorker, type EngineWorker } from "../worker.ts"
import type { Abort } from "./abort.ts"
import {
  UpstreamFault,
  type ChatModel,
  type Finish,
  type Flow,
  type ListedModel,
  type ModelRequest,
  type ModelSink,
  type Supports,
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

/** A message to the worker; `id` names the generation. */
export type ToModel =
  | { readonly _tag: "Generate"; readonly id: number; readonly request: ModelRequest }
  | { readonly _tag: "Abort"; readonly id: number }
  | { readonly _tag: "Credit"; readonly id: number; readonly steps: number }

/** A message from the worker; `id` names the generation. */
export type FromModel =
  | { readonly _tag: "Steps"; readonly id: number; readonly steps: ReadonlyArray<Step> }
  | { readonly _tag: "Ended"; readonly id: number }
  | {
      readonly _tag: "Failed"
      readonly id: number
      readonly detail: string
      readonly reason: UpstreamFault["reason"]
    }

/** How many steps a worker may be ahead of its reader. */
export const creditSteps = 256

/** Turns steps into the events of one choice. */
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

/** Configures the worker chat-model at its start. `files` maps a model's name to its GGUF file. */
export type EmbeddedModels =
  | { readonly _tag: "echo" }
  | { readonly _tag: "gguf"; readonly files: Readonly<Record<string, string>> }

const callerAborted = (): UpstreamFault => new UpstreamFault({ reason: "aborted", detail: "the caller went" })

interface GenerationOptions {
  readonly id: number
  readonly worker: EngineWorker<ToModel, FromModel>
  readonly sink: ModelSink
  readonly signal: Abort
  readonly onEnd: (fault?: unknown) => void
}

/** One generation that runs in the worker, from its request to its only end. */
class Generation {
  private answered = false
  private paused = false

  /** Counts the steps that were read but not yet credited to the worker. */
  private owedSteps = 0

  private readonly step: (step: Step) => void
  private readonly options: GenerationOptions

  constructor(options: GenerationOptions) {
    this.options = options
    this.step = stepper(options.sink)
    options.signal.addEventListener("abort", this.abort, { once: true })
  }

  private end(fault?: unknown): void {
    this.options.signal.removeEventListener("abort", this.abort)
    this.options.onEnd(fault)
  }

  private readonly abort = (): void => {
    this.options.worker.send({ _tag: "Abort", id: this.options.id })
    this.end(callerAborted())
  }

  private credit(): void {
    if (this.paused || this.owedSteps === 0) return
    this.options.worker.send({ _tag: "Credit", id: this.options.id, steps: this.owedSteps })
    this.owedSteps = 0
  }

  private readonly flow: Flow = {
    pause: () => {
      this.paused = true
    },
    resume: () => {
      this.paused = false
      this.credit()
    }
  }

  onMessage(message: FromModel): void {
    switch (message._tag) {
      case "Failed":
        return this.end(new UpstreamFault({ reason: message.reason, detail: message.detail }))
      case "Ended":
        return this.end()
      case "Steps":
        return this.read(message.steps)
    }
  }

  private read(steps: ReadonlyArray<Step>): void {
    const { id, worker, sink } = this.options
    try {
      if (!this.answered) {
        this.answered = true
        sink.onFirstEvent(this.flow)
      }
      for (const step of steps) this.step(step)
      sink.flush()
      this.owedSteps += steps.length
      this.credit()
    } catch (fault) {
      worker.send({ _tag: "Abort", id })
      this.end(fault)
    }
  }

  onDeath(reason: string): void {
    this.end(new UpstreamFault({ reason: this.answered ? "broken" : "unavailable", detail: reason }))
  }
}

const supportsOf = (models: EmbeddedModels): Supports => ({
  images: false,
  audio: false,
  files: false,
  logprobs: false,
  n: false,
  ...(models._tag === "echo"
    ? { hints: false }
    : { lacks: ["frequencyPenalty", "presencePenalty", "logitBias", "hints"] }),
  tool_choice_none: true,
  native_tools: models._tag === "echo"
})

/** Presents the models of one worker as one chat model. */
export const embedded = (listed: ReadonlyArray<ListedModel>, models: EmbeddedModels): ChatModel => {
  let current: EngineWorker<ToModel, FromModel> | undefined
  let last = 0
  const running = new Map<number, Generation>()

  const start = (): EngineWorker<ToModel, FromModel> => {
    if (current !== undefined && !current.dead) return current
    const started = (current = startWorker<ToModel, FromModel>("chat-model", models))
    started.listen((message) => running.get(message.id)?.onMessage(message))
    started.onDeath((reason) => {
      if (current !== started) return
      const lost = [...running.values()]
      running.clear()
      for (const generation of lost) generation.onDeath(reason)
    })
    return started
  }

  return {
    supports: supportsOf(models),
    list: async () => listed,
    close: () => current?.kill(),
    generate: (request, sink, signal) =>
      new Promise((resolve, reject) => {
        if (signal.aborted) return reject(callerAborted())
        const worker = start()
        const id = ++last
        const onEnd = (fault?: unknown): void => {
          running.delete(id)
          if (fault === undefined) resolve()
          else reject(fault)
        }
        running.set(id, new Generation({ id, worker, sink, signal, onEnd }))
        worker.send({ _tag: "Generate", id, request })
      })
  }
}
