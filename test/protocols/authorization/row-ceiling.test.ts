/** Ceilings on rows. Source: docs/spec/authorization.md, section 3.5. */
import { expect, it } from "vitest"
import { RowCeiling } from "../../../protocols/authorization/row-ceiling.ts"

it("A-3: a ceiling is reached by as many rows as it permits, and a row that leaves makes room", () => {
  const ceiling = new RowCeiling({ rowsMax: 2 })
  ceiling.added()
  expect(ceiling.isReached).toBe(false)
  ceiling.added()
  expect(ceiling.isReached).toBe(true)
  ceiling.removed("a")
  expect([ceiling.isReached, ceiling.size]).toEqual([false, 1])
})

it("A-3: a source has a share, which its own rows give back", () => {
  const ceiling = new RowCeiling({ rowsMax: 100, rowsPerSourceMax: 2 })
  for (const row of ["a", "b"]) {
    ceiling.added()
    ceiling.charge(row, "192.0.2.7")
  }
  expect([ceiling.isReachedBy("192.0.2.7"), ceiling.isReachedBy("192.0.2.8")]).toEqual([true, false])
  ceiling.removed("of nobody")
  expect(ceiling.isReachedBy("192.0.2.7")).toBe(true)
  ceiling.removed("a")
  expect(ceiling.isReachedBy("192.0.2.7")).toBe(false)
})

it("A-3: rows of before the start count, and to no source", () => {
  const ceiling = new RowCeiling({ rowsMax: 2, rowsPerSourceMax: 1 })
  ceiling.added()
  ceiling.charge("a", "192.0.2.7")
  ceiling.begin(2)
  expect([ceiling.isReached, ceiling.isReachedBy("192.0.2.7")]).toEqual([true, false])
})
