/** Generates chat load over raw sockets. `stream`: a fixed number of streams at once, opened again as they
 *  end; the latency of each word counts from the time it carries. `whole`: a closed loop, in which each
 *  connection sends its next request when the answer has arrived. `paced`: an open loop, in which each
 *  connection sends 100 requests a second, and latency counts from the intended time. node load-chat.js PORT
 *  CONNECTIONS SECONDS stream|whole|paced [UPSTREAM_PORT, for gateways that read it from headers] */
import net from "node:net"
import { newHistogram, nowMs, percentileMs, recordMs } from "../load/latencies.ts"

const [, , port, connections, seconds, mode, upstream] = process.argv

const histogram = newHistogram()

const body = JSON.stringify({
  model: "m",
  ...(mode === "stream" ? { stream: true } : {}),
  messages: [{ role: "user", content: "Say something long. ".repeat(mode === "stream" ? 2 : 50) }]
})

const request = `POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Type: application/json\r\nAuthorization: Bearer sk-test\r\n${upstream === undefined ? "" : `x-portkey-provider: openai\r\nx-portkey-custom-host: http://127.0.0.1:${upstream}/v1\r\n`}Content-Length: ${body.length}\r\n\r\n${body}`
let recording = false
let units = 0
let recorded = 0
let wrong = 0
const stampAt = Buffer.from("t=")

const streaming = (wire: net.Socket): void => {
  let rest: Buffer | undefined
  let fresh = true
  wire.on("connect", () => wire.write(request))
  wire.on("data", (received) => {
    const data = rest === undefined ? received : Buffer.concat([rest, received])
    const at = nowMs()
    rest = undefined
    if (fresh) {
      fresh = false
      if (data.toString("latin1", 9, 12) !== "200") wrong++
    }
    for (let i = data.indexOf(stampAt); i >= 0; i = data.indexOf(stampAt, i + 2)) {
      const end = data.indexOf(32, i)
      if (end < 0) {
        rest = data.subarray(i)
        break
      }
      units++
      if (recording) {
        recorded++
        recordMs(histogram, at - Number(data.toString("latin1", i + 2, end)))
      }
    }
    if (data.includes("[DONE]")) {
      fresh = true
      rest = undefined
      wire.write(request)
    }
  })
}

const lateness = newHistogram()

const paceMs = 10

/** Requests whole answers, one at a time on a connection. */
const closed = (wire: net.Socket): void => {
  let sentAt = 0
  let pending = ""
  let busy = false
  let dueMs = 0
  const send = (): void => {
    busy = true
    sentAt = nowMs()
    wire.write(request)
  }
  /** Sends a request when it is due, and late only if the previous answer was late. It spins through the last
   *  millisecond, because timers are not that precise. */
  const pace = (inTime: boolean): void => {
    const left = dueMs - nowMs()
    if (left > 1) {
      setTimeout(pace, left - 1, true)
      return
    }
    while (nowMs() < dueMs);
    if (recording && inTime) recordMs(lateness, nowMs() - dueMs)
    send()
    sentAt = dueMs
  }
  wire.on("connect", () => {
    if (mode === "paced") {
      dueMs = nowMs() + paceMs
      pace(true)
    } else send()
  })
  wire.on("data", (data) => {
    pending += data.toString("latin1")
    const end = pending.indexOf("\r\n\r\n")
    if (end < 0 || !busy) return
    const length = /content-length: (\d+)/i.exec(pending.slice(0, end + 2))?.[1]
    if (length === undefined ? !pending.endsWith("\r\n0\r\n\r\n") : pending.length < end + 4 + Number(length))
      return
    busy = false
    if (!pending.startsWith("HTTP/1.1 200") || !pending.includes("lazy dog")) wrong++
    pending = ""
    units++
    if (recording) {
      recorded++
      recordMs(histogram, nowMs() - sentAt)
    }
    if (mode !== "paced") return send()
    dueMs += paceMs
    pace(nowMs() < dueMs)
  })
}

for (let i = 0; i < Number(connections); i++) {
  const wire = net.connect(Number(port), "127.0.0.1")
  wire.setNoDelay(true)
  wire.on("error", () => {
    wrong++
  })
  if (mode === "stream") streaming(wire)
  else closed(wire)
}

await new Promise((resolve) => setTimeout(resolve, Math.min(1_000, Number(seconds) * 500)))

/** How long the first answer may take, in ms: a busy machine may be slow to begin, and nothing is measured
 *  before it. */
const firstMsMax = 20_000

const waitForMoreThan = async (count: number): Promise<void> => {
  for (const until = nowMs() + firstMsMax; units <= count && nowMs() < until;)
    await new Promise((resolve) => setTimeout(resolve, 10))
}

await waitForMoreThan(0)
console.log("connected")
recording = true
const from = nowMs()
const before = units
await new Promise((resolve) => setTimeout(resolve, Number(seconds) * 1_000))
await waitForMoreThan(before)
recording = false
const elapsed = (nowMs() - from) / 1_000

console.log(
  JSON.stringify({
    perSecond: recorded / elapsed,
    all: units - before,
    wrong,
    p50Ms: percentileMs(histogram, 50),
    p99Ms: percentileMs(histogram, 99),
    lateP99Ms: percentileMs(lateness, 99)
  })
)

process.exit(0)
