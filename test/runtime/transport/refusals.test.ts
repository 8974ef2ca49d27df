/** What clients see of a refusal while they still send, and of being slow, over both adapters. */
import { execFile } from "node:child_process"
import net from "node:net"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { json, type Service } from "../../../runtime/http.ts"
import { bind as bindNode } from "../../../runtime/transport/node.ts"
import type { Bind, ListenOptions, Server } from "../../../runtime/transport/server.ts"
import { bind as bindUws } from "../../../runtime/transport/uws.ts"

interface Seen {
  aborts: number
  ended: Array<boolean>
}

const tick = (ms = 5) => new Promise((resolve) => setTimeout(resolve, ms))

const serviceOf = (seen: Seen): Service => ({
  name: "test",
  prefixes: ["/"],
  refused: (status) => json(status, { refused: status }),
  routes: [
    { method: "GET", path: "/plain", handle: () => json(200, {}) },
    {
      method: "POST",
      path: "/buffered",
      body: { as: "buffer", bytesMax: 1_000 },
      handle: () => json(200, {})
    },
    {
      method: "POST",
      path: "/streamed",
      body: { as: "stream", bytesMax: 1_000 },
      handle: async ({ stream }) => {
        for await (const _ of stream);
        return json(200, {})
      }
    },
    {
      method: "POST",
      path: "/unauthorized",
      body: { as: "buffer", bytesMax: 100_000_000 },
      admit: () => json(401, { refused: 401 }),
      handle: () => json(200, {})
    },
    {
      method: "POST",
      path: "/limited",
      body: { as: "buffer", bytesMax: 100_000_000 },
      admit: () => json(429, { refused: 429 }, [["Retry-After", "1"]]),
      handle: () => json(200, {})
    },
    {
      method: "POST",
      path: "/listening",
      body: { as: "stream", bytesMax: 100_000_000 },
      handle: (request) =>
        new Promise(() => {
          request.onAborted(() => {
            seen.aborts++
          })
        })
    },
    {
      method: "POST",
      path: "/pondering",
      body: { as: "stream", bytesMax: 100_000_000 },
      handle: async ({ stream }) => {
        let bytes = 0
        for await (const chunk of stream) {
          if (bytes === 0) await tick(1_500)
          bytes += chunk.length
        }
        return json(200, { bytes })
      }
    },
    {
      method: "GET",
      path: "/flood",
      handle: () => ({
        status: 200,
        body: async (sink) => {
          const chunk = new Uint8Array(65_536)
          while (!sink.signal.aborted) if (!sink.write(chunk)) await sink.drained()
          seen.ended.push(await sink.end())
        }
      })
    }
  ]
})

const refusals = [
  ["/buffered", 413],
  ["/streamed", 413],
  ["/unauthorized", 401],
  ["/limited", 429]
] as const

const adapters: ReadonlyArray<readonly [string, Bind]> = [
  ["uws", bindUws],
  ["node", bindNode]
]

/** Sends all of a body before it reads anything, as plain clients do. */
const sendThenRead = (port: number, path: string, bytes: number): Promise<string> =>
  new Promise((resolve, reject) => {
    const wire = net.connect({ port, host: "127.0.0.1", allowHalfOpen: true })
    wire.pause()
    wire.on("error", reject)
    wire.write(`POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: ${bytes}\r\n\r\n`)
    wire.write(Buffer.alloc(bytes, "a"), () => {
      let text = ""
      wire.on("data", (data) => {
        text += data.toString("latin1")
      })
      wire.on("end", () => {
        wire.end()
        resolve(text)
      })
      wire.resume()
    })
  })

const curl = (options: ReadonlyArray<string>): Promise<string> =>
  new Promise((resolve, reject) => {
    const call = execFile(
      "curl",
      ["-sS", "-w", " %{http_code}", ...options, "--data-binary", "@-"],
      (fault, out) => (fault === null ? resolve(out) : reject(fault))
    )
    call.stdin!.on("error", () => {})
    call.stdin!.end(Buffer.alloc(8_000_000, "a"))
  })

for (const [name, bind] of adapters)
  describe(`over ${name}`, () => {
    const seen: Seen = { aborts: 0, ended: [] }
    let server: Server
    const start = async (options: Partial<ListenOptions> = {}): Promise<Server> => {
      const started = await bind({ host: "127.0.0.1", port: 0, ...options })
      started.serve([serviceOf(seen)])
      return started
    }
    beforeAll(async () => {
      server = await start()
    })
    afterAll(() => server.drain(500))
    const url = (path: string): string => `http://127.0.0.1:${server.port}${path}`

    for (const [path, status] of refusals) {
      it(`G-10 ${path}, 8 MB: a client that sends all before it reads sees ${status} and its body`, async () => {
        const text = await sendThenRead(server.port, path, 8_000_000)
        expect(text).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
        expect(text.toLowerCase()).toContain("\r\nconnection: close\r\n")
        expect(text).toContain(`{"refused":${status}}`)
      })
      it(`G-10 ${path}, 8 MB: fetch sees ${status} and its body, with a length and chunked`, async () => {
        const bytes = Buffer.alloc(8_000_000)
        const whole = await fetch(url(path), { method: "POST", body: bytes })
        expect([whole.status, await whole.json()]).toEqual([status, { refused: status }])
        const body = new Blob([bytes]).stream()
        const chunked = await fetch(url(path), { method: "POST", body, duplex: "half" } as RequestInit)
        expect([chunked.status, await chunked.json()]).toEqual([status, { refused: status }])
      })
      it(`G-10 ${path}, 8 MB: curl sees ${status} and its body, with a length and chunked`, async () => {
        for (const header of ["Expect:", "Transfer-Encoding: chunked"]) {
          const out = await curl(["-H", "Expect:", "-H", header, url(path)])
          expect(out.replaceAll(/\s+/g, " ")).toBe(`{"refused":${status}} ${status}`)
        }
      })
    }

    it("G-10 what is sent behind a refusal for ever is cut", async () => {
      const own = await start({ lingerMs: 300 })
      for (const framing of ["Content-Length: 9000000000", "Transfer-Encoding: chunked"]) {
        const wire = net.connect(own.port, "127.0.0.1")
        wire.on("error", () => {})
        wire.resume()
        wire.write(`POST /buffered HTTP/1.1\r\nHost: x\r\n${framing}\r\n\r\n`)
        const piece = `${(65_536).toString(16)}\r\n${"a".repeat(65_536)}\r\n`
        while (!wire.destroyed) await new Promise((resolve) => wire.write(piece, resolve))
        expect(wire.destroyed).toBe(true)
      }
      await own.drain(500)
    })

    it("G-11 a body that our own handler does not read is not the client's delay", async () => {
      const own = await start({ bodyTimeoutMs: 300 })
      const answer = await fetch(`http://127.0.0.1:${own.port}/pondering`, {
        method: "POST",
        body: Buffer.alloc(3_000_000)
      })
      expect([answer.status, await answer.json()]).toEqual([200, { bytes: 3_000_000 }])
      await own.drain(500)
    })

    it("G-11 a client that leaves in the middle of its upload is told of once", async () => {
      for (const leave of ["destroy", "resetAndDestroy"] as const) {
        seen.aborts = 0
        const wire = net.connect(server.port, "127.0.0.1", () =>
          wire.write("POST /listening HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nab")
        )
        await tick(100)
        wire[leave]()
        while (seen.aborts === 0) await tick()
        // Another client's request goes through everything that the first may have left behind.
        await fetch(url("/plain"))
        await tick(50)
        expect(seen.aborts, leave).toBe(1)
      }
    })

    it("G-11 a client that never reads its answer is cut off", { timeout: 60_000 }, async () => {
      const own = await start({ answerTimeoutMs: 500 })
      seen.ended = []
      const wire = net.connect(own.port, "127.0.0.1", () =>
        wire.write("GET /flood HTTP/1.1\r\nHost: x\r\n\r\n")
      )
      wire.on("error", () => {})
      wire.pause()
      while (seen.ended.length === 0) await tick(50)
      expect(seen.ended).toEqual([false])
      wire.destroy()
      await own.drain(500)
    })

    it("G-10 a server that chose its port starts again on the same number at once", async () => {
      const first = await start()
      const { port } = first
      // The server closes first, so the connection waits on its side (TIME-WAIT).
      await sendThenRead(port, "/buffered", 2_000)
      await first.drain(500)
      const second = await start({ port })
      expect(second.port).toBe(port)
      await second.drain(500)
    })
  })
