/** Apps beside each other's changes. Source: docs/spec/store.md, section 3.2. */
import { expect, it } from "vitest"
import { AppRegistry } from "../../../../protocols/store/access/apps.ts"
import type { AppTokens } from "../../../../protocols/store/access/app-tokens.ts"
import { openMemory } from "../../../../storage/memory.ts"
import { randomToken, sealer } from "../../../../storage/seal.ts"

const opened = () => {
  const seal = sealer(new Uint8Array(32))
  /** What happens while the authorization server is asked to change a client. */
  const meanwhile = { run: async (): Promise<void> => {} }
  const tokens: AppTokens = {
    verify: () => undefined,
    register: async () => ({ secret: "s" }),
    change: () => meanwhile.run(),
    rotate: async () => ({ secret: "s" }),
    remove: async () => {}
  }
  const registry = new AppRegistry({
    store: openMemory(),
    tokens,
    secrets: { hash: (text, purpose) => seal.hash(text, purpose), random: randomToken },
    clock: () => 0
  })
  return { meanwhile, registry }
}

it("an app that is deleted while it is changed stays deleted", async () => {
  const { meanwhile, registry } = opened()
  const { app } = await registry.create({ name: "app", scopes: ["catalog"] })
  meanwhile.run = () => registry.remove(app.appId)
  await expect(registry.change(app.appId, { name: "renamed" })).rejects.toThrow()
  expect([registry.get(app.appId), registry.list()]).toEqual([undefined, []])
})

it("an admin token cannot hold decrypt", async () => {
  const { registry } = opened()
  const { app } = await registry.create({ name: "app", scopes: ["people", "decrypt"] })
  await expect(registry.createToken(app.appId, { scopes: ["people", "decrypt"] })).rejects.toThrow()
  const { token } = await registry.createToken(app.appId, { scopes: ["people"] })
  expect(registry.findAdminToken(token)?.scopes).toEqual(["people"])
})
