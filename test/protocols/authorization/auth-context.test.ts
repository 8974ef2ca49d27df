import { expect, it } from "vitest"
import { hashOf } from "../../../protocols/authorization/auth-context.ts"
import { sealer } from "../../../storage/seal.ts"

const purposes = ["code", "session", "request", "state", "idempotency", "proof"] as const

it("one secret has another hash for each purpose, and never that of the sealer's own", () => {
  const seal = sealer(new Uint8Array(32))
  const hashes = purposes.map((purpose) => hashOf({ seal }, "secret", purpose))
  expect(new Set([...hashes, seal.hash("secret", "authorization")]).size).toBe(purposes.length + 1)
})
