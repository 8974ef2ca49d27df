/** The lock of a data folder, between real processes: in another PID namespace, through another mount, after a
 *  kill whose process nobody has reaped. */
import { execFileSync, spawn, type ChildProcess } from "node:child_process"
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { createInterface } from "node:readline"
import { afterAll, afterEach, beforeAll, expect, it, vi } from "vitest"
import { lockFolder } from "../../storage/folder-lock.ts"
import { openLmdb } from "../../storage/lmdb.ts"
import { buildChild } from "../child.ts"

vi.setConfig({ testTimeout: 60_000 })

const root = mkdtempSync(join(tmpdir(), "troupe-lock-"))
let program = ""
let folders = 0
const folder = (): string => join(root, String(folders++))
const children = new Set<ChildProcess>()

const works = (command: string, ...args: ReadonlyArray<string>): boolean => {
  try {
    execFileSync(command, args, { stdio: "ignore" })
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
  ].find(([command, ...args]) => works(command!, ...args, "true"))

const ownPids = separately("--pid", "--fork", "--kill-child")
const ownMounts = separately("-m")

/** Starts a process and resolves with its first line. */
const firstLine = (words: ReadonlyArray<string>): Promise<{ line: string; child: ChildProcess }> =>
  new Promise((resolve) => {
    const child = spawn(words[0]!, words.slice(1), { stdio: ["ignore", "pipe", "inherit"] })
    children.add(child)
    createInterface({ input: child.stdout }).once("line", (line) => resolve({ line, child }))
  })

const opens = async (at: string, before: ReadonlyArray<string> = []) =>
  (await firstLine([...before, process.execPath, program, at])).line

beforeAll(async () => {
  program = await buildChild("test/storage/folder-lock-child.ts")
}, 60_000)

afterEach(() => {
  for (const child of children) child.kill("SIGKILL")
  children.clear()
})

afterAll(() => {
  rmSync(root, { recursive: true, force: true })
  rmSync(dirname(program), { recursive: true, force: true })
})

it.skipIf(ownPids === undefined)("G-4: a writer in another PID namespace is respected", async () => {
  const at = folder()
  expect(await opens(at, ownPids)).toBe("open 1")
  expect(await opens(at)).toBe(`refused storage (locked): another process writes ${at} (process 1)`)
  expect(await opens(at, ownPids)).toContain("refused storage (locked)")
})

it.skipIf(ownMounts === undefined)(
  "G-4: a writer is respected through another mount of the folder",
  async () => {
    const [at, mounted] = [folder(), folder()]
    const store = await openLmdb({ folder: at })
    mkdirSync(mounted)
    const mount = ["sh", "-c", 'mount --bind "$1" "$2" && exec "$3" "$4" "$2"', "sh"]
    const { line } = await firstLine([...ownMounts!, ...mount, at, mounted, process.execPath, program])
    expect(line).toBe(`refused storage (locked): another process writes ${mounted} (process ${process.pid})`)
    await store.close()
  }
)

it("G-4: a killed writer's folder is free, although nobody has reaped the process", async () => {
  const at = folder()
  // The shell becomes a program that never waits for its children.
  const shell = ["sh", "-c", '"$1" "$2" "$3" & exec sleep 600', "sh"]
  const { line } = await firstLine([...shell, process.execPath, program, at])
  const pid = Number(line.split(" ")[1])
  const refused = await openLmdb({ folder: at }).catch((cause: unknown) => cause)
  process.kill(pid, "SIGKILL")
  expect(refused).toMatchObject({ reason: "locked" })
  const store = await vi.waitFor(() => openLmdb({ folder: at }), { timeout: 30_000, interval: 5 })
  if (process.platform === "linux") expect(readFileSync(`/proc/${pid}/stat`, "latin1")).toMatch(/\) Z /)
  await store.close()
})

it("G-4: no lock is taken from whoever holds it, whatever its file says, and one process opens a folder once", async () => {
  const at = folder()
  const store = await openLmdb({ folder: at })
  writeFileSync(join(at, "writer.pid"), "999999 1")
  await expect(openLmdb({ folder: at })).rejects.toMatchObject({ reason: "locked" })
  expect(readFileSync(join(at, "writer.pid"), "utf8")).toBe("999999 1")
  expect(await opens(at)).toContain("refused storage (locked)")
  await store.close()
  writeFileSync(join(at, "writer.pid"), `${process.ppid} 1`)
  await (await openLmdb({ folder: at })).close()
})

it("G-4: whoever deletes the lock's file lets nobody in", async () => {
  const at = folder()
  const store = await openLmdb({ folder: at })
  rmSync(join(at, "writer.pid"))
  expect(await opens(at)).toBe(`refused storage (locked): another process writes ${at}`)
  await store.close()
  await (await openLmdb({ folder: at })).close()
})

it.each(["local.sealed", "revocation-intents"])(
  "G-8: a store that is gone, while its %s is there, is missed",
  async (name) => {
    const at = folder()
    await (await openLmdb({ folder: at })).close()
    writeFileSync(join(at, name), "")
    rmSync(join(at, "store.lmdb"))
    await expect(openLmdb({ folder: at })).rejects.toThrow(`store.lmdb is missing, but ${name} is there`)
    rmSync(join(at, name))
    await (await openLmdb({ folder: at })).close()
  }
)

it("G-4: where the lock has no binary, the folder is refused by name", () => {
  mkdirSync(join(root, "other"))
  expect(() => lockFolder(join(root, "other"), "linux-x64-musl")).toThrow(
    /storage \(io\): no data folder can be locked on this platform \(linux-x64-musl\)/
  )
})

it("G-14: a folder that cannot be written is not called another process's", async () => {
  const at = folder()
  mkdirSync(join(at, "writer.pid"), { recursive: true })
  await expect(openLmdb({ folder: at })).rejects.toMatchObject({ reason: "io" })
  await expect(openLmdb({ folder: "/proc/nope/data" })).rejects.toThrow(
    /\/proc(?:\/nope)? cannot be made \(E/
  )
})
