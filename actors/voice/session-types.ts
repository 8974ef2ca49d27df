/** The types that a voice session's actor, its pipeline and its connection share: the configuration, the
 *  utterances, the events on the lane out, and the engines. The schemas are stored in the session's journal,
 *  so their field names must not change. Source: docs/spec/translation.md, section 12. */
import { Context, type Effect, Schema } from "effect"
import type { EngineFault, Engines, TranslateRequest, TranslateResult } from "../engines/ports.ts"

export const VoiceConfig = Schema.Struct({
  accountId: Schema.String,
  keyId: Schema.String,
  contentType: Schema.String,
  format: Schema.Literals(["json", "msgpack"]),
  /** Languages are stored as the client spelled them. */
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

export type VoiceConfig = typeof VoiceConfig.Type

/** Times are in ms of the session's audio. `language` is the detected one where the text is the source's. */
export const Utterance = Schema.Struct({
  text: Schema.String,
  startMs: Schema.Int,
  endMs: Schema.Int,
  language: Schema.String
})

export type Utterance = typeof Utterance.Type

/** An utterance that is concluded and not yet delivered. `to` names the transcript: "" is the source's, any
 *  other is a target as the client spelled it. */
export const Undelivered = Schema.Struct({ to: Schema.String, spoken: Utterance })

export type Undelivered = typeof Undelivered.Type

/** A chunk holds its bytes as they arrived. */
export type AudioChunk = Uint8Array

/** A session fails by its audio (the decoder's AudioFault) or by an engine (an EngineFault). */
export type VoiceFault = "audio" | "engine"

export type SessionEvent =
  /** The text replaces all tentative text of its transcript; "" is the source's. */
  | { readonly _tag: "Tentative"; readonly transcript: string; readonly utterance: Utterance }
  /** The bell: concluded text is durable and waits, so the connection requests it from the actor by
   *  Deliver. */
  | { readonly _tag: "Concluded" }
  | {
      readonly _tag: "Media"
      readonly language: string
      readonly packets: ReadonlyArray<Uint8Array>
      readonly headers: ReadonlyArray<Uint8Array>
      readonly durationMs: number
      readonly text: string
    }
  /** `ms` counts the sound decoded since the last of these, for types whose length only the decoder knows. */
  | { readonly _tag: "Decoded"; readonly ms: number }
  /** The last bell: any text that is left waits in the actor, and no event follows this one. */
  | { readonly _tag: "Finished" }
  | { readonly _tag: "Fault"; readonly fault: VoiceFault; readonly cause?: unknown }

/** The service implements this above the engines, for sessions that name a glossary or spoken terms. */
export interface VoiceCustomizations {
  readonly translate: (
    config: VoiceConfig,
    request: TranslateRequest
  ) => Effect.Effect<TranslateResult, EngineFault>
  readonly hints: (config: VoiceConfig, language: string | undefined) => ReadonlyArray<string>
}

export interface SessionEngines extends Engines {
  readonly customizations?: VoiceCustomizations
}

export class VoiceEngines extends Context.Service<VoiceEngines, SessionEngines>()("actors/VoiceEngines") {}
