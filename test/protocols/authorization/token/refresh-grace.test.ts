/** Which repetition of a refresh gets the same answer again. Source: docs/spec/authorization.md, section 8.5. */
import { expect, it } from "vitest"
import { RefreshGrace, type Repetition } from "../../../../protocols/authorization/token/refresh-grace.ts"

const graceMs = 10_000
const body = { access_token: "token", scope: "files:read" }
const same: Repetition = { generation: 3, clientId: "client", jkt: "key", scope: "files:read" }

const opened = (spent = { generation: 3, clientId: "client", jkt: "key" }) => {
  const clock = { nowMs: 1_000_000 }
  const grace = new RefreshGrace(graceMs, () => clock.nowMs)
  grace.remember("family", { ...spent, body })
  return { clock, grace, repeat: (repetition: Repetition) => grace.repeat("family", repetition)._tag }
}

it("the same client with the same key and generation gets the answer again, until the grace period ends", () => {
  const { clock, grace, repeat } = opened()
  expect(grace.repeat("family", same)).toEqual({ _tag: "Repeated", body })
  clock.nowMs += graceMs - 1
  expect(repeat(same)).toBe("Repeated")
  clock.nowMs += 1
  expect(repeat(same)).toBe("Refused")
})

it("another generation, client or key is refused; a family without a key asks for none", () => {
  const { repeat } = opened()
  expect(repeat({ ...same, generation: 2 })).toBe("Refused")
  expect(repeat({ ...same, generation: 4 })).toBe("Refused")
  expect(repeat({ ...same, clientId: "other" })).toBe("Refused")
  expect(repeat({ ...same, jkt: "other" })).toBe("Refused")
  expect(repeat({ ...same, jkt: undefined })).toBe("Refused")
  expect(opened({ generation: 3, clientId: "client", jkt: "" }).repeat({ ...same, jkt: undefined })).toBe(
    "Repeated"
  )
})

it("an answer is repeated at most 20 times, and not once it is forgotten", () => {
  const { grace, repeat } = opened()
  expect(Array.from({ length: 21 }, () => repeat(same))).toEqual([
    ...Array.from({ length: 20 }, () => "Repeated"),
    "Refused"
  ])
  grace.forget("family")
  expect(repeat(same)).toBe("Forgotten")
})

it("A-11: an answer for another scope than the one that is asked for is not repeated, and ends nothing", () => {
  const { repeat } = opened()
  for (const scope of ["files:read files:write", "files:write", undefined])
    expect(repeat({ ...same, scope })).toBe("OtherScope")
  expect(repeat({ ...same, clientId: "other", scope: undefined })).toBe("Refused")
  expect(repeat(same)).toBe("Repeated")
})
