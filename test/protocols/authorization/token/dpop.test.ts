/** Proofs of possession in time. Source: docs/spec/authorization.md, section 6. */
import { afterAll, beforeAll, expect, it } from "vitest"
import { isProblem } from "../../../../protocols/authorization/problems.ts"
import { DpopVerifier } from "../../../../protocols/authorization/token/dpop.ts"
import { ProofKey, World } from "../world.ts"

const nonceMs = 300_000
let world: World
beforeAll(async () => {
  world = await World.make({
    settings: { dpop: { enabled: true, requireNonce: true, nonceMs, proofMs: 600_000, replayDurable: true } }
  })
})
afterAll(() => world.close())

const key = new ProofKey()

/** The thumbprint of the proof's key, or why it was refused. */
const checked = (verifier: DpopVerifier, proof: string): string => {
  const result = verifier.check(proof, "POST", `${world.issuer}/oauth/token`)
  return isProblem(result) ? result._tag : String(result)
}

it("a nonce is good until its end", () => {
  const verifier = new DpopVerifier(world.open.services)
  const nonce = verifier.nonce()
  world.nowMs += nonceMs - 1
  expect(checked(verifier, key.proof(world, { nonce }))).toBe(key.jkt)
  world.nowMs += 1
  expect(checked(verifier, key.proof(world, { nonce }))).toBe("use_dpop_nonce")
})

it("a proof is accepted once, also by a process that has just started", () => {
  const verifier = new DpopVerifier(world.open.services)
  const proof = key.proof(world, { nonce: verifier.nonce() })
  expect(checked(verifier, proof)).toBe(key.jkt)
  expect(checked(verifier, proof)).toBe("invalid_dpop_proof")
  expect(checked(new DpopVerifier(world.open.services), proof)).toBe("invalid_dpop_proof")
})
