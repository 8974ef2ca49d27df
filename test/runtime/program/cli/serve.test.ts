/** `troupe serve` as a container or a person starts it: where it puts secrets, what it refuses, how it ends. */
import { execFileSync, spawn } from "node:child_process"
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, it, vi } from "vitest"

vi.setConfig({ testTimeout: 120_000 })

const root = new URL("../../../..", import.meta.url).pathname
const script = join(root, "runtime/bin/troupe.mjs")
const home = mkdtempSync(join(tmpdir(), "troupe-serve-"))
afterAll(() => rmSync(home, { recursive: true, force: true }))

interface Started {
  readonly pid: number
  readonly said: { out: string; err: string }
  readonly ended: Promise<number | null>
}

const start = (
  words: ReadonlyArray<string>,
  env: Readonly<Record<string, string>> = {},
  cwd = home
): Started => {
  const whole = { PATH: process.env["PATH"], HOME: process.env["HOME"], TROUPE_PORT: "0", ...env }
  const child = spawn(words[0]!, words.slice(1), { cwd, env: whole })
  const said = { out: "", err: "" }
  child.stdout.on("data", (text) => (said.out += String(text)))
  child.stderr.on("data", (text) => (said.err += String(text)))
  return { pid: child.pid!, said, ended: new Promise((resolve) => child.on("close", resolve)) }
}

const serve = (env: Readonly<Record<string, string>>, ...words: ReadonlyArray<string>): Started =>
  start([process.execPath, script, "serve", ...words], env)

const until = (probe: () => unknown): Promise<unknown> =>
  vi.waitFor(
    async () => {
      if (!(await probe())) throw new Error("not yet")
    },
    { timeout: 60_000, interval: 50 }
  )

const listening = ({ said }: Started): Promise<unknown> => until(() => /listens on|"url"/.test(said.out))

const end = async ({ pid, ended }: Started): Promise<number | null> => {
  process.kill(pid, "SIGTERM")
  return ended
}

const secretsIn = (data: string): Record<string, string> =>
  JSON.parse(
    execFileSync(process.execPath, [script, "keys", "--json"], {
      env: { PATH: process.env["PATH"], TROUPE_DATA: data },
      encoding: "utf8"
    })
  ) as Record<string, string>

it.each([[[]], [["--json"]]])(
  "G-14: secrets of a first start that no terminal reads are in a file of their owner (%j)",
  async (words) => {
    const data = join(home, `data${words.length}`)
    const server = serve({ TROUPE_DATA: data }, ...words)
    await listening(server)
    const file = join(data, "first-start.txt")
    const secrets = secretsIn(data)
    expect(statSync(file).mode & 0o777).toBe(0o600)
    const written = readFileSync(file, "utf8")
    for (const name of ["developerKey", "adminKey", "storeToken", "storePassword", "oauthClientSecret"]) {
      expect(written, name).toContain(secrets[name])
      expect(server.said.out + server.said.err, name).not.toContain(secrets[name])
    }
    expect(server.said.out).toContain(file)
    expect(await end(server)).toBe(0)
    rmSync(file)
    const later = serve({ TROUPE_DATA: data }, ...words)
    await listening(later)
    expect(await end(later)).toBe(0)
    expect(existsSync(file)).toBe(false)
  }
)

it("G-14: TROUPE_PRINT_SECRETS=always prints them", async () => {
  const data = join(home, "printed")
  const server = serve({ TROUPE_DATA: data, TROUPE_PRINT_SECRETS: "always" }, "--json")
  await listening(server)
  expect(JSON.parse(server.said.out)).toMatchObject(secretsIn(data))
  expect(existsSync(join(data, "first-start.txt"))).toBe(false)
  await end(server)
})

it("G-14: a data folder that cannot be made is one clear line, at once", async () => {
  writeFileSync(join(home, "file"), "")
  for (const data of ["/proc/nope", "/proc/nope/deeper", join(home, "file"), join(home, "file", "below")]) {
    const { said, ended } = serve({ TROUPE_DATA: data })
    expect(await ended, data).toBe(1)
    expect(said.err, data).toMatch(/troupe cannot start: the folder \S+ cannot be made \(E[A-Z]+\)/)
  }
})

it("G-14: a cache folder that cannot be made costs the cache, not the start", async () => {
  const server = serve({ TROUPE_DATA: join(home, "uncached"), TROUPE_CACHE: "/proc/nope" })
  await listening(server)
  const url = /listens on (\S+)/.exec(server.said.out)![1]!
  expect((await fetch(`${url}/livez`)).status).toBe(200)
  expect(await end(server)).toBe(0)
})

it.runIf(process.platform === "linux")(
  "G-14: an address space that is too small for the map is one clear line",
  async () => {
    const limited = ["sh", "-c", 'ulimit -v 8000000 && exec "$@"', "sh", process.execPath, script, "serve"]
    const { said, ended } = start(limited, { TROUPE_DATA: join(home, "limited") })
    expect(await ended).toBe(1)
    expect(said.err).toMatch(
      /troupe cannot start: .*the address space is limited to 8192000000 bytes \(ulimit -v\)/
    )
  }
)

it("G-14: SIGTERM to npm start ends the server", async () => {
  const data = join(home, "npm")
  const npm = start(["npm", "start", "--ignore-scripts"], { TROUPE_DATA: data }, root)
  await listening(npm)
  const url = /listens on (\S+)/.exec(npm.said.out)![1]!
  expect((await fetch(`${url}/livez`)).status).toBe(200)
  await end(npm)
  await until(() =>
    fetch(`${url}/livez`).then(
      () => false,
      () => true
    )
  )
  expect(npm.said.err).toContain('"stopped"')
})

it("G-15: a wrong word or value is told by what it wants", async () => {
  for (const [words, said] of [
    [["--port", "x"], "--port wants an integer from 0 to 65535, not x"],
    [["--port", "70000"], "--port wants an integer from 0 to 65535, not 70000"],
    [["--port=-1"], "--port wants an integer from 0 to 65535, not -1"],
    [["--port"], "--port wants an integer from 0 to 65535"],
    [["--config"], "--config wants a file"],
    [["--colour"], "serve does not know --colour; see npx troupe serve --help"]
  ] as const) {
    const server = serve({}, ...words)
    expect([await server.ended, server.said.err.trim()], words.join(" ")).toEqual([2, said])
  }
  const wrong = serve({ TROUPE_PORT: "x", SERVICE_ADMIN_API_KEY: "short" })
  expect([await wrong.ended, wrong.said.err.trim()]).toEqual([
    78,
    "configuration:\n  TROUPE_PORT (http.port): wants an integer from 0 to 65535"
  ])
})
