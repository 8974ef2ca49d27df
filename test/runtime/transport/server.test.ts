/** One suite over both adapters, on real sockets. Where the native library answers by itself, its answer is
 *  stated. */
import { execFileSync } from "node:child_process"
import { mkdtempSync } from "node:fs"
import { request as httpsRequest } from "node:https"
import net from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest"
import { WebSocket } from "ws"
import { json, type Request, type Service, type Socket } from "../../../runtime/http.ts"
import { type Bind, listenBy, type ListenOptions, type Server } from "../../../runtime/transport/server.ts"
import { bind as bindNode } from "../../../runtime/transport/node.ts"
import { bind as bindUws } from "../../../runtime/transport/uws.ts"

const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes)
const tick = (ms = 5) => new Promise((resolve) => setTimeout(resolve, ms))

const until = async (what: () => boolean): Promise<void> => {
  for (let i = 0; i < 600 && !what(); i++) await tick()
  expect(what()).toBe(true)
}

interface Seen {
  aborted: number
  aborts: number
  closes: Array<number>
  drains: number
  sockets: Array<Socket<any>>
  written: number
  ended: Array<boolean>
  bodyFaults: Array<string>
  /** How a request's signal was when it was asked for late; "waits" until then. */
  late: "" | "waits" | "aborted" | "not aborted"
}

const makeService = (seen: Seen): Service => ({
  name: "test",
  prefixes: ["/"],
  refused: (status, _, allow) =>
    json(status, { refused: status }, allow === undefined ? [] : [["Allow", allow]]),
  routes: [
    {
      method: "GET",
      path: "/plain",
      handle: () => ({ status: 200, headers: [["Content-Type", "text/plain"]], body: "hello" })
    },
    { method: "GET", path: "/v2/see", handle: () => ({ status: 200, body: "seen" }) },
    {
      method: "GET",
      path: "/named/:name",
      handle: (r) => ({
        status: 200,
        headers: [["X-Name", r.params["name"]!]],
        always: [
          ["X-Always", "1"],
          ["X-Last", r.params["name"]!]
        ],
        body:
          r.query === "stream"
            ? (sink) => {
                sink.write("hello")
              }
            : "hello"
      })
    },
    { method: "GET", path: "/odd", handle: () => json(456, {}) },
    { method: "GET", path: "/empty", handle: () => ({ status: 204 }) },
    {
      method: "POST",
      path: "/echo",
      body: { as: "buffer", bytesMax: 1_000 },
      handle: (r) => ({ status: 200, body: r.body })
    },
    {
      method: "GET",
      path: "/echo",
      body: { as: "buffer", bytesMax: 1_000 },
      handle: (r) => ({ status: 200, body: `got ${text(r.body)}` })
    },
    {
      method: "GET",
      path: "/see/:name/*",
      handle: (r) =>
        json(200, {
          params: r.params,
          query: r.query,
          path: r.path,
          method: r.method,
          client: r.client,
          scheme: r.scheme,
          trace: r.traceId,
          header: r.headers.get("x-two") ?? null
        })
    },
    {
      method: "GET",
      path: "/throw",
      handle: () => {
        throw new Error("bug")
      }
    },
    { method: "GET", path: "/reject", handle: () => Promise.reject(new Error("bug")) },
    {
      method: "GET",
      path: "/later",
      handle: (r) => tick().then(() => json(200, { header: r.headers.get("x-two") ?? null }))
    },
    { method: "GET", path: "/slow", handle: () => tick(150).then(() => json(200, {})) },
    {
      method: "POST",
      path: "/stream",
      body: { as: "stream", bytesMax: 300_000 },
      handle: async (r) => {
        let bytes = 0
        try {
          for await (const chunk of r.stream) bytes += chunk.length
        } catch (cause) {
          seen.bodyFaults.push((cause as { reason: string }).reason)
          throw cause
        }
        return json(200, { bytes })
      }
    },
    {
      method: "GET",
      path: "/hang",
      handle: (r: Request) =>
        new Promise(() => {
          r.signal.addEventListener("abort", () => {
            seen.aborted++
          })
          r.onAborted(() => {
            seen.aborts++
            r.onAborted(() => {
              seen.aborts++
            })
          })
        })
    },
    {
      method: "GET",
      path: "/late",
      handle: (r: Request) =>
        new Promise(() => {
          seen.late = "waits"
          r.onAborted(() =>
            setImmediate(() => {
              seen.late = r.signal.aborted ? "aborted" : "not aborted"
            })
          )
        })
    },
    {
      method: "GET",
      path: "/lines",
      handle: () => ({
        status: 200,
        body: async (sink) => {
          for (let i = 0; i < 3; i++) {
            sink.write(`line ${i}\n`)
            await tick(1)
          }
          seen.ended.push(await sink.end())
        }
      })
    },
    {
      method: "GET",
      path: "/flood",
      handle: () => ({
        status: 200,
        body: async (sink) => {
          const chunk = new Uint8Array(65_536)
          for (let i = 0; i < 2_000 && !sink.signal.aborted; i++) {
            seen.written += chunk.length
            if (!sink.write(chunk)) await sink.drained()
          }
          seen.ended.push(await sink.end())
        }
      })
    },
    {
      method: "GET",
      path: "/cut",
      handle: () => ({
        status: 200,
        body: async (sink) => {
          sink.write("half")
          await sink.drained()
          throw new Error("upstream died")
        }
      })
    }
  ],
  sockets: [
    {
      path: "/named-socket",
      messageBytesMax: 1_000,
      upgrade: (r) => ({ status: 403, headers: [["X-Name", decodeURIComponent(r.query)]] }),
      open: () => {},
      message: () => {},
      close: () => {}
    },
    {
      path: "/socket",
      messageBytesMax: 1_000,
      bufferedBytesMax: 1_000_000,
      upgrade: (request) =>
        request.query === "token=good" ? { accept: { name: "held" } } : json(403, { message: "no" }),
      open: (socket) => {
        seen.sockets.push(socket)
        socket.send(`welcome ${(socket.data as { name: string }).name}`)
      },
      message: (socket, message, isText) => {
        const said = text(message)
        if (said === "close") return socket.close(4001, "as asked")
        if (said === "twice")
          return socket.cork(() => {
            socket.send("one")
            socket.send("two")
          })
        if (said === "flood") {
          const big = new Uint8Array(100_000)
          let last = ""
          for (let i = 0; i < 200; i++) last = socket.send(big)
          seen.written = i200(last)
          return
        }
        socket.send(isText ? `text ${said}` : message)
      },
      drain: () => {
        seen.drains++
      },
      close: (_, code) => {
        seen.closes.push(code)
      }
    }
  ]
})

const i200 = (last: string): number => (last === "dropped" ? 1 : 0)

const adapters: ReadonlyArray<readonly [string, Bind]> = [
  ["uws", bindUws],
  ["node", bindNode]
]

for (const [name, bind] of adapters)
  describe(`transport ${name}`, () => {
    const listen = listenBy(bind)

    it("answers 503 between the binding of the port and its services, G-6", async () => {
      const server = await bind({ host: "127.0.0.1", port: 0 })
      const url = `http://127.0.0.1:${server.port}`
      const early = await fetch(`${url}/ready`)
      expect([early.status, early.headers.get("retry-after")]).toEqual([503, "1"])
      const ready: Service = {
        name: "late",
        prefixes: ["/"],
        routes: [{ method: "GET", path: "/ready", handle: () => json(200, { ready: true }) }],
        sockets: [
          {
            path: "/late",
            messageBytesMax: 100,
            upgrade: () => ({ accept: undefined }),
            open: (socket) => void socket.send("open"),
            message: () => {},
            close: () => {}
          }
        ],
        refused: (status) => json(status, { status })
      }
      server.serve([ready])
      expect((await fetch(`${url}/ready`)).status).toBe(200)
      const socket = new WebSocket(`ws://127.0.0.1:${server.port}/late`)
      expect(String(await new Promise((resolve) => socket.once("message", resolve)))).toBe("open")
      await Promise.all([server.drain(1_000), server.drain(1_000)])
      await expect(fetch(`${url}/ready`)).rejects.toThrow()
    })

    let server: Server
    const seen: Seen = {
      aborted: 0,
      aborts: 0,
      closes: [],
      drains: 0,
      sockets: [],
      written: 0,
      ended: [],
      bodyFaults: [],
      late: ""
    }
    const start = (options: Partial<ListenOptions> = {}): Promise<Server> =>
      listen([makeService(seen)], {
        host: "127.0.0.1",
        port: 0,
        bodyTimeoutMs: 300,
        trustedProxies: ["127.0.0.1", "10.0.0.0/8"],
        ...options
      })
    beforeAll(async () => {
      server = await start()
    })
    afterAll(() => server.drain(500))
    const url = (path: string) => `http://127.0.0.1:${server.port}${path}`
    /** Writes raw bytes, reads until the connection is quiet for a while behind its first byte, or closed. */
    const raw = (bytes: string | Array<string>, quietMs = 60): Promise<string> =>
      new Promise((resolve) => {
        const wire = net.connect(server.port, "127.0.0.1")
        let got = ""
        let timer: NodeJS.Timeout
        const rest = () => {
          clearTimeout(timer)
          timer = setTimeout(
            () => {
              wire.destroy()
              resolve(got)
            },
            got === "" ? Math.max(quietMs, 2_000) : quietMs
          )
        }
        wire.on("connect", async () => {
          rest()
          for (const part of [bytes].flat()) {
            wire.write(part)
            await tick()
          }
        })
        wire.on("data", (data) => {
          got += data.toString("latin1")
          rest()
        })
        wire.on("error", () => {})
        wire.on("close", () => {
          clearTimeout(timer)
          resolve(got)
        })
      })
    const statuses = (answer: string): Array<number> =>
      [...answer.matchAll(/HTTP\/1\.1 (\d+)/g)].map((m) => Number(m[1]))

    it("answers with status, headers, length, Date and a trace id of 32 hex digits, unique per request", async () => {
      const traces = new Set<string>()
      for (let i = 0; i < 20; i++) {
        const answer = await fetch(url("/plain"))
        expect([
          answer.status,
          await answer.text(),
          answer.headers.get("content-length"),
          answer.headers.get("content-type")
        ]).toEqual([200, "hello", "5", "text/plain"])
        expect(Math.abs(Date.parse(answer.headers.get("date")!) - Date.now())).toBeLessThan(3_000)
        expect(answer.headers.get("x-trace-id")).toMatch(/^[0-9a-f]{32}$/)
        traces.add(answer.headers.get("x-trace-id")!)
      }
      expect(traces.size).toBe(20)
    })
    it("what a request says cannot break a header's line, nor its answer", async () => {
      for (const [sent, line] of [
        ["a%0d%0aX-Evil: 1", "a  X-Evil: 1"],
        ["a%0aX-Evil: 1", "a X-Evil: 1"],
        ["a%00%01%7fb", "a   b"],
        ["a%09b", "a\tb"],
        ["%e6%bc%a2", name === "uws" ? "\u00e6\u00bc\u00a2" : "?"]
      ] as const)
        for (const query of ["", "?stream"]) {
          const answer = await raw(
            `GET /named/${sent.replaceAll(" ", "%20")}${query} HTTP/1.1\r\nHost: x\r\n\r\n`
          )
          const head = answer.slice(0, answer.indexOf("\r\n\r\n")).split("\r\n")
          expect([head[0], head.filter((one) => /^x-(?:name|always|last|evil)/i.test(one))], sent).toEqual([
            "HTTP/1.1 200 OK",
            [`X-Name: ${line}`, "X-Always: 1", `X-Last: ${line}`]
          ])
          expect(answer).toContain("hello")
        }
      const refused = await raw(
        "GET /named-socket?a%0d%0ab HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
      )
      expect(refused).toMatch(/^HTTP\/1\.1 403 /)
      expect(refused).toMatch(/\r\nX-Name: a  b\r\n/)
    })
    it("456 has its own reason phrase, 204 has no body", async () => {
      expect(
        (await raw("GET /odd HTTP/1.1\r\nHost: x\r\n\r\n")).startsWith("HTTP/1.1 456 Quota Exceeded\r\n")
      ).toBe(true)
      const empty = await raw("GET /empty HTTP/1.1\r\nHost: x\r\n\r\n")
      expect(empty).toMatch(/^HTTP\/1\.1 204 /)
      expect(empty).not.toMatch(/content-length: [1-9]/i)
    })
    it("unknown path 404, known path with another method 405 with Allow, both with trace id and the service's words", async () => {
      const missing = await fetch(url("/nowhere"))
      expect([missing.status, await missing.json(), missing.headers.get("x-trace-id")?.length]).toEqual([
        404,
        { refused: 404 },
        32
      ])
      const method = await fetch(url("/echo"), { method: "DELETE" })
      expect([method.status, method.headers.get("allow"), await method.json()]).toEqual([
        405,
        "POST, GET",
        { refused: 405 }
      ])
    })
    it("HEAD is GET without the body, with its length", async () => {
      const head = await fetch(url("/plain"), { method: "HEAD" })
      expect([head.status, head.headers.get("content-length"), await head.text()]).toEqual([200, "5", ""])
    })
    it("params are percent-decoded, the query is raw, repeated headers join", async () => {
      const answer = await raw(
        "GET /see/a%20b/c/d?x=%20&y HTTP/1.1\r\nHost: x\r\nX-Two: 1\r\nx-two: 2\r\n\r\n"
      )
      expect(JSON.parse(answer.slice(answer.indexOf("{")))).toMatchObject({
        params: { name: "a b", "*": "c/d" },
        query: "x=%20&y",
        path: "/see/a%20b/c/d",
        header: "1, 2"
      })
    })
    it("two slashes begin an API's path only: whoever fences off /see is not evaded", async () => {
      const statusOf = async (path: string) =>
        (await raw(`GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`)).slice(9, 12)
      expect(await Promise.all(["//v2/see", "///v2/see", "//see/a/b", "//plain"].map(statusOf))).toEqual([
        "200",
        "200",
        "404",
        "404"
      ])
    })
    it("headers stay readable after the first await", async () => {
      expect(await (await fetch(url("/later"), { headers: { "X-Two": "kept" } })).json()).toEqual({
        header: "kept"
      })
    })
    it("trusted proxies: the client is the nearest untrusted hop, the scheme the forwarded one", async () => {
      const ask = async (headers: Record<string, string>) =>
        (await fetch(url("/see/x/y"), { headers })).json()
      expect(
        await ask({ "X-Forwarded-For": "6.6.6.6, 9.9.9.9, 10.1.2.3", "X-Forwarded-Proto": "https" })
      ).toMatchObject({ client: "9.9.9.9", scheme: "https" })
      expect(await ask({})).toMatchObject({ client: "127.0.0.1", scheme: "http" })
      expect(await ask({ "X-Forwarded-For": "nonsense", "X-Forwarded-Proto": "gopher" })).toMatchObject({
        client: "127.0.0.1",
        scheme: "http"
      })
    })
    it("without trusted proxies nothing forwarded is believed", async () => {
      const plain = await start({ trustedProxies: [] })
      const answer = await (
        await fetch(`http://127.0.0.1:${plain.port}/see/x/y`, {
          headers: { "X-Forwarded-For": "6.6.6.6", "X-Forwarded-Proto": "https" }
        })
      ).json()
      expect(answer).toMatchObject({ client: "127.0.0.1", scheme: "http" })
      await plain.drain(500)
    })
    it("a handler that throws or rejects is 500 in the service's words", async () => {
      for (const path of ["/throw", "/reject"]) {
        const answer = await fetch(url(path))
        expect([answer.status, await answer.json()]).toEqual([500, { refused: 500 }])
      }
    })

    it("a body within the limit arrives whole, also in pieces and chunked", async () => {
      expect(
        await raw(["POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nab", "cd", "ef"])
      ).toMatch(/abcdef$/)
      expect(
        await raw(
          "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n"
        )
      ).toMatch(/abcdef$/)
    })
    it("413 by Content-Length before reading, and while reading a chunked body", async () => {
      // The server closes behind its answer; nothing is sent after what makes the body too long.
      expect(
        statuses(await raw("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n", 2_000))
      ).toEqual([413])
      const chunk = `400\r\n${"x".repeat(1_024)}\r\n`
      const chunked = `POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${chunk}`
      expect(statuses(await raw(chunked, 2_000))).toEqual([413])
    })
    it("a GET with a body keeps the connection in step, wanted or not", async () => {
      const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\ntype=target`
      const answer = await raw(get("/plain") + get("/echo") + "GET /plain HTTP/1.1\r\nHost: x\r\n\r\n")
      expect(statuses(answer)).toEqual([200, 200, 200])
      expect(answer).toContain("got type=target")
    })
    it("several requests on one connection are answered in order", async () => {
      const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`
      expect(statuses(await raw(get("/plain") + get("/empty") + get("/odd")))).toEqual([200, 204, 456])
      // The native library cuts a connection which pipelines behind an unanswered request.
      expect(statuses(await raw([get("/slow"), get("/plain")], 250))).toEqual(
        name === "uws" ? [] : [200, 200]
      )
    })
    it("414 above the target limit, 431 above the header limit", async () => {
      expect(statuses(await raw(`GET /plain?${"q".repeat(8_300)} HTTP/1.1\r\nHost: x\r\n\r\n`))).toEqual([
        414
      ])
      expect(
        statuses(await raw(`GET /plain HTTP/1.1\r\nHost: x\r\nX-Big: ${"h".repeat(17_000)}\r\n\r\n`))
      ).toEqual([431])
      expect(
        statuses(await raw(`GET /plain HTTP/1.1\r\nHost: x\r\nX-Big: ${"h".repeat(15_000)}\r\n\r\n`))
      ).toEqual([200])
    })
    it("hostile heads get 400 or a cut, never a handler", async () => {
      for (const bytes of [
        "\x00\x01\x02\r\n\r\n",
        "GET\r\n\r\n",
        "GET /plain HTTP/9.9\r\nHost: x\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: abc\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
      ]) {
        for (const status of statuses(await raw(bytes, 30))) expect(status).toBeGreaterThanOrEqual(400)
      }
    })
    it("408 when the body's next byte is overdue", async () => {
      expect(
        statuses(await raw("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nab", 1_500))
      ).toEqual([408])
    })

    it("a streamed body arrives by demand, its limit and the client's going reach the handler", async () => {
      const answer = await fetch(url("/stream"), { method: "POST", body: new Uint8Array(250_000) })
      expect(await answer.json()).toEqual({ bytes: 250_000 })
      expect(
        statuses(await raw(`POST /stream HTTP/1.1\r\nHost: x\r\nContent-Length: 300001\r\n\r\n`))
      ).toEqual([413])
      seen.bodyFaults = []
      const endless = net.connect(server.port, "127.0.0.1", () => {
        const head = "POST /stream HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        const chunk = `10000\r\n${"x".repeat(65_536)}\r\n`
        endless.write(head + chunk.repeat(5))
      })
      endless.on("error", () => {})
      await until(() => seen.bodyFaults.includes("too-large"))
      endless.destroy()
      seen.bodyFaults = []
      const wire = net.connect(server.port, "127.0.0.1", () =>
        wire.write("POST /stream HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc")
      )
      await tick(30)
      wire.destroy()
      await until(() => seen.bodyFaults.includes("aborted"))
    })
    it("a client that goes aborts the request's signal, and is told to who asked, or asks afterwards", async () => {
      const before = seen.aborted
      const goneBefore = seen.aborts
      const wire = net.connect(server.port, "127.0.0.1", () =>
        wire.write("GET /hang HTTP/1.1\r\nHost: x\r\n\r\n")
      )
      await tick(30)
      wire.destroy()
      await until(() => seen.aborted === before + 1)
      expect(seen.aborts - goneBefore).toBe(2)
      const late = net.connect(server.port, "127.0.0.1", () =>
        late.write("GET /late HTTP/1.1\r\nHost: x\r\n\r\n")
      )
      await until(() => seen.late === "waits")
      late.destroy()
      await until(() => seen.late !== "waits")
      expect(seen.late).toBe("aborted")
    })
    it("a streamed response arrives whole, and its end tells that the last byte was handed over", async () => {
      seen.ended = []
      expect(await (await fetch(url("/lines"))).text()).toBe("line 0\nline 1\nline 2\n")
      await until(() => seen.ended.length === 1)
      expect(seen.ended).toEqual([true])
    })
    it("back-pressure: a reader that stops bounds what is written, and its going ends the stream", async () => {
      seen.written = 0
      seen.ended = []
      const wire = net.connect(server.port, "127.0.0.1", () =>
        wire.write("GET /flood HTTP/1.1\r\nHost: x\r\n\r\n")
      )
      wire.pause()
      await tick(200)
      const reached = seen.written
      await tick(100)
      expect(seen.written).toBe(reached)
      expect(reached).toBeLessThan(30 * 1_048_576)
      wire.destroy()
      await until(() => seen.ended.length === 1)
      expect(seen.ended).toEqual([false])
    })
    it("a stream that fails is cut, not ended", async () => {
      await expect(fetch(url("/cut")).then((answer) => answer.text())).rejects.toThrow()
    })

    const open = (
      query = "token=good"
    ): Promise<{ ws: WebSocket; heard: Array<string | Buffer>; closed: Promise<number> }> =>
      new Promise((resolve, reject) => {
        const ws = new WebSocket(`ws://127.0.0.1:${server.port}/socket?${query}`, ["offered"])
        const heard: Array<string | Buffer> = []
        const closed = new Promise<number>((done) => ws.on("close", done))
        ws.on("message", (data: Buffer, binary) => heard.push(binary ? data : data.toString()))
        ws.on("open", () => resolve({ ws, heard, closed }))
        ws.on("error", reject)
        ws.on("upgrade", (message) => {
          if (!/^[0-9a-f]{32}$/.test(String(message.headers["x-trace-id"]))) reject(new Error("no trace id"))
        })
      })
    it("a WebSocket: text and binary, corked pairs, data of the upgrade, close code once", async () => {
      seen.closes = []
      const ws = new WebSocket(`ws://127.0.0.1:${server.port}/socket?token=good`)
      const heard: Array<string | Buffer> = []
      ws.on("message", (data: Buffer, binary) => heard.push(binary ? data : data.toString()))
      await new Promise((resolve) => ws.on("open", resolve))
      ws.send("hi")
      ws.send(Buffer.from([1, 2, 3]))
      ws.send("twice")
      await until(() => heard.length === 5)
      expect(heard).toEqual(["welcome held", "text hi", Buffer.from([1, 2, 3]), "one", "two"])
      const closed = new Promise((resolve) => ws.on("close", resolve))
      ws.send("close")
      expect(await closed).toBe(4001)
      await until(() => seen.closes.length === 1)
    })
    it("an upgrade that is refused is a whole HTTP answer", async () => {
      const answer = await raw(
        "GET /socket?token=bad HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
      )
      expect(answer).toMatch(/^HTTP\/1\.1 403 Forbidden/)
      expect(answer).toMatch(/x-trace-id: [0-9a-f]{32}/i)
      expect(answer).toContain('{"message":"no"}')
    })
    it("a subprotocol that is offered is ignored", async () => {
      await expect(open()).rejects.toThrow(/subprotocol/i)
    })
    it("1009 above the message limit, 1006 for a connection that just goes", async () => {
      const ws = new WebSocket(`ws://127.0.0.1:${server.port}/socket?token=good`)
      await new Promise((resolve) => ws.on("open", resolve))
      const closed = new Promise((resolve) => ws.on("close", resolve))
      ws.send(Buffer.alloc(1_001))
      expect(await closed).toBe(1009)
      await until(() => seen.closes.at(-1) === 1009)
      seen.closes = []
      const other = new WebSocket(`ws://127.0.0.1:${server.port}/socket?token=good`)
      await new Promise((resolve) => other.on("open", resolve))
      other.terminate()
      await until(() => seen.closes.length > 0)
      expect(seen.closes.at(-1)).toBe(1006)
    })
    it("the connections that are open do not count those that closed as WebSockets, whoever closed them", async () => {
      const other = await start()
      for (const leave of ["close", "terminate"] as const) {
        const ws = new WebSocket(`ws://127.0.0.1:${other.port}/socket?token=good`)
        await new Promise((resolve) => ws.on("open", resolve))
        expect(other.load()).toMatchObject({ connections: 1, sockets: 1 })
        ws[leave]()
        await until(() => other.load().connections === 0)
        expect(other.load()).toMatchObject({ connections: 0, sockets: 0 })
      }
      await other.drain(0)
    })
    it("a socket whose peer does not read: buffered, then dropped at the limit, then drain", async () => {
      seen.drains = 0
      const ws = new WebSocket(`ws://127.0.0.1:${server.port}/socket?token=good`)
      await new Promise((resolve) => ws.on("open", resolve))
      ws.pause()
      ws.send("flood")
      await tick(100)
      expect(seen.written).toBe(1)
      expect(seen.sockets.at(-1)!.bufferedBytes).toBeLessThan(1_300_000)
      ws.resume()
      await until(() => seen.drains > 0)
      ws.terminate()
    })

    it("drain: requests in flight finish, WebSockets hear 1001, nothing new comes in", async () => {
      const other = await start()
      const ws = new WebSocket(`ws://127.0.0.1:${other.port}/socket?token=good`)
      await new Promise((resolve) => ws.on("open", resolve))
      const closed = new Promise((resolve) => ws.on("close", resolve))
      const slow = fetch(`http://127.0.0.1:${other.port}/slow`)
      await vi.waitFor(() => expect(other.load().requests).toBe(1), { timeout: 10_000, interval: 1 })
      const draining = other.drain(2_000)
      expect(await closed).toBe(1001)
      expect((await slow).status).toBe(200)
      await draining
      await expect(fetch(`http://127.0.0.1:${other.port}/plain`)).rejects.toThrow()
    })
    it("a port in use is a clear error", async () => {
      await expect(start({ port: server.port })).rejects.toThrow(/cannot listen on 127\.0\.0\.1/)
    })
    it("TLS by certificate and key files", async () => {
      const folder = mkdtempSync(join(tmpdir(), "troupe-tls-"))
      const keyFile = join(folder, "key.pem")
      const certFile = join(folder, "cert.pem")
      execFileSync(
        "openssl",
        [
          "req",
          "-x509",
          "-newkey",
          "ec",
          "-pkeyopt",
          "ec_paramgen_curve:prime256v1",
          "-nodes",
          "-days",
          "1",
          "-subj",
          "/CN=localhost",
          "-keyout",
          keyFile,
          "-out",
          certFile
        ],
        { stdio: "ignore" }
      )
      const secure = await start({ tls: { certFile, keyFile } })
      const body = await new Promise<string>((resolve, reject) => {
        const call = httpsRequest(
          { port: secure.port, host: "127.0.0.1", path: "/see/a/b", rejectUnauthorized: false, agent: false },
          (answer) => {
            let got = ""
            answer.on("data", (chunk) => {
              got += chunk
            })
            answer.on("end", () => resolve(got))
          }
        )
        call.on("error", reject)
        call.end()
      })
      expect(JSON.parse(body)).toMatchObject({ scheme: "https" })
      await secure.drain(500)
    })
  })
