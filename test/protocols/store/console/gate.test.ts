/** Whose page a request comes from. Source: docs/spec/store.md, section 3.4. */
import { expect, it } from "vitest"
import { sameOrigin } from "../../../../protocols/store/console/gate.ts"
import { domain, StoreHarness } from "../harness.ts"

const harness = new StoreHarness()

const comesFromUs = (headers: Readonly<Record<string, string>>): boolean =>
  sameOrigin(harness.request({ method: "POST", path: "/store/admin/login", headers }))

it("a page of this origin, or no page at all", () => {
  expect(comesFromUs({})).toBe(true)
  expect(comesFromUs({ "sec-fetch-site": "same-origin", origin: `https://${domain}` })).toBe(true)
  expect(comesFromUs({ "sec-fetch-site": "none" })).toBe(true)
  expect(comesFromUs({ origin: `https://${domain}` })).toBe(true)
})

it("not another site, nor a neighbour of the same site, nor another scheme", () => {
  expect(comesFromUs({ "sec-fetch-site": "cross-site" })).toBe(false)
  expect(comesFromUs({ "sec-fetch-site": "same-site" })).toBe(false)
  expect(comesFromUs({ "sec-fetch-site": "same-site", origin: `https://${domain}` })).toBe(false)
  expect(comesFromUs({ origin: `https://blog.${domain}` })).toBe(false)
  expect(comesFromUs({ origin: `http://${domain}` })).toBe(false)
  expect(comesFromUs({ origin: "null" })).toBe(false)
})
