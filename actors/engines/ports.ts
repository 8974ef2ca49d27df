/** Engine ports: what the services may ask of an engine, whoever it is. Pure types and faults; shapes and
 *  units as written.
 *  Source: spec engines section 11, design section 7. Interrupting a call's fiber cancels it. */
import { Data, type Effect, type Stream } from "effect"

/** Lower-case base or BCP 47 code as in translation appendix A (`en`, `pt-br`, `zh-hant`). */
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
  /** unsupported: never will; overloaded: queue full; timeout; crashed: its process or worker died; upstream:
   *  a remote one failed; bad-input. */
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

/** Worth one more try (same engine restarted, or the next one). */
export const retryable = (fault: EngineFault): boolean =>
  fault.reason !== "bad-input" && fault.reason !== "unsupported"

export interface Engine {
  readonly info: EngineInfo
  readonly readiness: () => Readiness
}

/** A sentence or other piece that is translated as one. Markup and placeholders are opaque units, which come
 *  back once each, unchanged. */
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
  /** One per segment, same order. */
  readonly segments: ReadonlyArray<EngineSegment>
  /** Id of the engine that answered. */
  readonly engine: string
}

export interface Translator extends Engine {
  readonly supports: (source: Language, target: Language) => "direct" | "pivot" | false
  /** Every ordered pair it can do now, base codes, pivots included. */
  readonly pairs: () => ReadonlyArray<readonly [Language, Language]>
  readonly formality: (target: Language) => boolean
  /** Its answers are given out as they are: no capital, no end mark is mended. */
  readonly verbatim?: boolean
  readonly translate: (request: TranslateRequest) => Effect.Effect<TranslateResult, EngineFault>
}

export interface Detection {
  readonly language: Language | undefined
  readonly confidence: number
  readonly reliable: boolean
}

/** Synchronous, microseconds. `together`: the other texts of the same request, used when one alone is
 *  unreliable. */
export interface Detector extends Engine {
  readonly detect: (text: string, together?: ReadonlyArray<string>) => Detection
}

/** 16-bit mono PCM at 16 kHz. */
export type Pcm = Int16Array

/** Times in ms from the first sample given to this hearing. */
export interface Word {
  readonly text: string
  readonly startMs: number
  readonly endMs: number
}

export type RecognitionEvent =
  /** Replaces the last partial; may be rewritten. */
  | {
      readonly _tag: "partial"
      readonly text: string
      readonly startMs: number
      readonly endMs: number
      readonly language: Language
    }
  /** Never changes; the utterance is over. `text` is a cased, punctuated sentence or phrase without leading
   *  blank. */
  | {
      readonly _tag: "final"
      readonly text: string
      readonly startMs: number
      readonly endMs: number
      readonly language: Language
      readonly words?: ReadonlyArray<Word>
    }
  /** No speech lies before this time any more: what is waiting starts later. */
  | { readonly _tag: "silence"; readonly untilMs: number }

export interface Recognizer extends Engine {
  /** Languages it hears; empty when not ready. */
  readonly languages: () => ReadonlyArray<Language>
  /** Whether it can tell the language by itself. */
  readonly detects: boolean
  /** Whether `hints` make a difference. */
  readonly takesHints?: boolean
  readonly capacity: () => { readonly used: number; readonly max: number }
  /** One hearing: batches of PCM in, what was heard out, until the audio ends and the last final is out.
   *  A crash of its process fails with `crashed`; the caller hears again from where the last final ended. */
  readonly recognize: (
    audio: Stream.Stream<Pcm>,
    options: { readonly language: Language | undefined; readonly hints?: ReadonlyArray<string> }
  ) => Stream.Stream<RecognitionEvent, EngineFault>
}

/** Anything a content type names → 16 kHz mono. One per session; chunks may split anywhere. */
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
  /** Mono 16-bit speech without leading or trailing silence. */
  readonly speak: (
    text: string,
    options: { readonly language: Language; readonly voice?: "male" | "female" }
  ) => Effect.Effect<Speech, EngineFault>
}

/** A piece of a text (UTF-16 offsets) and what should stand there. */
export interface Edit {
  readonly from: number
  readonly to: number
  readonly text: string
  readonly kind: "spelling" | "grammar" | "punctuation" | "style"
}

export interface Corrector extends Engine {
  /** Base codes. */
  readonly languages: () => ReadonlyArray<Language>
  /** `language` may be a variant (`en-gb`). Edits in order, not overlapping. */
  readonly correct: (text: string, language: Language) => Effect.Effect<ReadonlyArray<Edit>, EngineFault>
}

export interface RephraseOptions {
  readonly language: Language
  /** `academic`, … */
  readonly style: string | undefined
  /** `friendly`, … */
  readonly tone: string | undefined
}

export interface Rephraser extends Engine {
  readonly languages: () => ReadonlyArray<Language>
  /** Whether style and tone make a difference in this language. */
  readonly styles: (language: Language) => boolean
  readonly rephrase: (text: string, how: RephraseOptions) => Effect.Effect<string, EngineFault>
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
  /** Every engine, for /health/details and the console. */
  readonly all: () => ReadonlyArray<
    Engine & {
      readonly port: "translator" | "detector" | "recognizer" | "synthesizer" | "corrector" | "rephraser"
    }
  >
}
