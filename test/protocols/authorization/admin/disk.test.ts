/** The same over LMDB: what was answered is there after a restart, and ids that no key can be are simply not
 *  found. */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it } from "vitest"
import { openLmdb } from "../../../../storage/lmdb.ts"
import { secretMatches } from "../../../../protocols/authorization/client/client-secrets.ts"
import { Clients } from "../../../../protocols/authorization/records.ts"
import { World } from "./world.ts"

it("rows, states, names, settings and the memory of an Idempotency-Key outlive the process", async () => {
  const folder = mkdtempSync(join(tmpdir(), "troupe-admin-"))
  try {
    const first = await openLmdb({ folder })
    const before = new World({}, {}, first)
    const client = await before.client()
    const resource = await before.resource()
    const user = await before.user()
    const asked = { headers: { "idempotency-key": "k" } }
    const app = await before.did(
      "POST",
      "/admin/clients",
      { client_name: "App", redirect_uris: ["https://app.example/cb"] },
      asked
    )
    await before.did("PATCH", `/admin/clients/${client.client_id}/suspend`)
    await before.did("PATCH", "/admin/settings/dcr", { mode: "admin_only" })
    for (const id of ["%00", "a%00b", "x".repeat(3_000), "%F0%9F%98%80".repeat(700), ".."])
      for (const path of [
        "clients",
        "resources",
        "users",
        "idps",
        "broker-providers",
        "issuances",
        "xaa/policies"
      ]) {
        expect((await before.ask("GET", `/admin/${path}/${id}`)).status, `${path} ${id.slice(0, 20)}`).toBe(
          404
        )
        expect(
          (await before.ask("DELETE", `/admin/${path}/${id}`)).status,
          `${path} ${id.slice(0, 20)}`
        ).toBe(404)
      }
    await first.close()
    const second = await openLmdb({ folder })
    const after = new World({}, {}, second)
    expect((await after.did("GET", `/admin/clients/${client.client_id}`)).status).toBe("suspended")
    expect(
      secretMatches(after.authority, Clients.get(second, [client.client_id]), client.client_secret)
    ).toBe(true)
    expect((await after.did("GET", "/admin/resources/files")).id).toBe(resource.id)
    expect(
      (await after.did("GET", "/admin/users?email=ann%40example.com")).users.map((row: any) => row.id)
    ).toEqual([user.id])
    expect((await after.join({ redirect_uris: ["https://app.example/cb"] })).status).toBe(403)
    expect(
      await after.did(
        "POST",
        "/admin/clients",
        { client_name: "App", redirect_uris: ["https://app.example/cb"] },
        asked
      )
    ).toEqual({ ...app, client_secret: null })
    expect((await after.did("GET", "/admin/clients?limit=1")).clients[0].client_id).toBe(app.client_id)
    expect((await after.did("GET", "/admin/audit")).events).toHaveLength(6)
    await second.close()
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
