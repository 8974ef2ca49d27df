/** The operators' listener: what it serves, and that the public one does not.
 *  Source: docs/spec/authorization.md, section 1.2. */
import { mkdtempSync, rmSync } from "node:fs"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { listenAddressOf } from "../../../runtime/program/admin-listener.ts"
import { clientOf } from "../../../runtime/program/cli/client.ts"
import { loadConfig, type Config } from "../../../runtime/program/config/config.ts"
import { startNode, type RunningNode } from "../../../runtime/program/start.ts"

const freePort = (): Promise<number> =>
  new Promise((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address() as { readonly port: number }
      probe.close(() => resolve(port))
    })
  })

const adminKey = "k".repeat(40)

describe("A-10: SERVICE_ADMIN_LISTEN", () => {
  const folder = mkdtempSync(join(tmpdir(), "troupe-admin-"))
  let config: Config
  let node: RunningNode
  let admin = ""

  beforeAll(async () => {
    admin = `127.0.0.1:${await freePort()}`
    config = await loadConfig({
      TROUPE_DATA: join(folder, "data"),
      TROUPE_PORT: "0",
      SERVICE_ADMIN_LISTEN: admin,
      SERVICE_ADMIN_API_KEY: adminKey
    })
    node = await startNode(config)
  }, 120_000)
  afterAll(async () => {
    await node.stop()
    rmSync(folder, { recursive: true, force: true })
  })

  const status = async (at: string, path: string): Promise<number> => {
    const answer = await fetch(at + path, { headers: { Authorization: `Bearer ${adminKey}` } })
    await answer.arrayBuffer()
    return answer.status
  }

  it("the admin API, the console and the metrics are there, and 404 on the public one", async () => {
    for (const path of ["/admin/clients", "/metrics"]) {
      expect([path, await status(`http://${admin}`, path)]).toEqual([path, 200])
      expect([path, await status(node.url, path)]).toEqual([path, 404])
    }
    expect(await status(`http://${admin}`, "/console/api/actors")).toBe(401)
    expect(await status(node.url, "/console/api/actors")).toBe(404)
  })

  it("everything else is on the public one, and not there", async () => {
    for (const path of ["/livez", "/.well-known/oauth-authorization-server", "/v1/models"]) {
      expect([path, await status(node.url, path)]).toEqual([path, 200])
      expect([path, await status(`http://${admin}`, path)]).toEqual([path, 404])
    }
  })

  it("the command line asks the operators' listener", () => {
    expect(clientOf(config, {}).adminUrl).toBe(`http://${admin}`)
    expect(clientOf(config, { url: "http://other:1" }).adminUrl).toBe("http://other:1")
  })

  it("what is no address, or the public one's, is a fault", async () => {
    for (const [address, fault] of [
      ["8081", "wants host:port"],
      ["127.0.0.1:70000", "wants host:port"],
      ["127.0.0.1:8080", "is the address of the public listener"]
    ] as const)
      await expect(loadConfig({ SERVICE_ADMIN_LISTEN: address })).rejects.toThrow(
        `SERVICE_ADMIN_LISTEN (admin.address): ${fault}`
      )
    expect(listenAddressOf("[::1]:8081")).toEqual({ host: "::1", port: 8_081 })
  })
})
