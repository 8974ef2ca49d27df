/** Idempotency-Key of POSTs: for one day, the same key and body at the same path receives the first answer
 *  again, without its secret, and another body is a conflict. The record is committed with the change it
 *  answers for, so a crash cannot separate them.
 *  Source: docs/spec/authorization.md, section 16, rule 6. */
import type { Request } from "../../../runtime/http.ts"
import type { Write } from "../../../storage/store.ts"
import { hashOf, type AuthContext } from "../auth-context.ts"
import type { Problem } from "../problems.ts"
import { Idempotency } from "../records.ts"
import { conflict, invalid, type Answer } from "./call.ts"

const keyLengthMax = 128
const keptMs = 86_400_000

export interface Memory {
  /** Returns the first answer, or a Problem when the key was used for a different request. */
  recalled(): Answer | Problem | undefined
  writes(answer: Answer): ReadonlyArray<Write>
}

const withoutSecret = (body: Answer["body"]): Answer["body"] =>
  body !== undefined && "client_secret" in body ? { ...body, client_secret: null } : body

/** Returns undefined when the request has no Idempotency-Key. */
export const memoryOf = (authority: AuthContext, request: Request): Memory | Problem | undefined => {
  const key = request.method === "POST" ? request.headers.get("idempotency-key") : undefined
  if (key === undefined) return undefined
  if (key.length === 0 || key.length > keyLengthMax || !/^[\x20-\x7e]+$/.test(key))
    return invalid(`Idempotency-Key must be 1 to ${keyLengthMax} printable characters`)
  const { books, nowMs } = authority
  const address = [hashOf(authority, `${request.path}\0${key}`, "idempotency")]
  const bodyHash = hashOf(authority, Buffer.from(request.body).toString("latin1"), "idempotency")
  const stored = () => {
    const row = Idempotency.get(books.store, address)
    return row !== undefined && row.expiresMs > nowMs() ? row : undefined
  }
  return {
    recalled: () => {
      const row = stored()
      if (row === undefined) return undefined
      return row.bodyHash === bodyHash
        ? {
            status: row.status as Answer["status"],
            ...(row.body === "" ? {} : { body: JSON.parse(row.body) as NonNullable<Answer["body"]> })
          }
        : conflict("the Idempotency-Key was used for another request")
    },
    writes: (answer) => {
      const expiresMs = nowMs() + keptMs
      const body = withoutSecret(answer.body)
      const expired = stored() === undefined && Idempotency.get(books.store, address) !== undefined
      return books.expiring(
        Idempotency,
        address,
        { bodyHash, status: answer.status, body: body === undefined ? "" : JSON.stringify(body), expiresMs },
        expiresMs,
        expired ? undefined : "absent"
      )
    }
  }
}
