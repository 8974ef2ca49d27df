import { expect, it } from "vitest"
import { expectLinear } from "./linear.ts"

let sum = 0

const busy = (turns: number): void => {
  for (let i = 0; i < turns; i++) sum = (sum + i * 31) % 1_000_003
}

// A busy machine makes one small run in four dear enough for quadratic work (16 times as much) to pass, but not for cubic.
it("linear work passes, cubic work does not", () => {
  expect(() => expectLinear((size) => busy(size * 100), 20_000, "linear")).not.toThrow()
  expect(() => expectLinear((size) => busy(size ** 3 / 2_000), 1_000, "cubic")).toThrow(/cubic: CPU time/)
  expect(sum).toBeGreaterThanOrEqual(0)
})
