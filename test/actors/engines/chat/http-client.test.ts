/** A call that nobody wants is not sent. Source: docs/spec/chat.md, section 17. */
import net, { type AddressInfo } from "node:net"
import { afterAll, beforeAll, expect, it } from "vitest"
import { Aborter } from "../../../../actors/engines/chat/abort.ts"
import { Deadlines } from "../../../../actors/engines/chat/deadlines.ts"
import { HttpClient } from "../../../../actors/engines/chat/http-client.ts"
import { Timers } from "../../../../runtime/timers.ts"

let requests = 0
const server = net.createServer((wire) => {
  wire.on("data", () => {
    requests++
    wire.write("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}")
  })
  wire.on("error", () => {})
})

let client: HttpClient
beforeAll(async () => {
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve)
  })
  client = new HttpClient({
    base: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    headers: {},
    limits: { connectMs: 10_000, firstMs: 10_000, idleMs: 10_000 },
    deadlines: new Deadlines({ monotonicMs: () => 0, timers: new Timers(() => 0) })
  })
})
afterAll(() => {
  client.close()
  server.close()
})

it("a call that was aborted before it began is refused and not sent; the next one is", async () => {
  const aborted = new Aborter()
  aborted.abort()
  await expect(client.json("POST", "/chat", "{}", aborted)).rejects.toMatchObject({ reason: "aborted" })
  expect(await client.json("POST", "/chat", "{}", new Aborter())).toEqual({})
  expect(requests).toBe(1)
})
