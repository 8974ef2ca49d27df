/** One document from upload to download: received, translated, done or failed, gone. Every fact of it is in
 *  the journal, nothing of its content is: file names and results are sealed under a key that only the client
 *  holds. After a crash it goes on by itself as soon as somebody has shown that key again, and ends in
 *  `error` when nobody does within an hour; never stuck. The bill is written with the download, once.
 *  Source: translation 4, 17; documents 9, 10. */
import { Effect, Schema, Stream } from "effect"
import { command, defineActor, persist, refuse, reply } from "../runtime/actor.ts"
import { table, type Write } from "../storage/store.ts"
import { DocumentWork } from "./documents/ports.ts"
import { tidied, translating } from "./documents/translating.ts"

const optional = Schema.NullOr(Schema.String)

export const Meta = Schema.Struct({
  accountId: Schema.String,
  keyId: Schema.String,
  format: Schema.String,
  extension: Schema.String,
  convertTo: optional,
  sealedName: Schema.String,
  check: Schema.String,
  sourceBytes: Schema.Int,
  source: optional,
  target: Schema.String,
  options: Schema.Struct({
    formality: Schema.Literals(["default", "more", "less"]),
    glossaryIds: Schema.Array(Schema.String),
    styleId: optional,
    memoryId: optional,
    memoryThreshold: Schema.Int
  }),
  watermark: Schema.Boolean,
  tag: optional,
  charactersMax: Schema.Int,
  periodMs: Schema.Int
})

type Meta = typeof Meta.Type

/** [accountId, document id] → what recognises the key. A row for as long as the document can be asked for. */
export const Documents = table("documents", Schema.Struct({ check: Schema.String, receivedMs: Schema.Int }))

/** Counters. ["open", accountId]: documents that were not downloaded. ["used", accountId, start of the
 *  billing period]: documents that were taken. */
export const documentCounts = "document-counts"

export const openCount = (accountId: string) => ["open", accountId] as const
export const usedCount = (accountId: string, periodMs: number) => ["used", accountId, periodMs] as const

export const openMax = 100

/** Without the key after a crash. */
export const lockedMsMax = 3_600_000

export const retentionMs = 86_400_000
export const interruptedText = "The translation was interrupted, please upload the document again."

const noBytes = new Uint8Array(0)

/** `amount` null: a row without content. */
const Counted = Schema.Struct({
  table: Schema.String,
  key: Schema.Array(Schema.Union([Schema.String, Schema.Int])),
  amount: Schema.NullOr(Schema.Int)
})

const State = Schema.TaggedUnion({
  Absent: {},
  /** `begun`: it has had its turn. */
  Translating: { meta: Meta, begun: Schema.Boolean },
  /** Nobody has shown the key since the process started. */
  Locked: { meta: Meta, atMs: Schema.Int },
  Done: { meta: Meta, atMs: Schema.Int, billed: Schema.Int, resultBytes: Schema.Int },
  Failed: { meta: Meta, atMs: Schema.Int, text: Schema.String },
  /** Nobody can ask for it any more; its bytes are being removed. */
  Leaving: { meta: Meta },
  Gone: {}
})

type State = typeof State.Type

export const DocumentStatus = Schema.TaggedUnion({
  Queued: {},
  Translating: {},
  Locked: {},
  Done: { billed: Schema.Int, resultBytes: Schema.Int, meta: Meta },
  Failed: { text: Schema.String },
  Unknown: {}
})

const Full = Schema.TaggedStruct("DocumentsUsedUp", {})
const unknown = () => reply({ _tag: "Unknown" } as const)
const done = () => reply(undefined)

const add = (key: readonly (string | number)[], amount: number, max?: number): Write => ({
  _tag: "add",
  table: documentCounts,
  key,
  amount,
  ...(max === undefined ? {} : { max })
})

/** The row goes, and the place among those that were not downloaded. */
const leave = ({ accountId }: Meta, id: string): ReadonlyArray<Write> => [
  Documents.delete([accountId, id]),
  add(openCount(accountId), -1)
]

/** What failed was not used. */
const givenBack = ({ accountId, periodMs }: Meta): Write => add(usedCount(accountId, periodMs), -1)

const fail = (meta: Meta, text: string, nowMs: number) =>
  persist({ _tag: "Failed", text, atMs: nowMs }).with(givenBack(meta)).reply(undefined)

export const DocumentJob = defineActor("document-job", {
  state: State,
  event: Schema.TaggedUnion({
    Received: { meta: Meta },
    Begun: {},
    Locked: { atMs: Schema.Int },
    Unlocked: {},
    Finished: { atMs: Schema.Int, billed: Schema.Int, resultBytes: Schema.Int },
    Failed: { atMs: Schema.Int, text: Schema.String },
    Left: {},
    Removed: {}
  }),
  commands: {
    /** `documentsMax`: how many the account may have in its period; null: any number. */
    Receive: command(
      { meta: Meta, documentsMax: Schema.NullOr(Schema.Int) },
      { reply: Schema.Void, refusal: Full }
    ),
    Inspect: command({}, { reply: DocumentStatus }),
    Begin: command({}, { reply: Schema.Void }),
    Lock: command({}, { reply: Schema.Void }),
    /** The key is in the vault. */
    Unlock: command({}, { reply: Schema.Void }),
    Finish: command({ billed: Schema.Int, resultBytes: Schema.Int }, { reply: Schema.Void }),
    Fail: command({ text: Schema.String }, { reply: Schema.Void }),
    /** The last byte has left: the bill and the end, in one commit. True for the one download that counts. */
    Downloaded: command({ bill: Schema.Array(Counted) }, { reply: Schema.Boolean }),
    Remove: command({}, { reply: Schema.Void }),
    Expire: command({}, { reply: Schema.Void })
  },
  keep: "journal",
  snapshotEvery: 32,
  mailbox: { capacity: 64 },
  restart: { times: 5, within: "1 minute" },
  passivateAfter: "1 minute",
  expiresAt: (state) =>
    state._tag === "Locked"
      ? state.atMs + lockedMsMax
      : state._tag === "Done" || state._tag === "Failed"
        ? state.atMs + retentionMs
        : undefined,
  endsIn: ["Gone"],
  resume: ["Translating", "Leaving"]
}).behaves<DocumentWork>({
  initial: { _tag: "Absent" },
  on: {
    Absent: {
      Receive: (_, { meta, documentsMax }, { id, nowMs }) =>
        persist({ _tag: "Received", meta })
          .with(
            Documents.put([meta.accountId, id], { check: meta.check, receivedMs: nowMs }, "absent"),
            add(openCount(meta.accountId), 1),
            add(usedCount(meta.accountId, meta.periodMs), 1, documentsMax ?? undefined)
          )
          .otherwise(refuse({ _tag: "DocumentsUsedUp" }))
          .reply(undefined),
      Inspect: unknown,
      Begin: done,
      Lock: done,
      Unlock: done,
      Finish: done,
      Fail: done,
      Downloaded: () => reply(false),
      Remove: done,
      Expire: done
    },
    Translating: {
      Receive: done,
      Inspect: ({ begun }) => reply({ _tag: begun ? ("Translating" as const) : ("Queued" as const) }),
      Begin: ({ begun }) => (begun ? reply(undefined) : persist({ _tag: "Begun" }).reply(undefined)),
      Lock: (_, __, { nowMs }) => persist({ _tag: "Locked", atMs: nowMs }).reply(undefined),
      Unlock: done,
      Finish: (_, { billed, resultBytes }, { nowMs }) =>
        persist({ _tag: "Finished", atMs: nowMs, billed, resultBytes }).reply(undefined),
      Fail: ({ meta }, { text }, { nowMs }) => fail(meta, text, nowMs),
      Downloaded: () => reply(false),
      Remove: ({ meta }, _, { id }) =>
        persist({ _tag: "Left" })
          .with(...leave(meta, id))
          .reply(undefined),
      Expire: done
    },
    Locked: {
      Receive: done,
      Inspect: () => reply({ _tag: "Locked" }),
      Begin: done,
      Lock: done,
      Unlock: () => persist({ _tag: "Unlocked" }).reply(undefined),
      Finish: done,
      Fail: ({ meta }, { text }, { nowMs }) => fail(meta, text, nowMs),
      Downloaded: () => reply(false),
      Remove: ({ meta }, _, { id }) =>
        persist({ _tag: "Left" })
          .with(...leave(meta, id))
          .reply(undefined),
      Expire: ({ meta, atMs }, _, { nowMs }) =>
        nowMs >= atMs + lockedMsMax ? fail(meta, interruptedText, nowMs) : reply(undefined)
    },
    Done: {
      Receive: done,
      Inspect: ({ billed, resultBytes, meta }) => reply({ _tag: "Done", billed, resultBytes, meta }),
      Begin: done,
      Lock: done,
      Unlock: done,
      Finish: done,
      Fail: done,
      Downloaded: ({ meta }, { bill }, { id }) =>
        persist({ _tag: "Left" })
          .with(
            ...leave(meta, id),
            ...bill.map(({ table, key, amount }): Write =>
              amount === null
                ? { _tag: "put", table, key, value: noBytes }
                : { _tag: "add", table, key, amount }
            )
          )
          .reply(true),
      Remove: ({ meta }, _, { id }) =>
        persist({ _tag: "Left" })
          .with(...leave(meta, id))
          .reply(undefined),
      Expire: ({ meta, atMs }, _, { id, nowMs }) =>
        nowMs >= atMs + retentionMs
          ? persist({ _tag: "Left" })
              .with(...leave(meta, id))
              .reply(undefined)
          : reply(undefined)
    },
    Failed: {
      Receive: done,
      Inspect: ({ text }) => reply({ _tag: "Failed", text }),
      Begin: done,
      Lock: done,
      Unlock: done,
      Finish: done,
      Fail: done,
      Downloaded: () => reply(false),
      Remove: ({ meta }, _, { id }) =>
        persist({ _tag: "Left" })
          .with(...leave(meta, id))
          .reply(undefined),
      Expire: ({ meta, atMs }, _, { id, nowMs }) =>
        nowMs >= atMs + retentionMs
          ? persist({ _tag: "Left" })
              .with(...leave(meta, id))
              .reply(undefined)
          : reply(undefined)
    },
    Leaving: {
      Receive: done,
      Inspect: unknown,
      Begin: done,
      Lock: done,
      Unlock: done,
      Finish: done,
      Fail: done,
      Downloaded: () => reply(false),
      Remove: () => persist({ _tag: "Removed" }).reply(undefined),
      Expire: done
    },
    Gone: {
      Receive: done,
      Inspect: unknown,
      Begin: done,
      Lock: done,
      Unlock: done,
      Finish: done,
      Fail: done,
      Downloaded: () => reply(false),
      Remove: done,
      Expire: done
    }
  },
  evolve: {
    Received: (_, { meta }) => ({ _tag: "Translating", meta, begun: false }),
    Begun: (state) => (state._tag === "Translating" ? { ...state, begun: true } : state),
    Locked: (state, { atMs }) => ({ _tag: "Locked", meta: metaOf(state), atMs }),
    Unlocked: (state) => ({ _tag: "Translating", meta: metaOf(state), begun: false }),
    Finished: (state, { atMs, billed, resultBytes }) => ({
      _tag: "Done",
      meta: metaOf(state),
      atMs,
      billed,
      resultBytes
    }),
    Failed: (state, { atMs, text }) => ({ _tag: "Failed", meta: metaOf(state), atMs, text }),
    Left: (state) => ({ _tag: "Leaving", meta: metaOf(state) }),
    Removed: () => ({ _tag: "Gone" })
  },
  activity: {
    Translating: ({ meta }, { id }) => translating(id, meta),
    Done: (_, { id }) => tidied(id, true),
    Failed: (_, { id }) => Stream.concat(released(id), tidied(id, false)),
    Leaving: (_, { id }) =>
      Stream.concat(
        Stream.concat(released(id), tidied(id, false)),
        Stream.succeed({ _tag: "Remove" as const })
      )
  }
})

const metaOf = (state: State): Meta => {
  if (!("meta" in state)) throw new Error(`no document in phase ${state._tag}`)
  return state.meta
}

/** What was set aside for it. */
const released = (id: string): Stream.Stream<never, never, DocumentWork> =>
  Stream.fromEffectDrain(Effect.map(DocumentWork, (ports) => ports.release(id)))
