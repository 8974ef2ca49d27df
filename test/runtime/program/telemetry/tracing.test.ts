/** A node that traces, against a collector in this process: the tree of a request in each service, and that
 *  nothing is wrapped where tracing is off. */
import { mkdtempSync, rmSync } from "node:fs"
import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect, Fiber } from "effect"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { effectOf, type Answer } from "../../../../runtime/http.ts"
import { loadConfig } from "../../../../runtime/program/config/config.ts"
import { startNode, type RunningNode } from "../../../../runtime/program/start.ts"
import { RecordedSpan } from "../../../../runtime/program/telemetry/spans.ts"
import { Telemetry } from "../../../../runtime/program/telemetry/telemetry.ts"
import { Tracing } from "../../../../runtime/program/telemetry/tracing.ts"
import { openMemory } from "../../../../storage/memory.ts"
import { answerOf } from "../../../answer.ts"

interface Received {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly attributes: ReadonlyArray<{ readonly key: string; readonly value: Record<string, unknown> }>
}

const attribute = ({ attributes }: Received, key: string): unknown =>
  Object.values(attributes.find((one) => one.key === key)?.value ?? {})[0]

describe("a node with a collector", () => {
  const folder = mkdtempSync(join(tmpdir(), "troupe-tracing-"))
  const received: Array<Received> = []
  const resources: Array<unknown> = []
  let collector: Server
  let node: RunningNode
  let paths: Array<string | undefined> = []

  beforeAll(async () => {
    collector = createServer((request, response) => {
      let body = ""
      paths.push(request.url)
      request.on("data", (chunk) => {
        body += String(chunk)
      })
      request.on("end", () => {
        const { resourceSpans } = JSON.parse(body)
        resources.push(resourceSpans[0].resource)
        received.push(...resourceSpans[0].scopeSpans[0].spans)
        response.end("{}")
      })
    })
    await new Promise<void>((resolve) => collector.listen(0, "127.0.0.1", resolve))
    const { port } = collector.address() as AddressInfo
    node = await startNode(
      await loadConfig({
        TROUPE_DATA: folder,
        TROUPE_PORT: "0",
        TROUPE_LOG_LEVEL: "error",
        APERTIUM: "off",
        STT_MAX_SESSIONS: "0",
        OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
        OTEL_SERVICE_NAME: "node-a"
      })
    )
  }, 60_000)

  afterAll(async () => {
    collector.close()
    rmSync(folder, { recursive: true, force: true })
  })

  const call = async (path: string, body?: unknown, headers: Record<string, string> = {}) => {
    const answer = await fetch(`${node.url}${path}`, {
      ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
      headers: { "content-type": "application/json", ...headers }
    })
    await answer.arrayBuffer()
    return { status: answer.status, traceId: answer.headers.get("x-trace-id")! }
  }

  it("request → upstream → commit, below the trace id that the client got", async () => {
    const stored = await call("/v1/responses", { model: "local/echo", input: "hello" })
    const missing = await call("/v1/responses/resp_none")
    await node.stop()
    const tree = received.filter(({ traceId }) => traceId === stored.traceId)
    const root = tree.find(({ parentSpanId }) => parentSpanId === undefined)!
    expect(root.name).toBe("POST /v1/responses")
    expect(attribute(root, "troupe.service")).toBe("chat")
    expect(attribute(root, "http.response.status_code")).toBe("200")
    const below = tree.filter(({ parentSpanId }) => parentSpanId === root.spanId)
    expect(below.map(({ name }) => name)).toEqual(expect.arrayContaining(["generate", "storage commit"]))
    expect(below.find(({ name }) => name === "generate")?.attributes).toEqual([
      { key: "troupe.upstream", value: { stringValue: "local" } }
    ])
    expect(received.filter(({ traceId }) => traceId === missing.traceId)).toMatchObject([
      { name: "GET /v1/responses/:id" }
    ])
    expect(paths.every((path) => path === "/v1/traces")).toBe(true)
    expect(resources[0]).toMatchObject({
      attributes: expect.arrayContaining([{ key: "service.name", value: { stringValue: "node-a" } }])
    })
    expect(JSON.stringify(received)).not.toContain("hello")
  })
})

const tracingOf = (samplePercent: number, accepts = true) => {
  const ended: Array<RecordedSpan> = []
  const tracing = new Tracing({ ended: (span) => ended.push(span), accepts: () => accepts, samplePercent })
  return { tracing, ended }
}

const request = (traceId: string) => ({ method: "GET", traceId }) as never

it("the trace id decides what is sampled; a collector that rests samples nothing", () => {
  const service = {
    name: "s",
    prefixes: [],
    refused: () => ({ status: 404 }),
    routes: [{ method: "GET", path: "/a", handle: () => ({ status: 200 }) }]
  }
  const sampled = (percent: number, accepts?: boolean): ReadonlyArray<string> => {
    const { tracing, ended } = tracingOf(percent, accepts)
    const [route] = tracing.instrument(service).routes
    for (const first of ["00000000", "7fffffff", "80000001", "ffffffff"])
      void route!.handle(request(first.padEnd(32, "a")))
    return ended.map(({ traceId }) => traceId.slice(0, 8))
  }
  expect(sampled(50)).toEqual(["00000000", "7fffffff"])
  expect(sampled(0)).toEqual([])
  expect(sampled(100)).toHaveLength(4)
  expect(sampled(100, false)).toEqual([])
})

it("a commit belongs to the request that makes it, and to none that is over; a fiber's span too", async () => {
  const { tracing, ended } = tracingOf(100)
  const store = tracing.store(openMemory())
  let later: Promise<void> | undefined
  const routes = [
    {
      method: "GET",
      path: "/a",
      handle: async () => {
        await new Promise<void>((resolve) => {
          store.commit([], () => resolve())
        })
        await Effect.runPromise(
          Effect.void.pipe(Effect.withSpan("by hand"), Effect.withTracer(tracing.tracer))
        )
        later = new Promise((resolve) => {
          setImmediate(() => void store.commit([], () => resolve()))
        })
        return { status: 200 }
      }
    }
  ]
  const [route] = tracing.instrument({
    name: "s",
    prefixes: [],
    refused: () => ({ status: 404 }),
    routes
  }).routes
  await answerOf(route!.handle(request("0".repeat(32))))
  await later
  const root = ended.find(({ name }) => name === "GET /a")!
  expect(ended.map(({ name }) => name)).toEqual(["storage commit", "by hand", "GET /a"])
  for (const span of ended.slice(0, 2))
    expect(span.parent).toMatchObject({ value: { spanId: root.spanId, traceId: root.traceId } })
  store.commit([], () => {})
  expect(ended).toHaveLength(3)
})

it("a handler's Effect is inside of its request, and its span ends with it, interrupted or not", async () => {
  const { tracing, ended } = tracingOf(100)
  const store = tracing.store(openMemory())
  const commit = Effect.callback<void>((resume) => void store.commit([], () => resume(Effect.void)))
  const of = (handle: () => Answer): Answer => {
    const routes = [{ method: "GET", path: "/e", handle }]
    const service = { name: "s", prefixes: [], refused: () => ({ status: 404 }), routes }
    return tracing.instrument(service).routes[0]!.handle(request("0".repeat(32)))
  }
  const response = { status: 200 }
  const later = Effect.as(Effect.andThen(Effect.yieldNow, commit), response)
  expect(await answerOf(of(() => later))).toBe(response)
  expect(ended.map(({ name }) => name)).toEqual(["storage commit", "GET /e"])
  const fiber = Effect.runFork(effectOf(of(() => Effect.never)))
  await Effect.runPromise(Fiber.interrupt(fiber))
  expect(ended.map(({ name }) => name)).toEqual(["storage commit", "GET /e", "GET /e"])
})

it("the actors' turns run outside of the request that woke them", async () => {
  const { tracing } = tracingOf(100)
  const seen: Array<string | undefined> = []
  const routes = [
    {
      method: "GET",
      path: "/a",
      handle: () => {
        seen.push(tracing.traceId)
        tracing.scheduler.soon(() => seen.push(tracing.traceId))
        return { status: 200 }
      }
    }
  ]
  const [route] = tracing.instrument({
    name: "s",
    prefixes: [],
    refused: () => ({ status: 404 }),
    routes
  }).routes
  void route!.handle(request("b".repeat(32)))
  await Promise.resolve()
  expect(seen).toEqual(["b".repeat(32), undefined])
})

it("without a collector there is no tracing, so nothing is wrapped", async () => {
  const telemetry = await Effect.runPromise(
    Effect.scoped(
      Effect.flatMap(Telemetry, Effect.succeed).pipe(
        Effect.provide(
          Telemetry.layer({
            logLevel: "error",
            otlpUrl: undefined,
            otlpHeaders: undefined,
            traceSamplePercent: 100,
            serviceName: "troupe"
          })
        )
      )
    )
  )
  expect(telemetry.tracing).toBeUndefined()
})
