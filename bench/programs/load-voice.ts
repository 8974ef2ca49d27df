/** Generates an open loop over raw WebSockets: each of N sessions sends a JSON audio chunk at fixed times;
 *  the latency of an update counts from the intended time of the chunk that caused it. node load-voice.js
 *  PORT SESSIONS RATE BYTES SECONDS PATH(with {} for the number) */
import net from "node:net"
import { newHistogram, nowMs, percentileMs, recordMs } from "../load/latencies.ts"

const [, , port, sized, rated, sized2, seconds, path] = process.argv
const sessions = Number(sized)
const rate = Number(rated)
const bytes = Number(sized2)

const latency = newHistogram()
const lateness = newHistogram()
let updates = 0
let recording = false
let errors = 0

/** Frames a text with the mask key zero, so that the bytes are sent as they were built. */
const frame = (text: string): Buffer => {
  const body = Buffer.from(text, "latin1")
  const long = body.length > 65_535
  const head = Buffer.alloc(long ? 14 : 8)
  head[0] = 0x81
  head[1] = 0x80 | (long ? 127 : 126)
  if (long) head.writeBigUInt64BE(BigInt(body.length), 2)
  else head.writeUInt16BE(body.length, 2)
  return Buffer.concat([head, body])
}

const pcm = Buffer.alloc(bytes)
for (let i = 0; i < bytes / 2; i++) pcm.writeInt16LE(Math.round(8_000 * Math.sin(i / 7)), 2 * i)

const chunkOf = (at: number): Buffer => {
  pcm.writeDoubleLE(at, 0)
  return frame(`{"source_media_chunk":{"data":"${pcm.toString("base64")}"}}`)
}

const open = (i: number): Promise<net.Socket> =>
  new Promise((resolve, reject) => {
    const wire = net.connect(Number(port), "127.0.0.1")
    let rest: Buffer = Buffer.alloc(0)
    let ready = false
    wire.setNoDelay(true)
    wire.on("error", (cause) => {
      errors++
      reject(cause)
    })
    wire.on("close", () => {
      if (ready) errors++
    })
    wire.on("connect", () =>
      wire.write(
        `GET ${path!.replace("{}", String(i))} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n`
      )
    )
    wire.on("data", (data: Buffer) => {
      let all = rest.length === 0 ? data : Buffer.concat([rest, data])
      let at = 0
      if (!ready) {
        const end = all.indexOf("\r\n\r\n")
        if (end < 0) {
          rest = all
          return
        }
        if (!all.subarray(0, 12).toString().includes("101")) {
          errors++
          return reject(new Error(all.toString("latin1", 0, 200)))
        }
        ready = true
        at = end + 4
        resolve(wire)
      }
      while (all.length - at >= 2) {
        let length = all[at + 1]! & 127
        let head = 2
        if (length === 126) {
          if (all.length - at < 4) break
          length = all.readUInt16BE(at + 2)
          head = 4
        }
        if (all.length - at < head + length) break
        const op = all[at]! & 15
        if (op === 9)
          wire.write(
            Buffer.concat([
              Buffer.from([0x8a, 0x80 | length, 0, 0, 0, 0]),
              all.subarray(at + head, at + head + length)
            ])
          )
        else if (op === 1) {
          const stamp = all.indexOf("t=", at + head)
          if (stamp > 0 && stamp < at + head + length) {
            updates++
            if (recording)
              recordMs(latency, nowMs() - parseFloat(all.toString("latin1", stamp + 2, stamp + 26)))
          } else if (all.toString("latin1", at + head, at + head + length).includes("error")) errors++
        } else if (op === 8) errors++
        at += head + length
      }
      rest = at < all.length ? Buffer.from(all.subarray(at)) : Buffer.alloc(0)
      all = rest
    })
  })

const wires: Array<net.Socket> = []

for (let i = 0; i < sessions; i += 50)
  wires.push(
    ...(await Promise.all(Array.from({ length: Math.min(50, sessions - i) }, (_, j) => open(i + j))))
  )

await new Promise((resolve) => setTimeout(resolve, 300))
console.log("connected")

const warmMs = 1_000
const step = 1_000 / rate / sessions
const startedMs = nowMs() + 50
const endMs = startedMs + warmMs + Number(seconds) * 1_000
let sent = 0
let from = 0

await new Promise<void>((resolve) => {
  const tick = (): void => {
    const t = nowMs()
    if (!recording && t >= startedMs + warmMs) {
      recording = true
      from = sent
    }
    if (t >= endMs) return resolve()
    for (
      let due = startedMs + sent * step, burst = 0;
      due <= t && burst < 4_000;
      due = startedMs + sent * step, burst++
    ) {
      wires[sent % sessions]!.write(chunkOf(due))
      if (recording) recordMs(lateness, t - due)
      sent++
    }
    setTimeout(tick, 1)
  }
  setTimeout(tick, 50)
})

const expected = Math.floor((sent * bytes) / 6_400)

for (let waited = 0; waited < 2_000 && updates < expected - sessions; waited += 50)
  await new Promise((resolve) => setTimeout(resolve, 50))

console.log(
  JSON.stringify({
    sent,
    measured: sent - from,
    updates,
    expected,
    errors,
    p50Ms: percentileMs(latency, 50),
    p99Ms: percentileMs(latency, 99),
    lateP99Ms: percentileMs(lateness, 99)
  })
)

process.exit(0)
