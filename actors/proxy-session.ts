/** A chat session: the tree of its stored responses, and the time at which it expires. Whatever is committed
 *  here is durable before its answer is sent; response row and session are written in one transaction. Expiry
 *  is a time in the state, compared at each use; a turn that is running near that time postpones it. Source:
 *  docs/spec/chat.md, sections 15 and 16. */
import { Schema } from "effect"
import { command, defineActor, persist, refuse, reply, type Facts } from "../runtime/actor.ts"
import { table, type Write } from "../storage/store.ts"

export const Status = Schema.Literals([
  "queued",
  "in_progress",
  "completed",
  "incomplete",
  "failed",
  "cancelled"
])

export type Status = typeof Status.Type

export const ResponseRecord = Schema.Struct({
  sessionId: Schema.String,
  owner: Schema.String,
  parentId: Schema.NullOr(Schema.String),
  status: Status,
  /** True when the response is deleted, but still part of the context of its descendants. */
  hidden: Schema.Boolean,
  background: Schema.Boolean,
  streamed: Schema.Boolean,
  /** Three texts of JSON: the response object, the input items in normal form, and this turn's messages for
   *  the context of the next. */
  object: Schema.String,
  input: Schema.String,
  messages: Schema.String,
  /** The size of this turn, for the limit of a chain. */
  bytes: Schema.Int,
  /** The upstream's own session or response, which is deleted there when the session ends. */
  upstream: Schema.NullOr(Schema.Struct({ id: Schema.String, session: Schema.String }))
})

export type ResponseRecord = typeof ResponseRecord.Type

/** [response id] */
export const Responses = table("chat-responses", ResponseRecord)

/** [response id] → the request of a background response that has not ended; `body` is its JSON. */
export const BackgroundWork = table(
  "chat-background",
  Schema.Struct({ owner: Schema.String, sessionId: Schema.String, body: Schema.String })
)

/** [response id, sequence number] → an event of a background stream; `data` is JSON. */
export const BackgroundEvents = table(
  "chat-events",
  Schema.Struct({ type: Schema.String, data: Schema.String })
)

/** [upstream, its session] → attempts. The session is to be deleted there, best effort. */
export const Forgotten = table("chat-forgotten", Schema.Struct({ attempts: Schema.Int }))

/** The key of the counter of live sessions. Each kind of ending has another counter beside it. */
export const sessionsCounter = { table: "chat-sessions", key: ["live"] } as const

export const endings = ["retention", "lru", "deleted"] as const
export type Ending = (typeof endings)[number]

const eventsMax = 100_000

/** Describes one response of the session. */
const ResponseSummary = Schema.Struct({
  status: Status,
  hidden: Schema.Boolean,
  events: Schema.Int,
  upstream: Schema.NullOr(Schema.Struct({ id: Schema.String, session: Schema.String }))
})

type ResponseSummary = typeof ResponseSummary.Type

const State = Schema.TaggedUnion({
  Absent: {},
  Active: {
    owner: Schema.String,
    expiresAtMs: Schema.Int,
    heldUntilMs: Schema.Int,
    responses: Schema.Record(Schema.String, ResponseSummary)
  },
  Expired: {}
})

type State = typeof State.Type
type Active = Extract<State, { _tag: "Active" }>

interface Begin {
  readonly owner: string
  readonly previousId: string
  readonly holdMs: number
}

interface OfOwner {
  readonly owner: string
  readonly id: string
}

/** The response never existed, has expired, was deleted, or belongs to another owner: the refusal does not
 *  distinguish these. */
const ResponseUnknown = Schema.TaggedStruct("ResponseUnknown", {})

const ResponseNotReady = Schema.TaggedStruct("ResponseNotReady", {})
const unknown = () => refuse({ _tag: "ResponseUnknown" })
const done = () => reply(undefined)

const dueMs = ({ expiresAtMs, heldUntilMs }: Active): number => Math.max(expiresAtMs, heldUntilMs)
const countLive = (amount: 1 | -1): Write => ({ _tag: "add", ...sessionsCounter, amount })

const ended = (state: Active, why: Ending) =>
  persist({ _tag: "Expired" }).with(
    countLive(-1),
    { _tag: "add", table: sessionsCounter.table, key: [why], amount: 1 },
    ...Object.entries(state.responses).flatMap(([id, { events, upstream }]): ReadonlyArray<Write> => [
      Responses.delete([id]),
      BackgroundWork.delete([id]),
      ...Array.from({ length: Math.min(events, eventsMax) }, (_, seq) => BackgroundEvents.delete([id, seq])),
      ...(upstream === null ? [] : [Forgotten.put([upstream.id, upstream.session], { attempts: 0 })])
    ])
  )

const committed = Schema.Struct({
  id: Schema.String,
  record: ResponseRecord,
  retentionMs: Schema.Int,
  /** `others` is true while other turns of the session are running. */
  others: Schema.Boolean,
  /** The request of a background response that remains to be worked on, and its events so far. */
  work: Schema.NullOr(Schema.String),
  events: Schema.Array(Schema.Struct({ type: Schema.String, data: Schema.String })),
  eventsFrom: Schema.Int
})

type Committed = typeof committed.Type

const rowsOf = ({ id, record, work, events, eventsFrom }: Committed): ReadonlyArray<Write> => [
  Responses.put([id], record),
  work === null
    ? BackgroundWork.delete([id])
    : BackgroundWork.put([id], { owner: record.owner, sessionId: record.sessionId, body: work }),
  ...events.map((event, i) => BackgroundEvents.put([id, eventsFrom + i], event))
]

/** Deletes the events that an earlier run left behind: those beyond the ones of this run. */
const staleEvents = ({ responses }: Active, { id, events, eventsFrom }: Committed): ReadonlyArray<Write> => {
  const count = eventsFrom + events.length
  const before = responses[id]?.events ?? 0
  return Array.from({ length: Math.max(0, before - count) }, (_, i) =>
    BackgroundEvents.delete([id, count + i])
  )
}

const eventOf = (
  { id, record: { owner, status, hidden, upstream }, retentionMs, others, events, eventsFrom }: Committed,
  nowMs: number
) =>
  ({
    _tag: "Committed",
    id,
    owner,
    status,
    hidden,
    upstream,
    expiresAtMs: nowMs + retentionMs,
    others,
    events: eventsFrom + events.length
  }) as const

const open = (_: unknown, commit: Committed, { nowMs }: Facts) =>
  persist(eventOf(commit, nowMs))
    .with(countLive(1), ...rowsOf(commit))
    .reply(undefined)

/** Returns the response if the owner may see it now: not after the session's end, and not once it is
 *  deleted. */
const visible = (state: Active, owner: string, id: string, nowMs: number): ResponseSummary | undefined => {
  if (nowMs >= dueMs(state) || state.owner !== owner) return undefined
  const response = state.responses[id]
  return response === undefined || response.hidden ? undefined : response
}

const begin = (state: Active, { owner, previousId, holdMs }: Begin, { nowMs }: Facts) => {
  const previous = visible(state, owner, previousId, nowMs)
  if (previous === undefined || previous.status === "failed") return unknown()
  if (previous.status === "queued" || previous.status === "in_progress")
    return refuse({ _tag: "ResponseNotReady" })
  return dueMs(state) - nowMs < holdMs
    ? persist({ _tag: "Held", untilMs: nowMs + holdMs }).reply(undefined)
    : reply(undefined)
}

const inspect = (state: Active, { owner, id }: OfOwner, { nowMs }: Facts) =>
  visible(state, owner, id, nowMs) === undefined ? unknown() : reply(undefined)

const commit = (state: Active, committed: Committed, { nowMs }: Facts) =>
  state.responses[committed.id]?.hidden === true
    ? unknown()
    : persist(eventOf(committed, nowMs))
        .with(...rowsOf(committed), ...staleEvents(state, committed))
        .reply(undefined)

/** Deletes a response; when no visible one is left, the session ends with it. */
const remove = (state: Active, { owner, id }: OfOwner, { nowMs }: Facts) => {
  if (visible(state, owner, id, nowMs) === undefined) return unknown()
  const othersLeft = Object.entries(state.responses).some(([other, { hidden }]) => other !== id && !hidden)
  if (!othersLeft) return ended(state, "deleted").reply(undefined)
  return persist({ _tag: "Deleted", id })
    .with(BackgroundWork.delete([id]))
    .reply(undefined)
}

const expire = (state: Active, _: unknown, { nowMs }: Facts) =>
  nowMs >= dueMs(state) ? ended(state, "retention").reply(undefined) : reply(undefined)

export const ProxySession = defineActor("proxy-session", {
  state: State,
  event: Schema.TaggedUnion({
    Committed: {
      id: Schema.String,
      owner: Schema.String,
      status: Status,
      hidden: Schema.Boolean,
      upstream: Schema.NullOr(Schema.Struct({ id: Schema.String, session: Schema.String })),
      expiresAtMs: Schema.Int,
      others: Schema.Boolean,
      events: Schema.Int
    },
    Held: { untilMs: Schema.Int },
    Deleted: { id: Schema.String },
    Expired: {}
  }),
  commands: {
    /** Begins a turn that continues `previousId` and may take `holdMs`. */
    Begin: command(
      { owner: Schema.String, previousId: Schema.String, holdMs: Schema.Int },
      { reply: Schema.Void, refusal: Schema.Union([ResponseUnknown, ResponseNotReady]) }
    ),
    /** Replies when the response can be seen now. */
    Inspect: command(
      { owner: Schema.String, id: Schema.String },
      { reply: Schema.Void, refusal: ResponseUnknown }
    ),
    /** Stores a response that was accepted (background) or has ended. */
    Commit: command(committed.fields, { reply: Schema.Void, refusal: ResponseUnknown }),
    Delete: command(
      { owner: Schema.String, id: Schema.String },
      { reply: Schema.Void, refusal: ResponseUnknown }
    ),
    /** Ends the session to make room for another. */
    Evict: command({}, { reply: Schema.Boolean }),
    Expire: command({}, { reply: Schema.Void })
  },
  keep: "journal",
  snapshotEvery: 64,
  mailbox: { capacity: 256 },
  restart: { times: 3, within: "10 seconds" },
  passivateAfter: "1 minute",
  expiresAt: (state) => (state._tag === "Active" ? dueMs(state) : undefined),
  endsIn: ["Expired"]
}).behaves({
  initial: { _tag: "Absent" },
  on: {
    Absent: {
      Begin: unknown,
      Inspect: unknown,
      Commit: open,
      Delete: unknown,
      Evict: () => reply(false),
      Expire: done
    },
    Active: {
      Begin: begin,
      Inspect: inspect,
      Commit: commit,
      Delete: remove,
      Evict: (state) => ended(state, "lru").reply(true),
      Expire: expire
    },
    Expired: {
      Begin: unknown,
      Inspect: unknown,
      Commit: unknown,
      Delete: unknown,
      Evict: () => reply(false),
      Expire: done
    }
  },
  evolve: {
    Committed: (state, { id, owner, status, hidden, upstream, expiresAtMs, others, events }) => ({
      _tag: "Active",
      owner,
      expiresAtMs,
      heldUntilMs: others && state._tag === "Active" ? state.heldUntilMs : 0,
      responses: {
        ...(state._tag === "Active" ? state.responses : {}),
        [id]: { status, hidden, events, upstream }
      }
    }),
    Held: (state, { untilMs }) =>
      state._tag === "Active" ? { ...state, heldUntilMs: Math.max(untilMs, state.heldUntilMs) } : state,
    Deleted: (state, { id }) =>
      state._tag === "Active" && state.responses[id] !== undefined
        ? { ...state, responses: { ...state.responses, [id]: { ...state.responses[id], hidden: true } } }
        : state,
    Expired: () => ({ _tag: "Expired" })
  }
})
