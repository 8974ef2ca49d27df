/** Who may call chat while no key is configured: a browser on this machine is led by whatever page it shows. */
import { request as send } from "node:http"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { ChatTestServer } from "./chat-server.ts"

interface Asked {
  readonly host?: string
  readonly origin?: string
  readonly method?: string
  readonly path?: string
}

interface Told {
  readonly status: number | undefined
  readonly code: string | undefined
  readonly allowed: string | undefined
}

const ask = (
  server: ChatTestServer,
  { host, origin, method = "GET", path = "/v1/models" }: Asked
): Promise<Told> =>
  new Promise((resolve, reject) => {
    const { port } = new URL(server.url)
    const headers = {
      ...(host === undefined ? {} : { host: host.replace("PORT", port) }),
      ...(origin === undefined ? {} : { origin: origin.replace("PORT", port) }),
      ...(server.key === undefined ? {} : { authorization: `Bearer ${server.key}` })
    }
    const call = send({ host: "127.0.0.1", port, path, method, headers }, (answer) => {
      let text = ""
      answer.on("data", (chunk) => {
        text += String(chunk)
      })
      answer.on("end", () =>
        resolve({
          status: answer.statusCode,
          code: /"code": ?"(\w+)"/.exec(text)?.[1],
          allowed: answer.headers["access-control-allow-origin"]
        })
      )
    })
    call.on("error", reject)
    call.end()
  })

describe("G-12 chat without keys", () => {
  let server: ChatTestServer
  beforeAll(async () => {
    server = await ChatTestServer.open({})
  })
  afterAll(() => server.close())

  it("G-12 answers to loopback names only, whatever the port", async () => {
    for (const host of ["127.0.0.1:PORT", "localhost:PORT", "LOCALHOST", "[::1]:PORT", "127.1.2.3"])
      expect((await ask(server, { host })).status, host).toBe(200)
    for (const host of [
      "evil.example",
      "evil.example:PORT",
      "localhost.evil.example",
      "127.0.0.1.evil.example"
    ])
      for (const [method, path] of [
        ["GET", "/v1/models"],
        ["POST", "/v1/chat/completions"]
      ] as const)
        expect(await ask(server, { host, method, path }), host).toEqual({
          status: 403,
          code: "forbidden_host",
          allowed: undefined
        })
  })
  it("G-12 answers no page of another origin, and no preflight of one", async () => {
    for (const origin of ["https://evil.example", "null", "http://localhost:1", "http://127.0.0.1"])
      for (const [method, path] of [
        ["GET", "/v1/models"],
        ["POST", "/v1/chat/completions"]
      ] as const)
        expect(await ask(server, { origin, method, path }), origin).toEqual({
          status: 403,
          code: "forbidden_origin",
          allowed: undefined
        })
    const flight = await ask(server, { origin: "https://evil.example", method: "OPTIONS" })
    expect([flight.status, flight.allowed]).toEqual([204, undefined])
  })
  it("G-12 answers a page of its own", async () => {
    expect((await ask(server, { origin: "http://127.0.0.1:PORT" })).status).toBe(200)
  })
})

describe("G-12 chat as configured", () => {
  it("G-12 without keys, hosts and origins that are listed are answered, others not", async () => {
    const server = await ChatTestServer.open({
      chatHosts: ["gateway.example"],
      chatCorsOrigins: ["https://app.example"]
    })
    const origin = "https://app.example"
    expect(await ask(server, { host: "Gateway.example:8080", origin })).toEqual({
      status: 200,
      code: undefined,
      allowed: origin
    })
    expect((await ask(server, { method: "OPTIONS", origin })).allowed).toBe(origin)
    expect((await ask(server, { host: "other.example" })).code).toBe("forbidden_host")
    expect((await ask(server, { origin: "https://other.example" })).code).toBe("forbidden_origin")
    await server.close()
  })
  it("G-12 without keys, a star allows any host and any origin", async () => {
    const server = await ChatTestServer.open({ chatHosts: ["*"], chatCorsOrigins: ["*"] })
    expect(await ask(server, { host: "any.example", origin: "https://any.example" })).toEqual({
      status: 200,
      code: undefined,
      allowed: "*"
    })
    await server.close()
  })
  it("G-12 with keys, any host and origin is answered, because a page has no key", async () => {
    const server = await ChatTestServer.open({ chatKeys: "one" })
    expect(await ask(server, { host: "any.example", origin: "https://any.example" })).toEqual({
      status: 200,
      code: undefined,
      allowed: "*"
    })
    await server.close()
  })
})
