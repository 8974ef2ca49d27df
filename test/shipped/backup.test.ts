/** The shipped program's backup: what it holds, a node restored from it, and who may ask for it. */
import { cpSync, existsSync, mkdirSync, readdirSync, rmSync, truncateSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll, expect, it } from "vitest"
import { dataFolderNames } from "../../storage/data-folder.ts"
import { newHome, Program, type Ran, type Secrets } from "./program.ts"

let program: Program
let secrets: Secrets
const homes: Array<string> = []

const home = (): string => {
  const folder = newHome()
  homes.push(folder)
  return folder
}

/** Runs a command on a folder that no server has. */
const run = (data: string, ...words: ReadonlyArray<string>): Promise<Ran> =>
  program.runIn({ TROUPE_DATA: data, TROUPE_PORT: "1" }, ...words)

const askConsole = (method: string, path: string, body?: object): Promise<Response> =>
  fetch(`${program.url}/console/api/${path}`, {
    method,
    headers: { Authorization: `Bearer ${secrets.operatorToken}`, "Content-Type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) })
  })

beforeAll(async () => {
  program = await Program.start()
  secrets = await program.secrets()
})

afterAll(async () => {
  await program?.close()
  for (const folder of homes) rmSync(folder, { recursive: true, force: true })
})

it("G-7: every name in a data folder is one of which a backup knows what to do with it", () => {
  expect(Object.keys(dataFolderNames)).toEqual(
    expect.arrayContaining(readdirSync(join(program.home, "data")))
  )
})

it("G-7: a node restored from a backup of the running server is operated with the same secrets", async () => {
  expect(await program.run("backup", "copy")).toMatchObject({ code: 0 })
  const restored = home()
  mkdirSync(join(restored, "data"))
  cpSync(join(program.home, "data", "master.key"), join(restored, "data", "master.key"))
  const ran = await run(join(restored, "data"), "restore", join(program.home, "copy"))
  expect([ran.code, ran.err]).toEqual([0, ""])
  expect(ran.out).toMatch(/restored into .*: \d+ entries, all well/)
  const node = await Program.start({ home: restored })
  try {
    expect(node.out).not.toContain("First start")
    expect(await node.secrets()).toEqual(secrets)
    for (const words of [
      ["keys", "list"],
      ["keys", "create", "ops"],
      ["actors"],
      ["check"],
      ["backup", "copy"]
    ])
      expect(await node.run(...words), words.join(" ")).toMatchObject({ code: 0 })
    const usage = await fetch(`${node.url}/v2/usage`, {
      headers: { Authorization: `DeepL-Auth-Key ${secrets.developerKey}` }
    })
    expect(usage.status).toBe(200)
    expect(await run(join(restored, "data"), "restore", join(program.home, "copy"))).toMatchObject({
      code: 1,
      err: expect.stringContaining("another process writes")
    })
  } finally {
    await node.end()
  }
  expect((await run(join(restored, "data"), "check")).out).toMatch(/all well/)
  expect(await run(join(restored, "data"), "backup", join(restored, "cold"))).toMatchObject({ code: 0 })
  expect(existsSync(join(restored, "cold", "backup.json"))).toBe(true)
})

it("G-5: restore refuses another master key, and a torn backup, by name", async () => {
  const [other, torn] = [home(), home()]
  const key = { TROUPE_DATA: join(other, "data"), SERVICE_MASTER_KEY: Buffer.alloc(32, 7).toString("base64") }
  expect(await program.runIn(key, "restore", join(program.home, "copy"))).toMatchObject({
    code: 1,
    err: expect.stringContaining("the master key is not the one")
  })
  cpSync(join(program.home, "copy"), join(torn, "copy"), { recursive: true })
  truncateSync(join(torn, "copy", "store.lmdb"), 8_192)
  expect(await run(join(torn, "data"), "restore", join(torn, "copy"))).toMatchObject({
    code: 1,
    err: expect.stringMatching(/store\.lmdb has 8192 bytes, not \d+/)
  })
})

it("G-14: the console refuses a malformed id, and a backup where none can lie", async () => {
  for (const [method, what] of [
    ["GET", "actors"],
    ["GET", "journal"],
    ["POST", "restart"]
  ] as const)
    expect((await askConsole(method, `${what}/rate-window/%ZZ`)).status, what).toBe(400)
  for (const folder of [
    join(program.home, "data", "blobs"),
    join(program.home, "data", "x"),
    "/proc/x",
    "a\0b"
  ]) {
    const answer = await askConsole("POST", "backup", { folder })
    expect([400, 409], folder).toContain(answer.status)
    expect(((await answer.json()) as { message: string }).message.length).toBeGreaterThan(10)
  }
  expect(await (await askConsole("GET", "check")).json()).toMatchObject({ ok: true })
  expect(await program.run("backup", "again")).toMatchObject({ code: 0 })
})
