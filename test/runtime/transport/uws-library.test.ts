import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { copyOf, packageFolder, pins } from "../../../runtime/transport/uws-library.ts"

const original = (binary: string): Buffer => readFileSync(join(packageFolder(), `uws_${binary}.node`))

it("G-10: each Linux binary of the installed package is pinned, and no other", () => {
  const installed = readdirSync(packageFolder()).flatMap(
    (name) => /^uws_(linux_.*)\.node$/.exec(name)?.[1] ?? []
  )
  expect(Object.keys(pins).sort()).toEqual(installed.sort())
})

describe.each(Object.keys(pins))("%s", (binary) => {
  it("G-10: the installed binary and its copy are what the pins say", () => {
    expect(copyOf(binary, original(binary))).toHaveLength(original(binary).length)
  })

  it("G-10: a copy differs by a byte in each symbol's entry, one in its version, and one flag", () => {
    const before = original(binary)
    const after = copyOf(binary, before)
    const symbols = binary.startsWith("linux_x64") ? 3 : 2
    let different = 0
    for (let at = 0; at < before.length; at++) if (before[at] !== after[at]) different++
    expect(different).toBe(2 * symbols + 1)
  })
})

it("G-10: no copy is made of a binary that is not pinned", () => {
  const [binary] = Object.keys(pins)
  const bytes = original(binary!)
  bytes[bytes.length - 1]! ^= 1
  expect(() => copyOf(binary!, bytes)).toThrow("is not the one that is known")
  expect(() => copyOf("linux_riscv64_115", bytes)).toThrow("is not the one that is known")
})
