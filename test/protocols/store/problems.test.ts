/** What is thrown while a request is handled: a refusal is worded, a defect is logged and answered 500.
 *  Source: docs/spec/store.md, section 5. */
import { readdirSync, readFileSync } from "node:fs"
import { expect, it } from "vitest"
import { BodyFault, type Request } from "../../../runtime/http.ts"
import { minimal, StoreHarness } from "./harness.ts"
import { answerOf } from "../../answer.ts"

const traceId = "0".repeat(32)

/** An engine that fails at its next read. */
const broken = async (): Promise<StoreHarness> => {
  const harness = await StoreHarness.open()
  harness.shop.engine.get = () => {
    throw new TypeError("a fault of ours")
  }
  return harness
}

it("G-13: a defect is answered 500 with the trace id alone, and logged with its cause", async () => {
  const harness = await broken()
  const answer = await harness.get("/products/1")
  expect(answer.status).toBe(500)
  expect(answer.body).toEqual({ status_code: 500, message: "Internal Server Error", details: traceId })
  expect(harness.logged).toHaveLength(1)
  const { message, fields } = harness.logged[0]!
  expect(message).toBe("a request failed")
  expect(fields).toMatchObject({
    traceId,
    service: "store",
    method: "GET",
    route: "/api/v1/*",
    status: 500,
    cause: new TypeError("a fault of ours")
  })
})

it("a defect before anybody was admitted is logged too", async () => {
  const harness = await StoreHarness.open()
  harness.shop.apps.findAdminToken = () => {
    throw new TypeError("a fault of ours")
  }
  expect((await harness.get("/products")).status).toBe(500)
  expect(harness.logged).toHaveLength(1)
})

it("a token check that fails by a defect is logged, and admits nobody", async () => {
  const harness = await StoreHarness.open()
  harness.shop.tokens.verify = () => Promise.reject(new TypeError("a fault of ours"))
  expect((await harness.get("/products", { token: "eyJ" })).status).toBe(500)
  expect(harness.logged).toHaveLength(1)
})

it("a defect of a console page is logged; the page names the trace, not the cause", async () => {
  const harness = await StoreHarness.open()
  await harness.shop.staff.add({ username: "anna", password: "correct horse" })
  const session = await harness.shop.staff.signIn("anna", "correct horse")
  harness.shop.apps.list = () => {
    throw new TypeError("a fault of ours")
  }
  const headers = { cookie: `__Host-store_admin=${session}` }
  const answer = await harness.get("/store/admin/tools/apps", { token: "", headers })
  expect(answer.status).toBe(500)
  expect(answer.text).toContain(traceId)
  expect(answer.text).not.toContain("a fault of ours")
  expect(harness.logged).toHaveLength(1)
})

it("a refusal is no defect: nothing is logged", async () => {
  const harness = await StoreHarness.open()
  const statuses = [
    (await harness.get("/products/1")).status,
    (await harness.post("/products", {})).status,
    (await harness.post("/products", { ...minimal, product_status_id: 999 })).status
  ]
  expect(statuses).toEqual([404, 400, 409])
  expect(harness.logged).toEqual([])
})

it("a body that breaks off is 408, one that the transport cuts is 413; neither is a defect", async () => {
  const harness = await StoreHarness.open()
  const statusOf = async (reason: BodyFault["reason"]): Promise<number> => {
    harness.fresh()
    const request: Request = {
      ...harness.request({ method: "POST", path: "/products", body: minimal }),
      stream: { [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(new BodyFault(reason)) }) }
    }
    const post = harness.service.routes.find(({ method, path }) => method === "POST" && path === "/api/v1/*")!
    return (await answerOf(post.handle(request))).status
  }
  expect(await statusOf("timeout")).toBe(408)
  expect(await statusOf("aborted")).toBe(408)
  expect(await statusOf("too-large")).toBe(413)
  expect(harness.logged).toEqual([])
})

it("one place looks at what was thrown", () => {
  const root = new URL("../../../protocols/store/", import.meta.url)
  const files = readdirSync(root, { recursive: true, encoding: "utf8" }).filter((name) =>
    name.endsWith(".ts")
  )
  const looking = files.filter((name) =>
    readFileSync(new URL(name, root), "utf8").includes("instanceof Refusal")
  )
  expect(looking).toEqual(["problems.ts"])
})
