/** Clients that go, model servers that break at every moment, connections used again: whoever is answered
 *  hears only what was meant for him, and nothing of a turn stays behind. What happens when is left to the
 *  sockets; what is asked for holds whenever it happens. */
import { createServer, type AddressInfo, type Socket } from "node:net"
import { expect, it } from "vitest"
import { frames, until, ChatTestServer } from "./chat-server.ts"

const permits = 6
const clients = 24
const requests = 400

it("each answer is of its own request; no turn, permit or socket stays", async () => {
  let seed = 3
  const next = (below: number): number => {
    seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff
    return (seed >> 8) % below
  }
  const later = (what: () => void): void => {
    setTimeout(what, next(3))
  }
  /** Half of them are cut short or ended a moment after they were whole. */
  const whole = (wire: Socket, word: string): void => {
    const json = JSON.stringify({
      choices: [{ message: { content: `${word} `.repeat(1 + next(200)) }, finish_reason: "stop" }]
    })
    const head = `HTTP/1.1 200 OK\r\ncontent-length: ${json.length}\r\n\r\n`
    switch (next(8)) {
      case 0:
        return void wire.destroy()
      case 1:
        wire.write(head + json.slice(0, 20))
        return later(() => wire.destroy())
      case 2:
        wire.write(head + json)
        return later(() => wire.end())
      case 3:
        return void wire.write("HTTP/1.1 503 No\r\ncontent-length: 2\r\n\r\n{}")
      default:
        wire.write(head + json.slice(0, 30))
        return later(() => wire.write(json.slice(30)))
    }
  }
  const streamed = (wire: Socket, word: string): void => {
    const text = `${`data: ${JSON.stringify({ choices: [{ delta: { content: `${word} ` } }] })}\n\n`.repeat(1 + next(40) * (next(4) === 0 ? 100 : 1))}data: ${JSON.stringify({ choices: [{ delta: {}, finish_reason: "stop" }] })}\n\ndata: [DONE]\n\n`
    const size = [17, 300, 5_000, 1_000_000][next(4)]!
    const fate = next(8)
    let at = 0
    const step = (): void => {
      for (let i = 0; i < 20 && at < text.length; i++, at += size) {
        const piece = text.slice(at, at + size)
        wire.write(`${piece.length.toString(16)}\r\n${piece}\r\n`)
      }
      if (fate === 0 && next(5) === 0) wire.destroy()
      else if (at < text.length) {
        if (wire.writable) setImmediate(step)
      } else {
        wire.write("0\r\n\r\n")
        if (fate === 1) later(() => wire.end())
      }
    }
    wire.write("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    step()
  }
  const open = new Set<Socket>()
  const models = JSON.stringify({ data: [{ id: "m" }] })
  const server = createServer((wire) => {
    let heard = ""
    open.add(wire)
    wire
      .on("error", () => {})
      .on("close", () => {
        open.delete(wire)
      })
      .on("data", (data) => {
        heard += data.toString("latin1")
        const body = /\r\n\r\n(\{.*\})$/.exec(heard)?.[1]
        const get = heard.startsWith("GET")
        if (body === undefined && !get) return
        heard = ""
        if (get) {
          wire.write(`HTTP/1.1 200 OK\r\ncontent-length: ${models.length}\r\n\r\n${models}`)
          return
        }
        const {
          stream,
          messages: [{ content }]
        } = JSON.parse(body!)
        if (stream === true) streamed(wire, content)
        else whole(wire, content)
      })
  })
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve)
  })
  const chatServer = await ChatTestServer.open({
    main: {
      base_url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
      max_concurrency: permits,
      queue_timeout_ms: 1_000_000
    },
    upstreamFirstMs: 1_000_000,
    upstreamIdleMs: 1_000_000,
    turnMs: 1_000_000
  })
  await chatServer.call("/v1/models")
  let asked = 0
  let answered = 0
  const one = async (word: string): Promise<void> => {
    const leaving = new AbortController()
    const leaves = next(5) === 0
    const stream = next(2) === 0
    if (leaves) setTimeout(() => leaving.abort(), next(12))
    const answer = await chatServer
      .ask({ stream, messages: [{ role: "user", content: word }] }, { signal: leaving.signal })
      .catch((cause: Error) => {
        if (leaves && cause.name === "AbortError") return undefined
        throw cause
      })
    if (answer === undefined) return
    if (answer.status !== 200) {
      expect([502, 503]).toContain(answer.status)
      return
    }
    const events = stream ? frames(answer.text) : []
    const said: string = stream
      ? events.map(({ data }) => data.choices?.[0]?.delta.content ?? "").join("")
      : answer.body.choices[0].message.content
    // A stream may have been committed for its long wait, and then have nothing to say but its fault.
    const mute = said === "" && stream && events.at(-2)!.data.error !== undefined
    if (!mute) expect(new Set(said.trim().split(" "))).toEqual(new Set([word]))
    if (stream)
      expect([
        events.at(-1)!.data,
        events.at(-2)!.data.error?.code ?? events.at(-2)!.data.choices[0].finish_reason
      ]).toEqual(["[DONE]", expect.stringMatching(/^(?:stop|upstream_error)$/)])
    answered++
  }
  // The clock runs ahead of the breaker's rests.
  await Promise.all(
    Array.from({ length: clients }, async () => {
      while (asked < requests) {
        chatServer.clockOffsetMs += 100
        await one(`w${asked++}x`)
      }
    })
  )
  await until(() => chatServer.metrics().includes("proxy_inflight_turns 0") && open.size <= permits + 1)
  expect(chatServer.metrics()).toContain('proxy_queue_depth{upstream="main"} 0')
  expect(answered).toBeGreaterThan(requests / 10)
  await chatServer.close()
  chatServer.upstream.close()
  server.close()
  await until(() => open.size === 0)
})
