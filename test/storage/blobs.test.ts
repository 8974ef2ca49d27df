/** The order of what a blob asks of the file system. Every call goes through to real files; the test notes
 *  when each has ended. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { basename, join } from "node:path"
import { afterAll, beforeEach, expect, it, vi } from "vitest"
import { fileBlobs } from "../../storage/blobs.ts"

const calls = vi.hoisted(() => [] as Array<string>)

vi.mock("node:fs/promises", async (importOriginal) => {
  const files = await importOriginal<typeof import("node:fs/promises")>()
  const what = (path: string): string => (path.endsWith(".part") ? "part" : "folder")
  return {
    ...files,
    open: async (path: string, ...rest: ReadonlyArray<never>) => {
      const handle = await files.open(path, ...rest)
      const sync = handle.sync.bind(handle)
      handle.sync = async () => {
        await sync()
        calls.push(`synced ${what(path)}`)
      }
      return handle
    },
    rename: async (from: string, to: string) => {
      // A rename that nobody waits for would end behind the flush of the folder.
      for (let turns = 0; turns < 20; turns++)
        await new Promise((resolve) => {
          setTimeout(resolve, 1)
        })
      await files.rename(from, to)
      calls.push(`renamed ${what(from)} to ${basename(to)}`)
    }
  }
})

const root = mkdtempSync(join(tmpdir(), "troupe-blobs-"))
afterAll(() => rmSync(root, { recursive: true, force: true }))

beforeEach(() => {
  calls.length = 0
})

const chunks = async function* (...texts: ReadonlyArray<string>) {
  for (const text of texts) yield new TextEncoder().encode(text)
}

it("a blob's bytes are synced, then it is renamed, then its folder is synced; only then is it written", async () => {
  const folder = join(root, "order")
  expect(await fileBlobs(folder).write("b", chunks("one", "two"))).toBe(6)
  expect(calls).toEqual(["synced part", "renamed part to b", "synced folder"])
  expect(readFileSync(join(folder, "b"), "utf8")).toBe("onetwo")
})

it("an upload that breaks off leaves no file, and takes no name", async () => {
  const folder = join(root, "broken")
  const broken = async function* () {
    yield new TextEncoder().encode("half")
    throw new Error("the client went")
  }
  await expect(fileBlobs(folder).write("b", broken())).rejects.toThrow("the client went")
  expect([readdirSync(folder), calls]).toEqual([[], []])
})
