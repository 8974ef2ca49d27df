/** G-13: every 5xx of ours is one log line with trace id and cause, whichever way the service failed, over
 *  both adapters. */
import { request as httpRequest } from "node:http"
import { Effect } from "effect"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { BodyFault, json, type Response, type Route, type Service } from "../../../../runtime/http.ts"
import { Exchanges } from "../../../../runtime/program/telemetry/exchanges.ts"
import { listenWith } from "../../../../runtime/transport/listen.ts"
import type { Server } from "../../../../runtime/transport/server.ts"

interface Line {
  readonly level: string
  readonly message: string
  readonly fields: Record<string, unknown>
}

const ours = new TypeError("a fault of ours")
const get = (path: string, handle: Route["handle"]): Route => ({ method: "GET", path, handle })
const thrown = (): never => {
  throw ours
}

/** Is called when the client has the first part of a stream. */
let arrived = (): void => {}

const service: Service = {
  name: "sample",
  prefixes: ["/"],
  refused: (status) => json(status, { refused: status }),
  routes: [
    get("/fine", () => json(200, {})),
    get("/throws/:id", thrown),
    get("/rejects", () => Promise.reject(ours)),
    get("/dies", () => Effect.andThen(Effect.yieldNow, Effect.die(ours))),
    get("/effect-carries", () =>
      Effect.as(Effect.yieldNow, { ...json(503, { message: "later" }), cause: ours })
    ),
    get("/carries", () => ({ ...json(503, { message: "later" }), cause: ours })),
    get("/carries-later", async (): Promise<Response> => ({ ...json(504, {}), cause: ours })),
    get("/streams", () => ({
      status: 200,
      body: async (sink) => {
        sink.send("first")
        await new Promise<void>((resolve) => {
          arrived = resolve
        })
        throw ours
      }
    })),
    get("/refused-early", () => json(200, {})),
    get("/broken-body", () => {
      throw new BodyFault("timeout")
    })
  ].map((route) =>
    route.path === "/refused-early" ? { ...route, admit: () => ({ ...json(503, {}), cause: ours }) } : route
  ),
  sockets: [
    {
      path: "/socket",
      messageBytesMax: 100,
      upgrade: thrown,
      open: () => {},
      message: () => {},
      close: () => {}
    }
  ]
}

describe.each(["uws", "node"] as const)("over %s", (adapter) => {
  const lines: Array<Line> = []
  const counted: Array<number> = []
  let server: Server

  beforeAll(async () => {
    const exchanges = new Exchanges({
      log: (level, message, fields = {}) => lines.push({ level, message, fields }),
      countsOf: (name) => ({ count: (status) => name === "sample" && counted.push(status) })
    })
    server = await listenWith(adapter, () => {}, [exchanges.instrument(service)], {
      host: "127.0.0.1",
      port: 0
    })
  })
  afterAll(() => server.drain(0))

  const call = (path: string, headers: Record<string, string> = {}) => {
    lines.length = 0
    counted.length = 0
    return new Promise<{ status: number; traceId: string; text: string }>((resolve, reject) => {
      httpRequest({ port: server.port, path, headers }, (message) => {
        let text = ""
        const { statusCode: status = 0, headers: answered } = message
        const done = (): void => resolve({ status, traceId: String(answered["x-trace-id"]), text })
        message.on("data", (chunk) => {
          text += chunk
          arrived()
        })
        message.on("close", done)
        message.on("error", done)
      })
        .on("error", reject)
        .end()
    })
  }

  it.each([
    ["/throws/7", 500, "/throws/:id"],
    ["/rejects", 500, "/rejects"],
    ["/dies", 500, "/dies"],
    ["/effect-carries", 503, "/effect-carries"],
    ["/carries", 503, "/carries"],
    ["/carries-later", 504, "/carries-later"],
    ["/refused-early", 503, "/refused-early"]
  ])("G-13: %s", async (path, status, route) => {
    const answer = await call(path)
    expect(answer.status).toBe(status)
    expect(answer.text).not.toContain("a fault of ours")
    expect(lines).toEqual([
      {
        level: status === 500 ? "error" : "warn",
        message: "a request failed",
        fields: { traceId: answer.traceId, service: "sample", method: "GET", route, status, cause: ours }
      }
    ])
    expect(counted).toEqual([status])
  })

  it("G-13: a handshake that fails", async () => {
    const answer = await call("/socket", {
      connection: "Upgrade",
      upgrade: "websocket",
      "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
      "sec-websocket-version": "13"
    })
    expect(answer.status).toBe(500)
    expect(lines.map(({ fields }) => fields)).toMatchObject([
      { traceId: answer.traceId, route: "/socket", cause: ours }
    ])
  })

  it("G-13: an answer that was cut in the middle", async () => {
    const answer = await call("/streams")
    expect(lines).toMatchObject([
      { message: "an answer was cut", fields: { traceId: answer.traceId, route: "/streams", cause: ours } }
    ])
  })

  it("what is no failure of ours is counted and not logged", async () => {
    expect((await call("/fine")).status).toBe(200)
    expect(counted).toEqual([200])
    expect((await call("/nowhere")).status).toBe(404)
    expect(counted).toEqual([404])
    expect((await call("/broken-body")).status).toBe(408)
    expect([counted, lines]).toEqual([[408], []])
  })
})
