/** Speaks Ollama's own chat interface, newline-delimited JSON. It is guaranteed that an answer is whole only
 *  after its line with `done`. Source: docs/spec/chat.md, section 13.4. */
import { signalOf, type Abort } from "./abort.ts"
import { HttpClient, type CallFlow, type UpstreamHttp } from "./http-client.ts"
import {
  argumentsObject,
  badResponse,
  newCallId,
  textOf,
  UpstreamFault,
  type ChatModel,
  type Effort,
  type Format,
  type Message,
  type ModelRequest,
  type ModelSink
} from "./model.ts"
import { finishOf } from "./openai-sse-chunks.ts"
import { LineReader, utf8 } from "./sse-reader.ts"

export interface OllamaOptions {
  readonly id: string
  readonly http: UpstreamHttp
  /** True when the model supports levels of thinking, not only on and off. */
  readonly effortLevels: boolean
  readonly fetchImage: ((url: string, signal: AbortSignal) => Promise<Uint8Array>) | undefined
}

const unsupported = (detail: string): UpstreamFault =>
  new UpstreamFault({ reason: "unsupported", detail, param: "messages" })

const imagesOf = async (
  { content }: Message,
  { fetchImage }: OllamaOptions,
  signal: Abort
): Promise<ReadonlyArray<string>> => {
  const images: Array<string> = []
  for (const part of typeof content === "string" || content === null ? [] : content) {
    if (part.type === "audio" || part.type === "file") throw unsupported(`this model takes no ${part.type}`)
    if (part.type !== "image") continue
    const inline = /^data:[^,]*;base64,(.*)$/s.exec(part.url)
    if (inline !== null) images.push(inline[1]!)
    else if (fetchImage === undefined) throw unsupported("this model takes images as data URLs only")
    else
      images.push(
        Buffer.from(
          await fetchImage(part.url, signalOf(signal)).catch(() => {
            throw unsupported("an image cannot be fetched")
          })
        ).toString("base64")
      )
  }
  return images
}

const formatOf = (format: Format | undefined): unknown =>
  format?.type === "json_object" ? "json" : format?.schema

const thinkOf = (effort: Effort | undefined, effortLevels: boolean): boolean | Effort | undefined => {
  if (effort === undefined) return undefined
  if (effort === "none") return false
  return effortLevels ? effort : true
}

/** Writes the body of POST /api/chat; undefined members are left out by JSON. */
export const ollamaBody = async (
  request: ModelRequest,
  options: OllamaOptions,
  signal: Abort
): Promise<unknown> => {
  const toolNames = new Map<string, string>()
  const messages: Array<unknown> = []
  for (const message of request.messages) {
    for (const { id, name } of message.calls ?? []) toolNames.set(id, name)
    const images = await imagesOf(message, options, signal)
    messages.push({
      role: message.role === "developer" ? "system" : message.role,
      content: textOf(message.content),
      images: images.length === 0 ? undefined : images,
      tool_calls: message.calls?.map(({ name, arguments: text }) => ({
        function: { name, arguments: argumentsObject(text) }
      })),
      tool_name: message.callId === undefined ? undefined : toolNames.get(message.callId)
    })
  }
  const { effort, format } = request
  return {
    model: request.model,
    messages,
    stream: request.stream,
    options: {
      temperature: request.temperature,
      top_p: request.topP,
      num_predict: request.maxTokens,
      stop: request.stop,
      seed: request.seed,
      frequency_penalty: request.frequencyPenalty,
      presence_penalty: request.presencePenalty
    },
    format: formatOf(format),
    think: thinkOf(effort, options.effortLevels),
    tools: request.tools?.map(({ name, description, parameters }) => ({
      type: "function",
      function: { name, description, parameters }
    }))
  }
}

/** Turns the lines of one answer into events. */
class AnswerReader {
  done = false
  private calls = 0
  private readonly sink: ModelSink

  constructor(sink: ModelSink) {
    this.sink = sink
  }

  read(answer: any): void {
    const { message } = answer
    if (isFilled(message?.thinking)) this.sink.event({ _tag: "reasoning", choice: 0, text: message.thinking })
    if (isFilled(message?.content)) this.sink.event({ _tag: "text", choice: 0, text: message.content })
    for (const call of Array.isArray(message?.tool_calls) ? message.tool_calls : []) this.call(call)
    if (answer.done === true) this.end(answer)
  }

  private call(call: any): void {
    const name = call?.function?.name
    const input = call?.function?.arguments
    if (typeof name !== "string") throw badResponse("a tool call without a name")
    const index = this.calls++
    this.sink.event({ _tag: "call", choice: 0, index, id: newCallId(), name })
    const text = typeof input === "string" ? input : JSON.stringify(input ?? {})
    this.sink.event({ _tag: "arguments", choice: 0, index, text })
  }

  private end(answer: any): void {
    this.done = true
    this.sink.event({ _tag: "finish", choice: 0, reason: finishOf(answer.done_reason, this.calls > 0) })
    if (typeof answer.eval_count === "number")
      this.sink.event({
        _tag: "usage",
        usage: {
          input: Number(answer.prompt_eval_count ?? 0),
          output: answer.eval_count,
          cached: 0,
          reasoning: 0
        }
      })
  }
}

const isFilled = (value: unknown): value is string => typeof value === "string" && value !== ""

const parsed = (line: string): any => {
  try {
    return JSON.parse(utf8(line))
  } catch {
    throw badResponse("a line is not JSON")
  }
}

export const ollama = (options: OllamaOptions): ChatModel => {
  const client = new HttpClient(options.http)
  return {
    supports: {
      audio: false,
      files: false,
      logprobs: false,
      n: false,
      lacks: ["logitBias", "hints"],
      tool_choice_none: false
    },
    list: async (signal) => {
      const answer = await client.json("GET", "/api/tags", undefined, signal)
      if (!Array.isArray(answer?.models)) throw badResponse("no list of models")
      return answer.models.flatMap((entry: any) =>
        typeof entry?.name === "string" ? [{ id: entry.name }] : []
      )
    },
    close: () => client.close(),
    async generate(request, sink, signal) {
      const reader = new AnswerReader(sink)
      let answered = false
      let flow: CallFlow | undefined
      const lines = new LineReader((line) => {
        if (line.trim() === "" || reader.done) return
        const answer = parsed(line)
        if (answer?.error !== undefined)
          throw new UpstreamFault({ reason: "error", detail: "an error in the answer" })
        if (!answered) {
          answered = true
          sink.onFirstEvent(flow)
        }
        reader.read(answer)
      })
      const body = JSON.stringify(await ollamaBody(request, options, signal))
      await client
        .send(
          "POST",
          "/api/chat",
          body,
          {
            head: (_, __, control) => {
              flow = control
            },
            data: (bytes, from, to) => {
              lines.push(bytes, from, to)
              sink.flush()
              if (reader.done) flow!.enough()
            }
          },
          signal
        )
        .catch((fault: unknown) => {
          if (!reader.done) throw fault
        })
      lines.end()
      if (!reader.done) throw badResponse("stream ended early")
      sink.flush()
    }
  }
}
