/** A chat session: the tree of its stored responses and when it expires. What is committed here is durable
 *  before its answer leaves, response row and session in one transaction. Expiry is a time in the state,
 *  compared at each use; a turn under way near its end holds it.
 *  Source: chat sections 15 and 16. */
import { Schema } from "effect"
import { command, defineActor, persist, refuse, reply } from "../runtime/actor.ts"
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
  /** Deleted, but still part of what its descendants say. */
  hidden: Schema.Boolean,
  background: Schema.Boolean,
  streamed: Schema.Boolean,
  /** JSON: the response object; the input items in normal form; this turn's messages for the context of the
   *  next. */
  object: Schema.String,
  input: Schema.String,
  messages: Schema.String,
  /** Of this turn, for the limit of a chain. */
  bytes: Schema.Int,
  /** The upstream's own session or response, to be forgotten at the end. */
  upstream: Schema.NullOr(Schema.Struct({ id: Schema.String, session: Schema.String }))
})

export type ResponseRecord = typeof ResponseRecord.Type

/** [response id] */
export const Responses = table("chat-responses", ResponseRecord)

/** [response id]: what a background response still has to do. JSON of the request. */
export const BackgroundWork = table(
  "chat-background",
  Schema.Struct({ owner: Schema.String, sessionId: Schema.String, body: Schema.String })
)

/** [response id, sequence number]: events of a background stream, JSON. */
export const BackgroundEvents = table(
  "chat-events",
  Schema.Struct({ type: Schema.String, data: Schema.String })
)

/** [upstream, its session]: to be forgotten there, best effort. */
export const Forgotten = table("chat-forgotten", Schema.Struct({ attempts: Schema.Int }))

/** Counts the sessions there are, and why others ended. */
export const sessionsCounter = { table: "chat-sessions", key: ["live"] } as const

export const endings = ["retention", "lru", "deleted"] as const
export type Ending = (typeof endings)[number]

const eventsMax = 100_000

const Known = Schema.Struct({
  status: Status,
  hidden: Schema.Boolean,
  events: Schema.Int,
  upstream: Schema.NullOr(Schema.Struct({ id: Schema.String, session: Schema.String }))
})

const State = Schema.TaggedUnion({
  Absent: {},
  Active: {
    owner: Schema.String,
    expiresAtMs: Schema.Int,
    heldUntilMs: Schema.Int,
    responses: Schema.Record(Schema.String, Known)
  },
  Expired: {}
})

type State = typeof State.Type
type Active = Extract<State, { _tag: "Active" }>

/** Never existed, expired, deleted, of another owner: not told apart. */
const UnknownResponse = Schema.TaggedStruct("ResponseUnknown", {})

const NotReady = Schema.TaggedStruct("ResponseNotReady", {})
const unknown = () => refuse({ _tag: "ResponseUnknown" })
const done = () => reply(undefined)

const dueMs = ({ expiresAtMs, heldUntilMs }: Active): number => Math.max(expiresAtMs, heldUntilMs)
const counted = (amount: 1 | -1): Write => ({ _tag: "add", ...sessionsCounter, amount })

const ended = (state: Active, why: Ending) =>
  persist({ _tag: "Expired" }).with(
    counted(-1),
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
  /** Other turns of the session are under way. */
  others: Schema.Boolean,
  /** Background: stays to be worked on; its events so far. */
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

/** Events of a run that starts over. */
const stale = ({ responses }: Active, { id, events, eventsFrom }: Committed): ReadonlyArray<Write> => {
  const kept = eventsFrom + events.length
  const before = responses[id]?.events ?? 0
  return Array.from({ length: Math.max(0, before - kept) }, (_, i) => BackgroundEvents.delete([id, kept + i]))
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
    /** A turn that continues `previousId` begins; it may take `holdMs`. */
    Begin: command(
      { owner: Schema.String, previousId: Schema.String, holdMs: Schema.Int },
      { reply: Schema.Void, refusal: Schema.Union([UnknownResponse, NotReady]) }
    ),
    /** Whether a response can be seen now. */
    Inspect: command(
      { owner: Schema.String, id: Schema.String },
      { reply: Schema.Void, refusal: UnknownResponse }
    ),
    /** A response was accepted (background) or reached its end. */
    Commit: command(committed.fields, { reply: Schema.Void, refusal: UnknownResponse }),
    Delete: command(
      { owner: Schema.String, id: Schema.String },
      { reply: Schema.Void, refusal: UnknownResponse }
    ),
    /** Room is wanted. */
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
      Delete: unknown,
      Evict: () => reply(false),
      Expire: done,
      Commit: (_, given, { nowMs }) =>
        persist(eventOf(given, nowMs))
          .with(counted(1), ...rowsOf(given))
          .reply(undefined)
    },
    Active: {
      Begin: (state, { owner, previousId, holdMs }, { nowMs }) => {
        const known = state.responses[previousId]
        if (
          nowMs >= dueMs(state) ||
          state.owner !== owner ||
          known === undefined ||
          known.hidden ||
          known.status === "failed"
        )
          return refuse({ _tag: "ResponseUnknown" })
        if (known.status === "queued" || known.status === "in_progress")
          return refuse({ _tag: "ResponseNotReady" })
        return dueMs(state) - nowMs < holdMs
          ? persist({ _tag: "Held", untilMs: nowMs + holdMs }).reply(undefined)
          : reply(undefined)
      },
      Inspect: (state, { owner, id }, { nowMs }) =>
        nowMs >= dueMs(state) ||
        state.owner !== owner ||
        state.responses[id] === undefined ||
        state.responses[id].hidden
          ? refuse({ _tag: "ResponseUnknown" })
          : reply(undefined),
      Commit: (state, given, { nowMs }) =>
        state.responses[given.id]?.hidden === true
          ? refuse({ _tag: "ResponseUnknown" })
          : persist(eventOf(given, nowMs))
              .with(...rowsOf(given), ...stale(state, given))
              .reply(undefined),
      Delete: (state, { owner, id }, { nowMs }) => {
        const known = state.responses[id]
        if (nowMs >= dueMs(state) || state.owner !== owner || known === undefined || known.hidden)
          return refuse({ _tag: "ResponseUnknown" })
        const left = Object.entries(state.responses).some(([other, { hidden }]) => other !== id && !hidden)
        return left
          ? persist({ _tag: "Deleted", id })
              .with(BackgroundWork.delete([id]))
              .reply(undefined)
          : ended(state, "deleted").reply(undefined)
      },
      Evict: (state) => ended(state, "lru").reply(true),
      Expire: (state, _, { nowMs }) =>
        nowMs >= dueMs(state) ? ended(state, "retention").reply(undefined) : reply(undefined)
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
