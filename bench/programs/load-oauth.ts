/** Generates a closed loop of one kind of authorization request over raw keep-alive sockets; the server's
 *  /seed supplies path, tokens and the text that an answer must contain. A refresh connection is a chain: it
 *  sends the newest token it received. It continues beyond SECONDS until ANSWERS have arrived, so that a busy
 *  machine makes it longer but not less exact. node load-oauth.js PORT AUTHORIZATION CONNECTIONS SECONDS KIND
 *  ANSWERS */
import net from "node:net"
import { newHistogram, percentileMs, recordMs } from "../load/latencies.ts"
import type { Seeds } from "../candidates/oauth/shared.ts"

const [, , port, authorization, connections, seconds, kind, answers] = process.argv

const histogram = newHistogram()

let recording = false
let answered = 0
let all = 0
let wrong = 0
const waitMsMax = 60_000
const wrongs = new Set<string>()

const { path, tokens, expect } = (await (
  await fetch(`http://127.0.0.1:${port}/seed?of=${kind}&n=${connections}`)
).json()) as Seeds

const head = `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: ${authorization}\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: `

const bodyOf = (token: string): string => {
  if (kind === "refresh") return `grant_type=refresh_token&refresh_token=${token}`
  return kind === "client-credentials" ? "grant_type=client_credentials&scope=read" : `token=${token}`
}

const memberOf = (body: string, name: string): string =>
  new RegExp(`"${name}":"([^"]+)"`).exec(body)?.[1] ?? ""

for (let i = 0; i < Number(connections); i++) {
  const wire = net.connect(Number(port), "127.0.0.1")
  wire.setNoDelay(true)
  let token = tokens[i % tokens.length]!
  let before = ""
  let sentAt = 0
  let pending = ""
  const send = (): void => {
    const body = bodyOf(token)
    sentAt = performance.now()
    wire.write(`${head}${body.length}\r\n\r\n${body}`)
  }
  /** True when the answer is correct: tokens must be new each time, and an introspection must contain the
   *  expected text. */
  const isRight = (status: string, body: string): boolean => {
    if (status !== "200" || !body.includes(expect)) return false
    if (kind === "introspect-opaque" || kind === "introspect-jwt") return true
    const access = memberOf(body, "access_token")
    const next = memberOf(body, "refresh_token")
    if (
      access === before ||
      access.split(".").length !== 3 ||
      (kind === "refresh" && (next === "" || next === token))
    )
      return false
    before = access
    token = next
    return true
  }
  wire.on("connect", send)
  wire.on("error", () => {
    wrong++
  })
  wire.on("close", () => {
    wrong++
  })
  wire.on("data", (data) => {
    pending += data.toString("latin1")
    const end = pending.indexOf("\r\n\r\n")
    if (end < 0) return
    const length = Number(/content-length: (\d+)/i.exec(pending)?.[1] ?? NaN)
    if (Number.isNaN(length)) throw new Error("an answer without Content-Length")
    if (pending.length < end + 4 + length) return
    const status = pending.slice(9, 12)
    const body = pending.slice(end + 4)
    pending = ""
    all++
    if (recording) {
      answered++
      recordMs(histogram, performance.now() - sentAt)
    }
    // A broken chain stays broken: it would only repeat its fault.
    if (isRight(status, body)) send()
    else {
      wrong++
      wrongs.add(`${status} ${body.slice(0, 200)}`)
    }
  })
}

await new Promise((resolve) => setTimeout(resolve, Math.min(1_000, Number(seconds) * 300)))
recording = true
const startedMs = performance.now()
const cpu = process.cpuUsage()

for (
  const until = startedMs + Number(seconds) * 1_000, latest = until + waitMsMax;
  performance.now() < until || (answered < Number(answers) && performance.now() < latest);
)
  await new Promise((resolve) => setTimeout(resolve, 20))

if (answered < Number(answers)) wrongs.add(`only ${answered} answers`)
recording = false
const elapsed = (performance.now() - startedMs) / 1_000
const used = process.cpuUsage(cpu)
for (const text of wrongs) console.error(text)

console.log(
  JSON.stringify({
    perSecond: answered / elapsed,
    all,
    wrong: wrong + wrongs.size,
    p50Ms: percentileMs(histogram, 50),
    p99Ms: percentileMs(histogram, 99),
    loadBusy: (used.user + used.system) / 1e6 / elapsed
  })
)

process.exit(0)
