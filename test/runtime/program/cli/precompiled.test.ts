/** The served script is read as one byte a character, so the build has to write it in ASCII. */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { expect, it } from "vitest"

it("G-1: the served script contains ASCII only, in regular expressions and templates too", () => {
  const script = readFileSync(join(import.meta.dirname, "../../../../dist/serve.cjs"))
  expect(script.findIndex((byte) => byte > 0x7f)).toBe(-1)
})
