import { expect, it } from "vitest"
import { expectLinear } from "./linear.ts"

let sum = 0

const busy = (turns: number): void => {
  for (let i = 0; i < turns; i++) sum = (sum + i * 31) % 1_000_003
}

it("linear work passes, quadratic work does not", () => {
  expect(() => expectLinear((size) => busy(size * 100), 20_000, "linear")).not.toThrow()
  expect(() => expectLinear((size) => busy((size * size) / 50), 10_000, "quadratic")).toThrow(
    /quadratic: CPU time/
  )
  expect(sum).toBeGreaterThanOrEqual(0)
})
