/** Reads, increases, decreases and sets stock by any of its identifiers, and the inventory settings.
 *  Source: docs/spec/store.md, section 8.6. */
import { Effect } from "effect"
import { readNeed, writeNeed } from "../access/scopes.ts"
import type { Engine } from "../engine/engine.ts"
import { valueOf, type Row, type Transaction } from "../engine/resource.ts"
import { thenLater, type Later } from "../later.ts"
import { conflict, invalid, notFound, type Refusal } from "../problems.ts"
import { variantInventory } from "../resources/product-parts.ts"
import { productStatuses, products } from "../resources/products.ts"
import { changeSettings, inventorySettings } from "../resources/settings.ts"
import type { Answer, Endpoint, EndpointCall } from "../target.ts"
import type { JsonObject } from "../wire.ts"
import { jsonAnswer, written } from "./json-answer.ts"

const readCatalog = readNeed("catalog", "Products")
const writeCatalog = writeNeed("catalog", "Products")

/** A record that has stock: a product, or one of its variants. */
interface Stock {
  readonly resource: "products" | "variant_inventory"
  readonly row: Row
}

const identifierNames = ["product_id", "variant_inventory_id", "item_number", "gtin", "item_name"] as const

type IdentifierName = (typeof identifierNames)[number]

interface Identifier {
  readonly name: IdentifierName
  readonly value: string | number
}

/** Two records are enough to know that an identifier names several. */
const matchesMax = 2

const isId = (name: IdentifierName): boolean => name === "product_id" || name === "variant_inventory_id"

const idIn = (value: unknown): number | undefined => {
  if (typeof value === "number") return value
  return typeof value === "string" && /^\d{1,15}$/.test(value) ? Number(value) : undefined
}

const valueIn = (name: IdentifierName, input: unknown): string | number | undefined => {
  if (isId(name)) return idIn(input)
  return typeof input === "string" ? input : undefined
}

/** Reads the one identifier of a call; throws Refusal (400). */
const identifierIn = (input: JsonObject): Identifier => {
  const present = identifierNames.filter(
    (name) => input[name] !== undefined && input[name] !== null && input[name] !== ""
  )
  const [name] = present
  if (name === undefined || present.length > 1)
    throw invalid(`exactly one of ${identifierNames.join(", ")} must be given`)
  const value = valueIn(name, input[name])
  if (value === undefined)
    throw invalid(`${name} cannot be that`, [
      { field: name, code: "invalid_type", message: "has the wrong type" }
    ])
  return { name, value }
}

/** Names and GTINs are looked up in the columns, which may have to be read first. */
const columnsLoaded = (engine: Engine, { name }: Identifier): Effect.Effect<void> | undefined => {
  if (name !== "gtin" && name !== "item_name") return undefined
  const ofProducts = engine.columnsOf("products").ready([name])
  const ofVariants = name === "gtin" ? engine.columnsOf("variant_inventory").ready([name]) : undefined
  return ofProducts === undefined || ofVariants === undefined
    ? (ofProducts ?? ofVariants)
    : Effect.andThen(ofProducts, ofVariants)
}

const byId = (tx: Transaction, resource: Stock["resource"], id: number): ReadonlyArray<Stock> => {
  const row = tx.get(resource, id)
  return row === undefined ? [] : [{ resource, row }]
}

const byColumn = (
  engine: Engine,
  tx: Transaction,
  resource: Stock["resource"],
  { name, value }: Identifier
): ReadonlyArray<Stock> => {
  const columns = engine.columnsOf(resource)
  const cells = columns.column(name)
  const folded = String(value).toLowerCase()
  const found: Array<Stock> = []
  for (let at = 0; at < cells.length && found.length < matchesMax; at++)
    if (cells[at] === folded && !columns.dead.has(at)) found.push(...byId(tx, resource, columns.ids[at]!))
  return found
}

const byItemNumber = (engine: Engine, tx: Transaction, { value }: Identifier): ReadonlyArray<Stock> => {
  const holder = engine.byUnique("item_number", String(value))
  return holder === undefined ? [] : byId(tx, holder[0] as Stock["resource"], holder[1])
}

type Find = (engine: Engine, tx: Transaction, identifier: Identifier) => ReadonlyArray<Stock>

const finders: Readonly<Record<IdentifierName, Find>> = {
  product_id: (_, tx, { value }) => byId(tx, "products", value as number),
  variant_inventory_id: (_, tx, { value }) => byId(tx, "variant_inventory", value as number),
  item_number: byItemNumber,
  item_name: (engine, tx, identifier) => byColumn(engine, tx, "products", identifier),
  gtin: (engine, tx, identifier) => [
    ...byColumn(engine, tx, "products", identifier),
    ...byColumn(engine, tx, "variant_inventory", identifier)
  ]
}

const findStock = (engine: Engine, tx: Transaction, identifier: Identifier): Stock => {
  const { name } = identifier
  const [stock, another] = finders[name](engine, tx, identifier)
  if (stock === undefined) throw notFound(`there is nothing with this ${name}`)
  if (another !== undefined) throw conflict(`several have this ${name}`)
  return stock
}

const stockBody = (tx: Transaction, { resource, row }: Stock): JsonObject => {
  if (resource === "products")
    return {
      product_id: row.id,
      variant_inventory_id: null,
      item_number: valueOf(products, row, "item_number"),
      item_name: valueOf(products, row, "item_name"),
      gtin: valueOf(products, row, "gtin"),
      quantity: valueOf(products, row, "quantity_on_hand")
    }
  const product = tx.get("products", valueOf(variantInventory, row, "product_id") ?? 0)
  return {
    product_id: product?.id ?? null,
    variant_inventory_id: row.id,
    item_number: valueOf(variantInventory, row, "item_number"),
    item_name: product === undefined ? "" : valueOf(products, product, "item_name"),
    gtin: valueOf(variantInventory, row, "gtin"),
    quantity: valueOf(variantInventory, row, "quantity")
  }
}

const quantityIn = ({ quantity }: JsonObject): number => {
  if (typeof quantity !== "number") {
    const code = quantity === undefined ? "required" : "invalid_type"
    throw invalid("quantity is required", [{ field: "quantity", code, message: "must be an integer" }])
  }
  if (!Number.isSafeInteger(quantity) || quantity < 0)
    throw invalid("quantity must be an integer of at least 0", [
      { field: "quantity", code: "out_of_range", message: "must be an integer of at least 0" }
    ])
  return quantity
}

interface Level {
  readonly quantity: number
  readonly statusId: number | null
}

const levelOf = ({ resource, row }: Stock): Level =>
  resource === "products"
    ? {
        quantity: valueOf(products, row, "quantity_on_hand"),
        statusId: valueOf(products, row, "product_status_id")
      }
    : {
        quantity: valueOf(variantInventory, row, "quantity"),
        statusId: valueOf(variantInventory, row, "product_status_id")
      }

const mayFallBelowZero = (tx: Transaction, { statusId }: Level): boolean => {
  const status = tx.get("product_statuses", statusId ?? 0)
  return status !== undefined && valueOf(productStatuses, status, "is_back_ordered")
}

type Movement = "add" | "remove" | "set"

const movements: Readonly<Record<Movement, (before: number, quantity: number) => number>> = {
  add: (before, quantity) => before + quantity,
  remove: (before, quantity) => before - quantity,
  set: (_, quantity) => quantity
}

const moveStock =
  (movement: Movement) =>
  ({ engine, body }: EndpointCall): Effect.Effect<Answer, Refusal> => {
    const identifier = identifierIn(body)
    const quantity = quantityIn(body)
    const moved = written(engine, (tx) => {
      const stock = findStock(engine, tx, identifier)
      const { resource, row } = stock
      const level = levelOf(stock)
      const after = movements[movement](level.quantity, quantity)
      if (movement === "remove" && after < 0 && !mayFallBelowZero(tx, level))
        throw conflict(`only ${level.quantity} are there`)
      if (!Number.isSafeInteger(after)) throw conflict("the quantity is too large")
      tx.update(resource, row, { [resource === "products" ? "quantity_on_hand" : "quantity"]: after })
      return stockBody(tx, { resource, row: tx.get(resource, row.id)! })
    })
    return Effect.andThen(columnsLoaded(engine, identifier) ?? Effect.void, moved)
  }

const showStock = ({ engine, request }: EndpointCall): Later<Answer> => {
  const identifier = identifierIn(Object.fromEntries(new URLSearchParams(request.query)))
  return thenLater(columnsLoaded(engine, identifier), () =>
    jsonAnswer(
      200,
      engine.attempt((tx) => stockBody(tx, findStock(engine, tx, identifier)))
    )
  )
}

const movementEndpoint = (movement: Movement): Endpoint => ({
  path: `inventory/${movement}`,
  methods: { POST: { need: writeCatalog, body: "object", handle: moveStock(movement) } }
})

export const inventoryEndpoints: ReadonlyArray<Endpoint> = [
  { path: "inventory", methods: { GET: { need: readCatalog, handle: showStock } } },
  movementEndpoint("add"),
  movementEndpoint("remove"),
  movementEndpoint("set"),
  {
    path: "inventory/settings",
    methods: {
      GET: { need: readCatalog, handle: ({ engine }) => jsonAnswer(200, engine.attempt(inventorySettings)) },
      PUT: {
        need: writeCatalog,
        body: "object",
        handle: ({ engine, body }) => written(engine, (tx) => changeSettings(tx, body))
      }
    }
  }
]
