/** Products that are created, changed and deleted; creates whose answer was lost are repeated with their
 *  Idempotency-Key; refused ones must never be seen. Source: docs/spec/store.md, section 10. */
import { oneOf, random, type Book, type Violations } from "./book.ts"
import type { Caller } from "./caller.ts"

interface Product {
  readonly number: string
  /** Unknown while no answer to the create came. */
  id?: number
  /** Any of these: the last that was acknowledged, and those after it whose answer was lost. */
  names: Array<string>
  /** `perhaps`: the answer to its deletion was lost. */
  deleted: "no" | "yes" | "perhaps"
  isBusy: boolean
}

const liveMax = 400
const pageSize = 250

export class StoreBook implements Book {
  readonly name = "store"
  promises = 0
  readonly acts: ReadonlyArray<() => Promise<void>>
  private readonly products: Array<Product> = []
  private readonly caller: Caller
  private readonly violations: Violations
  private readonly headers: Readonly<Record<string, string>>
  private readonly looking: Readonly<Record<string, string>>
  private turns = 0

  /** Whoever acts is one app, whoever looks another: each has a window of its own. */
  constructor(
    caller: Caller,
    violations: Violations,
    tokens: { readonly acts: string; readonly looks: string }
  ) {
    this.caller = caller
    this.violations = violations
    this.headers = { "X-STORE-Auth-Token": tokens.acts }
    this.looking = { "X-STORE-Auth-Token": tokens.looks }
    this.acts = [() => this.create(), () => this.change(), () => this.remove(), () => this.offend()]
  }

  private async write(product: Product): Promise<void> {
    product.isBusy = true
    const reply = await this.caller.call("/api/v1/products", {
      headers: { ...this.headers, "Idempotency-Key": product.number },
      body: {
        item_name: product.names[0]!,
        item_number: product.number,
        product_status_id: 1,
        primary_category_id: 1
      }
    })
    product.isBusy = false
    if (reply === undefined || reply.status === 429 || reply.status === 503) return
    this.violations.unless(reply.status === 201, () => `store: a create was answered ${reply.text}`)
    if (reply.status !== 201) return
    product.id = reply.body.id
    this.promises++
  }

  private async create(): Promise<void> {
    await this.rest()
    const lost = this.products.find(({ id, isBusy }) => id === undefined && !isBusy)
    if (lost !== undefined) return this.write(lost)
    if (this.live().length >= liveMax) return
    const number = `P-${this.turns++}`
    const product: Product = { number, names: [`${number} v0`], deleted: "no", isBusy: false }
    this.products.push(product)
    await this.write(product)
  }

  private async change(): Promise<void> {
    await this.rest()
    const product = oneOf(this.live())
    if (product === undefined) return
    const name = `${product.number} v${this.turns++}`
    product.isBusy = true
    const reply = await this.caller.call(`/api/v1/products/${product.id}`, {
      method: "PUT",
      headers: this.headers,
      body: { item_name: name }
    })
    product.isBusy = false
    if (reply === undefined) product.names.push(name)
    if (reply === undefined || reply.status === 429 || reply.status === 503) return
    this.violations.unless(reply.status === 200, () => `store: a change was answered ${reply.text}`)
    product.names = [name]
    this.promises++
  }

  private async remove(): Promise<void> {
    await this.rest()
    const live = this.live()
    if (live.length < 20) return
    const product = oneOf(live)!
    product.isBusy = true
    const reply = await this.caller.call(`/api/v1/products/${product.id}`, {
      method: "DELETE",
      headers: this.headers
    })
    product.isBusy = false
    if (reply === undefined) product.deleted = "perhaps"
    if (reply === undefined || reply.status === 429 || reply.status === 503) return
    this.violations.unless(reply.status < 300, () => `store: a deletion was answered ${reply.text}`)
    product.deleted = "yes"
    this.promises++
  }

  /** A product without what it must have. */
  private async offend(): Promise<void> {
    await this.rest()
    const reply = await this.caller.call("/api/v1/products", {
      headers: this.headers,
      body: { item_number: `REFUSED-${this.turns++}`, price: 1 }
    })
    this.violations.unless(
      reply === undefined || reply.status >= 400,
      () => `store: a create without a name was answered ${reply!.text}`
    )
  }

  private live(): ReadonlyArray<Product> {
    return this.products.filter(({ id, deleted, isBusy }) => id !== undefined && deleted === "no" && !isBusy)
  }

  /** The window allows 5 calls a second. */
  private rest(): Promise<void> {
    return new Promise((resolve) => {
      setTimeout(resolve, 20 + random(400))
    })
  }

  async check(): Promise<void> {
    const rows = new Map<string, { readonly id: number; readonly item_name: string }>()
    for (let page = 1; ; page++) {
      const { status, body, text } = await this.caller.answer(
        `/api/v1/products?count=${pageSize}&page=${page}&fields=id,item_name,item_number`,
        { headers: this.looking }
      )
      this.violations.unless(status === 200, () => `store: the list is ${status} ${text}`)
      if (status !== 200) break
      for (const row of body.products) {
        this.violations.unless(!rows.has(row.item_number), () => `store: ${row.item_number} is there twice`)
        this.violations.unless(
          !row.item_number.startsWith("REFUSED"),
          () => `store: ${row.item_number} was refused and is there`
        )
        rows.set(row.item_number, row)
      }
      if (rows.size >= body.total_count || body.products.length < pageSize) break
    }
    for (const product of this.products) this.compare(product, rows.get(product.number))
    this.forget()
  }

  private compare(
    product: Product,
    row: { readonly id: number; readonly item_name: string } | undefined
  ): void {
    const { number, id, names, deleted } = product
    if (row === undefined) {
      this.violations.unless(
        id === undefined || deleted !== "no",
        () => `store: ${number} was acknowledged and is not there`
      )
      if (deleted === "perhaps") product.deleted = "yes"
      return
    }
    this.violations.unless(deleted !== "yes", () => `store: ${number} was deleted and is there`)
    if (deleted === "perhaps") product.deleted = "no"
    this.violations.unless(id === undefined || row.id === id, () => `store: ${number} has another id`)
    this.violations.unless(
      names.includes(row.item_name),
      () => `store: ${number} is "${row.item_name}", not any of ${names.join(", ")}`
    )
    product.names = [row.item_name]
  }

  /** Those that were deleted long ago need not be looked for for ever. */
  private forget(): void {
    const deleted = this.products.filter(({ deleted: state }) => state === "yes")
    for (const product of deleted.slice(0, -500)) this.products.splice(this.products.indexOf(product), 1)
  }
}
