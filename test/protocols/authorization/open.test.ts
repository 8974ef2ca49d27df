/** What is said when the server opens. Source: docs/spec/authorization.md, section 17. */
import { Context } from "effect"
import { expect, it } from "vitest"
import { RefreshFamily } from "../../../actors/refresh-family.ts"
import { openAuthorization } from "../../../protocols/authorization/open.ts"
import { SettingRows } from "../../../protocols/authorization/records.ts"
import { settingsOf, type SettingsInput } from "../../../protocols/authorization/settings.ts"
import { revocationIntentsInMemory } from "../../../protocols/authorization/token/pending-revocations.ts"
import { ActorSystem } from "../../../runtime/registry.ts"
import { openMemory } from "../../../storage/memory.ts"
import { sealer } from "../../../storage/seal.ts"
import { committed } from "../../../storage/store.ts"

const warnings = async (input: SettingsInput, ruleSet?: string): Promise<ReadonlyArray<string>> => {
  const store = openMemory()
  if (ruleSet !== undefined)
    await committed(store, [
      SettingRows.put(["dcr"], {
        value: { mode: ruleSet, approvedRedirects: ["https://app.example.com/cb"] }
      })
    ])
  const actors = new ActorSystem({ store, nowMs: Date.now })
  actors.host(RefreshFamily, Context.empty())
  const said: Array<string> = []
  const open = await openAuthorization({
    store,
    actors,
    seal: sealer(new Uint8Array(32)),
    settings: settingsOf(input),
    revocationIntents: revocationIntentsInMemory(),
    clock: Date.now,
    log: (level, message) => {
      if (level === "warn") said.push(message)
    }
  })
  await open.close()
  return said
}

const issuer = "https://as.example.com"
const open = ["anyone may register clients (dcr.mode is open)"]

it("A-11: a start warns that anyone may register clients where others can reach the server", async () => {
  expect(await warnings({ issuer })).toEqual(open)
  expect(await warnings({ issuer: "http://localhost:8080" })).toEqual([])
})

it("A-11: the warning goes by the rule that an administrator set last", async () => {
  expect(await warnings({ issuer, registration: { mode: "admin_only" } })).toEqual([])
  expect(await warnings({ issuer, registration: { mode: "admin_only" } }, "open")).toEqual(open)
  expect(await warnings({ issuer }, "approved_redirects")).toEqual([])
})
