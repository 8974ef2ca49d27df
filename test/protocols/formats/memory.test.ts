import { beforeAll, expect, it } from "vitest"
import { buildChild, startChild } from "../../child.ts"

let program: string

beforeAll(async () => {
  program = await buildChild("test/protocols/formats/memory-child.ts")
})

/** Documents section 13 "Memory": a PDF of 1,000 pages within 500 MiB, a package within six times its largest
 *  part and 64 MiB. */
it.each([
  ["pdf of 500 pages", "pdf", 500],
  ["docx of 40,000 paragraphs", "docx", 40_000]
] as const)(
  "a %s stays within its memory",
  async (_, kind, segments) => {
    const child = startChild(program, [kind])
    const [, peak, found, , part] = (await child.line(/^peak /)).split(" ").map(Number)
    await child.exited
    expect(found).toBeGreaterThanOrEqual(segments)
    expect(peak).toBeLessThanOrEqual(kind === "pdf" ? 500 : 6 * part! + 64)
  },
  180_000
)
