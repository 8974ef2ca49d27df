/** The exporter under a collector that the test owns: bounds, rest after a failure, and the encoding. */
import { Context, Exit, Option } from "effect"
import { expect, it } from "vitest"
import { OtlpExporter, otlpSpan, type Send } from "../../../../runtime/program/telemetry/otlp.ts"
import { RecordedSpan } from "../../../../runtime/program/telemetry/spans.ts"
import { headersIn } from "../../../../runtime/program/telemetry/telemetry.ts"

const traceId = "0123456789abcdef0123456789abcdef"

const span = (parent?: RecordedSpan): RecordedSpan =>
  new RecordedSpan(
    {
      name: "GET /livez",
      parent: Option.fromUndefinedOr(parent),
      annotations: Context.empty(),
      links: [],
      startTime: 1_000n,
      kind: "server",
      root: parent === undefined,
      sampled: true
    },
    traceId,
    () => {}
  )

const exporterWith = (send: Send) => {
  const lines: Array<string> = []
  const exported = { value: 0 }
  const dropped = { value: 0 }
  const clock = { nowMs: 0 }
  const exporter = new OtlpExporter({
    send,
    serviceName: "troupe",
    version: "1",
    log: (level, message) => lines.push(`${level} ${message}`),
    exported,
    dropped,
    nowMs: () => clock.nowMs
  })
  return { exporter, lines, exported, dropped, clock }
}

it("a span is encoded as the protocol's JSON", () => {
  const root = span()
  root.attribute("http.response.status_code", 200)
  root.attribute("troupe.ratio", 0.5)
  const child = span(root)
  child.event("first", 1_500n, { at: "head" })
  child.end(2_000n, Exit.die(new TypeError("key sk-secret-abcdefgh refused")))
  root.end(3_000n, Exit.void)
  expect(otlpSpan(root)).toMatchObject({
    traceId,
    spanId: expect.stringMatching(/^[0-9a-f]{16}$/),
    kind: 2,
    startTimeUnixNano: "1000",
    endTimeUnixNano: "3000",
    attributes: [
      { key: "http.response.status_code", value: { intValue: "200" } },
      { key: "troupe.ratio", value: { doubleValue: 0.5 } }
    ],
    status: { code: 1 }
  })
  expect(otlpSpan(root)).not.toHaveProperty("parentSpanId")
  expect(otlpSpan(child)).toMatchObject({
    parentSpanId: root.spanId,
    events: [{ name: "first", timeUnixNano: "1500" }],
    status: { code: 2, message: "key … refused" }
  })
})

it("a collector that hangs holds 2,048 spans and one request, and the rest is dropped", async () => {
  let requests = 0
  let answer = (): void => {}
  const { exporter, exported, dropped } = exporterWith(() => {
    requests++
    return new Promise((resolve) => {
      answer = resolve
    })
  })
  for (let i = 0; i < 10_000; i++) exporter.push(span())
  expect(requests).toBe(1)
  expect(dropped.value).toBe(10_000 - 512 - 2_048)
  for (let i = 0; i < 5; i++) {
    answer()
    await new Promise(setImmediate)
  }
  expect([requests, exported.value]).toEqual([5, 2_560])
})

it("a dead collector costs one warning; nothing is recorded while it rests, and it is tried again", async () => {
  let works = false
  let requests = 0
  const { exporter, lines, exported, dropped, clock } = exporterWith(async () => {
    requests++
    if (!works) throw new Error("connect ECONNREFUSED")
  })
  for (let round = 0; round < 3; round++) {
    exporter.push(span())
    await exporter.flush()
    expect(exporter.accepts).toBe(false)
    exporter.push(span())
    await exporter.flush()
    clock.nowMs += 30_000
    expect(exporter.accepts).toBe(true)
  }
  expect([requests, dropped.value]).toEqual([3, 6])
  works = true
  exporter.push(span())
  await exporter.close()
  expect(exported.value).toBe(1)
  expect(lines).toEqual([
    "warn the trace collector does not answer; spans are dropped",
    "info the trace collector answers again"
  ])
})

it("headers are read as OpenTelemetry writes them", () => {
  expect(headersIn("api-key=a%3Db, X-Team = core,broken")).toEqual({ "api-key": "a=b", "x-team": "core" })
  expect(headersIn(undefined)).toEqual({})
})
