/** The order of what an intent asks of the file system. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, it, vi } from "vitest"
import { revocationIntentsInFile } from "../../../../protocols/authorization/token/pending-revocations.ts"

const calls = vi.hoisted(() => [] as Array<string>)

vi.mock("node:fs", async (importOriginal) => {
  const files = await importOriginal<typeof import("node:fs")>()
  const noted =
    <A extends ReadonlyArray<never>, B>(name: string, call: (...args: A) => B) =>
    (...args: A): B => {
      const result = call(...args)
      calls.push(name)
      return result
    }
  return {
    ...files,
    writeSync: noted("write", files.writeSync as never),
    fsyncSync: noted("fsync", files.fsyncSync as never),
    closeSync: noted("close", files.closeSync as never)
  }
})

const root = mkdtempSync(join(tmpdir(), "troupe-intents-"))
afterAll(() => rmSync(root, { recursive: true, force: true }))

it("an intent is written and synced before the call returns, and is there again after a restart", () => {
  const path = join(root, "intents")
  const intents = revocationIntentsInFile(path)
  calls.length = 0
  intents.add("family-1")
  expect(calls).toEqual(["write", "fsync", "close"])
  intents.add("family-2")
  intents.add("family-1")
  expect(readFileSync(path, "utf8")).toBe("family-1\nfamily-2\nfamily-1\n")
  expect(revocationIntentsInFile(path).all()).toEqual(["family-1", "family-2"])
  intents.clear()
  expect(revocationIntentsInFile(path).all()).toEqual([])
})
