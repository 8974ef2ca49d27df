/** Calls that are no engine resource's: stock, order status, the category tree, decrypted records, uploads.
 *  Source: store sections 8.3, 8.6 to 8.8, 8.10. */
import { Schema } from "effect"
import { table, type Store } from "../../../storage/store.ts"
import { reading, writing, type Area, type Subject } from "../access/access.ts"
import { cartEndpoints } from "./carts.ts"
import { jsonType, noStore, Refused } from "../problems.ts"
import { valueOf, type Row } from "../engine/resource.ts"
import { rebuildTree } from "../resources/categories.ts"
import { changeOrderStatus } from "../resources/orders.ts"
import { productStatuses, products } from "../resources/products.ts"
import { variantInventory } from "../resources/others.ts"
import { changeSettings, settingsOf } from "../resources/settings.ts"
import type { Answer, EndpointCall, Endpoint } from "../target.ts"
import type { Engine } from "../engine/engine.ts"
import type { Transaction } from "../engine/resource.ts"
import { uploadEndpoint } from "./upload.ts"
import { opened } from "../engine/writing.ts"

export const answer = (status: number, value: unknown): Answer => ({
  status,
  headers: [jsonType, noStore],
  body: JSON.stringify(value)
})

const catalogRead = reading("catalog", "Products")
const catalogWrite = writing("catalog", "Products")

/** A thing with stock: a product, or one of its variants. */
interface Stock {
  readonly resource: "products" | "variant_inventory"
  readonly row: Row
}

const identifiers = ["product_id", "variant_inventory_id", "item_number", "gtin", "item_name"] as const
type Identifier = (typeof identifiers)[number]
const namesakesMax = 2

/** Exactly one identifier; throws Refused (400). */
const identifierOf = (given: Readonly<Record<string, unknown>>): readonly [Identifier, string | number] => {
  const found = identifiers.filter(
    (name) => given[name] !== undefined && given[name] !== null && given[name] !== ""
  )
  if (found.length !== 1) throw new Refused(400, `exactly one of ${identifiers.join(", ")} must be given`)
  const value = given[found[0]!]
  const byId = found[0] === "product_id" || found[0] === "variant_inventory_id"
  const id =
    byId && (typeof value === "number" || (typeof value === "string" && /^\d{1,15}$/.test(value)))
      ? Number(value)
      : undefined
  if (byId ? id === undefined : typeof value !== "string")
    throw new Refused(400, `${found[0]} cannot be that`, [
      { field: found[0]!, code: "invalid_type", message: "has the wrong type" }
    ])
  return [found[0]!, byId ? id! : (value as string)]
}

/** Names and GTINs are looked up in the columns, which may have to be read first. */
const prepareStock = async ({ engine }: EndpointCall, identifier: Identifier): Promise<void> => {
  if (identifier !== "gtin" && identifier !== "item_name") return
  await engine.columnsOf("products").ready([identifier])
  if (identifier === "gtin") await engine.columnsOf("variant_inventory").ready([identifier])
}

const findStock = (
  engine: Engine,
  tx: Transaction,
  identifier: Identifier,
  value: string | number
): Stock => {
  const at = (resource: Stock["resource"], id: number): ReadonlyArray<Stock> => {
    const row = tx.get(resource, id)
    return row === undefined ? [] : [{ resource, row }]
  }
  const byColumn = (resource: Stock["resource"]): ReadonlyArray<Stock> => {
    const columns = engine.columnsOf(resource)
    const cells = columns.column(identifier)
    const folded = String(value).toLowerCase()
    const found: Array<Stock> = []
    for (let i = 0; i < cells.length && found.length < namesakesMax; i++)
      if (cells[i] === folded && !columns.dead.has(i)) found.push(...at(resource, columns.ids[i]!))
    return found
  }
  const byNumber = (): ReadonlyArray<Stock> => {
    const holder = engine.byUnique("item_number", String(value))
    return holder === undefined ? [] : at(holder[0] as Stock["resource"], holder[1])
  }
  const found =
    identifier === "product_id"
      ? at("products", value as number)
      : identifier === "variant_inventory_id"
        ? at("variant_inventory", value as number)
        : identifier === "item_number"
          ? byNumber()
          : [...byColumn("products"), ...(identifier === "gtin" ? byColumn("variant_inventory") : [])]
  if (found.length === 0) throw new Refused(404, `there is nothing with this ${identifier}`)
  if (found.length > 1) throw new Refused(409, `several have this ${identifier}`)
  return found[0]!
}

const shownStock = (tx: Transaction, { resource, row }: Stock): Record<string, unknown> => {
  const variant = resource === "variant_inventory"
  const product = variant ? tx.get("products", valueOf(variantInventory, row, "product_id") as number) : row
  const of = variant ? variantInventory : products
  return {
    product_id: product?.id ?? null,
    variant_inventory_id: variant ? row.id : null,
    item_number: valueOf(of, row, "item_number"),
    item_name: product === undefined ? "" : valueOf(products, product, "item_name"),
    gtin: valueOf(of, row, "gtin"),
    quantity: valueOf(of, row, variant ? "quantity" : "quantity_on_hand")
  }
}

const moveStock =
  (how: "add" | "remove" | "set") =>
  async (call: EndpointCall): Promise<Answer> => {
    const { quantity } = call.body
    const [identifier, value] = identifierOf(call.body)
    if (typeof quantity !== "number")
      throw new Refused(400, "quantity is required", [
        {
          field: "quantity",
          code: quantity === undefined ? "required" : "invalid_type",
          message: "must be an integer"
        }
      ])
    if (!Number.isSafeInteger(quantity) || quantity < 0)
      throw new Refused(400, "quantity must be an integer of at least 0", [
        { field: "quantity", code: "out_of_range", message: "must be an integer of at least 0" }
      ])
    await prepareStock(call, identifier)
    return answer(
      200,
      await call.engine.write((tx) => {
        const stock = findStock(call.engine, tx, identifier, value)
        const { resource, row } = stock
        const field = resource === "products" ? "quantity_on_hand" : "quantity"
        const of = resource === "products" ? products : variantInventory
        const before = valueOf(of, row, field) as number
        const after = how === "set" ? quantity : how === "add" ? before + quantity : before - quantity
        if (how === "remove" && after < 0) {
          const status = tx.get("product_statuses", valueOf(of, row, "product_status_id") as number)
          if (status === undefined || valueOf(productStatuses, status, "is_back_ordered") !== true)
            throw new Refused(409, `only ${before} are there`)
        }
        if (!Number.isSafeInteger(after)) throw new Refused(409, "the quantity is too large")
        tx.update(resource, row, { [field]: after })
        return shownStock(tx, { resource, row: tx.get(resource, row.id)! })
      })
    )
  }

/** [time, number] → who saw which record's clear fields; never what they were. */
export const DecryptAudit = table(
  "store-decrypt-audit",
  Schema.Struct({
    atMs: Schema.Finite,
    appId: Schema.String,
    userId: Schema.Finite,
    resource: Schema.String,
    id: Schema.Finite,
    traceId: Schema.String
  })
)

const decrypted = (resource: string, subject: Subject, area: Area): Endpoint => ({
  path: `${resource}/:id/decrypted`,
  methods: {
    GET: {
      need: reading(subject, area),
      handle: async ({ engine, principal, id, request }) => {
        if (principal.kind !== "user")
          throw new Refused(
            403,
            principal.kind === "admin-token"
              ? "This token cannot access encrypted data."
              : "encrypted data needs the token of a user"
          )
        if (!principal.scopes.has("decrypt")) throw new Refused(403, "the scope decrypt is needed")
        if (!principal.member!.areas.has("EncryptedData"))
          throw new Refused(403, "the area EncryptedData is needed")
        const row = engine.get(resource, id)
        if (row === undefined) throw new Refused(404, "there is no such record")
        const shown = { ...engine.show(resource, row), ...opened(engine, engine.resource(resource), row) }
        await engine.write((tx) => {
          tx.writes.push(
            DecryptAudit.put([tx.nowMs, tx.next("store-decrypt-audit", [])], {
              atMs: tx.nowMs,
              appId: principal.app!.appId,
              userId: principal.member!.userId,
              resource,
              id,
              traceId: request.traceId
            })
          )
        })
        return answer(200, shown)
      }
    }
  }
})

const anyOf = (query: string): Record<string, string> => Object.fromEntries(new URLSearchParams(query))

export const storeEndpoints = (store: Store): ReadonlyArray<Endpoint> => [
  {
    path: "inventory",
    methods: {
      GET: {
        need: catalogRead,
        handle: async (call) => {
          const [identifier, value] = identifierOf(anyOf(call.request.query))
          await prepareStock(call, identifier)
          return answer(
            200,
            call.engine.attempt((tx) => shownStock(tx, findStock(call.engine, tx, identifier, value)))
          )
        }
      }
    }
  },
  ...(["add", "remove", "set"] as const).map((how): Endpoint => ({
    path: `inventory/${how}`,
    methods: { POST: { need: catalogWrite, body: "object", handle: moveStock(how) } }
  })),
  {
    path: "inventory/settings",
    methods: {
      GET: {
        need: catalogRead,
        handle: ({ engine }) =>
          answer(
            200,
            engine.attempt((tx) => {
              const { refuseStatus: _, ...settings } = settingsOf(tx)
              return settings
            })
          )
      },
      PUT: {
        need: catalogWrite,
        body: "object",
        handle: async ({ engine, body }) => answer(200, await engine.write((tx) => changeSettings(tx, body)))
      }
    }
  },
  {
    path: "orders/:id/status",
    methods: {
      PUT: {
        need: writing("orders", "Orders"),
        body: "object",
        handle: async ({ engine, id, body }) =>
          answer(200, await engine.write((tx) => changeOrderStatus(tx, id, body)))
      }
    }
  },
  {
    path: "categories/rebuild_tree",
    methods: {
      POST: {
        need: writing("catalog", "Categories"),
        body: "optional",
        handle: ({ engine }) => {
          void rebuildTree(engine).catch(() => {
            /* what could not be written is written by the next call */
          })
          return { status: 204, headers: [noStore] }
        }
      }
    }
  },
  decrypted("credit_cards", "orders", "Orders"),
  decrypted("order_payments", "orders", "Orders"),
  decrypted("products", "catalog", "Products"),
  ...cartEndpoints(),
  uploadEndpoint(store)
]
