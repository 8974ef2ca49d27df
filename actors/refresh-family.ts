/** A refresh-token family: one grant and the generation of its only live token. The edge makes and checks
 *  tokens (a MAC over family and generation, so none is ever stored) before it asks, so an older generation
 *  is a true sign of reuse and ends the family.
 *  Source: authorization sections 8.4, 8.5, 18.2; OAuth 2.1 draft, refresh-token rotation. */
import { Schema } from "effect"
import { command, defineActor, persist, refuse, reply } from "../runtime/actor.ts"
import { table, type Write } from "../storage/store.ts"

export const Grant = Schema.Struct({
  clientId: Schema.String,
  clientIssuedMs: Schema.Int,
  userId: Schema.String,
  userEpoch: Schema.Int,
  resourceId: Schema.String,
  scopes: Schema.Array(Schema.String),
  consentId: Schema.String,
  /** Of the DPoP key it is bound to; "": none. */
  jkt: Schema.String,
  authMs: Schema.Int
})

export type Grant = typeof Grant.Type

/** `expiresMs`: of the current token; `absoluteMs`: of the family. */
const living = {
  grant: Grant,
  generation: Schema.Int,
  expiresMs: Schema.Int,
  absoluteMs: Schema.Int,
  createdMs: Schema.Int,
  usedMs: Schema.Int
}

export const Living = Schema.Struct(living)
export type Living = typeof Living.Type
const ending = { atMs: Schema.Int, because: Schema.String }

const Taken = Schema.TaggedStruct("FamilyTaken", {})
const Ended = Schema.TaggedStruct("FamilyEnded", {})
const Reused = Schema.TaggedStruct("TokenReused", {})

/** A row that the caller had read has changed since: nothing happened, look again. */
const Stale = Schema.TaggedStruct("Stale", {})

/** What stands or falls with the step: issuance, spent code, audit. Made by the edge; their conditions are
 *  checked with the commit. */
const Rows = Schema.Array(
  Schema.declare((row): row is Write => typeof row === "object" && row !== null && "op" in row)
)

/** [familyId]: families that are over, for whoever must know without asking. */
export const FamilyEnds = table("authorization-family-ends", Schema.Struct(ending))

/** A family is remembered for a week after its end, so that reuse stays detectable. */
const rememberedMs = 7 * 86_400_000

const unknown = () => refuse({ _tag: "FamilyEnded" })
const taken = () => refuse({ _tag: "FamilyTaken" })

export const RefreshFamily = defineActor("refresh-family", {
  state: Schema.TaggedUnion({
    Empty: {},
    Active: living,
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
      { reply: Schema.Void, refusal: Schema.Union([Taken, Stale]) }
    ),
    /** The family as it is; null: there is none, or it is over. */
    Inspect: command(
      {},
      {
        reply: Schema.Struct({
          living: Schema.NullOr(Living),
          ended: Schema.NullOr(Schema.Struct({ grant: Grant, generation: Schema.Int }))
        })
      }
    ),
    /** Spends the token of `generation`; its successor is one more. */
    Rotate: command(
      { generation: Schema.Int, expiresMs: Schema.Int, rows: Rows },
      { reply: Schema.Void, refusal: Schema.Union([Ended, Reused, Stale]) }
    ),
    /** True: it was active. */
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
      Inspect: () => reply({ living: null, ended: null }),
      Rotate: unknown,
      Revoke: () => reply(false),
      Expire: () => reply(undefined)
    },
    Active: {
      Open: taken,
      Inspect: ({ _tag, ...living }) => reply({ living, ended: null }),
      Rotate: (
        { generation, expiresMs, absoluteMs },
        { generation: shown, expiresMs: nextMs, rows },
        { id, nowMs }
      ) =>
        shown < generation
          ? persist({ _tag: "Revoked", atMs: nowMs, because: "reuse" })
              .with(FamilyEnds.put([id], { atMs: nowMs, because: "reuse" }))
              .refuse({ _tag: "TokenReused" })
          : shown > generation || nowMs >= expiresMs || nowMs >= absoluteMs
            ? refuse({ _tag: "FamilyEnded" })
            : persist({ _tag: "Rotated", expiresMs: Math.min(nextMs, absoluteMs), atMs: nowMs })
                .with(...rows)
                .otherwise(refuse({ _tag: "Stale" }))
                .reply(undefined),
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
      Open: taken,
      Inspect: ({ grant, generation }) => reply({ living: null, ended: { grant, generation } }),
      Rotate: ({ generation }, { generation: shown }) =>
        shown < generation ? refuse({ _tag: "TokenReused" }) : refuse({ _tag: "FamilyEnded" }),
      Revoke: () => reply(false),
      Expire: ({ absoluteMs }, _, { id, nowMs }) =>
        nowMs >= absoluteMs + rememberedMs
          ? persist({ _tag: "Forgotten" })
              .with(FamilyEnds.delete([id]))
              .reply(undefined)
          : reply(undefined)
    },
    Forgotten: {
      Open: taken,
      Inspect: () => reply({ living: null, ended: null }),
      Rotate: unknown,
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
