/** Runs one store candidate, which prints its port and token when it listens. `floor`: raw uWebSockets.js
 *  over raw LMDB, which checks nothing: a list from a string, a record by key, a put that is flushed before
 *  its answer. `troupe`: the real service over the real store, without its rate limit. node store-server.js
 *  KIND */
import { Context, Effect } from "effect"
import { open } from "lmdb"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type uWS from "uWebSockets.js"
import { Deliveries } from "../../actors/webhook-delivery.ts"
import { RateWindow } from "../../actors/rate-window.ts"
import { openStore } from "../../protocols/store/service.ts"
import { Actors } from "../../runtime/registry.ts"
import { listenWith } from "../../runtime/transport/listen.ts"
import { openLmdb } from "../../storage/lmdb.ts"
import { randomToken, sealer } from "../../storage/seal.ts"
import { loadLibrary } from "../../runtime/transport/uws-library.ts"

const folder = mkdtempSync(join(tmpdir(), "troupe-bench-store-"))
process.on("exit", () => rmSync(folder, { recursive: true, force: true }))
process.on("SIGTERM", () => process.exit(0))
const products = 1_000
const seal = sealer(new Uint8Array(32))

await Effect.runPromise(
  Effect.scoped(
    Effect.gen(function* () {
      const store = yield* Effect.promise(() => openLmdb({ folder }))
      const system = yield* Actors.make({ store })
      system.host(RateWindow, Context.empty())
      const shop = openStore({
        store,
        actors: system,
        clock: system.nowMs,
        secrets: { hash: (text, purpose) => seal.hash(text, purpose), random: randomToken },
        plainLoopback: true,
        callsMax: 1e9,
        cipher: { seal: (plain) => Buffer.from(plain), open: (sealed) => Buffer.from(sealed).toString() }
      })
      system.host(shop.delivery, Context.make(Deliveries, shop.webhooks))
      const token = yield* Effect.promise(async () => {
        await shop.begin()
        const inserted = shop.engine.write((tx) => {
          for (let i = 0; i < products; i++)
            tx.insert("products", {
              item_name: `Product ${i}`,
              item_number: `P-${i}`,
              product_status_id: 1,
              primary_category_id: 1,
              price: 10_000 * i
            })
        })
        await Effect.runPromise(inserted)
        const { app } = await shop.apps.create({ name: "bench", scopes: ["catalog"] })
        return (await shop.apps.createToken(app.appId, { scopes: ["catalog"] })).token
      })
      if (process.argv[2] === "troupe") {
        const server = yield* Effect.promise(() =>
          listenWith("uws", () => {}, [shop.service], { host: "127.0.0.1", port: 0 })
        )
        console.log(`${server.port} ${token}`)
        return yield* Effect.never
      }
      const db = open<Buffer, number>({ path: join(folder, "floor.lmdb"), encoding: "binary" })
      yield* Effect.promise(async () => {
        for (const row of shop.engine.all("products"))
          void db.put(row.id, Buffer.from(shop.engine.text("products", row)))
        await db.flushed
      })
      const list = `{"total_count":${products},"products":[${shop.engine
        .all("products", 25)
        .map((row) => shop.engine.text("products", row))
        .join(",")}]}`
      const { App, us_socket_local_port } = loadLibrary()
      const head = (res: uWS.HttpResponse): uWS.HttpResponse =>
        res
          .writeHeader("Content-Type", "application/json; charset=utf-8")
          .writeHeader("X-STORE-Call-Limit", "1/50")
          .writeHeader("X-Request-Id", "0123456789abcdef0123456789abcdef")
      let last = products
      App()
        .get("/api/v1/products.json", (res) => {
          res.cork(() => {
            head(res).end(list)
          })
        })
        .get("/api/v1/products/:id", (res, req) => {
          const id = Number(req.getParameter(0))
          res.cork(() => {
            head(res).end(db.getBinary(id)!)
          })
        })
        .post("/api/v1/products", (res) => {
          let aborted = false
          res.onAborted(() => {
            aborted = true
          })
          res.onData((chunk, isLast) => {
            if (!isLast) return
            const id = ++last
            const text = JSON.stringify({ id, ...JSON.parse(Buffer.from(chunk).toString()) })
            void db
              .put(id, Buffer.from(text))
              .then(() => db.flushed)
              .then(() => {
                if (!aborted)
                  res.cork(() => {
                    res.writeStatus("201 Created")
                    head(res).end(text)
                  })
              })
          })
        })
        .listen("127.0.0.1", 0, (listening) => console.log(`${us_socket_local_port(listening as never)} -`))
      yield* Effect.never
    })
  )
)
