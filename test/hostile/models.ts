/** The outside world of a hostile run, in a process of its own: a chat model and a translation service that cost
 *  little. They answer by the rules of test/shipped/model-server.ts: capitals, and the last message backwards. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"

/** Asks for an answer of megabytes, for clients that never read it. */
export const endless = "without end"

const endlessWords = 20_000

export const backwards = (text: string): string => [...text].toReversed().join("")

const languages = (isSource: boolean): ReadonlyArray<object> =>
  (isSource ? ["BE", "MK"] : ["DE", "EN-US"]).map((language) => ({ language, name: language }))

const send = (response: ServerResponse, value: object): void => {
  response.setHeader("Content-Type", "application/json")
  response.end(JSON.stringify(value))
}

const event = (delta: object, finish: string | null): string =>
  `data: ${JSON.stringify({
    id: "c",
    object: "chat.completion.chunk",
    created: 0,
    model: "model",
    choices: [{ index: 0, delta, finish_reason: finish }]
  })}\n\n`

const stream = async (response: ServerResponse, content: string): Promise<void> => {
  response.setHeader("Content-Type", "text/event-stream")
  response.write(event({ role: "assistant", content: "" }, null))
  const words = content.startsWith(backwards(endless))
    ? Array.from({ length: endlessWords }, () => "word ")
    : content.split(/(?<= )/)
  let goOn = (): void => {}
  response.on("drain", () => goOn())
  response.on("close", () => goOn())
  for (const word of words) {
    if (response.destroyed) return
    if (!response.write(event({ content: word }, null)))
      await new Promise<void>((resolve) => {
        goOn = resolve
      })
  }
  response.end(`${event({}, "stop")}data: [DONE]\n\n`)
}

const answerOf = (messages: ReadonlyArray<{ readonly content: string | ReadonlyArray<any> }>): string => {
  const { content } = messages.at(-1)!
  const text = typeof content === "string" ? content : content.map((part) => part.text ?? "").join("")
  return JSON.stringify(messages[0]!.content).includes("Translate every string")
    ? JSON.stringify((JSON.parse(text) as ReadonlyArray<string>).map((one) => one.toUpperCase()))
    : backwards(text)
}

const answer = (request: IncomingMessage, response: ServerResponse, body: string): void => {
  const { pathname, searchParams } = new URL(request.url!, "http://localhost")
  if (pathname === "/v2/languages") return send(response, languages(searchParams.get("type") === "source"))
  if (pathname === "/v1/models")
    return send(response, { object: "list", data: [{ id: "model", object: "model" }] })
  const asked = JSON.parse(body)
  if (pathname === "/v2/translate")
    return send(response, {
      translations: asked.text.map((text: string) => ({
        text: text.toUpperCase(),
        detected_source_language: "BE"
      }))
    })
  const content = answerOf(asked.messages)
  if (asked.stream === true) {
    void stream(response, content)
    return
  }
  send(response, {
    id: "c",
    object: "chat.completion",
    created: 0,
    model: "model",
    choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content } }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
  })
}

/** Resolves with its port. */
export const openModels = (): Promise<number> => {
  const server = createServer((request, response) => {
    const parts: Array<Buffer> = []
    request.on("data", (part: Buffer) => parts.push(part))
    request.on("end", () => answer(request, response, Buffer.concat(parts).toString()))
    request.on("error", () => {})
    response.on("error", () => {})
  })
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => resolve((server.address() as AddressInfo).port))
  })
}

/** The environment of a program whose outside world this is; the upstream `down` is not there. */
export const worldOf = (port: number): Record<string, string> => ({
  APERTIUM: "off",
  ENGINES_TRANSLATE: "deepl,openai",
  DEEPL_UPSTREAM_URL: `http://127.0.0.1:${port}`,
  DEEPL_UPSTREAM_KEY: "key",
  OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1`,
  OPENAI_API_KEY: "key",
  OPENAI_MODEL: "model",
  UPSTREAMS: JSON.stringify([
    { id: "local", kind: "embedded" },
    { id: "main", kind: "openai-chat", base_url: `http://127.0.0.1:${port}/v1` },
    { id: "down", kind: "openai-chat", base_url: "http://127.0.0.1:9/v1" }
  ]),
  STT_MAX_SESSIONS: "4"
})
