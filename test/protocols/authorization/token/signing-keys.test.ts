/** Signing keys at rest. Source: docs/spec/authorization.md, sections 4.3 and 15. */
import { expect, it } from "vitest"
import { SigningKeys } from "../../../../protocols/authorization/records.ts"
import { SigningKeyRing } from "../../../../protocols/authorization/token/signing-keys.ts"
import { SealFault } from "../../../../storage/seal.ts"
import { World } from "../upstream/outside.ts"

it("a private key that was copied to another key's row does not open there", async () => {
  const { authority, store } = new World()
  const ring = new SigningKeyRing(authority)
  await ring.load()
  const first = SigningKeys.range(store, { limit: 9 })[0]!.value
  await ring.rotate()
  const rows = SigningKeys.range(store, { limit: 9 }).map(({ value }) => value)
  const second = rows.find(({ kid }) => kid !== first.kid)!
  await new SigningKeyRing(authority).load()
  await authority.books.write([SigningKeys.put([second.kid], { ...second, privateKey: first.privateKey })])
  await expect(new SigningKeyRing(authority).load()).rejects.toThrow(SealFault)
})
