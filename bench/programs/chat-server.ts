/** One gateway candidate in front of chat-upstream: node chat-server.js KIND UPSTREAM_PORT; prints its port.
 *  `raw` is the floor: an HTTP/1.1 client by hand over node:net, bytes copied into uWebSockets.js unread;
 *  `undici` the same with undici; `node` with node:http on both sides; `troupe` the real service. */
import { Effect } from "effect"
import { Agent, createServer, request } from "node:http"
import { createRequire } from "node:module"
import net from "node:net"
import { Pool } from "undici"
import type uWS from "uWebSockets.js"
import { chatService } from "../../runtime/program/services/chat.ts"
import { Actors } from "../../runtime/registry.ts"
import { listenWith } from "../../runtime/transport/listen.ts"
import { openMemory } from "../../storage/memory.ts"

const [, , kind, upstream] = process.argv
const { App, us_socket_local_port } = createRequire(import.meta.url)("uWebSockets.js") as typeof uWS
const say = (port: number): void => console.log(port)
type Dead = { dead: boolean }

const collect = (res: uWS.HttpResponse, done: (body: Buffer) => void): void => {
  let body: Buffer = Buffer.alloc(0)
  res.onData((part, last) => {
    body = Buffer.concat([body, Buffer.from(part)])
    if (last) done(body)
  })
}

const eventStream = "text/event-stream"
const json = "application/json"

if (kind === "raw") {
  const idle: Array<net.Socket & { heard?: (data: Buffer) => void }> = []
  const open = (): net.Socket & { heard?: (data: Buffer) => void } => {
    const free = idle.pop()
    if (free !== undefined && !free.destroyed) return free
    const wire: net.Socket & { heard?: (data: Buffer) => void } = net.connect(Number(upstream), "127.0.0.1")
    wire.setNoDelay(true)
    wire.on("data", (data) => wire.heard?.(data))
    wire.on("error", () => {})
    return wire
  }
  App()
    .post("/*", (res, req) => {
      const path = req.getUrl()
      const state: Dead = { dead: false }
      let wire: ReturnType<typeof open> | undefined
      res.onAborted(() => {
        state.dead = true
        wire?.destroy()
      })
      collect(res, (body) => {
        wire = open()
        let head = true
        let chunked = false
        let left = 0
        let length = 0
        let rest: Buffer | undefined
        const parts: Array<Buffer> = []
        const over = (): void => {
          idle.push(wire!)
          state.dead = true
        }
        wire.heard = (given) => {
          let data = rest === undefined ? given : Buffer.concat([rest, given])
          let at = 0
          rest = undefined
          if (state.dead) return
          if (head) {
            const end = data.indexOf("\r\n\r\n")
            if (end < 0) {
              rest = data
              return
            }
            const text = data.toString("latin1", 0, end).toLowerCase()
            chunked = text.includes("transfer-encoding: chunked")
            length = Number(/content-length: (\d+)/.exec(text)?.[1] ?? 0)
            head = false
            at = end + 4
            if (chunked)
              res.cork(() => {
                res.writeHeader("content-type", eventStream).write("")
              })
          }
          if (!chunked) {
            parts.push(data.subarray(at))
            if ((length -= data.length - at) <= 0) {
              res.cork(() => {
                res.writeHeader("content-type", json).end(Buffer.concat(parts))
              })
              over()
            }
            return
          }
          res.cork(() => {
            while (at < data.length) {
              if (left > 0) {
                const size = Math.min(left, data.length - at)
                const bytes = Math.max(0, Math.min(size, left - 2))
                if (bytes > 0) res.write(data.subarray(at, at + bytes))
                at += size
                left -= size
                continue
              }
              const line = data.indexOf("\r\n", at)
              if (line < 0) {
                rest = data.subarray(at)
                return
              }
              left = parseInt(data.toString("latin1", at, line), 16) + 2
              at = line + 2
              if (left === 2) {
                over()
                res.end()
                return
              }
            }
          })
        }
        wire.write(
          `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: ${json}\r\ncontent-length: ${body.length}\r\n\r\n`
        )
        wire.write(body)
      })
    })
    .listen("127.0.0.1", 0, (token) => say(us_socket_local_port(token as never)))
} else if (kind === "undici") {
  const pool = new Pool(`http://127.0.0.1:${upstream}`, { connections: 1_024, pipelining: 1 })
  App()
    .post("/*", (res, req) => {
      const path = req.getUrl()
      const state: Dead = { dead: false }
      let abort: (() => void) | undefined
      res.onAborted(() => {
        state.dead = true
        abort?.()
      })
      collect(res, (body) => {
        let stream = false
        const parts: Array<Buffer> = []
        pool.dispatch(
          { path, method: "POST", headers: { "content-type": json }, body },
          {
            onRequestStart: (control) => {
              abort = () => control.abort(new Error("gone"))
            },
            onResponseStart: (_, __, headers) => {
              stream = String(headers["content-type"]).startsWith(eventStream)
              if (stream && !state.dead)
                res.cork(() => {
                  res.writeHeader("content-type", eventStream).write("")
                })
            },
            onResponseData: (_, data) => {
              if (state.dead) return
              if (stream)
                res.cork(() => {
                  res.write(data)
                })
              else parts.push(data)
            },
            onResponseEnd: () => {
              if (state.dead) return
              state.dead = true
              res.cork(() => {
                if (stream) res.end()
                else res.writeHeader("content-type", json).end(Buffer.concat(parts))
              })
            },
            onResponseError: () => {
              if (!state.dead) {
                state.dead = true
                res.close()
              }
            }
          }
        )
      })
    })
    .listen("127.0.0.1", 0, (token) => say(us_socket_local_port(token as never)))
} else if (kind === "node") {
  const agent = new Agent({ keepAlive: true, maxSockets: 1_024 })
  createServer({ noDelay: true }, (given, reply) => {
    const { "content-length": length } = given.headers
    const call = request(
      {
        host: "127.0.0.1",
        port: Number(upstream),
        path: given.url,
        method: "POST",
        agent,
        headers: { "content-type": json, ...(length === undefined ? {} : { "content-length": length }) }
      },
      (answer) => {
        reply.writeHead(answer.statusCode!, answer.headers)
        reply.flushHeaders()
        answer.pipe(reply)
      }
    )
    call.on("error", () => reply.destroy())
    reply.on("close", () => {
      if (!reply.writableFinished) call.destroy()
    })
    given.pipe(call)
  }).listen(0, "127.0.0.1", function (this: net.Server) {
    say((this.address() as net.AddressInfo).port)
  })
} else {
  await Effect.runPromise(
    Effect.scoped(
      Effect.gen(function* () {
        const store = openMemory()
        const actors = yield* Actors.make({ store })
        const chat = chatService(
          {
            host: "127.0.0.1",
            chatKeys: undefined,
            chatUpstreams: [
              {
                id: "up",
                kind: "openai-chat",
                base_url: `http://127.0.0.1:${upstream}/v1`,
                max_concurrency: 1_024
              }
            ],
            healthDetailsMode: "open",
            metricsMode: "open",
            sessionRetentionMs: 1_800_000,
            chatBodyBytesMax: 1_048_576,
            upstreamConnectMs: 10_000,
            upstreamFirstMs: 180_000,
            upstreamIdleMs: 120_000,
            turnMs: 600_000,
            streamCommitMs: 10_000,
            streamKeepAliveMs: 15_000,
            turnsInFlightMax: 4_096,
            sessionTurnsMax: 16,
            sessionsMax: 100_000,
            storedResponseBytesMax: 8_388_608,
            shutdownGraceMs: 0,
            builtinTools: [],
            builtinRoundsMax: 8,
            modelsCacheMs: 60_000,
            unsupportedParams: "drop"
          },
          { store, actors, engines: undefined, log: () => {} }
        )
        const server = yield* Effect.promise(() =>
          listenWith("uws", () => {}, [chat.service], { host: "127.0.0.1", port: 0 })
        )
        say(server.port)
        yield* Effect.never
      })
    )
  )
}
