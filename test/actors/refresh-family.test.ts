/** The family's rules as a table: what a presented generation means, what every phase decides for every command
 *  (events, rows, answer), and the fold. Source: docs/spec/authorization.md, sections 8.4, 8.5 and 18.2. */
import { describe, expect, it } from "vitest"
import {
  FamilyEnds,
  RefreshFamily,
  refreshVerdict,
  type ActiveFamily,
  type Family,
  type Grant,
  type RefreshVerdict
} from "../../actors/refresh-family.ts"
import type { Write } from "../../storage/store.ts"

const { on, evolve, expiresAt, endsIn, initial } = RefreshFamily

const familyId = "0190c9a8-0000-7000-8000-000000000001"
const openedMs = 1_000_000
const usedMs = 1_050_000
const expiresMs = 1_100_000
const absoluteMs = 1_900_000
const rememberedMs = 7 * 86_400_000
const graceMs = 30_000
const currentGeneration = 5

const grant: Grant = {
  clientId: "client",
  clientIssuedMs: 1,
  userId: "user",
  userEpoch: 0,
  resourceId: "resource",
  scopes: ["read"],
  consentId: "consent",
  jkt: "",
  authMs: 1
}

type State = Parameters<NonNullable<typeof expiresAt>>[0]
type Phase = State["_tag"]
type Command = keyof typeof on.Active

interface Decided {
  readonly events: ReadonlyArray<{ readonly _tag: string }>
  readonly rows: ReadonlyArray<unknown>
  readonly otherwise?: { readonly answer: unknown }
  readonly answer: unknown
}

const active: State = {
  _tag: "Active",
  grant,
  generation: currentGeneration,
  expiresMs,
  absoluteMs,
  createdMs: openedMs,
  usedMs
}

const revoked: State = {
  _tag: "Revoked",
  atMs: usedMs,
  because: "reuse",
  absoluteMs,
  grant,
  generation: currentGeneration
}

const states: Readonly<Record<Phase, State>> = {
  Empty: { _tag: "Empty" },
  Active: active,
  Revoked: revoked,
  Forgotten: { _tag: "Forgotten" }
}

const decide = (phase: Phase, command: Command, payload: object = {}, nowMs = usedMs + 1): Decided =>
  (on as any)[phase][command](states[phase], payload, { id: familyId, nowMs, fresh: () => "" })

const fold = (state: State, event: { readonly _tag: string }): State =>
  (evolve as any)[event._tag](state, event)

const row: Write = FamilyEnds.put(["beside"], { atMs: 1, because: "test" })
const done = { reply: undefined }
const taken = { refuse: { _tag: "FamilyTaken" } }
const notCurrent = (verdict: RefreshVerdict) => ({ refuse: { _tag: "NotCurrent", verdict } })
const nothingElse = { events: [], rows: [] }

const seenActive: ActiveFamily = { _tag: "Active", grant, currentGeneration, expiresMs, absoluteMs, usedMs }
const seenEnded: Family = { _tag: "Ended", grant, currentGeneration }

describe("refreshVerdict", () => {
  type Row = readonly [name: string, family: Family, use: object, verdict: RefreshVerdict]
  const use = { presentedGeneration: currentGeneration, nowMs: usedMs + 1, graceMs: 0 }
  const earlyAbsolute: Family = { ...seenActive, absoluteMs: expiresMs - 50 }
  const predecessor = { presentedGeneration: currentGeneration - 1, graceMs }

  it.each<Row>([
    ["the current generation", seenActive, {}, "current"],
    ["one generation less", seenActive, { presentedGeneration: currentGeneration - 1 }, "superseded"],
    ["one generation more", seenActive, { presentedGeneration: currentGeneration + 1 }, "unknown"],
    ["the first generation", seenActive, { presentedGeneration: 1 }, "superseded"],
    ["a millisecond before the token expires", seenActive, { nowMs: expiresMs - 1 }, "current"],
    ["when the token expires", seenActive, { nowMs: expiresMs }, "expired"],
    ["a millisecond before the family expires", earlyAbsolute, { nowMs: expiresMs - 51 }, "current"],
    ["when the family expires", earlyAbsolute, { nowMs: expiresMs - 50 }, "expired"],
    [
      "one generation less, expired: still reuse",
      seenActive,
      { presentedGeneration: currentGeneration - 1, nowMs: expiresMs },
      "superseded"
    ],
    [
      "one generation more, expired: still unknown",
      seenActive,
      { presentedGeneration: currentGeneration + 1, nowMs: expiresMs },
      "unknown"
    ],
    ["the predecessor at its use, in grace", seenActive, { ...predecessor, nowMs: usedMs }, "repeated"],
    [
      "the predecessor a millisecond before grace ends",
      seenActive,
      { ...predecessor, nowMs: usedMs + graceMs - 1 },
      "repeated"
    ],
    [
      "the predecessor when grace ends",
      seenActive,
      { ...predecessor, nowMs: usedMs + graceMs },
      "superseded"
    ],
    [
      "two generations less, in grace",
      seenActive,
      { ...predecessor, presentedGeneration: currentGeneration - 2, nowMs: usedMs },
      "superseded"
    ],
    ["the current generation, in grace", seenActive, { graceMs, nowMs: usedMs }, "current"],
    ["an ended family, its last generation", seenEnded, {}, "revoked"],
    ["an ended family, one less", seenEnded, { presentedGeneration: currentGeneration - 1 }, "superseded"],
    ["an ended family, one more", seenEnded, { presentedGeneration: currentGeneration + 1 }, "revoked"],
    ["an ended family, one less, in grace", seenEnded, { ...predecessor, nowMs: usedMs }, "superseded"],
    ["no family", { _tag: "Absent" }, {}, "unknown"],
    ["no family, an older generation", { _tag: "Absent" }, { presentedGeneration: 1 }, "unknown"]
  ])("%s", (_, family, changed, verdict) => {
    expect(refreshVerdict(family, { ...use, ...changed })).toBe(verdict)
  })
})

describe("Open", () => {
  const open = { grant, expiresMs, absoluteMs, rows: [row] }
  it("Empty: opens it with its rows, or not at all", () => {
    expect(decide("Empty", "Open", open, openedMs)).toEqual({
      events: [{ _tag: "Opened", grant, expiresMs, absoluteMs, atMs: openedMs }],
      rows: [row],
      otherwise: { ...nothingElse, otherwise: undefined, answer: { refuse: { _tag: "Stale" } } },
      answer: done
    })
  })
  it.each(["Active", "Revoked", "Forgotten"] as const)("%s: the id is taken", (phase) => {
    expect(decide(phase, "Open", open)).toMatchObject({ ...nothingElse, answer: taken })
  })
})

describe("Inspect", () => {
  it.each<[Phase, Family]>([
    ["Empty", { _tag: "Absent" }],
    ["Active", seenActive],
    ["Revoked", seenEnded],
    ["Forgotten", { _tag: "Absent" }]
  ])("%s", (phase, family) => {
    expect(decide(phase, "Inspect")).toMatchObject({ ...nothingElse, answer: { reply: family } })
  })
})

describe("Rotate", () => {
  const nextMs = 1_200_000
  const nowMs = usedMs + 1
  const rotate = { presentedGeneration: currentGeneration, graceMs: 0, expiresMs: nextMs, rows: [row] }
  const reuse = {
    events: [{ _tag: "Revoked", atMs: nowMs, because: "reuse" }],
    rows: [FamilyEnds.put([familyId], { atMs: nowMs, because: "reuse" })],
    answer: notCurrent("superseded")
  }

  it("Active, the current one: spends it with the rows, or not at all", () => {
    expect(decide("Active", "Rotate", rotate)).toEqual({
      events: [{ _tag: "Rotated", expiresMs: nextMs, atMs: nowMs }],
      rows: [row],
      otherwise: { ...nothingElse, otherwise: undefined, answer: { refuse: { _tag: "Stale" } } },
      answer: done
    })
  })
  it.each([
    ["before the family's end", absoluteMs - 1, absoluteMs - 1],
    ["at the family's end", absoluteMs, absoluteMs],
    ["past the family's end", absoluteMs + 1, absoluteMs]
  ])("Active: a successor that would expire %s", (_, wantedMs, grantedMs) => {
    expect(decide("Active", "Rotate", { ...rotate, expiresMs: wantedMs }).events).toEqual([
      { _tag: "Rotated", expiresMs: grantedMs, atMs: nowMs }
    ])
  })
  it("Active, one less: ends the family, without the rows of the caller", () => {
    expect(
      decide("Active", "Rotate", { ...rotate, presentedGeneration: currentGeneration - 1 })
    ).toMatchObject(reuse)
  })
  it("Active, one less within grace: nothing happens", () => {
    expect(
      decide("Active", "Rotate", { ...rotate, graceMs, presentedGeneration: currentGeneration - 1 })
    ).toMatchObject({ ...nothingElse, answer: notCurrent("repeated") })
  })
  it("Active, two less within grace: ends the family", () => {
    expect(
      decide("Active", "Rotate", { ...rotate, graceMs, presentedGeneration: currentGeneration - 2 })
    ).toMatchObject(reuse)
  })
  it.each<[name: string, presentedGeneration: number, nowMs: number, verdict: RefreshVerdict]>([
    ["one more", currentGeneration + 1, nowMs, "unknown"],
    ["the current one when it expires", currentGeneration, expiresMs, "expired"]
  ])("Active, %s: nothing happens", (_, presentedGeneration, atMs, verdict) => {
    expect(decide("Active", "Rotate", { ...rotate, presentedGeneration }, atMs)).toMatchObject({
      ...nothingElse,
      answer: notCurrent(verdict)
    })
  })
  it.each<[Phase, name: string, presentedGeneration: number, verdict: RefreshVerdict]>([
    ["Revoked", "one less", currentGeneration - 1, "superseded"],
    ["Revoked", "the last one", currentGeneration, "revoked"],
    ["Revoked", "one more", currentGeneration + 1, "revoked"],
    ["Empty", "any", 1, "unknown"],
    ["Forgotten", "any", 1, "unknown"]
  ])("%s, %s: nothing happens", (phase, _, presentedGeneration, verdict) => {
    expect(decide(phase, "Rotate", { ...rotate, presentedGeneration })).toMatchObject({
      ...nothingElse,
      answer: notCurrent(verdict)
    })
  })
})

describe("Revoke", () => {
  const revoke = { because: "logout", rows: [row] }
  it("Active: ends it, with its end for all to read and the caller's rows", () => {
    expect(decide("Active", "Revoke", revoke, usedMs)).toMatchObject({
      events: [{ _tag: "Revoked", atMs: usedMs, because: "logout" }],
      rows: [FamilyEnds.put([familyId], { atMs: usedMs, because: "logout" }), row],
      answer: { reply: true }
    })
  })
  it.each(["Empty", "Revoked", "Forgotten"] as const)("%s: nothing to end, nothing written", (phase) => {
    expect(decide(phase, "Revoke", revoke)).toMatchObject({ ...nothingElse, answer: { reply: false } })
  })
})

describe("Expire", () => {
  const forgetMs = absoluteMs + rememberedMs
  it.each<[Phase, name: string, nowMs: number, rows: ReadonlyArray<Write>]>([
    ["Active", "when it need not be remembered any more", forgetMs, []],
    ["Active", "a millisecond later", forgetMs + 1, []],
    ["Revoked", "when it need not be remembered any more", forgetMs, [FamilyEnds.delete([familyId])]],
    ["Revoked", "a millisecond later", forgetMs + 1, [FamilyEnds.delete([familyId])]]
  ])("%s, %s: forgotten", (phase, _, nowMs, rows) => {
    expect(decide(phase, "Expire", {}, nowMs)).toMatchObject({
      events: [{ _tag: "Forgotten" }],
      rows,
      answer: done
    })
  })
  it.each<[Phase, name: string, nowMs: number]>([
    ["Active", "a millisecond before", forgetMs - 1],
    ["Revoked", "a millisecond before", forgetMs - 1],
    ["Empty", "ever", forgetMs],
    ["Forgotten", "ever", forgetMs]
  ])("%s, %s: nothing happens", (phase, _, nowMs) => {
    expect(decide(phase, "Expire", {}, nowMs)).toMatchObject({ ...nothingElse, answer: done })
  })
  it.each<[Phase, number | undefined]>([
    ["Empty", undefined],
    ["Active", forgetMs],
    ["Revoked", forgetMs],
    ["Forgotten", undefined]
  ])("%s expires at %s", (phase, atMs) => {
    expect(expiresAt?.(states[phase])).toBe(atMs)
  })
  it("ends in Forgotten", () => expect(endsIn).toEqual(["Forgotten"]))
})

describe("the fold", () => {
  const opened = { _tag: "Opened", grant, expiresMs, absoluteMs, atMs: openedMs }
  const rotated = { _tag: "Rotated", expiresMs: 1_200_000, atMs: 1_060_000 }
  const ended = { _tag: "Revoked", atMs: usedMs, because: "reuse" }

  it("a family begins with generation 1", () => {
    expect(fold(initial, opened)).toEqual({ ...active, generation: 1, usedMs: openedMs })
  })
  it("a rotation moves the generation by one, the expiry and the use; nothing else", () => {
    expect(fold(active, rotated)).toEqual({
      ...active,
      generation: currentGeneration + 1,
      expiresMs: 1_200_000,
      usedMs: 1_060_000
    })
  })
  it("a revoked family keeps its grant and generation, so that reuse stays detectable", () => {
    expect(fold(active, ended)).toEqual(revoked)
  })
  it.each([rotated, ended])("%j changes no family that has ended", (event) => {
    expect([fold(revoked, event), fold(states.Forgotten, event)]).toEqual([revoked, states.Forgotten])
  })
  it("what is forgotten keeps nothing", () => {
    expect([fold(active, { _tag: "Forgotten" }), fold(revoked, { _tag: "Forgotten" })]).toEqual([
      states.Forgotten,
      states.Forgotten
    ])
  })
})
