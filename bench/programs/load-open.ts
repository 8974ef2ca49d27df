/** Generates an open loop over raw keep-alive sockets: requests arrive at a fixed rate whatever the server
 *  does. Latency counts from the intended time, so a stalled server is charged for the queue that it caused;
 *  the load side's own lateness is reported beside it. node load-open.js PORT KEY CONNECTIONS SECONDS RATE */
import net from "node:net"
import { newHistogram, nowMs, percentileMs, recordMs } from "../load/latencies.ts"

const [, , port, key, ...numbers] = process.argv
const [connections, seconds, rate] = numbers.map(Number) as [number, number, number]

const latency = newHistogram()
const lateness = newHistogram()
const text = "Hello, world! The quick brown fox jumps over the lazy dog."
const body = JSON.stringify({ text: [text], target_lang: "DE" })
const request = `POST /v2/translate HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: DeepL-Auth-Key ${key}\r\nUser-Agent: bench\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
const warmMs = seconds * 500
let wrong = 0
let answered = 0
let recorded = 0
let queueMax = 0
let recordFrom = Infinity

interface Wire {
  readonly socket: net.Socket
  pending: string
  intendedMs: number
}

const free: Array<Wire> = []
const queue: Array<number> = []

const send = (wire: Wire, intendedMs: number): void => {
  wire.intendedMs = intendedMs
  wire.socket.write(request)
}

const open = (): Promise<void> =>
  new Promise((resolve) => {
    const socket = net.connect(Number(port), "127.0.0.1")
    const wire: Wire = { socket, pending: "", intendedMs: 0 }
    socket.setNoDelay(true)
    socket.on("error", () => {
      wrong++
    })
    socket.on("connect", () => {
      free.push(wire)
      resolve()
    })
    socket.on("data", (data) => {
      wire.pending += data.toString("latin1")
      const end = wire.pending.indexOf("\r\n\r\n")
      if (
        end < 0 ||
        wire.pending.length < end + 4 + Number(/content-length: (\d+)/i.exec(wire.pending)?.[1] ?? 0)
      )
        return
      if (!wire.pending.startsWith("HTTP/1.1 200") || !wire.pending.includes(text)) wrong++
      wire.pending = ""
      answered++
      if (wire.intendedMs >= recordFrom) {
        recorded++
        recordMs(latency, nowMs() - wire.intendedMs)
      }
      const next = queue.shift()
      if (next === undefined) free.push(wire)
      else send(wire, next)
    })
  })

await Promise.all(Array.from({ length: connections }, open))
console.log("connected")
const startedMs = nowMs() + 20
const endMs = startedMs + warmMs + seconds * 1_000
recordFrom = startedMs + warmMs
let arrivals = 0

await new Promise<void>((resolve) => {
  const tick = (): void => {
    const at = nowMs()
    if (at >= endMs) return resolve()
    for (
      let due = startedMs + (arrivals * 1_000) / rate;
      due <= at;
      due = startedMs + (++arrivals * 1_000) / rate
    ) {
      if (due >= recordFrom) recordMs(lateness, at - due)
      const wire = free.pop()
      if (wire === undefined) {
        queue.push(due)
        queueMax = Math.max(queueMax, queue.length)
      } else send(wire, due)
    }
    setImmediate(tick)
  }
  tick()
})

const drainMsMax = 5_000

for (let waited = 0; waited < drainMsMax && answered + wrong < arrivals; waited += 10)
  await new Promise((resolve) => setTimeout(resolve, 10))

console.log(
  JSON.stringify({
    all: answered,
    recorded,
    wrong: wrong + Math.max(0, arrivals - answered - wrong),
    queueMax,
    p50Ms: percentileMs(latency, 50),
    p99Ms: percentileMs(latency, 99),
    lateP99Ms: percentileMs(lateness, 99)
  })
)

process.exit(0)
