/** Plain numbers that Effect's registry reads, and the bound on their series. */
import { Effect, Metric } from "effect"
import { expect, it } from "vitest"
import { Metrics, seriesMax } from "../../runtime/metrics.ts"

const family = { name: "things_total", help: "Things." }

it("a plain addition is what Effect's snapshot reads", async () => {
  const metrics = new Metrics()
  metrics.counter(family, { kind: "a" }).value += 3
  metrics.gauge({ name: "depth", help: "Depth." }).value = -2
  const histogram = metrics.histogram({ name: "seconds", help: "Seconds." }, [1, 2])
  for (const value of [0.5, 1, 1.5, 9]) histogram.observe(value)
  const snapshot = await Effect.runPromise(Metric.snapshot.pipe(Effect.provide(metrics.context)))
  expect(snapshot.map(({ id, state, attributes }) => ({ id, state, attributes }))).toEqual([
    { id: "things_total", state: { count: 3, incremental: true }, attributes: { kind: "a" } },
    { id: "depth", state: { value: -2 }, attributes: {} },
    {
      id: "seconds",
      state: {
        buckets: [
          [1, 2],
          [2, 3]
        ],
        count: 4,
        sum: 12,
        min: 0.5,
        max: 9
      },
      attributes: {}
    }
  ])
})

it("the same labels are the same series; one name is one type", () => {
  const metrics = new Metrics()
  expect(metrics.counter(family, { kind: "a" })).toBe(metrics.counter(family, { kind: "a" }))
  expect(metrics.counter(family, { kind: "a" })).not.toBe(metrics.counter(family, { kind: "b" }))
  expect(() => metrics.gauge(family)).toThrow("things_total is a counter already")
})

it("labels from outside cannot make more than the limit of series", () => {
  const metrics = new Metrics()
  for (let i = 0; i < seriesMax + 500; i++) metrics.counter(family, { model: `m${i}`, outcome: "x" }).value++
  const snapshot = Metric.snapshotUnsafe(metrics.context)
  expect(snapshot).toHaveLength(seriesMax + 1)
  const rest = snapshot.find(({ attributes }) => attributes?.["model"] === "other")
  expect(rest).toMatchObject({ attributes: { outcome: "other" }, state: { count: 500 } })
})

it("numbers that live elsewhere are set before each reading", () => {
  const metrics = new Metrics()
  let live = 1
  const gauge = metrics.gauge({ name: "live", help: "Live." })
  metrics.onScrape(() => {
    gauge.value = live
  })
  metrics.publish()
  live = 7
  metrics.publish()
  expect(gauge.value).toBe(7)
})
