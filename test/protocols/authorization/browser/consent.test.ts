/** Consent by a form of another site, beside a revocation, and to a question that is too old. Source:
 *  docs/spec/authorization.md, sections 7.6 and 12.6. */
import { afterEach, expect, it } from "vitest"
import { allowing, consentWanted, liveConsent } from "../../../../protocols/authorization/consents.ts"
import {
  Consents,
  type Client,
  type Resource,
  type User
} from "../../../../protocols/authorization/records.ts"
import { RacedStore } from "../../../storage/raced-store.ts"
import { World, type Answer, type Browser } from "../world.ts"

let world: World
afterEach(() => world.close())

interface Scene {
  readonly resource: Resource
  readonly client: Client
  readonly user: User
  readonly browser: Browser
}

const open = async (raced = new RacedStore()): Promise<Scene> => {
  world = await World.make({ store: raced.store })
  const resource = await world.resource({ slug: "files" })
  const client = await world.client()
  const user = await world.user()
  const browser = world.browser()
  await browser.login(user)
  return { resource, client, user, browser }
}

/** The hidden fields of the consent page of a new request. */
const asked = async ({ client, browser }: Scene): Promise<Record<string, string>> => {
  let answer = await browser.call(world.authorizeUrl(client, { resource: "files" }))
  while (answer.headers.get("location") !== null) answer = await browser.call(answer.headers.get("location")!)
  return browser.hidden(answer.text)
}

const consentOf = ({ user, client, resource }: Scene) =>
  liveConsent(world.open.services, user.id, client.clientId, resource.id)

const denied = (answer: Answer): void => {
  expect([answer.status, answer.text.includes("is not from this browser")]).toEqual([403, true])
}

it("Allow without the form's token, or with that of another request, allows nothing", async () => {
  const scene = await open()
  const form = await asked(scene)
  const other = await asked(scene)
  const { csrf: _, ...without } = form
  denied(await scene.browser.post("/consent", { ...without, decision: "allow" }))
  denied(await scene.browser.post("/consent", { ...form, csrf: other["csrf"]!, decision: "allow" }))
  expect(consentOf(scene)).toBeUndefined()
  const allowed = await scene.browser.post("/consent", { ...form, decision: "allow" })
  expect([allowed.status, consentOf(scene)?.scopes]).toEqual([303, ["files:read"]])
})

it("Allow does not revive a consent that is revoked meanwhile", async () => {
  const raced = new RacedStore()
  const scene = await open(raced)
  const { services } = world.open
  const { consent, rows } = allowing(services, scene.user.id, scene.client, scene.resource.id, [
    "files:write"
  ])
  await services.books.write(rows)
  const form = await asked(scene)
  raced.race(Consents.name, () => [Consents.put([consent.id], { ...consent, revokedMs: world.nowMs })])
  await scene.browser.post("/consent", { ...form, decision: "allow" })
  expect(Consents.get(world.store, [consent.id])?.revokedMs).toBe(world.nowMs)
})

/** A question of a token exchange, and its page. */
const prompted = async ({ user, client, resource, browser }: Scene) => {
  await consentWanted(world.open.services, undefined, user.id, client.clientId, resource, ["files:read"])
  const page = () => browser.call("/authorize?resource=files&scope=files:read")
  return { page, fields: browser.hidden((await page()).text) }
}

it("the answer to a prompt needs the token of its page", async () => {
  const scene = await open()
  const { fields } = await prompted(scene)
  const { csrf: _, ...without } = fields
  denied(await scene.browser.post("/authorize", { ...without, decision: "allow" }))
  denied(await scene.browser.post("/authorize", { ...fields, csrf: "x".repeat(43), decision: "allow" }))
  expect(consentOf(scene)).toBeUndefined()
  await scene.browser.post("/authorize", { ...fields, decision: "allow" })
  expect(consentOf(scene)?.scopes).toEqual(["files:read"])
})

it("a prompt can be seen and answered for an hour", async () => {
  const scene = await open()
  const { page, fields } = await prompted(scene)
  world.nowMs += 3_600_000 - 1
  expect((await page()).status).toBe(200)
  world.nowMs += 1
  expect((await page()).status).toBe(404)
  await scene.browser.post("/authorize", { ...fields, decision: "allow" })
  expect(consentOf(scene)).toBeUndefined()
})
