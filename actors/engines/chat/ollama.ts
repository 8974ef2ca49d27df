/** Ollama's own chat interface: newline-delimited JSON. Source: chat section 13.4. */
import { signalOf, type Abort } from "./abort.ts"
import { HttpClient, type CallFlow, type UpstreamHttp } from "./http-client.ts"
import {
  argumentsObject,
  badResponse,
  newCallId,
  textOf,
  UpstreamFault,
  type ChatModel,
  type Message,
  type ModelRequest
} from "./model.ts"
import { finishOf } from "./openai-sse-chunks.ts"
import { LineReader, utf8 } from "./sse-reader.ts"

export interface OllamaOptions {
  readonly id: string
  readonly http: UpstreamHttp
  /** The model knows levels of thinking. */
  readonly levels: boolean
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

export const ollamaBody = async (
  request: ModelRequest,
  options: OllamaOptions,
  signal: Abort
): Promise<unknown> => {
  const names = new Map<string, string>()
  const messages: Array<unknown> = []
  for (const message of request.messages) {
    for (const { id, name } of message.calls ?? []) names.set(id, name)
    const images = await imagesOf(message, options, signal)
    messages.push({
      role: message.role === "developer" ? "system" : message.role,
      content: textOf(message.content),
      images: images.length === 0 ? undefined : images,
      tool_calls: message.calls?.map(({ name, arguments: text }) => ({
        function: { name, arguments: argumentsObject(text) }
      })),
      tool_name: message.callId === undefined ? undefined : names.get(message.callId)
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
    format: format === undefined ? undefined : format.type === "json_object" ? "json" : format.schema,
    think: effort === undefined ? undefined : effort === "none" ? false : options.levels ? effort : true,
    tools: request.tools?.map(({ name, description, parameters }) => ({
      type: "function",
      function: { name, description, parameters }
    }))
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
      let begun = false
      let done = false
      let calls = 0
      let flow: CallFlow | undefined
      const lines = new LineReader((line) => {
        if (line.trim() === "" || done) return
        let told: any
        try {
          told = JSON.parse(utf8(line))
        } catch {
          throw badResponse("a line is not JSON")
        }
        if (told?.error !== undefined)
          throw new UpstreamFault({ reason: "error", detail: "an error in the answer" })
        if (!begun) {
          begun = true
          sink.onFirstEvent(flow)
        }
        const { message } = told
        if (typeof message?.thinking === "string" && message.thinking !== "")
          sink.event({ _tag: "reasoning", choice: 0, text: message.thinking })
        if (typeof message?.content === "string" && message.content !== "")
          sink.event({ _tag: "text", choice: 0, text: message.content })
        for (const call of Array.isArray(message?.tool_calls) ? message.tool_calls : []) {
          const name = call?.function?.name
          const given = call?.function?.arguments
          if (typeof name !== "string") throw badResponse("a tool call without a name")
          sink.event({ _tag: "call", choice: 0, index: calls, id: newCallId(), name })
          sink.event({
            _tag: "arguments",
            choice: 0,
            index: calls++,
            text: typeof given === "string" ? given : JSON.stringify(given ?? {})
          })
        }
        if (told.done !== true) return
        done = true
        sink.event({ _tag: "finish", choice: 0, reason: finishOf(told.done_reason, calls > 0) })
        if (typeof told.eval_count === "number")
          sink.event({
            _tag: "usage",
            usage: {
              input: Number(told.prompt_eval_count ?? 0),
              output: told.eval_count,
              cached: 0,
              reasoning: 0
            }
          })
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
              if (done) flow!.enough()
            }
          },
          signal
        )
        .catch((fault: unknown) => {
          if (!done) throw fault
        })
      lines.end()
      if (!done) throw badResponse("stream ended early")
      sink.flush()
    }
  }
}
