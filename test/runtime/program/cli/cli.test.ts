/** The built program as its users run it: first start, later starts, the command line against it, stop. */
import { execFile, spawn, type ChildProcess } from "node:child_process"
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest"

const root = new URL("../../../..", import.meta.url).pathname
const program = join(root, "runtime/bin/troupe.mjs")
const home = mkdtempSync(join(tmpdir(), "troupe-cli-"))
const port = 20_000 + Math.floor(Math.random() * 20_000)
const env = { ...process.env, TROUPE_DATA: join(home, "data"), TROUPE_PORT: String(port) }

/** Each word is a process of its own, on a machine that may be busy. */
vi.setConfig({ testTimeout: 120_000 })

interface Ran {
  readonly code: number
  readonly out: string
  readonly err: string
}

const exitCodeOf = (cause: { readonly code?: unknown } | null): number => {
  if (cause === null) return 0
  return typeof cause.code === "number" ? cause.code : -1
}

const troupe = (words: ReadonlyArray<string>, more: Record<string, string> = {}): Promise<Ran> =>
  new Promise((resolve) => {
    execFile(
      process.execPath,
      [program, ...words],
      { env: { ...env, ...more }, cwd: home, timeout: 90_000 },
      (cause, out, err) => resolve({ code: exitCodeOf(cause), out, err })
    )
  })

interface Server {
  readonly process: ChildProcess
  readonly out: () => string
  readonly err: () => string
  readonly exited: Promise<number | null>
}

const serve = async (more: Record<string, string> = {}, ready = /listens on/): Promise<Server> => {
  const child = spawn(process.execPath, [program, "serve"], { env: { ...env, ...more }, cwd: home })
  let out = ""
  let err = ""
  child.stdout.on("data", (data) => {
    out += String(data)
  })
  child.stderr.on("data", (data) => {
    err += String(data)
  })
  const exited = new Promise<number | null>((resolve) => child.on("close", resolve))
  for (let waited = 0; waited < 60_000 && !ready.test(out); waited += 20)
    await new Promise((resolve) => setTimeout(resolve, 20))
  return { process: child, out: () => out, err: () => err, exited }
}

afterAll(() => rmSync(home, { recursive: true, force: true }))

describe("a first start with nothing configured", () => {
  let server: Server
  beforeAll(async () => {
    server = await serve({ TROUPE_PRINT_SECRETS: "always" })
  }, 90_000)
  afterAll(async () => {
    server.process.kill("SIGKILL")
    await server.exited
  })

  it("makes its data with a private master key and prints how to try each service", () => {
    expect(server.out()).toContain(`Troupe listens on http://localhost:${port}`)
    expect(server.out()).toMatch(/curl -s http:\/\/localhost:\d+\/v2\/translate/)
    expect(server.out()).toContain("npx troupe voice docs/samples/weather.wav --to es")
    expect(statSync(join(home, "data/master.key")).mode & 0o777).toBe(0o600)
  })
  it("no secret lies in the open in the data folder, or in the log", async () => {
    const { developerKey, operatorToken } = JSON.parse((await troupe(["keys", "--json"])).out)
    const keys =
      readFileSync(join(home, "data/store.lmdb"), "latin1") +
      readFileSync(join(home, "data/local.sealed"), "latin1") +
      server.err()
    for (const secret of [developerKey, operatorToken]) {
      expect(secret.length).toBeGreaterThan(30)
      expect(keys).not.toContain(secret)
    }
  })
  it("health, readiness, metrics and details answer; unknown paths are 404 with a trace id", async () => {
    for (const path of ["/livez", "/ready", "/health", "/healthz"])
      expect((await fetch(`http://localhost:${port}${path}`)).status).toBe(200)
    const details = (await (await fetch(`http://localhost:${port}/health/details`)).json()) as {
      engines: ReadonlyArray<{ id: string; ready: boolean; reason: string }>
    }
    expect(details.engines.map(({ id }) => id)).toEqual(
      expect.arrayContaining(["apertium", "pocketsphinx", "eld", "flite"])
    )
    for (const { ready, reason } of details.engines) if (!ready) expect(reason.length).toBeGreaterThan(5)
    expect(await (await fetch(`http://localhost:${port}/metrics`)).text()).toMatch(
      /troupe_actors_live\{kind="engine"\} \d/
    )
    const missing = await fetch(`http://localhost:${port}/nowhere`)
    expect([missing.status, missing.headers.get("x-trace-id")?.length]).toEqual([404, 32])
  })
  it("the operator's API wants the operator's token", async () => {
    for (const path of ["/console/api/actors", "/console/api/keys", "/console/api/check"]) {
      expect((await fetch(`http://localhost:${port}${path}`)).status).toBe(401)
      expect(
        (await fetch(`http://localhost:${port}${path}`, { headers: { Authorization: "Bearer wrong" } }))
          .status
      ).toBe(401)
    }
  })
  it("keys: shown, listed, made, deactivated; a deactivated key is refused at once", async () => {
    const created = JSON.parse((await troupe(["keys", "create", "mine", "--json"])).out)
    const ask = () =>
      fetch(`http://localhost:${port}/v2/usage`, {
        headers: { Authorization: `DeepL-Auth-Key ${created.key}` }
      })
    expect((await ask()).status).toBe(200)
    expect((await troupe(["keys", "list"])).out).toMatch(/mine\s+\S{4}\*{4}\S{4}\s+active/)
    expect((await troupe(["keys", "deactivate", created.keyId])).code).toBe(0)
    expect((await ask()).status).toBe(403)
    expect((await troupe(["keys", "deactivate", "nobody"])).code).toBe(1)
  })
  it("A-11: keys signing and withdraw: a compromised key's tokens stop verifying, and it is published no more", async () => {
    const secrets = JSON.parse((await troupe(["keys", "--json"])).out)
    const post = async (path: string, body: Record<string, string>) =>
      (await fetch(`http://localhost:${port}${path}`, {
        method: "POST",
        headers: { Authorization: `Basic ${btoa(`${secrets.oauthClientId}:${secrets.oauthClientSecret}`)}` },
        body: new URLSearchParams(body)
      }).then((answer) => answer.json())) as Record<string, unknown>
    const { access_token: token } = await post("/oauth/token", {
      grant_type: "client_credentials",
      scope: "demo:read",
      resource: `http://localhost:${port}/demo`
    })
    const isActive = async () => (await post("/oauth/introspect", { token: String(token) }))["active"]
    expect(await isActive()).toBe(true)
    const listed = (await troupe(["keys", "signing"])).out
    const kid = /^(\S+)\s+ES256\s+active/m.exec(listed)?.[1]
    expect((await troupe(["keys", "withdraw", kid!])).out).toMatch(/is withdrawn; \S+ signs now/)
    expect(await isActive()).toBe(false)
    const jwks = await (await fetch(`http://localhost:${port}/.well-known/jwks.json`)).text()
    expect(jwks).not.toContain(kid)
    expect((await troupe(["keys", "withdraw", "nobody"])).code).toBe(1)
  })
  it("actors: list and show; check; config masks secrets; backup while it runs", async () => {
    expect((await troupe(["actors"])).out).toMatch(/^ADDRESS\s+PHASE/)
    const { actors } = JSON.parse((await troupe(["actors", "list", "--json"])).out)
    const { kind, id } = actors[0]
    expect(JSON.parse((await troupe(["actors", "show", `${kind}/${id}`])).out)).toMatchObject({ kind, id })
    expect((await troupe(["actors", "show", "nothing/here"])).code).toBe(1)
    expect((await troupe(["actors", "show", "nonsense"])).code).toBe(2)
    expect((await troupe(["check"])).out).toMatch(/all well/)
    expect((await troupe(["config"], { OPENAI_API_KEY: "sk-x" })).out).not.toContain("sk-x")
    expect((await troupe(["backup", "copy"])).out).toContain("backed up")
    expect(existsSync(join(home, "copy/store.lmdb"))).toBe(true)
    expect((await troupe(["backup", "copy"])).code).toBe(1)
  })
  it("the demo store: its token works, a file of JSON lines is imported in batches with progress, refused lines are told", async () => {
    const { storeToken, storePassword } = JSON.parse((await troupe(["keys", "--json"])).out)
    expect(server.out()).toContain(storeToken)
    const ask = async (path: string) =>
      (
        await fetch(`http://localhost:${port}/api/v1${path}`, {
          headers: { "X-STORE-Auth-Token": storeToken }
        })
      ).json() as Promise<any>
    expect((await ask("/products.json?fields=item_name")).total_count).toBe(5)
    writeFileSync(
      join(home, "rows.jsonl"),
      [
        ...Array.from({ length: 1_200 }, (_, i) =>
          JSON.stringify({
            item_name: `Row ${i}`,
            item_number: `R-${i}`,
            product_status_id: 1,
            primary_category_id: 1
          })
        ),
        "{",
        "",
        JSON.stringify({ item_name: 5 })
      ].join("\n")
    )
    const ran = await troupe(["store", "import", "rows.jsonl", "--json"])
    expect([ran.code, JSON.parse(ran.out)]).toMatchObject([1, { rows: 1_202, stored: 1_200, refused: 2 }])
    const again = await troupe(["store", "import", "rows.jsonl", "--lookup-by-sku"])
    expect(again.err).toMatch(/line 1201: not valid JSON[^]*line 1203: .*item_name must be a string/)
    expect((await ask("/products.json?count=1")).total_count).toBe(1_205)
    expect(await troupe(["store", "import", "nowhere.jsonl"])).toMatchObject({ code: 1 })
    expect(readFileSync(join(home, "data/store.lmdb"), "latin1")).not.toContain(storeToken)
    expect(readFileSync(join(home, "data/store.lmdb"), "latin1")).not.toContain(storePassword)
  }, 150_000)
  it("translate answers or says in one line what is missing", async () => {
    const { code, out, err } = await troupe(["translate", "The house is big.", "--to", "ES", "--from", "EN"])
    if (code === 0) expect(out.trim()).toBe("La casa es grande.")
    else expect(err).toMatch(/target_lang|unavailable/)
  })
  it("a second server on the same data is told so; a port in use too", async () => {
    expect(await troupe(["serve"], { TROUPE_PORT: String(port + 1) })).toMatchObject({
      code: 1,
      err: expect.stringContaining("another process writes")
    })
    expect(await troupe(["serve"], { TROUPE_DATA: join(home, "other") })).toMatchObject({
      code: 1,
      err: expect.stringContaining("cannot listen")
    })
  })
  it("SIGTERM stops it cleanly; a later start prints no secrets; a killed one leaves no lock", async () => {
    server.process.kill("SIGTERM")
    expect(await server.exited).toBe(0)
    const later = await serve()
    expect(later.out()).not.toMatch(/developer key|[0-9a-f]{8}-[0-9a-f]{4}-/)
    later.process.kill("SIGKILL")
    await later.exited
    server = await serve()
    expect(server.out()).toContain("listens on")
  }, 150_000)
})

describe("the command line", () => {
  it("help, usage errors and exit codes", async () => {
    expect(await troupe(["--help"])).toMatchObject({ code: 0, out: expect.stringContaining("voice") })
    expect(await troupe(["voice", "--help"])).toMatchObject({ code: 0, out: expect.stringContaining("--to") })
    for (const words of [
      ["dance"],
      ["translate", "x"],
      ["voice"],
      ["serve", "--colour"],
      ["actors", "journal"]
    ])
      expect((await troupe(words)).code, words.join(" ")).toBe(2)
    expect((await troupe(["serve"], { TROUPE_PORT: "x" })).code).toBe(78)
  }, 150_000)
  it("no server: one line that says how to start one", async () => {
    const { code, err } = await troupe(["translate", "x", "--to", "ES"], { TROUPE_PORT: "1" })
    expect([code, err.trim().split("\n")]).toEqual([
      1,
      [expect.stringContaining("start one with: npx troupe serve")]
    ])
  })
  it("a first start that others could reach makes no demo secrets", async () => {
    const server = await serve({ TROUPE_DATA: join(home, "open"), TROUPE_PORT: "0", TROUPE_HOST: "0.0.0.0" })
    expect(server.out()).not.toContain("developer key")
    server.process.kill("SIGTERM")
    expect(await server.exited).toBe(0)
  })
  it("restore brings a backup into an empty data folder, and not into another", async () => {
    expect((await troupe(["restore", "copy"], { TROUPE_DATA: join(home, "restored") })).out).toContain(
      "restored into"
    )
    expect((await troupe(["restore", "copy"], { TROUPE_DATA: join(home, "restored") })).code).toBe(1)
    expect((await troupe(["restore", "nowhere"])).code).toBe(1)
  })
})
