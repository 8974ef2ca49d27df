/** Serves voice sessions by hand: it decodes a chunk, puts it into a ring, and sends an update per 200 ms of
 *  audio. */
import { createRequire } from "node:module"
import type { AddressInfo } from "node:net"
import type { WebSocketServer as Ws } from "ws"
import { announce } from "./announce.ts"
import { stampOf } from "./chunk-stamp.ts"
import { loadLibrary } from "../../../runtime/transport/uws-library.ts"

const require = createRequire(import.meta.url)
const updateBytes = 6_400

const update = (stamp: number, n: number): string =>
  JSON.stringify({
    source_transcript_update: {
      concluded: [],
      tentative: [
        {
          language: "en",
          text: `t=${stamp} the quick brown fox jumps over the lazy dog`,
          start_time: n * 200,
          end_time: n * 200 + 200
        }
      ]
    }
  })

type Receive = (message: Buffer, send: (text: string) => void) => void

const newReceiver = (): Receive => {
  const ring = Buffer.alloc(16_384)
  let end = 0
  let pendingBytes = 0
  let updates = 0
  return (message, send) => {
    const chunk = JSON.parse(message.toString("latin1"))
    const data = Buffer.from(chunk.source_media_chunk.data, "base64")
    if (end + data.length > ring.length) end = 0
    data.copy(ring, end)
    end += data.length
    pendingBytes += data.length
    if (pendingBytes >= updateBytes) {
      pendingBytes -= updateBytes
      send(update(stampOf(new Uint8Array(data)), updates++))
    }
  }
}

export const voiceUws = (): void => {
  const { App, us_socket_local_port } = loadLibrary()
  App()
    .ws<{ receive: Receive }>("/*", {
      compression: 0,
      maxPayloadLength: 262_144,
      idleTimeout: 120,
      upgrade: (res, req, context) => {
        res.upgrade({ receive: newReceiver() }, req.getHeader("sec-websocket-key"), "", "", context)
      },
      message: (ws, message) => {
        ws.getUserData().receive(Buffer.from(message), (text) => {
          ws.send(text, false)
        })
      }
    })
    .listen("127.0.0.1", 0, (token) => announce(us_socket_local_port(token as never)))
}

export const voiceWs = (): void => {
  const { WebSocketServer } = require("ws") as { WebSocketServer: typeof Ws }
  const server: Ws = new WebSocketServer({ port: 0, host: "127.0.0.1", perMessageDeflate: false }, () =>
    announce((server.address() as AddressInfo).port)
  )
  server.on("connection", (ws) => {
    const receive = newReceiver()
    ws.on("message", (message: Buffer) => receive(message, (text) => ws.send(text)))
  })
}
