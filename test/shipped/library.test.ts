import { execFileSync, spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { basename, join } from "node:path"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { packageFolder, pins } from "../../runtime/transport/uws-library.ts"
import { newHome, Program } from "./program.ts"

const root = new URL("../..", import.meta.url).pathname
const binary = `${process.platform}_${process.arch}_${process.versions.modules}`
const name = `uws_${binary}.node`

/** Tells why the package's binary does not load as it is: in a process of its own, since a loaded library
 *  stays. */
const refusal = (): string => {
  const script = `try { require(${JSON.stringify(join(packageFolder(), name))}) } catch (cause) { console.log(cause.message) }`
  return execFileSync(process.execPath, ["-e", script], { encoding: "utf8" })
}

const needsCopy = refusal().includes("GLIBC_2.38")
const namespaces = spawnSync("unshare", ["-Urm", "true"]).status === 0

let program: Program | undefined
let home: string
let cache: string

/** A built program without a copy of its own, as it is where the build ran on another system. */
const elsewhere = (): string => {
  const dist = join(home, "program/dist")
  cpSync(join(root, "dist"), dist, {
    recursive: true,
    filter: (path) => !/^(?:native|bench|child-.*)$/.test(basename(path))
  })
  symlinkSync(join(root, "node_modules"), join(home, "program/node_modules"))
  return join(dist, "main.cjs")
}

const start = async (
  env: Readonly<Record<string, string>>,
  ...command: ReadonlyArray<string>
): Promise<Program> =>
  (program = await Program.start({ home, env, ...(command.length === 0 ? {} : { command }) }))

const adapterOf = (of: Program): string => /"adapter":"(\w+)"/.exec(of.log)?.[1] ?? ""

const reasonOf = (of: Program): ReadonlyArray<string> =>
  of.log.split("\n").filter((line) => line.includes("uWebSockets.js does not load here"))

const hashOf = (file: string): string => createHash("sha256").update(readFileSync(file)).digest("hex")

const modeOf = (path: string): number => statSync(path).mode & 0o777

beforeEach(() => {
  home = newHome()
  cache = join(home, "cache")
})

afterEach(async () => {
  await program?.close()
  program = undefined
})

it.skipIf(refusal() !== "" && !needsCopy)("G-10: the built program serves with uWebSockets.js", async () => {
  const { url, log } = await start({})
  expect(adapterOf(program!)).toBe("uws")
  expect(log).not.toContain("does not load")
  expect(existsSync(join(home, "data/cache/native"))).toBe(false)
  const { status } = await fetch(`${url}/health`, { headers: { session_id: "1", "X.Y": "2" } })
  expect(status).toBe(200)
})

describe.skipIf(!needsCopy)("a copy made at the first start", () => {
  it("G-10: is in the data folder's cache, for this user alone, and is what the pins say", async () => {
    await start({}, process.execPath, elsewhere())
    expect(adapterOf(program!)).toBe("uws")
    const folder = join(home, "data/cache/native")
    expect(readdirSync(folder)).toEqual([name])
    expect(modeOf(folder)).toBe(0o700)
    expect(modeOf(join(folder, name))).toBe(0o600)
    expect(hashOf(join(folder, name))).toBe(pins[binary]!.copy)
  })

  it("G-10: is in TROUPE_CACHE, is used again, and is replaced when a byte differs", async () => {
    const script = elsewhere()
    const file = join(cache, "native", name)
    await start({ TROUPE_CACHE: cache }, process.execPath, script)
    const first = statSync(file).ino
    await program!.end()
    await start({ TROUPE_CACHE: cache }, process.execPath, script)
    expect(statSync(file).ino).toBe(first)
    await program!.end()
    const bytes = readFileSync(file)
    bytes[bytes.length - 1]! ^= 1
    writeFileSync(file, bytes)
    chmodSync(join(cache, "native"), 0o755)
    await start({ TROUPE_CACHE: cache }, process.execPath, script)
    expect(adapterOf(program!)).toBe("uws")
    expect(hashOf(file)).toBe(pins[binary]!.copy)
    expect(modeOf(join(cache, "native"))).toBe(0o700)
  })

  it("G-10: stands in for a copy of the build in which a byte differs", async () => {
    const script = elsewhere()
    const bytes = readFileSync(join(root, "dist/native", name))
    bytes[bytes.length - 1]! ^= 1
    mkdirSync(join(home, "program/dist/native"))
    writeFileSync(join(home, "program/dist/native", name), bytes)
    await start({ TROUPE_CACHE: cache }, process.execPath, script)
    expect(adapterOf(program!)).toBe("uws")
    expect(hashOf(join(cache, "native", name))).toBe(pins[binary]!.copy)
  })

  it.skipIf(!namespaces)("G-10: on a disk without exec: one line says why node:http serves", async () => {
    mkdirSync(cache)
    const mount = `mount -t tmpfs -o noexec tmpfs "$TROUPE_CACHE" && exec "$0" "$@"`
    await start({ TROUPE_CACHE: cache }, "unshare", "-Urm", "sh", "-c", mount, process.execPath, elsewhere())
    expect(adapterOf(program!)).toBe("node")
    expect(reasonOf(program!)).toEqual([
      expect.stringMatching(/failed to map segment.*serving with node:http/)
    ])
    expect((await fetch(`${program!.url}/health`)).status).toBe(200)
  })

  it("G-10: where no folder can be: one line says why node:http serves", async () => {
    writeFileSync(cache, "")
    await start({ TROUPE_CACHE: cache }, process.execPath, elsewhere())
    expect(adapterOf(program!)).toBe("node")
    expect(reasonOf(program!)).toEqual([expect.stringContaining("serving with node:http")])
  })

  it("G-10: with TROUPE_ADAPTER=uws nothing serves instead", () => {
    writeFileSync(cache, "")
    const { status, stderr } = spawnSync(process.execPath, [elsewhere(), "serve"], {
      env: {
        ...process.env,
        TROUPE_DATA: join(home, "data"),
        TROUPE_CACHE: cache,
        TROUPE_PORT: "0",
        TROUPE_ADAPTER: "uws"
      },
      encoding: "utf8"
    })
    rmSync(home, { recursive: true })
    expect(status).toBe(1)
    expect(stderr).toContain("troupe cannot start: uWebSockets.js does not load here (")
  })

  it.skipIf(process.getuid?.() !== 0)("G-10: not in a folder of another user", async () => {
    mkdirSync(join(cache, "native"), { recursive: true })
    chownSync(join(cache, "native"), 65_534, 65_534)
    await start({ TROUPE_CACHE: cache }, process.execPath, elsewhere())
    expect(adapterOf(program!)).toBe("node")
    expect(reasonOf(program!)).toEqual([expect.stringContaining("belongs to another user")])
    expect(readdirSync(join(cache, "native"))).toEqual([])
  })
})
