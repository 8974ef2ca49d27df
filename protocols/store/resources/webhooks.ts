/** Webhook subscriptions as a resource. The secret that signs is sealed, and shown once: at creation. Source:
 *  store section 9.1. */
import { isIP } from "node:net"
import { named, s, i } from "../engine/fields.ts"
import type { Scope } from "../access/access.ts"
import { isPublicAddress } from "../access/addresses.ts"
import { resource } from "../engine/resource.ts"
import { Refused } from "../problems.ts"

export const notifyEvents = [
  "ProductCreated",
  "ProductUpdated",
  "ProductStatusChanged",
  "CustomerCreated",
  "CustomerUpdated",
  "CustomerRegistered",
  "CustomerEmailUpdated",
  "NewOrder",
  "NewValidOrder",
  "OrderPlaced",
  "OrderUpdated",
  "OrderApproved",
  "OrderCanceled",
  "OrderDeclined",
  "OrderShipped",
  "OrderStatusChanged"
]

export const replyEvents = ["ValidateProduct", "ValidateCustomer", "ValidateCart", "ValidateCheckout"]

/** Of the interface, not called here: refused, so that nobody waits for them. */
const absentEvents = [
  "GetPrice",
  "GetTax",
  "GetDiscount",
  "GetProductStatus",
  "AuthorizingPayment",
  "CapturingPayment"
]

/** Any of these must be in the token too: it subscribes to data it may read. */
const readScopesOf = (event: string): ReadonlyArray<Scope> =>
  event.includes("Product")
    ? ["read_catalog", "catalog"]
    : event.includes("Customer")
      ? ["read_people", "people"]
      : ["read_orders", "orders"]

/** `privateTargets`: http and private addresses are allowed too, for development. */
export const webhooksResource = (privateTargets: boolean, newSecret: () => string) => {
  const wrongUrl = (value: string): string | undefined => {
    if (value === "") return undefined
    if (!URL.canParse(value)) return "must be an https address"
    const { protocol, hostname, username } = new URL(value)
    const host = hostname.replace(/^\[|\]$/g, "")
    if (username !== "") return "must hold no credentials"
    if (privateTargets)
      return protocol === "https:" || protocol === "http:" ? undefined : "must be an http or https address"
    if (protocol !== "https:") return "must be an https address"
    return (isIP(host) !== 0 && !isPublicAddress(host)) || host === "localhost" || host.endsWith(".localhost")
      ? "must be a public address"
      : undefined
  }
  return resource({
    name: "webhooks",
    singular: "webhook",
    subject: "system",
    area: "StoreSettings",
    rowsMax: 100,
    fields: {
      event_type: s("", { required: true, oneOf: [...notifyEvents, ...replyEvents, ...absentEvents] }),
      url: s("", { required: true, lengthMax: 2_000, lengthMin: 1, wrong: wrongUrl }),
      store_id: i(1),
      failure_type: s("Ignore", { oneOf: ["Ignore", "Error", "Fallback"] }),
      ...named("fallback_url", s("", { lengthMax: 2_000, wrong: wrongUrl })),
      cache_length: s("NoCache", { oneOf: ["NoCache", "Short", "Long"] }),
      secret: s(null, { sealed: true, nullable: true, lengthMin: 16 })
    },
    alsoNeeds: ({ event_type: event }) => (typeof event === "string" ? readScopesOf(event) : undefined),
    prepare: ({ before, values, faults }) => {
      if (absentEvents.includes(values["event_type"] as string))
        throw new Refused(409, "this event is not available", [
          { field: "event_type", code: "invalid_value", message: "is not available" }
        ])
      if (values["failure_type"] === "Fallback" && (values["fallback_url"] ?? "") === "")
        faults.push({ field: "fallback_url", code: "required", message: "is required for Fallback" })
      if (before === undefined && (values["secret"] ?? null) === null) values["secret"] = newSecret()
    },
    created: (tx, row) => ({
      secret: tx.engine.vault.open(row.values["secret"] as Uint8Array, `webhooks/${row.id}/secret`)
    })
  })
}
