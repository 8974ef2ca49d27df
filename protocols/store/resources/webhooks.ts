/** Webhook subscriptions as a resource. The signing secret is encrypted, and displayed only at creation.
 *  Source: docs/spec/store.md, section 9.1. */
import { isIP } from "node:net"
import { field } from "../engine/fields.ts"
import type { Scope } from "../access/scopes.ts"
import { isPublicAddress } from "../access/public-addresses.ts"
import { resource } from "../engine/resource.ts"
import { conflict } from "../problems.ts"

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

/** Events of the public interface that are not called here: refused, so that nobody waits for them. */
const absentEvents = [
  "GetPrice",
  "GetTax",
  "GetDiscount",
  "GetProductStatus",
  "AuthorizingPayment",
  "CapturingPayment"
]

/** The scopes of which a subscriber needs one: it subscribes to data that it may read. */
const readScopesOf = (event: string): ReadonlyArray<Scope> => {
  if (event.includes("Product")) return ["read_catalog", "catalog"]
  return event.includes("Customer") ? ["read_people", "people"] : ["read_orders", "orders"]
}

const isLocalName = (host: string): boolean => host === "localhost" || host.endsWith(".localhost")

/** Says what is wrong with a target's address; undefined when nothing is. */
const checkTarget =
  (privateTargets: boolean) =>
  (value: string): string | undefined => {
    if (value === "") return undefined
    if (!URL.canParse(value)) return "must be an https address"
    const { protocol, hostname, username } = new URL(value)
    if (username !== "") return "must hold no credentials"
    if (privateTargets)
      return protocol === "https:" || protocol === "http:" ? undefined : "must be an http or https address"
    if (protocol !== "https:") return "must be an https address"
    const host = hostname.replace(/^\[|\]$/g, "")
    const isPrivate = isIP(host) !== 0 && !isPublicAddress(host)
    return isPrivate || isLocalName(host) ? "must be a public address" : undefined
  }

/** `privateTargets` allows http and private addresses too, for development. */
export const webhooksResource = (privateTargets: boolean, newSecret: () => string) => {
  const check = checkTarget(privateTargets)
  return resource({
    name: "webhooks",
    singular: "webhook",
    subject: "system",
    area: "StoreSettings",
    rowsMax: 100,
    fields: {
      event_type: field.string("", {
        required: true,
        oneOf: [...notifyEvents, ...replyEvents, ...absentEvents]
      }),
      url: field.string("", { required: true, lengthMax: 2_000, lengthMin: 1, check }),
      store_id: field.integer(1),
      failure_type: field.string("Ignore", { oneOf: ["Ignore", "Error", "Fallback"] }),
      fallback_url: field.string("", { lengthMax: 2_000, check }),
      cache_length: field.string("NoCache", { oneOf: ["NoCache", "Short", "Long"] }),
      secret: field.string(null, { sealed: true, nullable: true, lengthMin: 16 })
    },
    alsoNeeds: ({ event_type: event }) => (typeof event === "string" ? readScopesOf(event) : undefined),
    prepare: ({ before, values, faults }) => {
      if (absentEvents.includes(values["event_type"] as string))
        throw conflict("this event is not available", [
          { field: "event_type", code: "invalid_value", message: "is not available" }
        ])
      if (values["failure_type"] === "Fallback" && (values["fallback_url"] ?? "") === "")
        faults.push({ field: "fallback_url", code: "required", message: "is required for Fallback" })
      if (before === undefined && (values["secret"] ?? null) === null) values["secret"] = newSecret()
    },
    created: (tx, row) => ({
      secret: tx.engine.cipher.open(row.values["secret"] as Uint8Array, `webhooks/${row.id}/secret`)
    })
  })
}
