/** The store that the crash test kills: real data, real webhooks, a storm of creates and updates, each
 *  acknowledged one written to stdout at once. node main.mjs FOLDER ROUND HOOK; "storm" begins it, "calm"
 *  instead only delivers what is waiting. */
import { writeSync } from "node:fs"
import { openLmdb } from "../../../storage/lmdb.ts"
import { minimal, StoreHarness } from "./harness.ts"

const [, , folder, round, hook, mood] = process.argv
const store = await openLmdb({ folder: folder! })
const options = { webhooks: { privateTargets: true, waitsMs: Array.from({ length: 50 }, () => 20) } }
const harness = new StoreHarness(options, store)
setInterval(() => harness.system.tick(), 10)
const first = await harness.shop.begin()
const { token } = await harness.admin(["catalog", "system"])
harness.token = token
if (first) await harness.post("/webhooks", { event_type: "ProductCreated", url: hook })
harness.system.resume()
writeSync(1, "up\n")
let next = 0

const storm = async (): Promise<void> => {
  for (;;) {
    const number = `${round}-${next++}`
    const created = await harness.post("/products", { ...minimal, item_number: number })
    if (created.status !== 201) throw new Error(created.text)
    writeSync(1, `${created.body.id} 1 ${number}\n`)
    const changed = await harness.put(`/products/${created.body.id}`, {
      item_number: `${number}-b`,
      price: 2
    })
    if (changed.status !== 200) throw new Error(changed.text)
    writeSync(1, `${created.body.id} 2 ${number}-b\n`)
  }
}

if (mood === "storm") for (let i = 0; i < 12; i++) void storm()
else {
  const wait = setInterval(() => {
    if (harness.shop.webhooks.waiting("1") === 0) {
      clearInterval(wait)
      writeSync(1, "empty\n")
    }
  }, 10)
}
