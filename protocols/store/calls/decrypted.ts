/** Records with their encrypted fields in the clear: for users only, with the scope and the area for it, and
 *  never without a row in the audit.
 *  Source: docs/spec/store.md, section 8.8. */
import { Effect, Schema } from "effect"
import { table } from "../../../storage/store.ts"
import type { Principal } from "../access/guard.ts"
import { readNeed, type Area, type Subject } from "../access/scopes.ts"
import type { Engine } from "../engine/engine.ts"
import { encodeField } from "../engine/fields.ts"
import type { Resource, Row } from "../engine/resource.ts"
import { forbidden, notFound, type Refusal } from "../problems.ts"
import type { Answer, Endpoint, EndpointCall } from "../target.ts"
import type { JsonObject } from "../wire.ts"
import { written } from "./json-answer.ts"

/** Audit by [time, number]: who read which record's decrypted fields; never the values. */
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

const checkMayDecrypt = ({ kind, scopes, member }: Principal): void => {
  if (kind === "admin-token") throw forbidden("This token cannot access encrypted data.")
  if (kind !== "user") throw forbidden("encrypted data needs the token of a user")
  if (!scopes.has("decrypt")) throw forbidden("the scope decrypt is needed")
  if (!member!.areas.has("EncryptedData")) throw forbidden("the area EncryptedData is needed")
}

const decryptedFields = ({ cipher, zone }: Engine, resource: Resource, row: Row): JsonObject => {
  const decrypted: Record<string, unknown> = {}
  for (const [name, field] of Object.entries(resource.fields)) {
    if (field.sealed !== true) continue
    const value = row.values[name]
    decrypted[name] =
      value instanceof Uint8Array
        ? cipher.open(value, `${resource.name}/${row.id}/${name}`)
        : encodeField({ ...field, sealed: false }, value ?? null, zone)
  }
  return decrypted
}

const showDecrypted =
  (resource: string) =>
  ({ engine, principal, id, request }: EndpointCall): Effect.Effect<Answer, Refusal> => {
    checkMayDecrypt(principal)
    const row = engine.get(resource, id)
    if (row === undefined) throw notFound("there is no such record")
    const body = {
      ...engine.represent(resource, row),
      ...decryptedFields(engine, engine.resource(resource), row)
    }
    return written(engine, (tx) => {
      const seen = {
        atMs: tx.nowMs,
        appId: principal.app!.appId,
        userId: principal.member!.userId,
        resource,
        id,
        traceId: request.traceId
      }
      tx.writes.push(DecryptAudit.put([tx.nowMs, tx.next("store-decrypt-audit", [])], seen))
      return body
    })
  }

const decrypted = (resource: string, subject: Subject, area: Area): Endpoint => ({
  path: `${resource}/:id/decrypted`,
  methods: { GET: { need: readNeed(subject, area), handle: showDecrypted(resource) } }
})

export const decryptedEndpoints: ReadonlyArray<Endpoint> = [
  decrypted("credit_cards", "orders", "Orders"),
  decrypted("order_payments", "orders", "Orders"),
  decrypted("products", "catalog", "Products")
]
