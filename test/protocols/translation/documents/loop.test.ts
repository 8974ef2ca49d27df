/** The event loop goes on turning while a large document is read and written: that work has threads of its
 *  own. Turns are counted, not time: work done on the loop itself would leave none. How long one turn lasts
 *  is not measured: time cannot be asserted here. Source: documents 10, 13. */
import { afterAll, beforeAll, expect, it } from "vitest"
import { xlsxOf } from "../../formats/build.ts"
import { DocumentWorld, type Handle } from "./document-world.ts"

const turnsMin = 200
let world: DocumentWorld
let asked = 0
let turns = 0
let firstAskedAt = -1
let lastAskedAt = -1
let spinning = true

beforeAll(async () => {
  world = await DocumentWorld.open({
    change: (text) => {
      asked++
      if (firstAskedAt < 0) firstAskedAt = turns
      lastAskedAt = turns
      return text.toUpperCase()
    }
  })
  const spin = (): void => {
    turns++
    if (spinning) setImmediate(spin)
  }
  spin()
})

afterAll(async () => {
  spinning = false
  await world.close()
})

it("a workbook of 28,000 strings: hundreds of turns while it is inspected, extracted and rebuilt, and two batches a turn at most are translated", async () => {
  const bytes = xlsxOf(
    Array.from({ length: 28_000 }, (_, i) => `words of cell ${i} here`),
    "<sheetData/>"
  )
  const sentAt = turns
  const answer = await world.upload("a.xlsx", bytes)
  const takenAt = turns
  const handle = (await answer.json()) as Handle
  expect((await world.ended(handle)).status).toBe("done")
  expect(asked).toBe(28_000)
  expect(takenAt - sentAt, "inspection").toBeGreaterThan(turnsMin)
  expect(firstAskedAt - takenAt, "extraction").toBeGreaterThan(turnsMin)
  expect(turns - lastAskedAt, "rebuilding").toBeGreaterThan(turnsMin)
  expect(lastAskedAt - firstAskedAt, "batches").toBeGreaterThanOrEqual(28_000 / (50 * 2) - 1)
}, 60_000)
