/** Backup and check of the console API, over a real socket. */
import { Effect } from "effect"
import { afterAll, beforeAll, expect, it } from "vitest"
import { Metrics } from "../../../runtime/metrics.ts"
import { operations } from "../../../runtime/program/operations.ts"
import { ActorSystem } from "../../../runtime/registry.ts"
import { listenWith } from "../../../runtime/transport/listen.ts"
import type { Server } from "../../../runtime/transport/server.ts"
import { openMemory } from "../../../storage/memory.ts"
import { StorageFault } from "../../../storage/store.ts"

let server: Server
let begun = (): void => {}
let interrupted = (): void => {}

/** Runs until it is interrupted. */
const endless = Effect.onInterrupt(
  Effect.suspend(() => {
    begun()
    return Effect.never
  }),
  () => Effect.sync(() => interrupted())
)

beforeAll(async () => {
  const service = operations({
    actors: new ActorSystem({ store: openMemory(), nowMs: Date.now }),
    metrics: new Metrics(),
    engines: () => [],
    adapter: () => "",
    isOperator: (token) => token === "operator",
    keys: { list: () => [], create: () => Promise.resolve({}), deactivate: () => Promise.resolve({}) },
    backup: (folder) => {
      if (folder === "/endless") return endless
      return folder === "/good"
        ? Effect.succeed({ entries: 1, files: 2, bytes: 3 })
        : Effect.fail(new StorageFault({ reason: "io", detail: "no place" }))
    },
    check: () => endless
  })
  server = await listenWith("auto", () => {}, [service], { host: "127.0.0.1", port: 0 })
})

afterAll(() => server.drain(0))

const ask = (method: string, path: string, body?: object, signal?: AbortSignal): Promise<Response> =>
  fetch(`http://127.0.0.1:${server.port}/console/api/${path}`, {
    method,
    headers: { Authorization: "Bearer operator" },
    ...(body && { body: JSON.stringify(body) }),
    ...(signal && { signal })
  })

it("a backup tells what it holds, or why there is none", async () => {
  const good = await ask("POST", "backup", { folder: "/good" })
  expect([good.status, await good.json()]).toEqual([200, { folder: "/good", entries: 1, files: 2, bytes: 3 }])
  const bad = await ask("POST", "backup", { folder: "/bad" })
  expect([bad.status, await bad.json()]).toEqual([409, { message: "storage (io): no place" }])
  for (const folder of [undefined, "", 5, "a\0b"])
    expect((await ask("POST", "backup", { folder })).status, String(folder)).toBe(400)
})

it.each([
  ["POST", "backup", { folder: "/endless" }],
  ["GET", "check", undefined]
] as const)("G-14: %s %s ends when its caller goes", async (method, path, body) => {
  const caller = new AbortController()
  const isBegun = new Promise<void>((resolve) => (begun = resolve))
  const isInterrupted = new Promise<void>((resolve) => (interrupted = resolve))
  const answer = ask(method, path, body, caller.signal)
  await isBegun
  caller.abort()
  await expect(answer).rejects.toThrow()
  await isInterrupted
})

it.each(["GET actors", "GET journal", "POST restart"])(
  "G-14: %s with a malformed id is 400",
  async (route) => {
    const [method, what] = route.split(" ") as [string, string]
    for (const id of ["%ZZ", "%", "a/%E0%A4%A"])
      expect((await ask(method, `${what}/counter/${id}`)).status, id).toBe(400)
    expect((await ask(method, `${what}/counter/%2F`)).status).toBe(404)
  }
)
