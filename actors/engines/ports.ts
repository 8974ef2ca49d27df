/** Engine ports: what the services may ask of an engine, whoever it is, as pure types and faults. It is
 *  guaranteed that interrupting a call's fiber cancels it. Source: docs/spec/engines.md, section 11. */
import { Data, type Effect, type Stream } from "effect"

/** A base or BCP 47 code in lower case (`en`, `pt-br`, `zh-hant`), as in docs/spec/translation.md,
 *  appendix A. */
export type Language = string

export interface EngineInfo {
  readonly id: string
  readonly version: string
  readonly tier: "embedded" | "local" | "remote"
  readonly licence: string
}

/** `reason` is one clear line for the operator: what is missing and how to get it. */
export type Readiness = { readonly ready: true } | { readonly ready: false; readonly reason: string }

export class EngineFault extends Data.TaggedError("EngineFault")<{
  /** `unsupported`: it never will; `overloaded`: its queue is full; `crashed`: its process or worker died;
   *  `upstream`: a remote engine failed. */
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
  /** What was thrown below, for the log. */
  readonly cause?: unknown
}> {
  override get message(): string {
    return `${this.engine} (${this.reason}): ${this.detail}`
  }
}

/** True for a fault that is worth one more try, with the same engine restarted or the next one. */
export const retryable = (fault: EngineFault): boolean =>
  fault.reason !== "bad-input" && fault.reason !== "unsupported"

export interface Engine {
  readonly info: EngineInfo
  readonly readiness: () => Readiness
}

/** A piece of a segment. Markup and placeholders are opaque units, which come back once each, unchanged. */
export type SegmentUnit =
  | { readonly _tag: "text"; readonly text: string }
  | { readonly _tag: "opaque"; readonly id: number }

/** A sentence or other text that is translated as one. */
export interface EngineSegment {
  readonly units: ReadonlyArray<SegmentUnit>
}

export type Formality = "default" | "more" | "less"

export interface TranslateRequest {
  /** Whose request it is: engines that have a queue serve accounts in turn. */
  readonly account?: string
  readonly source: Language
  readonly target: Language
  readonly segments: ReadonlyArray<EngineSegment>
  readonly context?: string
  readonly formality?: Formality
  readonly instructions?: ReadonlyArray<string>
}

export interface TranslateResult {
  /** One per segment of the request, in the same order. */
  readonly segments: ReadonlyArray<EngineSegment>
  /** The id of the engine that answered. */
  readonly engine: string
}

export interface Translator extends Engine {
  readonly supports: (source: Language, target: Language) => "direct" | "pivot" | false
  /** Every ordered pair of base codes that it can do now, pivots included. */
  readonly pairs: () => ReadonlyArray<readonly [Language, Language]>
  readonly formality: (target: Language) => boolean
  /** Its answers are used as they are: no capital and no end mark is corrected. */
  readonly verbatim?: boolean
  readonly translate: (request: TranslateRequest) => Effect.Effect<TranslateResult, EngineFault>
}

export interface Detection {
  readonly language: Language | undefined
  readonly confidence: number
  readonly reliable: boolean
}

/** Answers synchronously, within microseconds. `together` is all texts of a request, which help when one
 *  alone is unreliable. */
export interface Detector extends Engine {
  readonly detect: (text: string, together?: ReadonlyArray<string>) => Detection
}

/** 16-bit mono PCM at 16 kHz. */
export type Pcm = Int16Array

/** A word and its times, in ms from the first sample of this recognition. */
export interface Word {
  readonly text: string
  readonly startMs: number
  readonly endMs: number
}

export type RecognitionEvent =
  /** Replaces the last partial, and may be replaced. */
  | {
      readonly _tag: "partial"
      readonly text: string
      readonly startMs: number
      readonly endMs: number
      readonly language: Language
    }
  /** Ends the utterance, and never changes. `text` is a sentence or phrase with case and punctuation. */
  | {
      readonly _tag: "final"
      readonly text: string
      readonly startMs: number
      readonly endMs: number
      readonly language: Language
      readonly words?: ReadonlyArray<Word>
    }
  /** Says that no speech will be reported before this time any more. */
  | { readonly _tag: "silence"; readonly untilMs: number }

export interface RecognizeOptions {
  readonly language: Language | undefined
  readonly hints?: ReadonlyArray<string>
  readonly lease?: RecognizerLease
}

/** Who wants a recognizer. Live speech has recognizers that jobs cannot take. */
export interface RecognizerClaim {
  readonly use: "live" | "job"
  readonly account: string
  /** Whoever is named here has one lease at most, and gets that when it asks again. */
  readonly owner: string
  readonly language: Language | undefined
  /** Goes before all that are not urgent: it had a lease and lost it. */
  readonly urgent?: boolean
}

/** The right to recognize one stream after the other, until it ends. */
export interface RecognizerLease {
  readonly ended: boolean
  /** True while somebody waits for what this lease holds: work that can pause should let go. */
  readonly contended: boolean
  /** Waits until the lease ends. */
  readonly end: Effect.Effect<void>
  /** Ends the lease so long from now, unless it is renewed again. */
  renew(ms: number): void
  release(): void
}

/** What a recognizer lends. */
export interface RecognizerPlaces {
  /** Lends at once; undefined when nothing is free, or somebody waits. */
  readonly reserve: (claim: RecognizerClaim) => RecognizerLease | undefined
  /** Lends in turn, round robin by account. The caller releases the lease, whatever happens to it. */
  readonly lease: (claim: RecognizerClaim) => Effect.Effect<RecognizerLease, EngineFault>
  readonly held: (owner: string) => RecognizerLease | undefined
  readonly waiting: (use: RecognizerClaim["use"]) => number
}

export interface Recognizer extends Engine {
  /** The languages it recognizes; none when it is not ready. */
  readonly languages: () => ReadonlyArray<Language>
  /** True when it can tell the language by itself. */
  readonly detects: boolean
  /** True when `hints` make a difference. */
  readonly takesHints?: boolean
  /** How many live recognitions there can be at once. */
  readonly capacity: () => { readonly used: number; readonly max: number }
  readonly places: RecognizerPlaces
  /** Recognizes one stream of PCM until the audio ends and the last final is out. A crash of its process
   *  fails with `crashed`; the caller may recognize again from where the last final ended. Without a lease it
   *  has a live place if one is free, and fails with `overloaded` otherwise. */
  readonly recognize: (
    audio: Stream.Stream<Pcm>,
    options: RecognizeOptions
  ) => Stream.Stream<RecognitionEvent, EngineFault>
}

/** Decodes the audio of one session, of whatever content type, to 16 kHz mono; chunks may be cut anywhere. */
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
  /** Speaks mono 16-bit sound without leading or trailing silence. */
  readonly speak: (
    text: string,
    options: { readonly language: Language; readonly voice?: "male" | "female" }
  ) => Effect.Effect<Speech, EngineFault>
}

/** A piece of a text (by UTF-16 offsets) and what should stand there instead. */
export interface Edit {
  readonly from: number
  readonly to: number
  readonly text: string
  readonly kind: "spelling" | "grammar" | "punctuation" | "style"
}

export interface Corrector extends Engine {
  /** The base codes of its languages. */
  readonly languages: () => ReadonlyArray<Language>
  /** Returns edits in order, without overlaps. `language` may be a variant (`en-gb`). */
  readonly correct: (text: string, language: Language) => Effect.Effect<ReadonlyArray<Edit>, EngineFault>
}

export interface RephraseOptions {
  readonly language: Language
  /** A writing style such as `academic`. */
  readonly style: string | undefined
  /** A tone such as `friendly`. */
  readonly tone: string | undefined
}

export interface Rephraser extends Engine {
  readonly languages: () => ReadonlyArray<Language>
  /** True when style and tone make a difference in this language. */
  readonly styles: (language: Language) => boolean
  readonly rephrase: (text: string, options: RephraseOptions) => Effect.Effect<string, EngineFault>
}

/** All engines of one process, as the services see them: a router per port, which takes the first that is
 *  ready and supports the request. */
export interface Engines {
  readonly translator: Translator
  readonly detector: Detector
  readonly recognizer: Recognizer
  readonly synthesizer: Synthesizer
  readonly corrector?: Corrector
  readonly rephraser?: Rephraser
  /** All engines, for /health/details and the console. */
  readonly all: () => ReadonlyArray<
    Engine & {
      readonly port: "translator" | "detector" | "recognizer" | "synthesizer" | "corrector" | "rephraser"
    }
  >
}
