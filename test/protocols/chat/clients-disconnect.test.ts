/** Ten thousand clients that go in the middle: what they had of the model server is let go each time, and
 *  nothing of them stays. */
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { afterAll, beforeAll, expect, it } from "vitest"
import { completion, textStream } from "./fake-upstream.ts"
import { until, ChatTestServer } from "./chat-server.ts"

const clients = 10_000
const together = 100
const permits = 60

const answerOf = (json: string): string =>
  `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(json)}\r\n\r\n${json}`

const begun = (() => {
  const event = `data: ${JSON.stringify(textStream("word")[1])}\n\n`
  return `HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n${event.length.toString(16)}\r\n${event}\r\n`
})()

/** A model server that begins and never ends: bytes only, so that it costs little and keeps nothing. */
let server: Server

let chatServer: ChatTestServer

/** `calling`: with a request that is not answered. */
const open = new Set<Socket>()

const calling = new Set<Socket>()
let asked = 0
let answers = false

beforeAll(async () => {
  server = createServer((wire) => {
    open.add(wire)
    let heard = ""
    wire
      .on("error", () => {})
      .on("close", () => {
        open.delete(wire)
        calling.delete(wire)
      })
      .on("data", (data) => {
        heard += data.toString("latin1")
        if (heard.startsWith("GET")) {
          heard = ""
          wire.write(answerOf(JSON.stringify({ data: [{ id: "m" }] })))
          return
        }
        if (!heard.endsWith("}")) return
        asked++
        if (answers) wire.write(answerOf(JSON.stringify(completion("still here"))))
        else {
          calling.add(wire)
          if (heard.includes('"stream":true')) wire.write(begun)
        }
        heard = ""
      })
  })
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve)
  })
  chatServer = await ChatTestServer.open({
    main: {
      base_url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
      max_concurrency: permits
    }
  })
})

afterAll(async () => {
  await chatServer.close()
  chatServer.upstream.close()
  for (const wire of open) wire.destroy()
  server.close()
})

const metric = (pattern: RegExp): number => Number(pattern.exec(chatServer.metrics())?.[1] ?? 0)

const disconnectedCount = (): number =>
  metric(/proxy_turns_total\{upstream="main",model="m",outcome="client_disconnect"\} (\d+)/)

const inFlight = (): number => metric(/proxy_inflight_turns (\d+)/)
const queued = (): number => metric(/proxy_queue_depth\{upstream="main"\} (\d+)/)

const requestOf = (path: string, body: object): string => {
  const text = JSON.stringify(body)
  return `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`
}

const messages = [{ role: "user", content: "x".repeat(500) }]

const requests = [
  requestOf("/v1/chat/completions", { model: "main/m", stream: true, messages }),
  requestOf("/v1/chat/completions", { model: "main/m", messages }),
  requestOf("/v1/responses", { model: "main/m", store: false, stream: true, input: "x" })
]

/** Some hold permits, some wait for one; all go at once, most by a reset, some by a plain end. */
const wave = async (count: number, from: number): Promise<void> => {
  const before = disconnectedCount()
  const askedBefore = asked
  const wires = Array.from({ length: count }, (_, i) =>
    connect(chatServer.server.port, "127.0.0.1")
      .on("error", () => {})
      .on("data", () => {})
      .on("connect", function (this: Socket) {
        this.write(requests[(from + i) % requests.length]!)
      })
  )
  await until(() => inFlight() === count && queued() === count - permits && asked === askedBefore + permits)
  expect(calling.size).toBe(permits)
  for (const [i, wire] of wires.entries())
    if (i % 10 === 0) wire.destroy()
    else wire.resetAndDestroy()
  await until(() => inFlight() === 0)
  expect([disconnectedCount() - before, queued()]).toEqual([count, 0])
}

const heapBytes = (): number => {
  setFlagsFromString("--expose-gc")
  const collect = runInNewContext("gc") as () => void
  collect()
  collect()
  return process.memoryUsage().heapUsed
}

it(`CHAT-43 ${clients.toLocaleString("en")} clients that go: every upstream call aborted, every permit back, no socket, deadline or heap left behind`, async () => {
  let left = clients
  for (; left > clients * 0.8; left -= together) await wave(together, left)
  await until(() => calling.size === 0)
  const before = heapBytes()
  for (; left > 0; left -= together) await wave(together, left)
  await until(() => calling.size === 0)
  // What is open still is idle and waits for its next call: those which were asked for the list, or connected
  // for a client that had gone already.
  expect(open.size).toBeLessThanOrEqual(permits)
  // Those who waited for a permit may have had one for a moment while the others went, nobody twice.
  expect(asked).toBeLessThanOrEqual(clients)
  expect(disconnectedCount()).toBe(clients)
  // 8,000 clients: a kilobyte kept of each would be 8 MB.
  expect(heapBytes() - before).toBeLessThan(4 * 1_048_576)
  const details = (await chatServer.call("/health/details")).body
  expect(details.upstreams[0]).toMatchObject({ breaker: "closed", in_flight: 0, queued: 0 })
  expect(details.turns).toEqual({ in_flight: 0, queued: 0 })
  // Every permit is there: as many as there are can be had at once, and nobody waits.
  answers = true
  const said = await Promise.all(Array.from({ length: permits }, () => chatServer.ask()))
  expect(said.map(({ body }) => body.choices[0].message.content)).toEqual(
    Array.from({ length: permits }, () => "still here")
  )
}, 120_000)
