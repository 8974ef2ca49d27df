/** Generates a closed loop over raw keep-alive sockets: each connection sends its next request when the
 *  answer has arrived, and every answer is checked. node load-http.js PORT KEY CONNECTIONS SECONDS
 *  hit|miss|same|store-list|store-read|store-create */
import net from "node:net"
import { newHistogram, percentileMs, recordMs } from "../load/latencies.ts"

const [, , port, key, connections, seconds, mode] = process.argv

const histogram = newHistogram()

let recording = false
let answered = 0
let all = 0
let wrong = 0
let next = 0
const sentence = "Hello, world! The quick brown fox jumps over the lazy dog."

const storeRequest = (): { readonly bytes: string; readonly text: string } => {
  const head = `Host: localhost:${port}\r\nX-STORE-Auth-Token: ${key}\r\nUser-Agent: bench\r\n`
  const n = next++
  if (mode === "store-list")
    return { text: '"total_count":', bytes: `GET /api/v1/products.json?count=25 HTTP/1.1\r\n${head}\r\n` }
  const id = 1 + (n % 1_000)
  if (mode === "store-read")
    return {
      text: `"id":${id},`,
      bytes: `GET /api/v1/products/${id} HTTP/1.1\r\n${head}Cache-Control: no-store\r\n\r\n`
    }
  const body = JSON.stringify({
    item_name: `Bench product ${n}`,
    item_number: `B-${process.pid}-${n}`,
    product_status_id: 1,
    primary_category_id: 1,
    price: 3.5
  })
  return {
    text: `Bench product ${n}"`,
    bytes: `POST /api/v1/products HTTP/1.1\r\n${head}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  }
}

/** Returns the next text: one of a thousand in turn, one that was never sent before, or always the same. */
const nextText = (): string => {
  if (mode === "same") return sentence
  return `${sentence} ${mode === "hit" ? next++ % 1_000 : next++}`
}

const requestOf = (): { readonly bytes: string; readonly text: string } => {
  if (mode!.startsWith("store-")) return storeRequest()
  const text = nextText()
  const body = JSON.stringify({ text: [text], target_lang: "DE" })
  return {
    text,
    bytes: `POST /v2/translate HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: DeepL-Auth-Key ${key}\r\nUser-Agent: bench\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  }
}

for (let i = 0; i < Number(connections); i++) {
  const wire = net.connect(Number(port), "127.0.0.1")
  wire.setNoDelay(true)
  let sent = requestOf()
  let sentAt = 0
  let pending = ""
  const send = (): void => {
    sent = requestOf()
    sentAt = performance.now()
    wire.write(sent.bytes)
  }
  wire.on("connect", send)
  wire.on("error", () => {
    wrong++
  })
  wire.on("data", (data) => {
    pending += data.toString("latin1")
    const end = pending.indexOf("\r\n\r\n")
    if (end < 0) return
    const length = Number(/content-length: (\d+)/i.exec(pending)?.[1] ?? 0)
    if (pending.length < end + 4 + length) return
    if (!/^HTTP\/1\.1 20[01]/.test(pending) || !pending.includes(sent.text)) wrong++
    pending = ""
    all++
    if (recording) {
      answered++
      recordMs(histogram, performance.now() - sentAt)
    }
    send()
  })
}

await new Promise((resolve) => setTimeout(resolve, Math.min(1_000, Number(seconds) * 300)))
recording = true
const startedMs = performance.now()
const cpu = process.cpuUsage()
await new Promise((resolve) => setTimeout(resolve, Number(seconds) * 1_000))
recording = false
const elapsed = (performance.now() - startedMs) / 1_000
const used = process.cpuUsage(cpu)

console.log(
  JSON.stringify({
    perSecond: answered / elapsed,
    all,
    wrong,
    p50Ms: percentileMs(histogram, 50),
    p99Ms: percentileMs(histogram, 99),
    loadBusy: (used.user + used.system) / 1e6 / elapsed
  })
)

process.exit(0)
