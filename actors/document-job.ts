/** One document from upload to download: received, translated, done or failed, removed. Every fact about it
 *  is in the journal, but none of its content: file names and results are sealed under a key that only the
 *  client holds. After a crash it continues by itself as soon as its client has presented that key again, and
 *  ends in `error` when that does not happen within an hour, so it is never stuck. The bill is written with
 *  the download, exactly once. Source: docs/spec/translation.md, sections 4 and 17; docs/spec/documents.md,
 *  sections 9 and 10. */
import { Schema, Stream } from "effect"
import { command, defineActor, persist, refuse, reply, type Facts } from "../runtime/actor.ts"
import { defined } from "../runtime/defined.ts"
import { table, type Write } from "../storage/store.ts"
import { releaseReservation, removeBlobs, translateDocument } from "./documents/activity.ts"
import { DocumentMeta } from "./documents/meta.ts"
import type { DocumentWork } from "./documents/ports.ts"

/** [accountId, document id] → the check that recognizes the key. The row exists for as long as the document
 *  can be requested. */
export const Documents = table("documents", Schema.Struct({ check: Schema.String, receivedMs: Schema.Int }))

/** The counter ["open", accountId] counts documents that were not downloaded; ["used", accountId, start of
 *  the billing period] counts those that were received. */
export const documentCounts = "document-counts"

export const openCount = (accountId: string) => ["open", accountId] as const
export const usedCount = (accountId: string, periodMs: number) => ["used", accountId, periodMs] as const

export const openMax = 100

/** How long a job waits for its key after a crash, in ms. */
export const lockedMsMax = 3_600_000

/** How long a result, or the reason why there is none, is stored, in ms. */
export const retentionMs = 86_400_000
export const interruptedText = "The translation was interrupted, please upload the document again."

const noBytes = new Uint8Array(0)

/** One write of the bill: it adds to a counter, or puts a row without content where `amount` is null. */
const BillEntry = Schema.Struct({
  table: Schema.String,
  key: Schema.Array(Schema.Union([Schema.String, Schema.Int])),
  amount: Schema.NullOr(Schema.Int)
})

const State = Schema.TaggedUnion({
  Absent: {},
  /** `begun` becomes true when the scheduler has given the document its turn. */
  Translating: { meta: DocumentMeta, begun: Schema.Boolean },
  /** The key was not presented since the process started. */
  Locked: { meta: DocumentMeta, atMs: Schema.Int },
  Done: { meta: DocumentMeta, atMs: Schema.Int, billed: Schema.Int, resultBytes: Schema.Int },
  Failed: { meta: DocumentMeta, atMs: Schema.Int, text: Schema.String },
  /** The document cannot be requested any more; its bytes are being removed. */
  Leaving: { meta: DocumentMeta },
  Gone: {}
})

type State = typeof State.Type

export const DocumentStatus = Schema.TaggedUnion({
  Queued: {},
  Translating: {},
  Locked: {},
  Done: { billed: Schema.Int, resultBytes: Schema.Int, meta: DocumentMeta },
  Failed: { text: Schema.String },
  Unknown: {}
})

type Holding = Extract<State, { readonly meta: DocumentMeta }>
type Ended = Extract<State, { _tag: "Done" | "Failed" }>
const DocumentsUsedUp = Schema.TaggedStruct("DocumentsUsedUp", {})

const add = (key: readonly (string | number)[], amount: number, max?: number): Write => ({
  _tag: "add",
  table: documentCounts,
  key,
  amount,
  ...defined({ max })
})

/** Converts an entry of the bill to a write. */
const billRow = ({ table, key, amount }: typeof BillEntry.Type): Write =>
  amount === null ? { _tag: "put", table, key, value: noBytes } : { _tag: "add", table, key, amount }

/** Deletes the document's row and decrements the count of documents that were not downloaded. */
const rowsOfLeaving = ({ accountId }: DocumentMeta, id: string): ReadonlyArray<Write> => [
  Documents.delete([accountId, id]),
  add(openCount(accountId), -1)
]

const done = () => reply(undefined)
const unknown = () => reply({ _tag: "Unknown" } as const)
const notDownloaded = () => reply(false)

const receive = (
  _: unknown,
  { meta, documentsMax }: { readonly meta: DocumentMeta; readonly documentsMax: number | null },
  { id, nowMs }: Facts
) =>
  persist({ _tag: "Received", meta })
    .with(
      Documents.put([meta.accountId, id], { check: meta.check, receivedMs: nowMs }, "absent"),
      add(openCount(meta.accountId), 1),
      add(usedCount(meta.accountId, meta.periodMs), 1, documentsMax ?? undefined)
    )
    .otherwise(refuse({ _tag: "DocumentsUsedUp" }))
    .reply(undefined)

/** Fails the document, which then does not count as used. */
const failWith = ({ accountId, periodMs }: DocumentMeta, text: string, nowMs: number) =>
  persist({ _tag: "Failed", text, atMs: nowMs })
    .with(add(usedCount(accountId, periodMs), -1))
    .reply(undefined)

const fail = ({ meta }: Holding, { text }: { readonly text: string }, { nowMs }: Facts) =>
  failWith(meta, text, nowMs)

const remove = ({ meta }: Holding, _: unknown, { id }: Facts) =>
  persist({ _tag: "Left" })
    .with(...rowsOfLeaving(meta, id))
    .reply(undefined)

const expireLocked = ({ meta, atMs }: Extract<State, { _tag: "Locked" }>, _: unknown, { nowMs }: Facts) =>
  nowMs >= atMs + lockedMsMax ? failWith(meta, interruptedText, nowMs) : reply(undefined)

const expireEnded = (state: Ended, _: unknown, facts: Facts) =>
  facts.nowMs >= state.atMs + retentionMs ? remove(state, undefined, facts) : reply(undefined)

const expiresAt = (state: State): number | undefined => {
  switch (state._tag) {
    case "Locked":
      return state.atMs + lockedMsMax
    case "Done":
    case "Failed":
      return state.atMs + retentionMs
    default:
      return undefined
  }
}

export const DocumentJob = defineActor("document-job", {
  state: State,
  event: Schema.TaggedUnion({
    Received: { meta: DocumentMeta },
    Begun: {},
    Locked: { atMs: Schema.Int },
    Unlocked: {},
    Finished: { atMs: Schema.Int, billed: Schema.Int, resultBytes: Schema.Int },
    Failed: { atMs: Schema.Int, text: Schema.String },
    Left: {},
    Removed: {}
  }),
  commands: {
    /** `documentsMax` limits the documents of the account in its period; null: any number. */
    Receive: command(
      { meta: DocumentMeta, documentsMax: Schema.NullOr(Schema.Int) },
      { reply: Schema.Void, refusal: DocumentsUsedUp }
    ),
    Inspect: command({}, { reply: DocumentStatus }),
    Begin: command({}, { reply: Schema.Void }),
    Lock: command({}, { reply: Schema.Void }),
    /** Reports that the key has been put on the keyring. */
    Unlock: command({}, { reply: Schema.Void }),
    Finish: command({ billed: Schema.Int, resultBytes: Schema.Int }, { reply: Schema.Void }),
    Fail: command({ text: Schema.String }, { reply: Schema.Void }),
    /** Reports that the last byte of the result has been sent: the bill and the end are written in one
     *  commit. The reply is true for the one download that counts. */
    Downloaded: command({ bill: Schema.Array(BillEntry) }, { reply: Schema.Boolean }),
    Remove: command({}, { reply: Schema.Void }),
    Expire: command({}, { reply: Schema.Void })
  },
  keep: "journal",
  snapshotEvery: 32,
  mailbox: { capacity: 64 },
  restart: { times: 5, within: "1 minute" },
  passivateAfter: "1 minute",
  expiresAt,
  endsIn: ["Gone"],
  resume: ["Translating", "Leaving"]
}).behaves<DocumentWork>({
  initial: { _tag: "Absent" },
  on: {
    Absent: {
      Receive: receive,
      Inspect: unknown,
      Begin: done,
      Lock: done,
      Unlock: done,
      Finish: done,
      Fail: done,
      Downloaded: notDownloaded,
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
      Fail: fail,
      Downloaded: notDownloaded,
      Remove: remove,
      Expire: done
    },
    Locked: {
      Receive: done,
      Inspect: () => reply({ _tag: "Locked" }),
      Begin: done,
      Lock: done,
      Unlock: () => persist({ _tag: "Unlocked" }).reply(undefined),
      Finish: done,
      Fail: fail,
      Downloaded: notDownloaded,
      Remove: remove,
      Expire: expireLocked
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
          .with(...rowsOfLeaving(meta, id), ...bill.map(billRow))
          .reply(true),
      Remove: remove,
      Expire: expireEnded
    },
    Failed: {
      Receive: done,
      Inspect: ({ text }) => reply({ _tag: "Failed", text }),
      Begin: done,
      Lock: done,
      Unlock: done,
      Finish: done,
      Fail: done,
      Downloaded: notDownloaded,
      Remove: remove,
      Expire: expireEnded
    },
    Leaving: {
      Receive: done,
      Inspect: unknown,
      Begin: done,
      Lock: done,
      Unlock: done,
      Finish: done,
      Fail: done,
      Downloaded: notDownloaded,
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
      Downloaded: notDownloaded,
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
    Translating: ({ meta }, { id }) => translateDocument(id, meta),
    Done: (_, { id }) => removeBlobs(id, { keepResult: true }),
    Failed: (_, { id }) => discard(id),
    Leaving: (_, { id }) => Stream.concat(discard(id), Stream.succeed({ _tag: "Remove" as const }))
  }
})

const metaOf = (state: State): DocumentMeta => {
  if (!("meta" in state)) throw new Error(`no document in phase ${state._tag}`)
  return state.meta
}

const discard = (id: string): Stream.Stream<never, never, DocumentWork> =>
  Stream.concat(releaseReservation(id), removeBlobs(id, { keepResult: false }))
