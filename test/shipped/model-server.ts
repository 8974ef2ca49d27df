/** The outside world of a shipped program: a chat model and a translation service on one port. Both answer
 *  by a rule, so that the same question has the same answer always: a translation is the text in capitals,
 *  and a chat answer is the last message, backwards. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"

/** Languages that only the translation service knows; everything else goes to the chat model. */
const sources = ["BE", "MK", "KA", "HY", "HI"]
const targets = ["DE", "EN-US"]

const capitals = (text: string): string => text.toUpperCase()

/** Capitals outside of elements. */
const capitalsOfXml = (xml: string): string =>
  xml
    .split(/(<[^>]*>|&\w+;)/)
    .map((part, i) => (i % 2 === 0 ? capitals(part) : part))
    .join("")

export const backwards = (text: string): string =>
  [...new Intl.Segmenter("en", { granularity: "grapheme" }).segment(text)]
    .map(({ segment }) => segment)
    .toReversed()
    .join("")

const contentOf = (content: unknown): string =>
  typeof content === "string"
    ? content
    : (content as ReadonlyArray<{ readonly text?: string }>).map(({ text }) => text ?? "").join("")

const answerOf = (messages: ReadonlyArray<{ readonly role: string; readonly content: unknown }>): string => {
  const last = contentOf(messages.at(-1)!.content)
  const isTranslation = contentOf(messages[0]!.content).startsWith("Translate every string")
  return isTranslation
    ? JSON.stringify((JSON.parse(last) as ReadonlyArray<string>).map(capitals))
    : backwards(last)
}

export class ModelServer {
  /** What was asked: one line per request. */
  readonly asked: Array<string> = []

  /** While it is set, questions wait for it. */
  gate: Promise<void> | undefined = undefined

  private readonly server: Server

  private constructor() {
    this.server = createServer((request, response) => {
      const parts: Array<Buffer> = []
      request.on("data", (part: Buffer) => parts.push(part))
      request.on("end", () => void this.answer(request, response, Buffer.concat(parts).toString()))
    })
  }

  static async open(): Promise<ModelServer> {
    const models = new ModelServer()
    await new Promise<void>((resolve) => models.server.listen(0, "127.0.0.1", resolve))
    return models
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`
  }

  /** The environment of a program whose engines are these. */
  get env(): Record<string, string> {
    return {
      APERTIUM: "off",
      ENGINES_TRANSLATE: "deepl,openai",
      DEEPL_UPSTREAM_URL: this.url,
      DEEPL_UPSTREAM_KEY: "key",
      OPENAI_BASE_URL: `${this.url}/v1`,
      OPENAI_API_KEY: "key",
      OPENAI_MODEL: "model",
      UPSTREAMS: JSON.stringify([
        { id: "local", kind: "embedded" },
        { id: "main", kind: "openai-chat", base_url: `${this.url}/v1` }
      ]),
      STT_MAX_SESSIONS: "1"
    }
  }

  close(): void {
    this.server.closeAllConnections()
    this.server.close()
  }

  private async answer(request: IncomingMessage, response: ServerResponse, body: string): Promise<void> {
    const { pathname, searchParams } = new URL(request.url!, "http://localhost")
    const json = (value: unknown): void => {
      response.setHeader("Content-Type", "application/json")
      response.end(JSON.stringify(value))
    }
    if (pathname === "/v2/languages") {
      const list = searchParams.get("type") === "source" ? sources : targets
      return json(list.map((language) => ({ language, name: language })))
    }
    if (pathname === "/v1/models") return json({ object: "list", data: [{ id: "model", object: "model" }] })
    this.asked.push(body)
    await this.gate
    if (pathname === "/v2/translate") {
      const { text } = JSON.parse(body) as { readonly text: ReadonlyArray<string> }
      return json({
        translations: text.map((one) => ({ text: capitalsOfXml(one), detected_source_language: "BE" }))
      })
    }
    const { messages, stream } = JSON.parse(body)
    const content = answerOf(messages)
    if (stream === true) return this.stream(response, content)
    return json({
      id: "c",
      object: "chat.completion",
      created: 0,
      model: "model",
      choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content } }],
      usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
    })
  }

  private stream(response: ServerResponse, content: string): void {
    response.setHeader("Content-Type", "text/event-stream")
    const event = (delta: object, finish: string | null): string =>
      `data: ${JSON.stringify({
        id: "c",
        object: "chat.completion.chunk",
        created: 0,
        model: "model",
        choices: [{ index: 0, delta, finish_reason: finish }]
      })}\n\n`
    const bytes = Buffer.from(
      event({ role: "assistant", content: "" }, null) +
        [...content].map((letter) => event({ content: letter }, null)).join("") +
        event({}, "stop") +
        "data: [DONE]\n\n"
    )
    // In pieces of 7 bytes: characters and lines are cut anywhere.
    for (let at = 0; at < bytes.length; at += 7) response.write(bytes.subarray(at, at + 7))
    response.end()
  }
}
