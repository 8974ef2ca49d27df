/** Texts that outlive their request. */
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { expect, it } from "vitest"
import { flatText } from "../../../protocols/shared/flat-text.ts"

const heapAfterCollection = (): number => {
  setFlagsFromString("--expose-gc")
  const collect = runInNewContext("gc") as () => void
  collect()
  return process.memoryUsage().heapUsed
}

it("A-2: a name that is kept does not keep the body it was cut from", () => {
  const names: Array<string> = []
  const before = heapAfterCollection()
  for (let i = 0; i < 500; i++) {
    const body = Buffer.from(`client_id=${String(i).padStart(36, "0")}&${"x".repeat(65_536)}`).toString()
    names.push(flatText(body.slice(10, 46)))
  }
  // The bodies are 32 MiB together.
  expect(heapAfterCollection() - before).toBeLessThan(8 * 2 ** 20)
  expect(names[7]).toBe("7".padStart(36, "0"))
})

it.each(["", "plain", "é", "𝄞 astral"])("the text stays the same: %s", (text) =>
  expect(flatText(text)).toBe(text)
)
