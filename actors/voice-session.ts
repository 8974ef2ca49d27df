/** One live voice session: audio comes in by one lane, what is heard and said leaves by another. Concluded
 *  text is durable before it is delivered, and marked delivered before it is sent, in the same turn: a crash
 *  of the process loses at most what that turn was writing, and doubles nothing. What a lost connection may
 *  have swallowed (sent, no pong since) is delivered again on the next. The session outlives its connections:
 *  after a lost one, the audio that has arrived goes on being heard.
 *  Source: translation sections 12 and 17. */
import { Context, type Effect, Schema } from "effect"
import { command, lane, defineActor, persist, refuse, reply } from "../runtime/actor.ts"
import { table } from "../storage/store.ts"
import type { EngineFault, Engines, TranslateRequest, TranslateResult } from "./engines/ports.ts"
import { hearing, type AudioChunk, type SessionEvent } from "./voice/pipeline.ts"

export const Config = Schema.Struct({
  accountId: Schema.String,
  keyId: Schema.String,
  contentType: Schema.String,
  format: Schema.Literals(["json", "msgpack"]),
  /** As the client spelled them. */
  sourceLanguage: Schema.NullOr(Schema.String),
  fixed: Schema.Boolean,
  targets: Schema.Array(Schema.String),
  mediaTargets: Schema.Array(Schema.String),
  mediaType: Schema.String,
  voice: Schema.NullOr(Schema.Literals(["male", "female"])),
  formality: Schema.Literals(["default", "more", "less"]),
  tag: Schema.NullOr(Schema.String),
  glossaryId: Schema.optional(Schema.String),
  spokenTermsId: Schema.optional(Schema.String)
})

export type Config = typeof Config.Type

/** Times in ms of the session's audio. `language` is the detected one, of source segments. */
export const Utterance = Schema.Struct({
  text: Schema.String,
  startMs: Schema.Int,
  endMs: Schema.Int,
  language: Schema.String
})

export type Utterance = typeof Utterance.Type

/** Concluded and not yet delivered; `to`: "" is the source transcript, else a target as the client spelled
 *  it. */
const Undelivered = Schema.Struct({ to: Schema.String, spoken: Utterance })

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
  config: Config,
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

const Gone = Schema.TaggedStruct("SessionGone", {})

/** Token used twice or outdated: the session has ended by it. */
const Misused = Schema.TaggedStruct("TokenMisused", {})

const gone = () => refuse({ _tag: "SessionGone" })
const done = () => reply(undefined)

const rows = {
  fresh: (token: string, sessionId: string, { accountId }: Config, issuedMs: number) =>
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

/** The engines, and what stands above them for a session that names a glossary or spoken terms. */
export interface SessionEngines extends Engines {
  readonly aids?: {
    readonly translate: (
      named: Config,
      request: TranslateRequest
    ) => Effect.Effect<TranslateResult, EngineFault>
    readonly hints: (named: Config, language: string | undefined) => ReadonlyArray<string>
  }
}

export class VoiceEngines extends Context.Service<VoiceEngines, SessionEngines>()("actors/VoiceEngines") {}

export const VoiceSession = defineActor("voice-session", {
  state: State,
  event: Schema.TaggedUnion({
    Created: { config: Config, token: Schema.String, atMs: Schema.Int },
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
    Create: command({ config: Config, token: Schema.String }, { reply: Schema.Void }),
    /** The token's one WebSocket. */
    Connect: command(
      { token: Schema.String },
      {
        reply: Schema.Struct({ config: Config, audioMs: Schema.Int, sourceEnded: Schema.Boolean }),
        refusal: Schema.Union([Gone, Misused])
      }
    ),
    /** A new token for the shown one; a live connection ends by it. */
    Renew: command(
      { shown: Schema.String, token: Schema.String },
      { reply: Schema.Struct({ config: Config }), refusal: Schema.Union([Gone, Misused]) }
    ),
    Disconnect: command({ token: Schema.String }, { reply: Schema.Void }),
    Conclude: command({ spoken: Utterance }, { reply: Schema.Void }),
    Translate: command({ said: Schema.Array(Undelivered) }, { reply: Schema.Void }),
    /** Everything concluded and undelivered, marked delivered: the asker sends it in the turn of the answer.
     *  */
    Deliver: command(
      { token: Schema.String },
      { reply: Schema.Struct({ said: Schema.Array(Undelivered), finished: Schema.Boolean }) }
    ),
    /** Sent, but the connection went before the client had shown that it has read it. */
    Restore: command({ said: Schema.Array(Undelivered) }, { reply: Schema.Void }),
    EndSource: command({}, { reply: Schema.Void }),
    Finish: command({}, { reply: Schema.Void }),
    End: command({}, { reply: Schema.Void }),
    Expire: command({}, { reply: Schema.Void })
  },
  lanes: {
    audio: lane.in<AudioChunk>({ capacity: 1_024, whenFull: "refuse" }),
    said: lane.out<SessionEvent>({ capacity: 512, whenFull: "wait" })
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
      Connect: gone,
      Renew: gone,
      Disconnect: done,
      Conclude: done,
      Translate: done,
      Deliver: () => reply({ said: [], finished: false }),
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
      Renew: (state, { shown, token }, { id, nowMs }) =>
        shown !== state.token || state.tokens.length >= tokensMax
          ? end(state).refuse({ _tag: "TokenMisused" })
          : persist({ _tag: "Renewed", token, atMs: nowMs })
              .with(rows.mark(shown, id, state, "outdated"), rows.fresh(token, id, state.config, nowMs))
              .reply({ config: state.config }),
      Disconnect: (state, { token }, { nowMs }) =>
        state.connection === token
          ? persist({ _tag: "Disconnected", atMs: nowMs }).reply(undefined)
          : reply(undefined),
      Conclude: (_, { spoken }) => persist({ _tag: "Concluded", spoken }).reply(undefined),
      Translate: (_, { said }) => persist({ _tag: "Translated", said }).reply(undefined),
      Deliver: ({ connection, undelivered, finished }, { token }) =>
        connection !== token || undelivered.length === 0
          ? reply({ said: [], finished: finished && connection === token })
          : persist({ _tag: "Delivered" }).reply({ said: undelivered, finished }),
      Restore: (_, { said }) => persist({ _tag: "Restored", said }).reply(undefined),
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
      Connect: gone,
      Renew: gone,
      Disconnect: done,
      Conclude: done,
      Translate: done,
      Deliver: () => reply({ said: [], finished: false }),
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
  activity: { Live: (state, self) => hearing(state, self, VoiceEngines) }
})

function change(state: State, by: (state: Live) => Partial<Live>): State {
  return state._tag === "Live" ? { ...state, ...by(state) } : state
}
