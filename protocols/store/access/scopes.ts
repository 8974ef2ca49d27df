/** The scopes of tokens and the areas of users, and which of them a call needs.
 *  Source: docs/spec/store.md, section 3.5. */

export const scopes = {
  read_catalog: "Read products, categories, manufacturers, stock and what belongs to them",
  catalog: "Read and change the catalog",
  read_people: "Read customers and their addresses",
  people: "Read and change customers",
  read_orders: "Read orders, carts and payments",
  orders: "Read and change orders",
  custom_fields: "Read and change custom fields",
  settings: "Read and change warehouses and shop settings",
  system: "Read and change webhooks, stores and files",
  import: "Import many records at once",
  decrypt: "See encrypted data, for users who may"
} as const

export type Scope = keyof typeof scopes

export const isScope = (text: unknown): text is Scope =>
  typeof text === "string" && Object.hasOwn(scopes, text)

export const areas = [
  "Products",
  "ProductStatuses",
  "Categories",
  "Manufacturers",
  "VariationGroups",
  "ProductAttributes",
  "Customers",
  "CustomerTypes",
  "UserAccounts",
  "StoreSettings",
  "Orders",
  "OrderStatuses",
  "CustomFields",
  "Warehouses",
  "Shipping",
  "TaxRates",
  "PaymentGateways",
  "FileBrowser",
  "Sessions",
  "DataImport",
  "EncryptedData"
] as const

export type Area = (typeof areas)[number]

/** The rights that a call needs: any one of some scopes, and an area. */
export interface Need {
  readonly scopes: ReadonlyArray<Scope>
  readonly area: Area
  /** A second scope, which is needed too. */
  readonly also?: Scope
}

export type Subject = "catalog" | "people" | "orders" | "custom_fields" | "settings" | "system"

const readScopes: Record<Subject, ReadonlyArray<Scope>> = {
  catalog: ["read_catalog", "catalog"],
  people: ["read_people", "people"],
  orders: ["read_orders", "orders"],
  custom_fields: ["custom_fields"],
  settings: ["settings"],
  system: ["system"]
}

export const readNeed = (subject: Subject, area: Area): Need => ({ scopes: readScopes[subject], area })
export const writeNeed = (subject: Subject, area: Area): Need => ({ scopes: [subject], area })

/** The areas of which a user needs one to grant a scope. */
export const areasOfScope: { readonly [S in Scope]: ReadonlyArray<Area> } = {
  read_catalog: [
    "Products",
    "ProductStatuses",
    "Categories",
    "Manufacturers",
    "VariationGroups",
    "ProductAttributes"
  ],
  catalog: [
    "Products",
    "ProductStatuses",
    "Categories",
    "Manufacturers",
    "VariationGroups",
    "ProductAttributes"
  ],
  read_people: ["Customers", "CustomerTypes", "UserAccounts", "StoreSettings"],
  people: ["Customers", "CustomerTypes", "UserAccounts", "StoreSettings"],
  read_orders: ["Orders", "OrderStatuses"],
  orders: ["Orders", "OrderStatuses"],
  custom_fields: ["CustomFields"],
  settings: ["Warehouses", "Shipping", "TaxRates", "PaymentGateways"],
  system: ["StoreSettings", "FileBrowser", "Sessions"],
  import: ["DataImport"],
  decrypt: ["EncryptedData"]
}
