/** Every hostile request over both adapters, on real sockets. The limits of time are short here; a test waits for
 *  what must come, never for time to pass. */
import { readFileSync } from "node:fs"
import net from "node:net"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { json, type Service } from "../../../runtime/http.ts"
import { bind as bindNode } from "../../../runtime/transport/node.ts"
import type { Bind, Server } from "../../../runtime/transport/server.ts"
import { bind as bindUws } from "../../../runtime/transport/uws.ts"
import { hostileRequests, type Outcome, type Part, type Row, tableOf } from "./hostile-requests.ts"

/** What handlers saw from which address: each row has an address of its own. */
const executed = new Map<string, Array<string>>()
const saw = (client: string, what: string): void => {
  if (what === "/probe") return
  const list = executed.get(client)
  if (list === undefined) executed.set(client, [what])
  else list.push(what)
}

const service: Service = {
  name: "test",
  prefixes: ["/"],
  refused: (status) => json(status, { refused: status }),
  routes: [
    ...["/plain", "/behind", "/probe"].map((path) => ({
      method: "GET",
      path,
      handle: ({ client }: { readonly client: string }) => {
        saw(client, path)
        return { status: 200, body: "hello" }
      }
    })),
    {
      method: "GET",
      path: "/slow",
      handle: async ({ client, path }) => {
        saw(client, path)
        await new Promise((resolve) => setTimeout(resolve, 200))
        return { status: 200, body: "late" }
      }
    },
    {
      method: "POST",
      path: "/echo",
      body: { as: "buffer", bytesMax: 1_000 },
      handle: ({ client, path, body }) => {
        saw(client, path)
        return { status: 200, body }
      }
    }
  ],
  sockets: [
    {
      path: "/socket",
      messageBytesMax: 1_000,
      upgrade: ({ client }) => ({ accept: client }),
      open: () => {},
      message: ({ data }, message) => saw(data as string, `message ${Buffer.from(message)}`),
      close: () => {}
    }
  ]
}

/** A connection that keeps what it hears. */
class Client {
  received = ""
  closed = false
  private readonly wire: net.Socket
  private changed: () => void = () => {}

  constructor(port: number, localAddress: string) {
    this.wire = net.connect({ port, host: "127.0.0.1", localAddress, allowHalfOpen: true })
    this.wire.on("data", (data) => {
      this.received += data.toString("latin1")
      this.changed()
    })
    this.wire.on("error", () => {})
    const finish = (): void => {
      this.closed = true
      this.changed()
    }
    this.wire.on("end", finish)
    this.wire.on("close", finish)
  }

  get statuses(): ReadonlyArray<number> {
    return [...this.received.matchAll(/HTTP\/1\.1 (\d{3})/g)].map((match) => Number(match[1]))
  }

  async until(what: () => boolean): Promise<void> {
    while (!what() && !this.closed)
      await new Promise<void>((resolve) => {
        this.changed = resolve
      })
  }

  async send(part: Part): Promise<void> {
    if (part === "half-close") return void this.wire.end()
    if (typeof part === "string") return void this.wire.write(part, "latin1")
    if ("await" in part) return this.until(() => this.statuses.length >= part.await)
    if ("drip" in part) {
      const timer = setInterval(() => this.wire.write(part.drip, "latin1"), 40)
      return void this.wire.once("close", () => clearInterval(timer))
    }
    for (const byte of part.singly) {
      this.wire.write(byte, "latin1")
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
  }

  destroy(): void {
    this.wire.destroy()
  }
}

const observe = async (port: number, row: Row, expected: Outcome, address: string): Promise<Outcome> => {
  const client = new Client(port, address)
  client.send = client.send.bind(client)
  for (const part of row.send) await client.send(part)
  const { connection, statuses } = expected
  if (connection === "closed") await client.until(() => false)
  else await client.until(() => client.statuses.length >= statuses.length)
  if (connection === "open") {
    await client.send("GET /probe HTTP/1.1\r\nHost: x\r\n\r\n")
    await client.until(() => client.statuses.length > statuses.length)
  }
  const seen = (): ReadonlyArray<string> => executed.get(address) ?? []
  for (let i = 0; i < 200 && seen().length < expected.executed.length; i++)
    await new Promise((resolve) => setTimeout(resolve, 5))
  client.destroy()
  const isOpen = connection === "open" && client.statuses.length > statuses.length
  return {
    statuses: isOpen ? client.statuses.slice(0, -1) : client.statuses,
    connection: client.closed && !isOpen ? "closed" : connection,
    executed: [...seen()]
  }
}

const adapters: ReadonlyArray<readonly ["node" | "uws", Bind]> = [
  ["node", bindNode],
  ["uws", bindUws]
]

let addresses = 1

for (const [name, bind] of adapters)
  describe(`over ${name}`, () => {
    let server: Server
    beforeAll(async () => {
      server = await bind({
        host: "127.0.0.1",
        port: 0,
        headerTimeoutMs: 1_500,
        bodyTimeoutMs: 1_000,
        lingerMs: 300
      })
      server.serve([service])
    })
    afterAll(() => server.drain(500))

    for (const row of hostileRequests) {
      const expected = row[name]
      it.concurrent(`G-10 ${row.group}: ${row.name}`, async ({ expect: expectRow }) => {
        const address = `127.0.1.${addresses++}`
        expectRow(await observe(server.port, row, expected, address)).toEqual(expected)
      }, 60_000)
    }
  })

it("G-10 docs/http.md shows this table", () => {
  expect(readFileSync(new URL("../../../docs/http.md", import.meta.url), "utf8")).toContain(
    tableOf(hostileRequests)
  )
})
