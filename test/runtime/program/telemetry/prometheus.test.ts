/** /metrics of a whole node, through a strict parser, against the table of docs/operations.md. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { Metrics } from "../../../../runtime/metrics.ts"
import { loadConfig } from "../../../../runtime/program/config/config.ts"
import { startNode, type RunningNode } from "../../../../runtime/program/start.ts"
import { prometheusText } from "../../../../runtime/program/telemetry/prometheus.ts"
import { ChatMetrics } from "../../../../protocols/chat/metrics.ts"
import { parseExposition } from "../../../exposition.ts"

describe("the parser refuses", () => {
  it.each([
    ["no line end", "# HELP a_total A.\n# TYPE a_total counter\na_total 1"],
    ["no HELP", "# TYPE a_total counter\na_total 1\n"],
    ["no TYPE", "# HELP a_total A.\na_total 1\n"],
    ["a type twice", "# HELP a A.\n# TYPE a gauge\na 1\n# HELP a A.\n# TYPE a gauge\na 1\n"],
    ["a sample twice", "# HELP a A.\n# TYPE a gauge\na 1\na 1\n"],
    ["a foreign sample", "# HELP a A.\n# TYPE a gauge\nb 1\n"],
    ["a raw quote", '# HELP a A.\n# TYPE a gauge\na{b="c"d"} 1\n'],
    ["a word for a number", "# HELP a A.\n# TYPE a gauge\na one\n"],
    [
      "a bucket that shrinks",
      '# HELP h H.\n# TYPE h histogram\nh_bucket{le="1"} 2\nh_bucket{le="+Inf"} 1\nh_sum 1\nh_count 1\n'
    ]
  ])("%s", (_, text) => {
    expect(() => parseExposition(text)).toThrow()
  })
})

it("whatever a label holds, the text can be parsed and says it", () => {
  const metrics = new Metrics()
  const odd = 'a"b\\c\nd{e="f"},ü \u2028'
  new ChatMetrics(metrics).turn("main", odd, "completed")
  const turns = parseExposition(prometheusText(metrics)).get("proxy_turns_total")
  expect(turns?.samples.map(({ labels }) => labels["model"])).toEqual([odd])
})

it("a client that asks for thousands of models makes 201 of them", () => {
  const metrics = new Metrics()
  const chat = new ChatMetrics(metrics)
  for (let i = 0; i < 5_000; i++) chat.turn("main", `model-${i}`, "failed")
  const { samples } = parseExposition(prometheusText(metrics)).get("proxy_turns_total")!
  expect(samples).toHaveLength(201)
  expect(samples.find(({ labels }) => labels["model"] === "other")?.value).toBe(4_800)
})

describe("a whole node", () => {
  const folder = mkdtempSync(join(tmpdir(), "troupe-metrics-"))
  let node: RunningNode
  let families: ReturnType<typeof parseExposition>

  beforeAll(async () => {
    node = await startNode(
      await loadConfig({
        TROUPE_DATA: folder,
        TROUPE_PORT: "0",
        TROUPE_LOG_LEVEL: "error",
        APERTIUM: "off",
        STT_MAX_SESSIONS: "0"
      })
    )
    for (const path of [
      "/v1/models",
      "/v1/nothing",
      "/livez",
      "/oauth/token",
      "/v2/usage",
      "/api/v1/products"
    ])
      await (await fetch(`${node.url}${path}`)).arrayBuffer()
    const answer = await fetch(`${node.url}/metrics`)
    expect(answer.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8")
    families = parseExposition(await answer.text())
  }, 60_000)

  afterAll(async () => {
    await node.stop()
    rmSync(folder, { recursive: true, force: true })
  })

  const documented = (): ReadonlyArray<string> => {
    const page = readFileSync(new URL("../../../../docs/operations.md", import.meta.url), "utf8")
    const section = page.slice(page.indexOf("\n## Metrics"), page.indexOf("\n## Console API"))
    return [...section.matchAll(/`((?:troupe|process|nodejs|proxy|authorization|refresh)_\w+)`/g)].map(
      ([, name]) => name!
    )
  }

  it("every family is in the table of operations.md", () => {
    const names = documented()
    expect([...families.keys()].filter((name) => !names.includes(name))).toEqual([])
  })

  it("every service's answers are counted, the transport's own refusals too", () => {
    const services = families
      .get("troupe_http_responses_total")!
      .samples.map(({ labels }) => labels["service"])
    expect(new Set(services)).toEqual(
      new Set(["operations", "translation", "chat", "store", "authorization"])
    )
  })

  it("gauges of the process are alive", () => {
    const value = (name: string): number => families.get(name)!.samples[0]!.value
    expect(value("process_resident_memory_bytes")).toBeGreaterThan(1e6)
    expect(value("troupe_connections_open")).toBeGreaterThanOrEqual(1)
    expect(value("troupe_requests_in_flight")).toBe(1)
    expect(families.get("troupe_event_loop_delay_seconds")!.type).toBe("histogram")
  })

  it("no label holds what a request said", () => {
    const labels = [...families.values()].flatMap(({ samples }) =>
      samples.flatMap((sample) => Object.keys(sample.labels))
    )
    expect([...new Set(labels)].sort()).toEqual(
      expect.arrayContaining(["endpoint", "engine", "kind", "le", "service", "status", "upstream"])
    )
    expect(labels).not.toContain("path")
  })
})
