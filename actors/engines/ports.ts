/** The engine ports: what the services may request from an engine, whichever it is. This module holds pure
 *  types and faults. Interrupting the fiber of a call cancels it. Source: docs/spec/engines.md, section
 *  11. */
import { Data, type Effect, type Stream } from "effect"

/** A language as a lower-case base code or BCP 47 code (`en`, `pt-br`, `zh-hant`). Source:
 *  docs/spec/translation.md, appendix A. */
export type Language = string

export interface EngineInfo {
  readonly id: string
  readonly version: string
  readonly tier: "embedded" | "local" | "remote"
  readonly licence: string
}

/** Says whether an engine can be used. `reason` is one line for the operator: what is missing and how to get
 *  it. */
export type Readiness = { readonly ready: true } | { readonly ready: false; readonly reason: string }

export class EngineFault extends Data.TaggedError("EngineFault")<{
  /** `unsupported`: the engine can never do it. `overloaded`: its queue is full. `timeout`: it missed its
   *  deadline. `crashed`: its process or worker died. `upstream`: a remote engine failed. `bad-input`: the
   *  input is at fault. */
  readonly reason:
    | "unsupported"
    | "overloaded"
    | "timeout"
    | "crashed"
    | "upstream"
    | "bad-input"
    | "unavailable"
  readonly engine: string
  readonly detail: string
}> {
  override get message(): string {
    return `${this.engine} (${this.reason}): ${this.detail}`
  }
}

/** True when one more try may succeed, with the same engine restarted or with the next one. */
export const retryable = (fault: EngineFault): boolean =>
  fault.reason !== "bad-input" && fault.reason !== "unsupported"

export interface Engine {
  readonly info: EngineInfo
  readonly readiness: () => Readiness
}

/** A unit of a segment. A segment is a sentence or other piece that is translated as one; markup and
 *  placeholders are opaque units, which come back once each, unchanged. */
export type SegmentUnit =
  | { readonly _tag: "text"; readonly text: string }
  | { readonly _tag: "opaque"; readonly id: number }

export interface EngineSegment {
  readonly units: ReadonlyArray<SegmentUnit>
}

export type Formality = "default" | "more" | "less"

export interface TranslateRequest {
  readonly source: Language
  readonly target: Language
  readonly segments: ReadonlyArray<EngineSegment>
  readonly context?: string
  readonly formality?: Formality
  readonly instructions?: ReadonlyArray<string>
}

export interface TranslateResult {
  /** The translations, one per segment, in the same order. */
  readonly segments: ReadonlyArray<EngineSegment>
  /** The id of the engine that answered. */
  readonly engine: string
}

export interface Translator extends Engine {
  readonly supports: (source: Language, target: Language) => "direct" | "pivot" | false
  /** Returns every ordered pair that is available now, in base codes, pivots included. */
  readonly pairs: () => ReadonlyArray<readonly [Language, Language]>
  readonly formality: (target: Language) => boolean
  /** True when its answers are returned unchanged: no capital letter or end mark is repaired. */
  readonly verbatim?: boolean
  readonly translate: (request: TranslateRequest) => Effect.Effect<TranslateResult, EngineFault>
}

export interface Detection {
  readonly language: Language | undefined
  readonly confidence: number
  readonly reliable: boolean
}

/** Detects languages synchronously, within microseconds. `together` holds the other texts of the same
 *  request, which help when one alone is unreliable. */
export interface Detector extends Engine {
  readonly detect: (text: string, together?: ReadonlyArray<string>) => Detection
}

/** 16-bit mono PCM at 16 kHz. */
export type Pcm = Int16Array

/** A recognized word; times are in ms from the first sample of this recognition. */
export interface Word {
  readonly text: string
  readonly startMs: number
  readonly endMs: number
}

export type RecognitionEvent =
  /** A tentative text, which replaces the previous partial and may be replaced in turn. */
  | {
      readonly _tag: "partial"
      readonly text: string
      readonly startMs: number
      readonly endMs: number
      readonly language: Language
    }
  /** The final text of an utterance, which never changes. `text` is a cased, punctuated sentence or phrase
   *  without leading blank. */
  | {
      readonly _tag: "final"
      readonly text: string
      readonly startMs: number
      readonly endMs: number
      readonly language: Language
      readonly words?: ReadonlyArray<Word>
    }
  /** Reports that no further speech will come before this time: the speech still to be recognized starts
   *  later. */
  | { readonly _tag: "silence"; readonly untilMs: number }

export interface Recognizer extends Engine {
  /** Returns the languages that it recognizes; empty when it is not ready. */
  readonly languages: () => ReadonlyArray<Language>
  /** True when it detects the language by itself. */
  readonly detects: boolean
  /** True when it makes use of `hints`. */
  readonly takesHints?: boolean
  readonly capacity: () => { readonly used: number; readonly max: number }
  /** Runs one recognition: it takes batches of PCM and emits events until the audio ends and the last final
   *  is out. When its process crashes it fails with `crashed`; the caller recognizes again from where the
   *  last final ended. */
  readonly recognize: (
    audio: Stream.Stream<Pcm>,
    options: { readonly language: Language | undefined; readonly hints?: ReadonlyArray<string> }
  ) => Stream.Stream<RecognitionEvent, EngineFault>
}

/** Decodes any supported content type to 16 kHz mono. A session has one decoder; chunks may be cut
 *  anywhere. */
export interface AudioDecoder {
  /** Throws AudioFault when the bytes cannot be the declared format. */
  push(chunk: Uint8Array): Promise<ReadonlyArray<Pcm>> | ReadonlyArray<Pcm>
  flush(): Promise<ReadonlyArray<Pcm>> | ReadonlyArray<Pcm>
  close(): void
}

export class AudioFault extends Data.TaggedError("AudioFault")<{ readonly detail: string }> {}

export interface Speech {
  readonly pcm: Int16Array
  readonly rate: number
}

export interface Synthesizer extends Engine {
  readonly languages: () => ReadonlyArray<Language>
  /** Synthesizes mono 16-bit speech without leading or trailing silence. */
  readonly speak: (
    text: string,
    options: { readonly language: Language; readonly voice?: "male" | "female" }
  ) => Effect.Effect<Speech, EngineFault>
}

/** Replaces a range of a text (UTF-16 offsets) by another text. */
export interface Edit {
  readonly from: number
  readonly to: number
  readonly text: string
  readonly kind: "spelling" | "grammar" | "punctuation" | "style"
}

export interface Corrector extends Engine {
  /** Returns the supported languages as base codes. */
  readonly languages: () => ReadonlyArray<Language>
  /** Returns edits in order, not overlapping. `language` may be a variant (`en-gb`). */
  readonly correct: (text: string, language: Language) => Effect.Effect<ReadonlyArray<Edit>, EngineFault>
}

export interface RephraseOptions {
  readonly language: Language
  /** A writing style, for example `academic`. */
  readonly style: string | undefined
  /** A tone, for example `friendly`. */
  readonly tone: string | undefined
}

export interface Rephraser extends Engine {
  readonly languages: () => ReadonlyArray<Language>
  /** True when style and tone make a difference in this language. */
  readonly styles: (language: Language) => boolean
  readonly rephrase: (text: string, how: RephraseOptions) => Effect.Effect<string, EngineFault>
}

/** All engines of one process, as the services see them: each port has a router, which uses the first engine
 *  that is ready and supports the request. */
export interface Engines {
  readonly translator: Translator
  readonly detector: Detector
  readonly recognizer: Recognizer
  readonly synthesizer: Synthesizer
  readonly corrector?: Corrector
  readonly rephraser?: Rephraser
  /** Lists every engine, for /health/details and the console. */
  readonly all: () => ReadonlyArray<
    Engine & {
      readonly port: "translator" | "detector" | "recognizer" | "synthesizer" | "corrector" | "rephraser"
    }
  >
}
