/** A client that goes away stops what its request waits for outside, seen at the outside as a request that was
 *  aborted. Source: docs/architecture.md, "Transport"; docs/spec/authorization.md, section 11. */
import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { afterAll, beforeAll, beforeEach, expect, it, vi } from "vitest"
import { World } from "../../protocols/authorization/world.ts"

let world: World
let silent: Server
const seen = { begun: 0, aborted: 0 }

beforeAll(async () => {
  // A server that takes requests and answers none.
  silent = createServer((request) => {
    seen.begun++
    request.on("error", () => {})
    request.socket.on("error", () => {})
    request.socket.on("close", () => void seen.aborted++)
  })
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve))
  world = await World.make({
    settings: {
      clientDocuments: { requireHttps: false, allowPrivateAddresses: true },
      federation: {
        enabled: true,
        issuer: at(""),
        clientId: "troupe",
        clientSecret: "s3cret",
        redirectUri: "http://localhost/oidc/callback",
        displayName: "Work"
      }
    }
  })
})
afterAll(async () => {
  await world.close()
  silent.closeAllConnections()
  silent.close()
})
beforeEach(() => {
  seen.begun = 0
  seen.aborted = 0
})

const at = (path: string): string => `http://127.0.0.1:${(silent.address() as AddressInfo).port}${path}`

/** A request of a client that can go away. */
const asked = (path: string, init: RequestInit = {}) => {
  const client = new AbortController()
  const ended = fetch(`${world.base}${path}`, { ...init, redirect: "manual", signal: client.signal }).catch(
    () => {}
  )
  return {
    goes: async () => {
      client.abort()
      await ended
    }
  }
}

const authorizeAt = (document: string): string => world.authorizeUrl({ clientId: at(document) })

it("the document of a client is no longer fetched", async () => {
  const one = asked(authorizeAt("/one"))
  await vi.waitFor(() => expect(seen.begun).toBe(1))
  await one.goes()
  await vi.waitFor(() => expect(seen.aborted).toBe(1))
})

it("a document for which another client waits is fetched on, until that one goes too", async () => {
  const { open } = world
  const [first, second] = [asked(authorizeAt("/two")), asked(authorizeAt("/two"))]
  await vi.waitFor(() => expect(seen.begun).toBe(1))
  const flights = (
    open.services.documents as unknown as { inFlight: { flights: Map<string, { waiters: number }> } }
  ).inFlight.flights
  await vi.waitFor(() => expect(flights.get(at("/two"))?.waiters).toBe(2))
  await first.goes()
  await vi.waitFor(() => expect(flights.get(at("/two"))?.waiters).toBe(1))
  expect([seen.begun, seen.aborted]).toEqual([1, 0])
  await second.goes()
  await vi.waitFor(() => expect(seen.aborted).toBe(1))
})

it("a login provider is no longer asked where it lies", async () => {
  const one = asked("/oidc/start")
  await vi.waitFor(() => expect(seen.begun).toBe(1))
  await one.goes()
  await vi.waitFor(() => expect(seen.aborted).toBe(1))
})
