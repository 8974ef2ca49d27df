/** What chat fetches from elsewhere, and model servers behind TLS: real sockets to local servers, names
 *  looked up by the test. */
import { execFileSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { createServer, type RequestListener, type Server } from "node:http"
import { createServer as createTlsServer } from "node:https"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest"
import { isPublicAddress } from "../../../protocols/chat/turn/public-fetch.ts"
import { buildChild, startChild } from "../../child.ts"
import { toolCallStream, completion, FakeUpstream, textStream } from "./fake-upstream.ts"
import { ChatTestServer } from "./chat-server.ts"

const mebibyte = 1_048_576
const picture = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0, 255, 10, 13])
const hosts: Array<string | undefined> = []
const lookups: Array<string> = []

const pages: Record<string, RequestListener> = {
  "/page": (_, reply) => {
    reply.setHeader("content-type", "text/html; charset=utf-8").end("<p>Grüße</p>")
  },
  "/missing": (_, reply) => {
    reply.writeHead(404, { "content-type": "text/plain" }).end("no such page")
  },
  "/moved": (_, reply) => {
    reply.writeHead(302, { location: "/page" }).end()
  },
  "/inward": (_, reply) => {
    reply.writeHead(302, { location: "http://inside.example/secret" }).end()
  },
  "/around": (_, reply) => {
    reply.writeHead(302, { location: "/around" }).end()
  },
  "/large": (_, reply) => {
    reply.setHeader("content-type", "text/plain").end("x".repeat(mebibyte + 1))
  },
  "/binary": (_, reply) => {
    reply.setHeader("content-type", "application/octet-stream").end(picture)
  },
  "/picture.png": (_, reply) => {
    reply.setHeader("content-type", "image/png").end(picture)
  },
  "/limit.png": (_, reply) => {
    reply.setHeader("content-type", "image/png").end(Buffer.alloc(mebibyte, 7))
  },
  "/large.png": (_, reply) => {
    reply.setHeader("content-type", "image/png").end(Buffer.alloc(mebibyte + 1, 7))
  },
  "/missing.png": (_, reply) => {
    reply.writeHead(404, { "content-type": "image/png" }).end(picture)
  }
}

let chatServer: ChatTestServer
let upstream: FakeUpstream
let site: Server
let port: number

beforeAll(async () => {
  site = createServer((request, reply) => {
    hosts.push(request.headers.host)
    pages[request.url!]!(request, reply)
  })
  await new Promise<void>((resolve) => {
    site.listen(0, "127.0.0.1", resolve)
  })
  port = (site.address() as AddressInfo).port
  upstream = await FakeUpstream.open()
  const base_url = upstream.url.replace(/\/v1$/, "")
  chatServer = await ChatTestServer.open(
    {
      builtinTools: ["web_fetch"],
      records: [{ id: "sees", kind: "ollama", base_url, fetch_images: true, models: ["m"] }]
    },
    {
      upstream,
      outside: {
        resolve: (host) => {
          lookups.push(host)
          return Promise.resolve([
            { address: host === "pages.example" ? "127.0.0.1" : "10.0.0.1", family: 4 }
          ])
        },
        allow: (address) => address === "127.0.0.1" || isPublicAddress(address)
      }
    }
  )
})

afterAll(async () => {
  await chatServer.close()
  upstream.close()
  site.closeAllConnections()
  site.close()
})

beforeEach(() => {
  hosts.length = lookups.length = 0
})

const at = (path: string): string => `http://pages.example:${port}${path}`

describe("web_fetch inside a turn", () => {
  /** What the model is told when it calls the tool with this address. */
  const fetchResult = async (url: string): Promise<string> => {
    upstream.respondWith(
      { chunks: toolCallStream("web_fetch", JSON.stringify({ url })) },
      { chunks: textStream("done") }
    )
    const { text } = await chatServer.ask({ stream: true })
    expect([text.includes("web_fetch"), text.includes('"content":"done"')]).toEqual([false, true])
    expect(upstream.requests[0]!.body.tools.map((tool: any) => tool.function.name)).toEqual(["web_fetch"])
    const [, call, result] = upstream.requests[1]!.body.messages
    expect([call.tool_calls[0].function.name, result.role, result.tool_call_id]).toEqual([
      "web_fetch",
      "tool",
      "call_1"
    ])
    return result.content
  }
  it("a page, by the name it has, from the address that was looked up", async () => {
    expect(await fetchResult(at("/page"))).toBe("HTTP 200\n<p>Grüße</p>")
    expect([hosts, lookups]).toEqual([[`pages.example:${port}`], ["pages.example"]])
  })
  it("a status that is no success is told with its page", async () =>
    expect(await fetchResult(at("/missing"))).toBe("HTTP 404\nno such page"))
  it("a redirect is followed and looked up anew", async () => {
    expect(await fetchResult(at("/moved"))).toBe("HTTP 200\n<p>Grüße</p>")
    expect(lookups).toEqual(["pages.example", "pages.example"])
  })
  it("a redirect that leads inside is not followed", async () => {
    expect(await fetchResult(at("/inward"))).toBe("error: not a public address")
    expect([lookups, hosts.length]).toEqual([["pages.example", "inside.example"], 1])
  })
  it("five redirects and no more", async () => {
    expect(await fetchResult(at("/around"))).toBe("error: too many redirects")
    expect(hosts.length).toBe(6)
  })
  it("1 MiB is read, the rest is left", async () =>
    expect((await fetchResult(at("/large"))).length).toBe("HTTP 200\n".length + mebibyte))
  it("what is no text is not read", async () =>
    expect(await fetchResult(at("/binary"))).toBe("error: not a type that is read"))
})

describe("fetch_images", () => {
  const askAboutImage = async (url: string) => {
    upstream.respondWith({
      lines: true,
      chunks: [{ message: { content: "a picture" }, done: true, done_reason: "stop" }]
    })
    const { status, body } = await chatServer.ask({
      model: "sees/m",
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "what is it?" },
            { type: "image_url", image_url: { url } }
          ]
        }
      ]
    })
    return { status, code: body.error?.code, images: upstream.requests[0]?.body.messages[0].images }
  }
  it("a remote image goes to the model as its bytes", async () => {
    expect(await askAboutImage(at("/picture.png"))).toEqual({
      status: 200,
      code: undefined,
      images: [picture.toString("base64")]
    })
    expect(hosts).toEqual([`pages.example:${port}`])
  })
  it("of 1 MiB, whole", async () =>
    expect((await askAboutImage(at("/limit.png"))).images).toEqual([
      Buffer.alloc(mebibyte, 7).toString("base64")
    ]))
  it.each([
    ["larger than 1 MiB", "/large.png"],
    ["no image", "/page"],
    ["not there, though the answer is an image", "/missing.png"]
  ])("%s → 400, and the model is not asked", async (_, path) =>
    expect(await askAboutImage(at(path))).toEqual({
      status: 400,
      code: "unsupported_value",
      images: undefined
    })
  )
  it.each([
    "http://inside.example/x.png",
    "http://169.254.169.254/x.png",
    "http://[::1]/x.png",
    "http://10.0.0.1/x.png",
    "http://user:word@pages.example/x.png"
  ])("%s → 400 before any connection", async (url) => {
    expect(await askAboutImage(url)).toEqual({ status: 400, code: "unsupported_value", images: undefined })
    expect(hosts).toEqual([])
  })
})

it("a model server behind TLS: a certificate that is trusted is called by its name, another is upstream_unavailable", async () => {
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
      "-addext",
      "subjectAltName=DNS:localhost",
      "-keyout",
      keyFile,
      "-out",
      certFile
    ],
    { stdio: "ignore" }
  )
  const asked: Array<string> = []
  const server = createTlsServer(
    { key: readFileSync(keyFile), cert: readFileSync(certFile) },
    (request, reply) => {
      asked.push(`${request.method} ${request.headers.host}`)
      request
        .resume()
        .on("end", () =>
          reply
            .setHeader("content-type", "application/json")
            .end(
              JSON.stringify(request.method === "GET" ? { data: [{ id: "m" }] } : completion("under seal"))
            )
        )
    }
  )
  await new Promise<void>((resolve) => {
    server.listen(0, "localhost", resolve)
  })
  const name = `localhost:${(server.address() as AddressInfo).port}`
  const program = await buildChild("test/protocols/chat/chat-child.ts")
  const answer = async (child: ReturnType<typeof startChild>, model: string) => {
    const at = (await child.line(/^port /)).slice(5)
    const response = await fetch(`http://127.0.0.1:${at}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model, messages: [{ role: "user", content: "x" }] })
    })
    child.process.kill("SIGKILL")
    return [response.status, (await response.json()) as any] as const
  }
  try {
    const [status, body] = await answer(
      startChild(program, [join(folder, "a"), `https://${name}/v1`], { NODE_EXTRA_CA_CERTS: certFile }),
      "main/m"
    )
    expect([status, body.choices[0].message.content, asked.at(-1)]).toEqual([
      200,
      "under seal",
      `POST ${name}`
    ])
    const before = asked.length
    const [refused, fault] = await answer(
      startChild(program, [join(folder, "b"), `https://${name}/v1`]),
      "main/m"
    )
    // Its list cannot be had either, so the model may not even be known.
    expect([
      [502, "upstream_unavailable"],
      [404, "model_not_found"]
    ]).toContainEqual([refused, fault.error.code])
    expect(asked.length).toBe(before)
  } finally {
    server.closeAllConnections()
    server.close()
    rmSync(folder, { recursive: true })
    rmSync(dirname(program), { recursive: true })
  }
}, 60_000)
