import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { expect, it } from "vitest"
import { classes, mutants } from "./list.ts"

const root = new URL("../..", import.meta.url).pathname

it("no mutant is stale: each text occurs exactly once in today's code", () => {
  const stale = mutants.flatMap(({ address, mutant }) => {
    const path = join(root, mutant.file)
    const text = existsSync(path) ? readFileSync(path, "utf8") : ""
    const edits = mutant.also === undefined ? [mutant] : [mutant, mutant.also]
    return edits
      .filter(({ find }) => text.split(find).length !== 2)
      .map(({ find }) => `${address}: ${mutant.file} holds ${text.split(find).length - 1} of ${find}`)
  })
  expect(stale).toEqual([])
})

it("every mutant changes something, and names tests that are there", () => {
  for (const { address, mutant } of mutants) {
    expect(mutant.replace, address).not.toBe(mutant.find)
    expect(mutant.tests.length, address).toBeGreaterThan(0)
    for (const file of mutant.tests) expect(existsSync(join(root, file)), `${address}: ${file}`).toBe(true)
  }
})

it("addresses are unique, and each class has at least five", () => {
  const addresses = mutants.map(({ address }) => address)
  expect(new Set(addresses).size).toBe(addresses.length)
  for (const [name, list] of Object.entries(classes)) expect(list.length, name).toBeGreaterThanOrEqual(5)
})
