/** One live voice session: audio comes in by one lane, what is heard and said leaves by another. Concluded
 *  text is durable before it is delivered, and marked delivered before it is sent, in the same turn: a crash
 *  of the process loses at most what that turn was writing, and doubles nothing. What a lost connection may
 *  have swallowed (sent, no pong since) is delivered again on the next. The session outlives its connections:
 *  after a lost one, the audio that has arrived goes on being heard.
 *  Source: translation sections 12 and 17. */
import { Schema } from "effect"
import { command, lane, defineActor, persist, refuse, reply } from "../runtime/actor.ts"
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

/** [keyed hash] → which session a token belongs to, until the session ends. */
export const VoiceTokens = table(
  "voice-tokens",
  Schema.Struct({
    sessionId: Schema.String,
    accountId: Schema.String,
    state: Schema.Literals(["fresh", "used", "outdated"]),
    issuedMs: Schema.Int
  })
)

/** A token must open its connection within this. */
export const connectWithinMs = 60_000

/** After the last disconnect a session can be resumed for this. */
export const resumableMs = 600_000

export const sessionMsMax = 86_400_000

/** Sessions reconnect now and then, not forever. */
const tokensMax = 256

const live = {
  config: VoiceConfig,
  token: Schema.String,
  tokens: Schema.Array(Schema.String),
  issuedMs: Schema.Int,
  createdMs: Schema.Int,
  /** The open connection's token, "" while there is none. */
  connection: Schema.String,
  disconnectedMs: Schema.Int,
  /** Where the concluded audio ends. */
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

/** The token was used twice or is outdated, and the session has ended by it. */
const TokenMisused = Schema.TaggedStruct("TokenMisused", {})

const sessionGone = () => refuse({ _tag: "SessionGone" })
const done = () => reply(undefined)

const rows = {
  fresh: (token: string, sessionId: string, { accountId }: VoiceConfig, issuedMs: number) =>
    VoiceTokens.put([token], { sessionId, accountId, state: "fresh", issuedMs }),
  mark: (token: string, sessionId: string, state: Live, as: "used" | "outdated") =>
    VoiceTokens.put([token], {
      sessionId,
      accountId: state.config.accountId,
      state: as,
      issuedMs: state.issuedMs
    })
}

const end = (state: Live) =>
  persist({ _tag: "Ended" }).with(...state.tokens.map((token) => VoiceTokens.delete([token])))

const endsAtMs = (state: Live): number =>
  Math.min(
    state.createdMs + sessionMsMax,
    state.connection !== ""
      ? Infinity
      : state.disconnectedMs > 0 && state.disconnectedMs >= state.issuedMs
        ? state.disconnectedMs + resumableMs
        : state.issuedMs + (state.disconnectedMs > 0 ? resumableMs : connectWithinMs)
  )

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
    /** The token's one WebSocket. */
    Connect: command(
      { token: Schema.String },
      {
        reply: Schema.Struct({ config: VoiceConfig, audioMs: Schema.Int, sourceEnded: Schema.Boolean }),
        refusal: Schema.Union([SessionGone, TokenMisused])
      }
    ),
    /** A new token for the shown one; a live connection ends by it. */
    Renew: command(
      { presented: Schema.String, token: Schema.String },
      { reply: Schema.Struct({ config: VoiceConfig }), refusal: Schema.Union([SessionGone, TokenMisused]) }
    ),
    Disconnect: command({ token: Schema.String }, { reply: Schema.Void }),
    Conclude: command({ utterance: Utterance }, { reply: Schema.Void }),
    Translate: command({ translated: Schema.Array(Undelivered) }, { reply: Schema.Void }),
    /** Everything concluded and undelivered, marked delivered: the asker sends it in the turn of the answer.
     *  */
    Deliver: command(
      { token: Schema.String },
      { reply: Schema.Struct({ undelivered: Schema.Array(Undelivered), finished: Schema.Boolean }) }
    ),
    /** Sent, but the connection went before the client had shown that it has read it. */
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
      Create: (_, { config, token }, { id, nowMs }) =>
        persist({ _tag: "Created", config, token, atMs: nowMs })
          .with(rows.fresh(token, id, config, nowMs))
          .reply(undefined),
      Connect: sessionGone,
      Renew: sessionGone,
      Disconnect: done,
      Conclude: done,
      Translate: done,
      Deliver: () => reply({ undelivered: [], finished: false }),
      Restore: done,
      EndSource: done,
      Finish: done,
      End: done,
      Expire: done
    },
    Live: {
      Create: done,
      Connect: (state, { token }, { id, nowMs }) => {
        if (token !== state.token || state.connection === token || state.connection !== "")
          return end(state).refuse({ _tag: "TokenMisused" })
        if (nowMs > state.issuedMs + connectWithinMs) return refuse({ _tag: "SessionGone" })
        return persist({ _tag: "Connected" })
          .with(rows.mark(token, id, state, "used"))
          .reply({ config: state.config, audioMs: state.audioMs, sourceEnded: state.sourceEnded })
      },
      Renew: (state, { presented, token }, { id, nowMs }) =>
        presented !== state.token || state.tokens.length >= tokensMax
          ? end(state).refuse({ _tag: "TokenMisused" })
          : persist({ _tag: "Renewed", token, atMs: nowMs })
              .with(rows.mark(presented, id, state, "outdated"), rows.fresh(token, id, state.config, nowMs))
              .reply({ config: state.config }),
      Disconnect: (state, { token }, { nowMs }) =>
        state.connection === token
          ? persist({ _tag: "Disconnected", atMs: nowMs }).reply(undefined)
          : reply(undefined),
      Conclude: (_, { utterance }) => persist({ _tag: "Concluded", spoken: utterance }).reply(undefined),
      Translate: (_, { translated }) => persist({ _tag: "Translated", said: translated }).reply(undefined),
      Deliver: ({ connection, undelivered, finished }, { token }) =>
        connection !== token || undelivered.length === 0
          ? reply({ undelivered: [], finished: finished && connection === token })
          : persist({ _tag: "Delivered" }).reply({ undelivered, finished }),
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
      Deliver: () => reply({ undelivered: [], finished: false }),
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

function change(state: State, by: (state: Live) => Partial<Live>): State {
  return state._tag === "Live" ? { ...state, ...by(state) } : state
}
