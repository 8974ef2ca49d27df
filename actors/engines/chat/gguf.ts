/** A GGUF file as a chat model, through node-llama-cpp where the user has installed it (`npm i --no-save
 *  node-llama-cpp`). It runs in the worker chat-model. It is guaranteed that one answer is made at a time,
 *  and that what the last prompt and this one have in common is not read twice. Tools go through the prompt
 *  bridge.
 *  Source: docs/spec/chat.md, section 13.5; docs/spec/engines.md, section 7.1. */
import { existsSync } from "node:fs"
import { createRequire } from "node:module"
import { basename, join } from "node:path"
import { pathToFileURL } from "node:url"
import { defined } from "../../../runtime/defined.ts"
import type { ChatModule, Step } from "./embedded-model.ts"
import { anyJson, grammarSchema } from "./grammar-schema.ts"
import { textOf, UpstreamFault, type Format, type Message, type ModelRequest } from "./model.ts"

/** The part of the package that is used here. */
interface Library {
  getLlama(options: Readonly<Record<string, unknown>>): Promise<Llama>
  readonly LlamaChat: new (options: { readonly contextSequence: Sequence }) => Chat
}

interface Llama {
  maxThreads: number
  readonly cpuMathCores: number
  loadModel(options: { readonly modelPath: string }): Promise<Model>
  createGrammarForJsonSchema(schema: unknown): Promise<Grammar>
  getGrammarFor(type: "json"): Promise<Grammar>
}

interface Grammar {
  readonly grammar: string
}

type Token = number

interface Model {
  readonly tokenizer: unknown
  dispose(): Promise<void>
  createContext(options: {
    readonly contextSize: { readonly max: number }
  }): Promise<{ readonly contextSize: number; getSequence(): Sequence }>
}

interface Sequence {
  readonly nextTokenIndex: number
  readonly tokenMeter: { readonly usedOutputTokens: number }
  adaptStateToTokens(tokens: ReadonlyArray<Token>, shift: boolean): Promise<void>
  evaluateWithoutGeneratingNewTokens(tokens: ReadonlyArray<Token>): Promise<void>
  clearHistory(): Promise<void>
}

type Item =
  | { readonly type: "system" | "user"; readonly text: string }
  | { readonly type: "model"; readonly response: ReadonlyArray<string> }

interface Chunk {
  readonly type?: "segment"
  readonly segmentType?: "thought" | "comment"
  readonly text: string
  readonly tokens: ReadonlyArray<Token>
}

interface Chat {
  readonly chatWrapper: {
    generateContextState(options: { readonly chatHistory: ReadonlyArray<Item> }): {
      readonly contextText: { tokenize(tokenizer: unknown): ReadonlyArray<Token> }
    }
  }
  generateResponse(
    history: ReadonlyArray<Item>,
    options: Readonly<Record<string, unknown>>
  ): Promise<{ readonly metadata: { readonly stopReason: string } }>
}

const packageName = "node-llama-cpp"
const unsupported = (detail: string): UpstreamFault => new UpstreamFault({ reason: "unsupported", detail })

/** Loads the package from the folder where the program was started, or from beside the program. */
export const load = async (
  origins: ReadonlyArray<string> = [join(process.cwd(), "package.json"), import.meta.url]
): Promise<Library> => {
  for (const from of origins) {
    let entry: string
    try {
      entry = createRequire(from).resolve(packageName)
    } catch {
      continue
    }
    return (await import(pathToFileURL(entry).href)) as Library
  }
  throw unsupported(`a GGUF model needs ${packageName}: npm i --no-save ${packageName}`)
}

const contextTokensMax = 8_192

/** A prompt is read in slices of so many tokens: an abort takes effect between them. */
const promptSliceTokens = 128

/** The defaults of llama.cpp's own server. */
const samplingDefaults = { temperature: 0.8, topK: 40, topP: 0.95, minP: 0.05 }

const itemOf = ({ role, content }: Message): Item => {
  const text = textOf(content)
  if (role === "system" || role === "developer") return { type: "system", text }
  return role === "assistant" ? { type: "model", response: [text] } : { type: "user", text }
}

/** What one answer came to, in tokens. */
interface Completion {
  readonly input: number
  readonly cached: number
  readonly output: number
  readonly reasoning: number
  readonly cut: boolean
}

interface Runtime {
  readonly llama: Llama
  readonly LlamaChat: Library["LlamaChat"]
  /** Why the last file was not loaded: llama.cpp tells its log, but not its caller. */
  fault: string | undefined
}

const start = async (): Promise<Runtime> => {
  const { getLlama, LlamaChat } = await load()
  const logger = (_: unknown, line: string): void => {
    runtime.fault ??= /error loading model: (.+)/.exec(line)?.[1]
  }
  // A binary that came with the package or none: nothing is compiled or downloaded while it serves.
  const llama = await getLlama({
    build: "never",
    skipDownload: true,
    progressLogs: false,
    logLevel: "error",
    logger
  }).catch((cause: Error) => {
    throw unsupported(`${packageName} does not run on this machine: ${cause.message}`)
  })
  // More threads than cores wait for each other by spinning, hundreds of times slower; one core is the event
  // loop's.
  llama.maxThreads = Math.max(1, llama.cpuMathCores - 1)
  const runtime: Runtime = { llama, LlamaChat, fault: undefined }
  return runtime
}

/** All models share one runtime: llama.cpp's log, backends and threads belong to the process. */
let started: Promise<Runtime> | undefined

const running = (): Promise<Runtime> =>
  (started ??= start().catch((cause: unknown) => {
    started = undefined
    throw cause
  }))

let loading: Promise<unknown> = Promise.resolve()

const open = async (file: string, name: string) => {
  const runtime = await running()
  const { llama, LlamaChat } = runtime
  runtime.fault = undefined
  let model: Model | undefined
  try {
    model = await llama.loadModel({ modelPath: file })
    const context = await model.createContext({ contextSize: { max: contextTokensMax } })
    const sequence = context.getSequence()
    return {
      llama,
      model,
      sequence,
      contextTokens: context.contextSize,
      chat: new LlamaChat({ contextSequence: sequence })
    }
  } catch (cause) {
    await new Promise((resolve) => {
      setImmediate(resolve)
    })
    await model?.dispose()
    throw unsupported(
      `the model file ${name} cannot be loaded: ${(runtime.fault ?? (cause as Error).message).replaceAll(file, name)}`
    )
  }
}

type LoadedModel = Awaited<ReturnType<typeof open>>

/** The tokens that are to be generated, as the package wants to be told. */
const generationOptions = (request: ModelRequest, room: number): Readonly<Record<string, unknown>> => {
  const { frequencyPenalty, presencePenalty } = request
  return {
    temperature: request.temperature ?? samplingDefaults.temperature,
    topP: request.topP ?? samplingDefaults.topP,
    topK: samplingDefaults.topK,
    minP: samplingDefaults.minP,
    // Left to itself the package takes the second of the day: two answers of one second would be the same.
    seed: request.seed === undefined ? crypto.getRandomValues(new Uint32Array(1))[0] : request.seed >>> 0,
    repeatPenalty:
      frequencyPenalty === undefined && presencePenalty === undefined
        ? false
        : { penalty: 1, frequencyPenalty, presencePenalty },
    maxTokens: Math.min(request.maxTokens ?? room, room),
    customStopTriggers: request.stop
  }
}

/** A loaded model with its one sequence of tokens. */
class GgufModel {
  private readonly loaded: LoadedModel

  constructor(loaded: LoadedModel) {
    this.loaded = loaded
  }

  /** A schema that no grammar can be made of becomes any JSON: the caller checks the answer. */
  private grammarOf(format: Format): Promise<Grammar> {
    const { llama } = this.loaded
    if (format.type !== "json_schema") return llama.getGrammarFor("json")
    return llama
      .createGrammarForJsonSchema(grammarSchema(format.schema))
      .catch(() => llama.createGrammarForJsonSchema(anyJson))
  }

  /** The tokens that fit behind a prompt. The window never slides: the first messages would be lost from it
   *  unnoticed. */
  private roomBehind(tokens: ReadonlyArray<Token>): number {
    const { contextTokens } = this.loaded
    const room = contextTokens - tokens.length - 2
    if (room >= 1) return room
    throw new UpstreamFault({
      reason: "context",
      detail: `The conversation has ${tokens.length} tokens; this model reads ${contextTokens}.`
    })
  }

  /** Reads the part of the prompt that the last one did not have, and returns how much it had; undefined
   *  when it was aborted. */
  private async readPrompt(tokens: ReadonlyArray<Token>, signal: AbortSignal): Promise<number | undefined> {
    const { sequence } = this.loaded
    await sequence.adaptStateToTokens(tokens.slice(0, -1), false)
    const cached = sequence.nextTokenIndex
    for (let at = cached; at < tokens.length - 1; at += promptSliceTokens) {
      if (signal.aborted) return undefined
      await sequence.evaluateWithoutGeneratingNewTokens(
        tokens.slice(at, Math.min(at + promptSliceTokens, tokens.length - 1))
      )
    }
    return cached
  }

  /** Generates one answer; undefined when it was aborted before its first token. */
  async generate(
    request: ModelRequest,
    signal: AbortSignal,
    onStep: (step: Step) => void
  ): Promise<Completion | undefined> {
    const { model, sequence, chat } = this.loaded
    const history = request.messages.map(itemOf)
    if (history.at(-1)?.type !== "model") history.push({ type: "model", response: [] })
    const tokens = chat.chatWrapper
      .generateContextState({ chatHistory: history })
      .contextText.tokenize(model.tokenizer)
    const room = this.roomBehind(tokens)
    const grammar = request.format === undefined ? undefined : await this.grammarOf(request.format)
    const cached = await this.readPrompt(tokens, signal)
    if (cached === undefined) return undefined

    const outputBefore = sequence.tokenMeter.usedOutputTokens
    let reasoning = 0
    const { metadata } = await chat.generateResponse(history, {
      ...generationOptions(request, room),
      ...defined({ grammar }),
      signal,
      stopOnAbortSignal: true,
      onResponseChunk: ({ segmentType, text, tokens: produced }: Chunk) => {
        if (segmentType === "thought") reasoning += produced.length
        if (text !== "" && segmentType !== "comment")
          onStep(segmentType === "thought" ? { reasoning: text } : { text })
      }
    })
    return {
      input: tokens.length,
      cached,
      output: sequence.tokenMeter.usedOutputTokens - outputBefore,
      reasoning,
      cut: metadata.stopReason === "maxTokens"
    }
  }

  /** After a failure nothing is known of what the sequence holds. */
  forget(): Promise<void> {
    return this.loaded.sequence.clearHistory()
  }
}

const lastStep = ({ cut, input, output, cached, reasoning }: Completion): Step => ({
  finish: cut ? "length" : "stop",
  usage: { input, output, cached, reasoning }
})

export const gguf = async (file: string): Promise<ChatModule> => {
  const name = basename(file)
  if (!existsSync(file)) throw unsupported(`the model file ${name} is not there`)
  const opening = loading.then(() => open(file, name))
  loading = opening.catch(() => {})
  const loaded = await opening
  const model = new GgufModel(loaded)

  /** The end of the generation before: one answer is made at a time. */
  let previous: Promise<unknown> = Promise.resolve()
  return {
    id: file,
    contextTokens: loaded.contextTokens,
    async *generate(request, signal): AsyncIterable<Step> {
      const steps: Array<Step> = []
      let wake: (() => void) | undefined
      let ended = false
      const onStep = (step: Step): void => {
        steps.push(step)
        wake?.()
      }
      const work = previous
        .then(() => (signal.aborted ? undefined : model.generate(request, signal, onStep)))
        .finally(() => {
          ended = true
          wake?.()
        })
      previous = work.catch(() => model.forget()).catch(() => {})
      while (!ended || steps.length > 0) {
        const step = steps.shift()
        if (step !== undefined) yield step
        else if (!ended)
          await new Promise<void>((resolve) => {
            wake = resolve
          })
      }
      const completion = await work
      if (completion !== undefined) yield lastStep(completion)
    }
  }
}
