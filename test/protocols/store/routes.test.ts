/** What waits is an Effect: it stops with its client, within the time limit, and a look-up waits for nothing.
 *  Source: docs/architecture.md, "Transport"; docs/spec/store.md, sections 2.9, 6.6. */
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { Effect } from "effect"
import { expect, it, vi } from "vitest"
import { openMemory } from "../../../storage/memory.ts"
import type { Store } from "../../../storage/store.ts"
import { unheard } from "../../answer.ts"
import { minimal, StoreHarness, type Call } from "./harness.ts"

const create = (headers: Readonly<Record<string, string>> = {}): Call => ({
  method: "POST",
  path: "/products",
  body: minimal,
  headers
})

/** A promise, and what resolves it. */
const signal = (): readonly [promise: Promise<void>, resolve: () => void] => {
  let resolve = (): void => {}
  const promise = new Promise<void>((settle) => {
    resolve = settle
  })
  return [promise, resolve]
}

/** A store whose commits are accepted, and told to be on disk only by `flush`. */
const slowStore = () => {
  const store = openMemory()
  const held: Array<() => void> = []
  let holds = false
  const slow: Store = Object.create(store, {
    commit: {
      value: (...[writes, settled]: Parameters<Store["commit"]>) =>
        store.commit(writes, (fault) => {
          if (holds) held.push(() => settled(fault))
          else settled(fault)
        })
    }
  }) as Store
  return {
    slow,
    hold: () => {
      holds = true
    },
    flush: () => {
      holds = false
      for (const settle of held.splice(0)) settle()
    }
  }
}

it("a client that goes ends the question to its reply webhook, and nothing is written", async () => {
  const [ended, end] = signal()
  const [heard, hear] = signal()
  const hook = createServer((request, reply) => {
    reply.on("close", end)
    request.resume()
    hear()
  }).listen(0, "127.0.0.1")
  await new Promise((resolve) => hook.once("listening", resolve))
  const harness = await StoreHarness.open({ webhooks: { privateTargets: true, replyMs: 3_600_000 } })
  const url = `http://127.0.0.1:${(hook.address() as AddressInfo).port}/hook`
  await harness.post("/webhooks", { event_type: "ValidateProduct", url, secret: "s".repeat(32) })

  const client = new AbortController()
  const answer = harness.call(create(), client.signal)
  await heard
  client.abort()
  expect((await answer).status).toBe(unheard)
  await ended
  harness.fresh()
  expect((await harness.get("/products")).body.total_count).toBe(0)
  hook.closeAllConnections()
  hook.close()
})

it("an import whose client went asks no reply webhook any more, for any of its entries", async () => {
  let open = 0
  const [heard, hear] = signal()
  const [ended, end] = signal()
  const hook = createServer((request, reply) => {
    open++
    reply.on("close", () => {
      if (--open === 0) end()
    })
    request.resume()
    if (open === 3) hear()
  }).listen(0, "127.0.0.1")
  await new Promise((resolve) => hook.once("listening", resolve))
  const harness = await StoreHarness.open({ webhooks: { privateTargets: true, replyMs: 3_600_000 } })
  const url = `http://127.0.0.1:${(hook.address() as AddressInfo).port}/hook`
  await harness.post("/webhooks", { event_type: "ValidateProduct", url, secret: "s".repeat(32) })

  const client = new AbortController()
  const entries = [1, 2, 3].map((number) => ({ product: { ...minimal, item_number: `n-${number}` } }))
  const answer = harness.call({ method: "POST", path: "/products/importMany", body: entries }, client.signal)
  await heard
  client.abort()
  expect((await answer).status).toBe(unheard)
  await ended
  hook.close()
})

it("a create with an Idempotency-Key goes on without its client, and its repeat waits for the disk", async () => {
  const { slow, hold, flush } = slowStore()
  const harness = await StoreHarness.open({}, slow)
  harness.fresh()
  hold()
  const client = new AbortController()
  const first = harness.call(create({ "idempotency-key": "k" }), client.signal)
  await new Promise(setImmediate)
  client.abort()
  expect((await first).status).toBe(unheard)

  let answered = false
  const again = harness.call(create({ "idempotency-key": "k" })).finally(() => {
    answered = true
  })
  await new Promise(setImmediate)
  await new Promise(setImmediate)
  expect(answered).toBe(false)
  flush()
  const repeated = await again
  expect([repeated.status, repeated.header("idempotency-replayed")]).toEqual([201, "true"])
  expect((await harness.get("/products")).body.total_count).toBe(1)
})

it("what takes more than 30 s is answered 503, and its place is back", async () => {
  const { slow, hold, flush } = slowStore()
  const harness = await StoreHarness.open({}, slow)
  harness.fresh()
  hold()
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
  try {
    const answer = harness.call(create())
    await vi.advanceTimersByTimeAsync(29_999)
    await vi.advanceTimersByTimeAsync(1)
    const { status, body } = await answer
    expect([status, body.details]).toEqual([503, "it took too long"])
    expect(vi.getTimerCount()).toBe(0)
  } finally {
    vi.useRealTimers()
  }
  flush()
  expect((await harness.get("/products")).body.total_count).toBe(1)
})

it("a search through long texts stops with its client", async () => {
  const harness = await StoreHarness.open()
  for (let at = 0; at < 5; at++) await harness.product({ long_description_1: `text ${at}` })
  await harness.get("/products?sort=id")
  const search = "/products?long_description_1=like:text"
  let nowMs = 0
  const clock = vi.spyOn(Date, "now").mockImplementation(() => (nowMs += 10))
  const read = vi.spyOn(harness.shop.engine, "get")
  try {
    const client = new AbortController()
    const answer = harness.call(search, client.signal)
    expect(read).toHaveBeenCalledTimes(1)
    client.abort()
    expect((await answer).status).toBe(unheard)
    for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate)
    expect(read).toHaveBeenCalledTimes(1)
  } finally {
    clock.mockRestore()
    read.mockRestore()
  }
  // Another request for the same does not wait for the one that stopped.
  expect((await harness.get(search)).body.total_count).toBe(5)
})

it("a look-up answers at once, without an Effect: from the engine, and from the cache", async () => {
  const harness = await StoreHarness.open()
  const id = await harness.product()
  for (const path of [`/products/${id}`, `/products/${id}`, `/orders/${id}`])
    expect(Effect.isEffect(harness.asked({ path }))).toBe(false)
})
