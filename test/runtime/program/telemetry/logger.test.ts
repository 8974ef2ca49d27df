/** One Logger, two ways in: Effect's log calls and the kernel's plain `Log`. */
import { Effect, Logger, References } from "effect"
import { expect, it } from "vitest"
import { jsonLogger, logger, minimumLevel } from "../../../../runtime/program/telemetry/logger.ts"

const read = (lines: ReadonlyArray<string>) => lines.map((line) => JSON.parse(line))

it("the plain log and Effect's write the same line", async () => {
  const lines: Array<string> = []
  const write = (line: string): number => lines.push(line)
  logger("info", write)("warn", "a chat upstream rests after failures", { upstream: "main" })
  await Effect.runPromise(
    Effect.logWarning("a chat upstream rests after failures", { upstream: "main" }).pipe(
      Effect.provide(Logger.layer([jsonLogger({ least: "info", write })]))
    )
  )
  const [plain, effect] = read(lines)
  expect(lines.every((line) => line.endsWith("}\n"))).toBe(true)
  expect(plain).toMatchObject({ level: "warn", upstream: "main" })
  expect(Object.keys(plain)).toEqual(["at", "level", "message", "upstream"])
  expect({ ...effect, at: plain.at }).toEqual(plain)
})

it("a fiber's annotations and cause are fields", async () => {
  const lines: Array<string> = []
  await Effect.runPromise(
    Effect.logError("failed", new TypeError("ours")).pipe(
      Effect.annotateLogs({ traceId: "0".repeat(32) }),
      Effect.provide(Logger.layer([jsonLogger({ least: "info", write: (line) => lines.push(line) })]))
    )
  )
  expect(read(lines)[0]).toMatchObject({ traceId: "0".repeat(32), cause: { name: "TypeError" } })
})

it("levels by configuration, on both ways", async () => {
  const lines: Array<string> = []
  const write = (line: string): number => lines.push(line)
  const log = logger("warn", write)
  log("debug", "no")
  log("info", "no")
  log("warn", "yes")
  log("error", "yes")
  await Effect.runPromise(
    Effect.logInfo("no").pipe(
      Effect.provide(Logger.layer([jsonLogger({ least: "warn", write })])),
      Effect.provideService(References.MinimumLogLevel, minimumLevel("warn"))
    )
  )
  expect(read(lines).map(({ message }) => message)).toEqual(["yes", "yes"])
})

it("no field can make a line throw or break in two", () => {
  const lines: Array<string> = []
  const log = logger("info", (line) => lines.push(line))
  const circle: Record<string, unknown> = {}
  circle["self"] = circle
  log("info", "two\nlines", { circle, big: 1n })
  log("info", "big", { big: 1n, cause: new Error("x") })
  expect(lines).toHaveLength(2)
  expect(lines.every((line) => line.indexOf("\n") === line.length - 1)).toBe(true)
  expect(read(lines)[1]).toMatchObject({ big: "1", cause: { name: "Error", message: "x" } })
})

it("a storm of failures of one route is cut off, and other lines pass", () => {
  const lines: Array<string> = []
  let due = (): void => {}
  const log = logger(
    "info",
    (line) => lines.push(line),
    (work) => {
      due = work
    }
  )
  for (let i = 0; i < 500; i++) log("error", "a request failed", { route: "/a", status: 500 })
  log("error", "a request failed", { route: "/b", status: 500 })
  for (let i = 0; i < 100; i++) log("info", "plain")
  expect(lines).toHaveLength(20 + 1 + 100)
  due()
  expect(read(lines).at(-1)).toMatchObject({
    level: "warn",
    message: "log lines were suppressed",
    of: "a request failed /a 500",
    suppressed: 480
  })
})
