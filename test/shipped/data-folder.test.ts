/** The shipped program and its data folder: what is damaged or missing is refused by name, and nobody else may
 *  read what is there. */
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync
} from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { newHome, Program, until } from "./program.ts"

const env = { APERTIUM: "off", STT_MAX_SESSIONS: "0" }
const underLimit = (limit: string): ReadonlyArray<string> => [
  "sh",
  "-c",
  `ulimit ${limit} && exec "$@"`,
  "sh",
  process.execPath,
  new URL("../../runtime/bin/troupe.mjs", import.meta.url).pathname
]

let program: Program
let home: string
const data = (name: string): string => join(home, "data", name)
const modeOf = (path: string): string => (statSync(path).mode & 0o777).toString(8)

beforeAll(async () => {
  home = newHome()
  mkdirSync(join(home, "data"))
  chmodSync(join(home, "data"), 0o755)
  program = await Program.start({ env, home })
})

afterAll(() => program?.close())

it("G-9 every file of the program is its owner's alone, also in a folder that is open; the log says so", async () => {
  expect(program.log).toContain("other users of this machine may look into the data folder")
  const names = ["store.lmdb", "store.lmdb-lock", "master.key", "local.sealed", "writer.pid"]
  expect(names.map((name) => modeOf(data(name)))).toEqual(names.map(() => "600"))
  expect(modeOf(data("blobs"))).toBe("700")
  expect(modeOf(join(home, "data"))).toBe("755")
})

it("G-9 files that an earlier program left open are closed to others at the next start", async () => {
  expect(await program.end()).toBe(0)
  for (const name of ["store.lmdb", "store.lmdb-lock", "local.sealed"]) chmodSync(data(name), 0o644)
  chmodSync(data("blobs"), 0o755)
  program = await Program.start({ env, home })
  const modes = ["store.lmdb", "store.lmdb-lock", "local.sealed", "blobs"].map((name) => modeOf(data(name)))
  expect(modes).toEqual(["600", "600", "600", "700"])
  expect(await program.end()).toBe(0)
})

describe("G-8 a start is refused by name, and changes nothing", () => {
  const refusal = async (): Promise<string> => {
    const { code, err } = await program.run("serve", "--port", "0")
    expect(code, err).toBe(1)
    expect(err).toMatch(/^troupe cannot start: .+$/m)
    return err
  }

  const without = async (name: string, damage: () => void, says: string): Promise<void> => {
    const original = join(home, "original")
    copyFileSync(data(name), original)
    damage()
    const before = statSync(data(name), { throwIfNoEntry: false })?.size
    expect(await refusal()).toContain(says)
    expect(statSync(data(name), { throwIfNoEntry: false })?.size).toBe(before)
    renameSync(original, data(name))
  }

  it.each([0, 4_096])("a store file of %i bytes", async (bytes) => {
    const says = bytes === 0 ? "store.lmdb is empty (0 bytes)" : "store.lmdb is cut off"
    await without("store.lmdb", () => truncateSync(data("store.lmdb"), bytes), says)
  })

  it("a store file whose first pages are garbage", () =>
    without(
      "store.lmdb",
      () => {
        const bytes = readFileSync(data("store.lmdb"))
        writeFileSync(data("store.lmdb"), bytes.fill("garbage", 0, 8_192))
      },
      "store.lmdb is no store: its first page is damaged"
    ))

  it("a master key that is missing beside data", () =>
    without("master.key", () => rmSync(data("master.key")), "master.key is missing"))

  it("a master key of another length", () =>
    without(
      "master.key",
      () => writeFileSync(data("master.key"), "c2hvcnQ=\n"),
      "does not hold a master key"
    ))

  it("a master key of other data", () =>
    without(
      "master.key",
      () => writeFileSync(data("master.key"), `${Buffer.alloc(32, 7).toString("base64")}\n`),
      "the master key is not the one"
    ))

  it("and with everything in its place it starts", async () => {
    program = await Program.start({ env, home })
    expect((await program.run("check")).out).toMatch(/all well/)
    expect(await program.end()).toBe(0)
  })
})

it("G-3 a limit of file sizes is a full disk too", async () => {
  program = await Program.start({ env, home, command: underLimit("-f 1024") })
  const { storeToken } = await program.secrets()
  const create = async (name: string): Promise<number> => {
    const answer = await fetch(`${program.url}/api/v1/manufacturers`, {
      method: "POST",
      headers: { "X-STORE-Auth-Token": storeToken, "Content-Type": "application/json" },
      body: JSON.stringify({ name, description: "x".repeat(60_000) })
    })
    return answer.status
  }
  let i = 0
  await until(async () => expect(await create(`big ${i++}`)).toBe(503))
  const health = await (await fetch(`${program.url}/health`)).json()
  expect(health).toMatchObject({ status: "degraded", db: "full" })
  expect(await program.end()).toBe(0)
})
