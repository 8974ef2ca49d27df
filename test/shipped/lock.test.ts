/** The shipped program and its data folder's lock: every command that opens the folder respects a server in another
 *  PID namespace or behind another mount, and a killed server's folder is free at once. */
import { execFile, execFileSync } from "node:child_process"
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll, expect, it } from "vitest"
import { Program, type Ran } from "./program.ts"

const script = new URL("../../runtime/bin/troupe.mjs", import.meta.url).pathname
let program: Program

beforeAll(async () => {
  program = await Program.start()
})

afterAll(() => program?.close())

const works = (words: ReadonlyArray<string>): boolean => {
  try {
    execFileSync(words[0]!, words.slice(1), { stdio: "ignore" })
    return true
  } catch {
    return false
  }
}

/** The words before a command that give it namespaces of its own, with rights of its own where we have none. */
const separately = (...kinds: ReadonlyArray<string>): ReadonlyArray<string> | undefined =>
  [
    ["unshare", ...kinds],
    ["unshare", "-Ur", ...kinds]
  ].find((words) => works([...words, "true"]))

const ownPids = separately("--pid", "--fork", "--kill-child")
const ownMounts = separately("-m")

const run = (data: string, ...words: ReadonlyArray<string>): Promise<Ran> =>
  new Promise((resolve) => {
    execFile(
      words[0]!,
      words.slice(1),
      { env: { PATH: process.env["PATH"], TROUPE_DATA: data, TROUPE_PORT: "1" }, timeout: 60_000 },
      (cause, out, err) => {
        const code = typeof cause?.code === "number" ? cause.code : 1
        resolve({ code: cause === null ? 0 : code, out, err })
      }
    )
  })

const refused = { code: 1, err: expect.stringContaining("another process writes") }

it.skipIf(ownPids === undefined)("G-4: a server in another PID namespace is refused by name", async () => {
  const data = join(program.home, "data")
  expect(await run(data, ...ownPids!, process.execPath, script, "serve")).toMatchObject(refused)
  const copy = join(program.home, "copy")
  expect(await program.run("backup", copy)).toMatchObject({ code: 0 })
  expect(await run(data, ...ownPids!, process.execPath, script, "restore", copy)).toMatchObject(refused)
  // Backup and check do not open the folder either: they ask the server, whose address they do not know here.
  for (const words of [["backup", join(program.home, "another")], ["check"]])
    expect(await run(data, ...ownPids!, process.execPath, script, ...words)).toMatchObject({
      code: 1,
      err: expect.stringContaining("no server answers")
    })
  expect((await fetch(`${program.url}/livez`)).status).toBe(200)
})

it.skipIf(ownMounts === undefined)("G-4: a server behind another mount is refused by name", async () => {
  const mounted = join(program.home, "mounted")
  mkdirSync(mounted)
  const mount = `mount --bind "${join(program.home, "data")}" "${mounted}" && exec "$@"`
  const inside = [...ownMounts!, "sh", "-c", mount, "sh", process.execPath, script, "serve"]
  expect(await run(mounted, ...inside)).toMatchObject(refused)
})

it("G-4: a killed server's folder is free at once", async () => {
  await program.end("SIGKILL")
  program = await Program.start({ home: program.home })
  expect((await fetch(`${program.url}/livez`)).status).toBe(200)
})
