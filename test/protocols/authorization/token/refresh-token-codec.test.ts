import { expect, it } from "vitest"
import { RefreshTokenCodec } from "../../../../protocols/authorization/token/refresh-token-codec.ts"
import { sealer } from "../../../../storage/seal.ts"

const familyId = "0190c9a8-0000-7000-8000-000000000001"
const other = "0190c9a8-0000-7000-8000-000000000002"
const codec = new RefreshTokenCodec({ seal: sealer(new Uint8Array(32)) })

/** The text of a token with parts of two. */
const spliced = (family: string, generation: Buffer, mac: Buffer): string =>
  `rt1.${family}.${Buffer.concat([generation, mac]).toString("base64url")}`

const partsOf = (text: string) => {
  const [, family, secret] = text.split(".") as [string, string, string]
  const bytes = Buffer.from(secret, "base64url")
  return { family, generation: bytes.subarray(0, 6), mac: bytes.subarray(6) }
}

it("a token says its family and generation", () => {
  for (const generation of [1, 2, 255, 256, 2 ** 40])
    expect(codec.decode(codec.encode(familyId, generation))).toEqual({ familyId, generation })
})

it("the MAC is over family and generation: no part of one token serves another", () => {
  const first = partsOf(codec.encode(familyId, 1))
  const second = partsOf(codec.encode(familyId, 2))
  const foreign = partsOf(codec.encode(other, 1))
  for (const forged of [
    spliced(first.family, second.generation, first.mac),
    spliced(first.family, first.generation, second.mac),
    spliced(foreign.family, first.generation, first.mac),
    spliced(first.family, first.generation, foreign.mac)
  ])
    expect(codec.decode(forged), forged).toBeUndefined()
})

it("a token of another master key is not ours", () => {
  const stranger = new RefreshTokenCodec({ seal: sealer(new Uint8Array(32).fill(1)) })
  expect(codec.decode(stranger.encode(familyId, 1))).toBeUndefined()
})
