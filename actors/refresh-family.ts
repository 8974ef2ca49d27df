/** A refresh-token family: one grant, and the generation of its only current token. Before it asks this
 *  actor, the edge makes and checks tokens (a MAC over family and generation, so none is ever stored); so an
 *  older generation is a true sign of reuse and ends the family. `refreshVerdict` is the one place that
 *  judges a presented generation; `Rotate` judges again inside the mailbox, so that of two uses of one token
 *  only one succeeds. Source: docs/spec/authorization.md, sections 8.4, 8.5 and 18.2; OAuth 2.1 draft,
 *  refresh-token rotation. */
import { Schema } from "effect"
import { command, defineActor, persist, refuse, reply, type Payload } from "../runtime/actor.ts"
import { table, type Write } from "../storage/store.ts"

export const Grant = Schema.Struct({
  clientId: Schema.String,
  clientIssuedMs: Schema.Int,
  userId: Schema.String,
  userEpoch: Schema.Int,
  resourceId: Schema.String,
  scopes: Schema.Array(Schema.String),
  consentId: Schema.String,
  /** Thumbprint of the DPoP key that the family is bound to; "" when it is bound to none. */
  jkt: Schema.String,
  authMs: Schema.Int
})

export type Grant = typeof Grant.Type

const active = {
  grant: Grant,
  /** The generation of the current token. */
  generation: Schema.Int,
  /** The time at which the current token expires (epoch ms). */
  expiresMs: Schema.Int,
  /** The time at which the family expires, however often it is used (epoch ms). */
  absoluteMs: Schema.Int,
  createdMs: Schema.Int,
  usedMs: Schema.Int
}

const ending = { atMs: Schema.Int, because: Schema.String }

/** A family as others see it. */
export const Family = Schema.TaggedUnion({
  Absent: {},
  Active: {
    grant: Grant,
    currentGeneration: Schema.Int,
    expiresMs: Schema.Int,
    absoluteMs: Schema.Int,
    usedMs: Schema.Int
  },
  Ended: { grant: Grant, currentGeneration: Schema.Int }
})

export type Family = typeof Family.Type
export type ActiveFamily = Extract<Family, { readonly _tag: "Active" }>

type AbsentFamily = Extract<Family, { readonly _tag: "Absent" }>
type EndedFamily = Extract<Family, { readonly _tag: "Ended" }>

/** The verdict on a presented generation. `repeated`: the token was just used, and the grace period for that
 *  has not ended. `superseded`: it was used earlier, which in an active family is reuse. `unknown`: this
 *  server has not issued such a token. */
export type RefreshVerdict = "current" | "repeated" | "superseded" | "expired" | "revoked" | "unknown"

/** One use of a token whose MAC was right. */
export interface TokenUse {
  readonly presentedGeneration: number
  readonly nowMs: number
  /** How long after its use a token may be presented once more, in ms; 0 for never. */
  readonly graceMs: number
}

export function refreshVerdict(family: AbsentFamily, use: TokenUse): "unknown"
export function refreshVerdict(family: EndedFamily, use: TokenUse): "superseded" | "revoked"
export function refreshVerdict(family: Family, use: TokenUse): RefreshVerdict
export function refreshVerdict(
  family: Family,
  { presentedGeneration, nowMs, graceMs }: TokenUse
): RefreshVerdict {
  if (family._tag === "Absent") return "unknown"
  const { currentGeneration } = family
  if (family._tag === "Ended") return presentedGeneration < currentGeneration ? "superseded" : "revoked"
  if (presentedGeneration === currentGeneration - 1 && nowMs < family.usedMs + graceMs) return "repeated"
  if (presentedGeneration < currentGeneration) return "superseded"
  if (presentedGeneration > currentGeneration) return "unknown"
  return nowMs >= family.expiresMs || nowMs >= family.absoluteMs ? "expired" : "current"
}

const FamilyTaken = Schema.TaggedStruct("FamilyTaken", {})

/** The presented token is not the current one. */
const NotCurrent = Schema.TaggedStruct("NotCurrent", {
  verdict: Schema.Literals(["repeated", "superseded", "expired", "revoked", "unknown"])
})

/** A row that the caller had read has changed since. Nothing was written; the caller reads again. */
const Stale = Schema.TaggedStruct("Stale", {})

/** Rows that commit together with the step or not at all: issuance, spent code, audit. The edge makes them,
 *  and their conditions are checked with the commit. */
const Rows = Schema.Array(
  Schema.declare((row): row is Write => typeof row === "object" && row !== null && "_tag" in row)
)

/** [familyId]: families that have ended, for readers that do not ask the actor. */
export const FamilyEnds = table("authorization-family-ends", Schema.Struct(ending))

/** A family is remembered for a week after its end, so that reuse stays detectable. */
const rememberedMs = 7 * 86_400_000

const absent: AbsentFamily = { _tag: "Absent" }
const familyTaken = () => refuse({ _tag: "FamilyTaken" })
const notCurrent = (verdict: Exclude<RefreshVerdict, "current">) => refuse({ _tag: "NotCurrent", verdict })

const familyOf = ({
  grant,
  generation,
  expiresMs,
  absoluteMs,
  usedMs
}: Omit<ActiveFamily, "_tag" | "currentGeneration"> & { readonly generation: number }): ActiveFamily => ({
  _tag: "Active",
  grant,
  currentGeneration: generation,
  expiresMs,
  absoluteMs,
  usedMs
})

const endedFamilyOf = ({
  grant,
  generation
}: {
  readonly grant: Grant
  readonly generation: number
}): EndedFamily => ({ _tag: "Ended", grant, currentGeneration: generation })

export const RefreshFamily = defineActor("refresh-family", {
  state: Schema.TaggedUnion({
    Empty: {},
    Active: active,
    Revoked: { ...ending, absoluteMs: Schema.Int, grant: Grant, generation: Schema.Int },
    Forgotten: {}
  }),
  event: Schema.TaggedUnion({
    Opened: { grant: Grant, expiresMs: Schema.Int, absoluteMs: Schema.Int, atMs: Schema.Int },
    Rotated: { expiresMs: Schema.Int, atMs: Schema.Int },
    Revoked: ending,
    Forgotten: {}
  }),
  commands: {
    Open: command(
      { grant: Grant, expiresMs: Schema.Int, absoluteMs: Schema.Int, rows: Rows },
      { reply: Schema.Void, refusal: Schema.Union([FamilyTaken, Stale]) }
    ),
    Inspect: command({}, { reply: Family }),
    /** Spends the token of `presentedGeneration` if it is the current one; its successor has the next
     *  generation and expires at `expiresMs`. A superseded token ends the family. */
    Rotate: command(
      { presentedGeneration: Schema.Int, graceMs: Schema.Int, expiresMs: Schema.Int, rows: Rows },
      { reply: Schema.Void, refusal: Schema.Union([NotCurrent, Stale]) }
    ),
    /** The reply is true when the family was active until now. */
    Revoke: command({ because: Schema.String, rows: Rows }, { reply: Schema.Boolean }),
    Expire: command({}, { reply: Schema.Void })
  },
  keep: "journal",
  snapshotEvery: 32,
  mailbox: { capacity: 64 },
  restart: { times: 3, within: "1 minute" },
  passivateAfter: "1 minute",
  expiresAt: (state) =>
    state._tag === "Active" || state._tag === "Revoked" ? state.absoluteMs + rememberedMs : undefined,
  endsIn: ["Forgotten"]
}).behaves({
  initial: { _tag: "Empty" },
  on: {
    Empty: {
      Open: (_, { rows, ...opened }, { nowMs }) =>
        persist({ _tag: "Opened", ...opened, atMs: nowMs })
          .with(...rows)
          .otherwise(refuse({ _tag: "Stale" }))
          .reply(undefined),
      Inspect: () => reply(absent),
      Rotate: (_, use, { nowMs }) => notCurrent(refreshVerdict(absent, { ...use, nowMs })),
      Revoke: () => reply(false),
      Expire: () => reply(undefined)
    },
    Active: {
      Open: familyTaken,
      Inspect: (state) => reply(familyOf(state)),
      Rotate: (state, { presentedGeneration, graceMs, expiresMs, rows }, { id, nowMs }) => {
        const verdict = refreshVerdict(familyOf(state), { presentedGeneration, graceMs, nowMs })
        if (verdict === "superseded")
          return persist({ _tag: "Revoked", atMs: nowMs, because: "reuse" })
            .with(FamilyEnds.put([id], { atMs: nowMs, because: "reuse" }))
            .refuse({ _tag: "NotCurrent", verdict })
        if (verdict !== "current") return notCurrent(verdict)
        return persist({ _tag: "Rotated", expiresMs: Math.min(expiresMs, state.absoluteMs), atMs: nowMs })
          .with(...rows)
          .otherwise(refuse({ _tag: "Stale" }))
          .reply(undefined)
      },
      Revoke: (_, { because, rows }, { id, nowMs }) =>
        persist({ _tag: "Revoked", atMs: nowMs, because })
          .with(FamilyEnds.put([id], { atMs: nowMs, because }), ...rows)
          .reply(true),
      Expire: ({ absoluteMs }, _, { nowMs }) =>
        nowMs >= absoluteMs + rememberedMs
          ? persist({ _tag: "Forgotten" }).reply(undefined)
          : reply(undefined)
    },
    Revoked: {
      Open: familyTaken,
      Inspect: (state) => reply(endedFamilyOf(state)),
      Rotate: (state, use, { nowMs }) => notCurrent(refreshVerdict(endedFamilyOf(state), { ...use, nowMs })),
      Revoke: () => reply(false),
      Expire: ({ absoluteMs }, _, { id, nowMs }) =>
        nowMs >= absoluteMs + rememberedMs
          ? persist({ _tag: "Forgotten" })
              .with(FamilyEnds.delete([id]))
              .reply(undefined)
          : reply(undefined)
    },
    Forgotten: {
      Open: familyTaken,
      Inspect: () => reply(absent),
      Rotate: (_, use, { nowMs }) => notCurrent(refreshVerdict(absent, { ...use, nowMs })),
      Revoke: () => reply(false),
      Expire: () => reply(undefined)
    }
  },
  evolve: {
    Opened: (_, { grant, expiresMs, absoluteMs, atMs }) => ({
      _tag: "Active",
      grant,
      generation: 1,
      expiresMs,
      absoluteMs,
      createdMs: atMs,
      usedMs: atMs
    }),
    Rotated: (family, { expiresMs, atMs }) =>
      family._tag === "Active"
        ? { ...family, generation: family.generation + 1, expiresMs, usedMs: atMs }
        : family,
    Revoked: (family, ending) =>
      family._tag === "Active"
        ? {
            _tag: "Revoked",
            atMs: ending.atMs,
            because: ending.because,
            absoluteMs: family.absoluteMs,
            grant: family.grant,
            generation: family.generation
          }
        : family,
    Forgotten: () => ({ _tag: "Forgotten" })
  }
})

export type FamilyCommands = (typeof RefreshFamily)["commands"]
export type FamilyPayload<C extends keyof FamilyCommands> = Payload<FamilyCommands[C]>
