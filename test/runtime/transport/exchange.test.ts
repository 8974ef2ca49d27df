/** Bodies that are answered before they were read, over both adapters and real sockets: the server survives
 *  each, answers its client and a neighbour, and the connection serves the next request or is closed. */
import net from "node:net"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { json, type Service } from "../../../runtime/http.ts"
import { listen as listenNode } from "../../../runtime/transport/node.ts"
import type { Listen, Server } from "../../../runtime/transport/server.ts"
import { listen as listenUws } from "../../../runtime/transport/uws.ts"

const bodyBytesMax = 31_000_000
const turn = () => new Promise((resolve) => setImmediate(resolve))

const service: Service = {
  name: "test",
  prefixes: ["/"],
  refused: (status) => json(status, { refused: status }),
  routes: [
    { method: "GET", path: "/neighbour", handle: () => json(200, {}) },
    {
      method: "POST",
      path: "/at-once",
      body: { as: "stream", bytesMax: bodyBytesMax },
      handle: () => json(403, {})
    },
    {
      method: "POST",
      path: "/later",
      body: { as: "stream", bytesMax: bodyBytesMax },
      handle: () =>
        turn()
          .then(turn)
          .then(() => json(429, {}))
    },
    {
      method: "POST",
      path: "/first-chunk",
      body: { as: "stream", bytesMax: bodyBytesMax },
      handle: async (request) => {
        for await (const chunk of request.stream) return json(422, { first: chunk.length > 0 })
        return json(400, {})
      }
    },
    {
      method: "POST",
      path: "/too-large",
      body: { as: "stream", bytesMax: 50_000 },
      handle: async (request) => {
        let bytes = 0
        for await (const chunk of request.stream) bytes += chunk.length
        return json(200, { bytes })
      }
    },
    {
      method: "POST",
      path: "/streamed-answer",
      body: { as: "stream", bytesMax: bodyBytesMax },
      handle: () => ({
        status: 409,
        headers: [["Content-Type", "text/plain"]],
        body: async (sink) => {
          sink.write("no")
          await turn()
          sink.write(" thanks")
        }
      })
    },
    {
      method: "POST",
      path: "/address-afterwards",
      body: { as: "stream", bytesMax: bodyBytesMax },
      handle: (request) => {
        void turn()
          .then(turn)
          .then(() => request.client)
        return json(401, {})
      }
    },
    {
      method: "POST",
      path: "/reader-stays",
      body: { as: "stream", bytesMax: bodyBytesMax },
      handle: (request) => {
        reader = (async () => {
          for await (const _ of request.stream) await turn()
        })()
        reader.catch(() => {})
        return turn().then(() => json(402, {}))
      }
    }
  ]
}

let reader: Promise<void> = Promise.resolve()

/** A client that writes a request with a body, then a second one on the same connection, and reads all. */
interface Upload {
  readonly port: number
  readonly path: string
  readonly bytes: number
  readonly pieces: number
  readonly chunked?: boolean
  readonly halfCloses?: boolean
}

const upload = ({
  port,
  path,
  bytes,
  pieces,
  chunked = false,
  halfCloses = false
}: Upload): Promise<string> =>
  new Promise((resolve) => {
    const wire = net.connect({ port, host: "127.0.0.1", allowHalfOpen: true })
    let received = ""
    let closed = false
    let hear = (): void => {}
    const heard = new Promise<void>((resolveHeard) => {
      hear = resolveHeard
    })
    const finish = (): void => {
      closed = true
      wire.destroy()
      resolve(received)
    }
    wire.setEncoding("latin1")
    wire.on("data", (text: string) => {
      received += text
      hear()
      if (/HTTP\/1\.1 200 OK[^]*\{\}/.test(received)) finish()
    })
    wire.on("error", finish)
    wire.on("end", finish)
    wire.on("close", finish)
    const framing = chunked ? "Transfer-Encoding: chunked" : `Content-Length: ${bytes}`
    wire.write(`POST ${path} HTTP/1.1\r\nHost: x\r\n${framing}\r\n\r\n`)
    const piece = Buffer.alloc(Math.ceil(bytes / pieces), "a")
    const send = async (): Promise<void> => {
      for (let sent = 0; sent < bytes && !closed; sent += piece.length) {
        const part = piece.subarray(0, Math.min(piece.length, bytes - sent))
        if (chunked) wire.write(`${part.length.toString(16)}\r\n`)
        await new Promise((next) => wire.write(part, next))
        if (chunked) wire.write("\r\n")
        if (pieces > 1) await turn()
      }
      if (closed) return
      if (chunked) wire.write("0\r\n\r\n")
      if (halfCloses) return void wire.end()
      // The native library cuts a connection on which a request arrives before the one in front is answered.
      await heard
      wire.write("GET /neighbour HTTP/1.1\r\nHost: x\r\n\r\n")
    }
    void send()
  })

/** A client that sends a head and less than the body it announced; resolves with the status. */
const begin = (port: number, path: string): Promise<readonly [net.Socket, string]> =>
  new Promise((resolve) => {
    const wire = net.connect(port, "127.0.0.1").on("error", () => {})
    wire.write(`POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nbegin`)
    wire.once("data", (data) => resolve([wire, data.toString("latin1").slice(9, 12)]))
  })

const adapters: ReadonlyArray<readonly [string, Listen]> = [
  ["uws", listenUws],
  ["node", listenNode]
]

for (const [name, listen] of adapters)
  describe(`G-2 over ${name}: a body that is answered before it was read`, () => {
    let server: Server
    beforeAll(async () => {
      server = await listen([service], { host: "127.0.0.1", port: 0 })
    })
    afterAll(() => server.drain(2_000))

    const neighbour = async (): Promise<number> =>
      (await fetch(`http://127.0.0.1:${server.port}/neighbour`)).status

    for (const [path, status] of [
      ["/at-once", 403],
      ["/later", 429],
      ["/first-chunk", 422],
      ["/streamed-answer", 409],
      ["/address-afterwards", 401],
      ["/reader-stays", 402]
    ] as const)
      for (const bytes of [100_000, 200_000, 3_000_000, 30_000_000])
        it(`${path}, ${bytes} bytes: ${status}, and the next request on the connection is answered`, async () => {
          for (const pieces of [1, 40])
            for (const chunked of [false, true]) {
              const [received, status200] = await Promise.all([
                upload({ port: server.port, path, bytes, pieces, chunked }),
                neighbour()
              ])
              // Over uws the connection of a chunked request ends with its answer (docs/http.md).
              const ends = chunked && name === "uws"
              expect([...received.matchAll(/HTTP\/1\.1 (\d+)/g)].map((one) => one[1])).toEqual(
                ends ? [String(status)] : [String(status), "200"]
              )
              expect(status200).toBe(200)
            }
        })

    it("a reader that stays behind its answer hears that the body ends there", async () => {
      await upload({ port: server.port, path: "/reader-stays", bytes: 3_000_000, pieces: 40 })
      await expect(reader).rejects.toMatchObject({ reason: "aborted" })
    })

    it("a body over its limit: 413, and the connection is closed", async () => {
      for (const bytes of [100_000, 200_000, 3_000_000])
        for (const chunked of [false, true]) {
          const received = await upload({ port: server.port, path: "/too-large", bytes, pieces: 1, chunked })
          expect(received).toMatch(/^HTTP\/1\.1 413 |^$/)
          expect(await neighbour()).toBe(200)
        }
    })

    it("a client that half-closes behind its body, or in the middle of it, hurts nobody", async () => {
      for (const path of ["/at-once", "/later", "/first-chunk", "/streamed-answer", "/too-large"])
        for (const bytes of [100_000, 200_000, 3_000_000]) {
          await upload({ port: server.port, path, bytes, pieces: 1, halfCloses: true })
          const wire = net.connect(server.port, "127.0.0.1").on("error", () => {})
          wire.write(`POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: ${2 * bytes}\r\n\r\n`)
          wire.end(Buffer.alloc(bytes, "a"))
          expect(await neighbour()).toBe(200)
          wire.destroy()
        }
    })
  })

describe("a body that goes on behind its answer, over node", () => {
  const listenFor = (bodyTimeoutMs: number): Promise<Server> =>
    listenNode([service], { host: "127.0.0.1", port: 0, bodyTimeoutMs })

  it("is cut when it exceeds its route's limit", async () => {
    const server = await listenFor(30_000)
    const wire = net.connect(server.port, "127.0.0.1").on("error", () => {})
    wire.write("POST /later HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    const piece = Buffer.alloc(1_000_000, "a")
    wire.resume()
    for (let i = 0; i < 200 && !wire.destroyed; i++) {
      wire.write(`${piece.length.toString(16)}\r\n`)
      await new Promise((next) => wire.write(piece, next))
      wire.write("\r\n")
    }
    expect(wire.destroyed).toBe(true)
    await server.drain(100)
  })
  it("leaves no timer that holds the process when its client disconnects", async () => {
    const server = await listenFor(30_000)
    const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length
    const before = timers()
    await Promise.all(
      Array.from({ length: 50 }, async () => {
        const [wire] = await begin(server.port, "/at-once")
        wire.destroy()
        await new Promise((resolve) => wire.once("close", resolve))
      })
    )
    await server.drain(100)
    expect(timers()).toBeLessThan(before + 25)
  })
})
