/** G-13 over a whole node: each service fails, and the log has one line with the trace id that its client got
 *  and with the cause. */
import { mkdtempSync, rmSync } from "node:fs"
import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Layer } from "effect"
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest"
import { loadConfig } from "../../../../runtime/program/config/config.ts"
import { Storage } from "../../../../runtime/program/parts.ts"
import { parts, startNode, type RunningNode } from "../../../../runtime/program/start.ts"
import { openMemory } from "../../../../storage/memory.ts"
import { StorageFault, type Store } from "../../../../storage/store.ts"

const secret = "sk-secret-1234567890"
const text = "a text that nobody may read"

/** A store whose reads fail once it is damaged. */
class Damageable {
  damaged = false
  readonly store: Store = Object.create(openMemory())

  constructor() {
    const sound = Object.getPrototypeOf(this.store) as Store
    const read = <A>(work: () => A): A => {
      if (this.damaged) throw new StorageFault({ reason: "corrupt", detail: "MDB_CORRUPTED" })
      return work()
    }
    Object.assign(this.store, {
      get: (...of: Parameters<Store["get"]>) => read(() => sound.get(...of)),
      range: (...of: Parameters<Store["range"]>) => read(() => sound.range(...of)),
      counter: (...of: Parameters<Store["counter"]>) => read(() => sound.counter(...of)),
      check: async () => read(() => sound.check())
    } satisfies Partial<Store>)
  }
}

describe("a node whose upstreams and rows fail", () => {
  const folder = mkdtempSync(join(tmpdir(), "troupe-failures-"))
  const disk = new Damageable()
  const lines: Array<Record<string, any>> = []
  let upstream: Server
  let node: RunningNode

  beforeAll(async () => {
    vi.spyOn(process.stderr, "write").mockImplementation((chunk) => {
      for (const line of String(chunk).split("\n")) if (line.startsWith("{")) lines.push(JSON.parse(line))
      return true
    })
    upstream = createServer(({ socket }) => socket.destroy())
    await new Promise<void>((resolve) => upstream.listen(0, "127.0.0.1", resolve))
    const base = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}/v1`
    const config = await loadConfig({
      TROUPE_DATA: folder,
      TROUPE_PORT: "0",
      APERTIUM: "off",
      STT_MAX_SESSIONS: "0",
      ENGINES_TRANSLATE: "openai",
      OPENAI_BASE_URL: base,
      OPENAI_MODEL: "m",
      OPENAI_API_KEY: secret,
      UPSTREAMS: JSON.stringify([
        { id: "main", kind: "openai-chat", base_url: base, api_key: secret, models: ["m"], retries: 0 },
        { id: "local", kind: "embedded" }
      ])
    })
    node = await startNode(config, { ...parts, storage: Layer.succeed(Storage)(disk.store) })
  }, 60_000)

  afterAll(async () => {
    disk.damaged = false
    await node?.stop()
    vi.restoreAllMocks()
    upstream?.close()
    rmSync(folder, { recursive: true, force: true })
  })

  const call = async (path: string, headers: Record<string, string>, body?: unknown) => {
    const answer = await fetch(`${node.url}${path}`, {
      ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
      headers: { "content-type": "application/json", ...headers }
    })
    return { status: answer.status, traceId: answer.headers.get("x-trace-id")!, body: await answer.text() }
  }

  const linesOf = (traceId: string) => lines.filter((line) => line["traceId"] === traceId)

  /** All descriptions of a chain of causes, the outermost first. */
  const chainOf = (cause: any): ReadonlyArray<any> =>
    cause === undefined ? [] : [cause, ...chainOf(cause.cause)]

  it("G-13 chat: an upstream that closes its socket", async () => {
    const messages = [{ role: "user", content: text }]
    const answer = await call("/v1/chat/completions", {}, { model: "main/m", messages })
    expect(answer.status).toBe(502)
    expect(linesOf(answer.traceId)).toMatchObject([
      {
        level: "warn",
        message: "a request failed",
        service: "chat",
        method: "POST",
        route: "/v1/chat/completions",
        status: 502,
        cause: { name: "UpstreamFault", details: { reason: "unavailable" } }
      }
    ])
  })

  it("G-13 translation: an engine that closes its socket", async () => {
    const authorization = `DeepL-Auth-Key ${node.createdSecrets!.developerKey}`
    const body = { text: [text], source_lang: "EN", target_lang: "ES" }
    const answer = await call("/v2/translate", { authorization }, body)
    expect(answer.status).toBe(504)
    const found = linesOf(answer.traceId)
    expect(found).toMatchObject([
      {
        level: "warn",
        service: "translation",
        route: "/v2/translate",
        status: 504,
        cause: { name: "EngineFault" }
      }
    ])
    expect(chainOf(found[0]!["cause"]).map(({ name }) => name)).toContain("TypeError")
  })

  it.each([
    [
      "store",
      "/api/v1/products/1",
      "/api/v1/*",
      () => ({ "x-store-auth-token": node.createdSecrets!.storeToken! })
    ],
    [
      "translation",
      "/v2/usage",
      "/v2/usage",
      () => ({ authorization: `DeepL-Auth-Key ${node.createdSecrets!.developerKey}` })
    ],
    ["authorization", "/oauth/authorize?client_id=nobody", "/oauth/authorize", () => ({})],
    [
      "operations",
      "/console/api/check",
      "/console/api/check",
      () => ({ authorization: `Bearer ${node.createdSecrets!.operatorToken}` })
    ]
  ])("G-13 %s: a damaged row", async (service, path, route, headers) => {
    disk.damaged = true
    const answer = await call(path, headers())
    disk.damaged = false
    expect(answer.status).toBe(500)
    // The operator who asks for a check is told what it found.
    expect(answer.body.includes("MDB_CORRUPTED")).toBe(service === "operations")
    const found = linesOf(answer.traceId)
    expect(found).toMatchObject([
      { level: "error", message: "a request failed", service, route, status: 500 }
    ])
    expect(chainOf(found[0]!["cause"])).toEqual(
      expect.arrayContaining([expect.objectContaining({ message: "storage (corrupt): MDB_CORRUPTED" })])
    )
  })

  it("G-13 chat: a damaged row", async () => {
    const stored = await call("/v1/responses", {}, { model: "local/echo", input: text })
    disk.damaged = true
    const answer = await call(`/v1/responses/${JSON.parse(stored.body).id}`, {})
    disk.damaged = false
    expect(answer.status).toBe(500)
    expect(linesOf(answer.traceId)).toMatchObject([
      { level: "error", route: "/v1/responses/:id", cause: { details: { reason: "corrupt" } } }
    ])
  })

  it("nothing of it holds a secret or a text", () => {
    const whole = JSON.stringify(lines)
    expect(whole).not.toContain(secret)
    expect(whole).not.toContain(text)
  })
})
