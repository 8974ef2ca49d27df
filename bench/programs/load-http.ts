/** Closed loop over raw keep-alive sockets: each connection sends its next request when the answer is in, every answer is checked.
 *  node load-http.js PORT KEY CONNECTIONS SECONDS hit|miss|same */
import { build } from "hdr-histogram-js"
import net from "node:net"

const [, , port, key, connections, seconds, mode] = process.argv
const histogram = build({ lowestDiscernibleValue: 1, highestTrackableValue: 60_000_000, numberOfSignificantValueDigits: 3 })
let recording = false, answered = 0, all = 0, wrong = 0, next = 0
const sentence = "Hello, world! The quick brown fox jumps over the lazy dog."
const requestOf = (): { readonly bytes: string; readonly text: string } => {
  const text = mode === "same" ? sentence : mode === "hit" ? `${sentence} ${next++ % 1_000}` : `${sentence} ${next++}`
  const body = JSON.stringify({ text: [text], target_lang: "DE" })
  return { text, bytes: `POST /v2/translate HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: DeepL-Auth-Key ${key}\r\nUser-Agent: bench\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}` }
}
for (let i = 0; i < Number(connections); i++) {
  const wire = net.connect(Number(port), "127.0.0.1")
  wire.setNoDelay(true)
  let sent = requestOf(), sentAt = 0, pending = ""
  const send = (): void => { sent = requestOf(); sentAt = performance.now(); wire.write(sent.bytes) }
  wire.on("connect", send)
  wire.on("error", () => { wrong++ })
  wire.on("data", (data) => {
    pending += data.toString("latin1")
    const end = pending.indexOf("\r\n\r\n")
    if (end < 0) return
    const length = Number(/content-length: (\d+)/i.exec(pending)?.[1] ?? 0)
    if (pending.length < end + 4 + length) return
    if (!pending.startsWith("HTTP/1.1 200") || !pending.includes(sent.text)) wrong++
    pending = ""
    all++
    if (recording) { answered++; histogram.recordValue(Math.max(1, Math.round((performance.now() - sentAt) * 1_000))) }
    send()
  })
}
await new Promise((resolve) => setTimeout(resolve, Math.min(1_000, Number(seconds) * 300)))
recording = true
const startedMs = performance.now(), cpu = process.cpuUsage()
await new Promise((resolve) => setTimeout(resolve, Number(seconds) * 1_000))
recording = false
const elapsed = (performance.now() - startedMs) / 1_000, used = process.cpuUsage(cpu)
console.log(JSON.stringify({ perSecond: answered / elapsed, all, wrong, p50Ms: histogram.getValueAtPercentile(50) / 1_000, p99Ms: histogram.getValueAtPercentile(99) / 1_000, loadBusy: (used.user + used.system) / 1e6 / elapsed }))
process.exit(0)
