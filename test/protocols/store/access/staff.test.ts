/** Users of the console. Source: docs/spec/store.md, sections 3.3.5 and 3.4. */
import { expect, it } from "vitest"
import { sessionMs } from "../../../../protocols/store/access/staff.ts"
import { StoreHarness } from "../harness.ts"

const idleMs = 30 * 60_000

it("a name at the authorization server is one user's: another cannot take it", async () => {
  const { shop } = await StoreHarness.open()
  const first = await shop.staff.add({ username: "first", subject: "name" })
  await expect(shop.staff.add({ username: "second", subject: "name" })).rejects.toThrow()
  expect(shop.staff.bySubject("name")?.userId).toBe(first)
})

it("a session ends when it is idle, and after 12 h however it is used", async () => {
  const harness = await StoreHarness.open()
  const { staff } = harness.shop
  const userId = await staff.add({ username: "user" })
  const idle = await staff.open(userId)
  harness.nowMs += idleMs - 1
  expect(staff.session(idle)?.userId).toBe(userId)
  harness.nowMs += idleMs
  expect(staff.session(idle)).toBeUndefined()

  const used = await staff.open(userId)
  const endMs = harness.nowMs + sessionMs
  while (harness.nowMs + idleMs / 2 < endMs) {
    harness.nowMs += idleMs / 2
    expect(staff.session(used)?.userId).toBe(userId)
  }
  harness.nowMs = endMs
  expect(staff.session(used)).toBeUndefined()
})

it("the token of a form is bound to its session, and is not the key under which that is stored", async () => {
  const { shop, store } = await StoreHarness.open()
  const userId = await shop.staff.add({ username: "user" })
  const [first, second] = [await shop.staff.open(userId), await shop.staff.open(userId)]
  const stored = store.range("store-sessions", { limit: 9 }).map(({ key }) => key[0])
  expect(stored).toHaveLength(2)
  expect(stored).not.toContain(shop.staff.csrf(first))
  expect(shop.staff.csrf(first)).not.toBe(shop.staff.csrf(second))
})
