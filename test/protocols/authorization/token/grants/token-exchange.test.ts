/** Exchanges: never wider than the subject token, never deeper than can be checked, and none of a token that
 *  is revoked meanwhile. Source: docs/spec/authorization.md, section 8.7. */
import { afterEach, expect, it } from "vitest"
import { isProblem } from "../../../../../protocols/authorization/problems.ts"
import { Issuances, type Issuance } from "../../../../../protocols/authorization/records.ts"
import { accessTokenType, type Body } from "../../../../../protocols/authorization/token/grants/grant.ts"
import { tokenExchange } from "../../../../../protocols/authorization/token/grants/token-exchange.ts"
import { generationsMax } from "../../../../../protocols/authorization/token/liveness.ts"
import { issuanceRow, mint, type Minted } from "../../../../../protocols/authorization/token/tokens.ts"
import { RacedStore } from "../../../../storage/raced-store.ts"
import { Granted } from "./granted.ts"

let granted: Granted
afterEach(() => granted.world.close())

const open = async (store = new RacedStore()): Promise<void> => {
  granted = await Granted.open({ store: store.store })
}

const issued = async (fields: Partial<Issuance> = {}, parent?: Issuance): Promise<Minted> => {
  const { services, client, resource, user, consent } = granted
  const minted = mint(services, {
    grantType: "authorization_code",
    sub: user.id,
    client,
    resource,
    scopes: ["files:read"],
    lifetimeMs: 3_600_000,
    user: { id: user.id, epoch: user.epoch, authMs: 0 },
    consentClientId: client.clientId,
    consentId: consent.id,
    ...(parent === undefined ? {} : { parent })
  })
  if (isProblem(minted)) throw new Error(minted.description)
  const issuance = { ...minted.issuance, ...fields }
  await services.books.write([issuanceRow(issuance)])
  return { ...minted, issuance }
}

const exchange = (subject: Minted, form: Record<string, string> = {}): Promise<Body | string> =>
  granted.ask(tokenExchange, {
    subject_token: subject.accessToken,
    subject_token_type: accessTokenType,
    resource: granted.resource.uri,
    ...form
  })

it("a scope that the subject token lacks is refused, also when catalog and consent have it", async () => {
  await open()
  const subject = await issued()
  expect(await exchange(subject)).toMatchObject({ scope: "files:read" })
  expect(await exchange(subject, { scope: "files:write" })).toBe("invalid_scope")
  expect(await exchange(subject, { scope: "files:read files:write" })).toBe("invalid_scope")
})

it("a chain ends where its tokens could no longer be checked", async () => {
  await open()
  const last = await issued({ generation: generationsMax - 1 })
  expect(await exchange(last)).toMatchObject({ scope: "files:read" })
  const deepest = await issued({ generation: generationsMax })
  expect(await exchange(deepest)).not.toMatchObject({ scope: "files:read" })
})

it("a subject token that is revoked meanwhile yields none", async () => {
  const raced = new RacedStore()
  await open(raced)
  const subject = await issued()
  raced.race(Issuances.name, () => [
    Issuances.put([subject.issuance.jti], { ...subject.issuance, revokedMs: granted.world.nowMs })
  ])
  expect(await exchange(subject)).toBe("invalid_grant")
})
