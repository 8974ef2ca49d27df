/** One live voice session: audio comes in by one lane, transcripts and speech go out by another. Concluded
 *  text is durable before it is delivered, and marked delivered before it is sent, in the same turn: a crash
 *  of the process loses at most what that turn was writing, and duplicates nothing. Text that a lost
 *  connection may not have brought to the client (sent, no pong since) is delivered again on the next one.
 *  The session outlives its connections: after a connection is lost, the audio that has arrived is recognized
 *  to its end. Source: docs/spec/translation.md, sections 12 and 17. */
import { Schema } from "effect"
import { command, defineActor, lane, persist, refuse, reply, type Facts } from "../runtime/actor.ts"
import { table } from "../storage/store.ts"
import { voicePipeline } from "./voice/pipeline.ts"
import {
  Undelivered,
  Utterance,
  VoiceConfig,
  type AudioChunk,
  type SessionEvent,
  type VoiceEngines
} from "./voice/session-types.ts"

/** [keyed hash of a token] → the session it belongs to, until the session ends. */
export const VoiceTokens = table(
  "voice-tokens",
  Schema.Struct({
    sessionId: Schema.String,
    accountId: Schema.String,
    state: Schema.Literals(["fresh", "used", "outdated"]),
    issuedMs: Schema.Int
  })
)

/** How long a token may wait before it opens its connection, in ms. */
export const connectWithinMs = 60_000

/** How long a session can be resumed after its last disconnect, in ms. */
export const resumableMs = 600_000

export const sessionMsMax = 86_400_000

/** Limits the tokens of a session, which may reconnect, but not endlessly. */
const tokensMax = 256

const live = {
  config: VoiceConfig,
  token: Schema.String,
  tokens: Schema.Array(Schema.String),
  issuedMs: Schema.Int,
  createdMs: Schema.Int,
  /** The open connection's token; "" when there is none. */
  connection: Schema.String,
  disconnectedMs: Schema.Int,
  /** The position where the concluded audio ends, in ms. */
  audioMs: Schema.Int,
  segments: Schema.Int,
  untranslated: Schema.Array(Utterance),
  undelivered: Schema.Array(Undelivered),
  sourceEnded: Schema.Boolean,
  finished: Schema.Boolean
}

const State = Schema.TaggedUnion({ Absent: {}, Live: live, Ended: {} })
type State = typeof State.Type
type Live = Extract<State, { _tag: "Live" }>

const SessionGone = Schema.TaggedStruct("SessionGone", {})

/** The token was used twice or is outdated, and that has ended the session. */
const TokenMisused = Schema.TaggedStruct("TokenMisused", {})

const sessionGone = () => refuse({ _tag: "SessionGone" })
const done = () => reply(undefined)

const issueToken = (token: string, { accountId }: VoiceConfig, { id, nowMs }: Facts) =>
  VoiceTokens.put([token], { sessionId: id, accountId, state: "fresh", issuedMs: nowMs })

const markToken = (live: Live, tokenState: "used" | "outdated", { id }: Facts) =>
  VoiceTokens.put([live.token], {
    sessionId: id,
    accountId: live.config.accountId,
    state: tokenState,
    issuedMs: live.issuedMs
  })

const end = (state: Live) =>
  persist({ _tag: "Ended" }).with(...state.tokens.map((token) => VoiceTokens.delete([token])))

/** Returns until when a session without a connection waits for one: the first must come within a minute, a
 *  later one within ten, counted from the disconnect or from the newest token, whichever came last. */
const waitsUntilMs = ({ connection, disconnectedMs, issuedMs }: Live): number => {
  if (connection !== "") return Infinity
  return disconnectedMs === 0 ? issuedMs + connectWithinMs : Math.max(disconnectedMs, issuedMs) + resumableMs
}

const endsAtMs = (state: Live): number => Math.min(state.createdMs + sessionMsMax, waitsUntilMs(state))

const connect = (state: Live, { token }: { readonly token: string }, facts: Facts) => {
  if (token !== state.token || state.connection !== "") return end(state).refuse({ _tag: "TokenMisused" })
  if (facts.nowMs > state.issuedMs + connectWithinMs) return sessionGone()
  return persist({ _tag: "Connected" })
    .with(markToken(state, "used", facts))
    .reply({ config: state.config, audioMs: state.audioMs, sourceEnded: state.sourceEnded })
}

interface Renewal {
  readonly presented: string
  readonly token: string
}

const renew = (state: Live, { presented, token }: Renewal, facts: Facts) =>
  presented !== state.token || state.tokens.length >= tokensMax
    ? end(state).refuse({ _tag: "TokenMisused" })
    : persist({ _tag: "Renewed", token, atMs: facts.nowMs })
        .with(markToken(state, "outdated", facts), issueToken(token, state.config, facts))
        .reply({ config: state.config })

const deliver = ({ connection, undelivered, finished }: Live, { token }: { readonly token: string }) =>
  connection !== token || undelivered.length === 0
    ? reply({ undelivered: [], finished: finished && connection === token })
    : persist({ _tag: "Delivered" }).reply({ undelivered, finished })

const nothingToDeliver = () => reply({ undelivered: [], finished: false })

export const VoiceSession = defineActor("voice-session", {
  state: State,
  event: Schema.TaggedUnion({
    Created: { config: VoiceConfig, token: Schema.String, atMs: Schema.Int },
    Connected: {},
    Disconnected: { atMs: Schema.Int },
    Renewed: { token: Schema.String, atMs: Schema.Int },
    Concluded: { spoken: Utterance },
    Translated: { said: Schema.Array(Undelivered) },
    Delivered: {},
    Restored: { said: Schema.Array(Undelivered) },
    SourceEnded: {},
    Finished: {},
    Ended: {}
  }),
  commands: {
    Create: command({ config: VoiceConfig, token: Schema.String }, { reply: Schema.Void }),
    /** Opens the WebSocket of a token, which can do so once. */
    Connect: command(
      { token: Schema.String },
      {
        reply: Schema.Struct({ config: VoiceConfig, audioMs: Schema.Int, sourceEnded: Schema.Boolean }),
        refusal: Schema.Union([SessionGone, TokenMisused])
      }
    ),
    /** Exchanges the newest token for a new one, which ends a live connection. */
    Renew: command(
      { presented: Schema.String, token: Schema.String },
      { reply: Schema.Struct({ config: VoiceConfig }), refusal: Schema.Union([SessionGone, TokenMisused]) }
    ),
    Disconnect: command({ token: Schema.String }, { reply: Schema.Void }),
    Conclude: command({ utterance: Utterance }, { reply: Schema.Void }),
    Translate: command({ translated: Schema.Array(Undelivered) }, { reply: Schema.Void }),
    /** Replies with all concluded text that was not delivered, and marks it delivered: the caller sends it in
     *  the turn of the answer. */
    Deliver: command(
      { token: Schema.String },
      { reply: Schema.Struct({ undelivered: Schema.Array(Undelivered), finished: Schema.Boolean }) }
    ),
    /** Puts back text that was sent, but whose connection closed before the client confirmed that it had read
     *  it. */
    Restore: command({ undelivered: Schema.Array(Undelivered) }, { reply: Schema.Void }),
    EndSource: command({}, { reply: Schema.Void }),
    Finish: command({}, { reply: Schema.Void }),
    End: command({}, { reply: Schema.Void }),
    Expire: command({}, { reply: Schema.Void })
  },
  lanes: {
    audio: lane.in<AudioChunk>({ capacity: 1_024, whenFull: "refuse" }),
    events: lane.out<SessionEvent>({ capacity: 512, whenFull: "wait" })
  },
  keep: "journal",
  snapshotEvery: 64,
  mailbox: { capacity: 64 },
  restart: { times: 5, within: "1 minute" },
  passivateAfter: "1 minute",
  expiresAt: (state) => (state._tag === "Live" ? endsAtMs(state) : undefined),
  endsIn: ["Ended"]
}).behaves<VoiceEngines>({
  initial: { _tag: "Absent" },
  on: {
    Absent: {
      Create: (_, { config, token }, facts) =>
        persist({ _tag: "Created", config, token, atMs: facts.nowMs })
          .with(issueToken(token, config, facts))
          .reply(undefined),
      Connect: sessionGone,
      Renew: sessionGone,
      Disconnect: done,
      Conclude: done,
      Translate: done,
      Deliver: nothingToDeliver,
      Restore: done,
      EndSource: done,
      Finish: done,
      End: done,
      Expire: done
    },
    Live: {
      Create: done,
      Connect: connect,
      Renew: renew,
      Disconnect: (state, { token }, { nowMs }) =>
        state.connection === token
          ? persist({ _tag: "Disconnected", atMs: nowMs }).reply(undefined)
          : reply(undefined),
      Conclude: (_, { utterance }) => persist({ _tag: "Concluded", spoken: utterance }).reply(undefined),
      Translate: (_, { translated }) => persist({ _tag: "Translated", said: translated }).reply(undefined),
      Deliver: deliver,
      Restore: (_, { undelivered }) => persist({ _tag: "Restored", said: undelivered }).reply(undefined),
      EndSource: ({ sourceEnded }) =>
        sourceEnded ? reply(undefined) : persist({ _tag: "SourceEnded" }).reply(undefined),
      Finish: ({ finished }) =>
        finished ? reply(undefined) : persist({ _tag: "Finished" }).reply(undefined),
      End: (state) => end(state).reply(undefined),
      Expire: (state, _, { nowMs }) =>
        nowMs >= endsAtMs(state) ? end(state).reply(undefined) : reply(undefined)
    },
    Ended: {
      Create: done,
      Connect: sessionGone,
      Renew: sessionGone,
      Disconnect: done,
      Conclude: done,
      Translate: done,
      Deliver: nothingToDeliver,
      Restore: done,
      EndSource: done,
      Finish: done,
      End: done,
      Expire: done
    }
  },
  evolve: {
    Created: (_, { config, token, atMs }) => ({
      _tag: "Live",
      config,
      token,
      tokens: [token],
      issuedMs: atMs,
      createdMs: atMs,
      connection: "",
      disconnectedMs: 0,
      audioMs: 0,
      segments: 0,
      untranslated: [],
      undelivered: [],
      sourceEnded: false,
      finished: false
    }),
    Connected: (state) => change(state, ({ token }) => ({ connection: token })),
    Disconnected: (state, { atMs }) => change(state, () => ({ connection: "", disconnectedMs: atMs })),
    Renewed: (state, { token, atMs }) =>
      change(state, ({ tokens, connection, disconnectedMs }) => ({
        token,
        tokens: [...tokens, token],
        issuedMs: atMs,
        connection: "",
        disconnectedMs: connection !== "" ? atMs : disconnectedMs
      })),
    Concluded: (state, { spoken }) =>
      change(state, ({ config, segments, untranslated, undelivered }) => ({
        segments: segments + 1,
        audioMs: spoken.endMs,
        untranslated: config.targets.length === 0 ? untranslated : [...untranslated, spoken],
        undelivered: [...undelivered, { to: "", spoken }]
      })),
    Translated: (state, { said }) =>
      change(state, ({ untranslated, undelivered }) => ({
        untranslated: untranslated.slice(1),
        undelivered: [...undelivered, ...said]
      })),
    Delivered: (state) => change(state, () => ({ undelivered: [] })),
    Restored: (state, { said }) =>
      change(state, ({ undelivered }) => ({ undelivered: [...said, ...undelivered] })),
    SourceEnded: (state) => change(state, () => ({ sourceEnded: true })),
    Finished: (state) => change(state, () => ({ finished: true })),
    Ended: () => ({ _tag: "Ended" })
  },
  activity: { Live: (state, self) => voicePipeline(state, self) }
})

function change(state: State, update: (state: Live) => Partial<Live>): State {
  return state._tag === "Live" ? { ...state, ...update(state) } : state
}
