/** A model server that costs little. It sends whole answers, or streams of TOKENS words at RATE a second
 *  each, and every word carries the time at which it was sent: node chat-upstream.js RATE TOKENS. It prints
 *  its port. */
import type uWS from "uWebSockets.js"
import { loadLibrary } from "../../runtime/transport/uws-library.ts"

const { App, us_socket_local_port } = loadLibrary()
const [rate, tokens] = process.argv.slice(2).map(Number) as [number, number]
const now = (): number => Number(process.hrtime.bigint()) / 1e6

const whole = JSON.stringify({
  id: "chatcmpl-0123456789abcdef",
  object: "chat.completion",
  created: 1_800_000_000,
  model: "m",
  choices: [
    {
      index: 0,
      message: { role: "assistant", content: "The quick brown fox jumps over the lazy dog. ".repeat(6) },
      finish_reason: "stop"
    }
  ],
  usage: { prompt_tokens: 12, completion_tokens: 60, total_tokens: 72 }
})

const chunk = (content: string, finish: string | null = null): string =>
  `data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1800000000,"model":"m","choices":[{"index":0,"delta":${finish === null ? `{"content":"${content}"}` : "{}"},"logprobs":null,"finish_reason":${JSON.stringify(finish)}}]}\n\n`

/** A stream that has words left. */
interface OpenStream {
  readonly res: uWS.HttpResponse
  left: number
  aborted: boolean
}

const slots: ReadonlyArray<Set<OpenStream>> = Array.from(
  { length: Math.max(1, Math.round(1_000 / rate)) },
  () => new Set<OpenStream>()
)

let next = 0
let wheel = Math.floor(now())

setInterval(() => {
  for (const until = Math.floor(now()); wheel < until; wheel++) {
    const slot = slots[wheel % slots.length]!
    for (const stream of slot) {
      if (stream.aborted) {
        slot.delete(stream)
        continue
      }
      stream.res.cork(() => {
        if (--stream.left > 0) {
          stream.res.write(chunk(` t=${now().toFixed(3)} `))
          return
        }
        stream.res.end(`${chunk("", "stop")}data: [DONE]\n\n`)
        slot.delete(stream)
      })
    }
  }
}, 1)

App()
  .get("/v1/models", (res) => {
    res
      .writeHeader("content-type", "application/json")
      .end(JSON.stringify({ object: "list", data: [{ id: "m" }] }))
  })
  .post("/v1/chat/completions", (res) => {
    let body = ""
    const stream: OpenStream = { res, left: tokens, aborted: false }
    res.onAborted(() => {
      stream.aborted = true
    })
    res.onData((part, last) => {
      body += Buffer.from(part).toString("latin1")
      if (!last) return
      res.cork(() => {
        if (!body.includes('"stream":true')) {
          res.writeHeader("content-type", "application/json").end(whole)
          return
        }
        res.writeHeader("content-type", "text/event-stream").write("")
        slots[next]!.add(stream)
        next = (next + 1) % slots.length
      })
    })
  })
  .listen("127.0.0.1", 0, (token) => console.log(us_socket_local_port(token as never)))
