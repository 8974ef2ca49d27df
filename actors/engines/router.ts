/** One engine per port as the services see it: of an ordered list the first that is ready and can, the
 *  next when that one fails in a way that another may not. It is guaranteed that an engine which fails
 *  five times in a row is not asked for half a minute. Source: docs/spec/engines.md, sections 11.1 and
 *  11.2. */
import { Effect, Stream } from "effect"
import {
  EngineFault,
  retryable,
  type Engine,
  type Language,
  type Recognizer,
  type RecognizerClaim,
  type RecognizerLease,
  type EngineSegment,
  type Synthesizer,
  type Translator,
  type SegmentUnit
} from "./ports.ts"

const failuresMax = 5
const openMs = 30_000

/** A breaker for each engine: it is closed, or open until a time. */
class Breakers {
  private readonly failures = new Map<string, { count: number; untilMs: number }>()
  private readonly nowMs: () => number

  constructor(nowMs: () => number) {
    this.nowMs = nowMs
  }

  closed(id: string): boolean {
    return (this.failures.get(id)?.untilMs ?? 0) <= this.nowMs()
  }

  failed(id: string): void {
    const record = this.failures.get(id) ?? { count: 0, untilMs: 0 }
    if (++record.count >= failuresMax) {
      record.untilMs = this.nowMs() + openMs
      record.count = 0
    }
    this.failures.set(id, record)
  }

  worked(id: string): void {
    if (this.failures.size > 0) this.failures.delete(id)
  }
}

const unavailable = (port: string, detail: string): EngineFault =>
  new EngineFault({ reason: "unavailable", engine: port, detail })

const reasons = (engines: ReadonlyArray<Engine>): string =>
  engines
    .map((engine) => {
      const readiness = engine.readiness()
      return readiness.ready ? "" : `${engine.info.id}: ${readiness.reason}`
    })
    .filter((line) => line !== "")
    .join("; ")

const readinessOf = (engines: ReadonlyArray<Engine>) => () =>
  engines.some((engine) => engine.readiness().ready)
    ? ({ ready: true } as const)
    : ({ ready: false, reason: reasons(engines) || "no engine is configured" } as const)

const infoOf = (port: string) => ({ id: port, version: "1", tier: "embedded" as const, licence: "MIT" })

const countWords = (text: string): number => text.match(/\S+/g)?.length ?? 0

interface WordCounts {
  /** Words before each opaque unit, by its id. */
  readonly before: ReadonlyMap<number, number>
  readonly all: number
}

const countsOf = ({ units }: EngineSegment): WordCounts => {
  const before = new Map<number, number>()
  let all = 0
  for (const unit of units)
    if (unit._tag === "text") all += countWords(unit.text)
    else before.set(unit.id, all)
  return { before, all }
}

/** Inserts an opaque unit where `share` of the words come before it. */
const inserted = (
  units: ReadonlyArray<SegmentUnit>,
  id: number,
  share: number
): ReadonlyArray<SegmentUnit> => {
  let left = Math.round(share * countsOf({ units }).all)
  if (left === 0) return [{ _tag: "opaque", id }, ...units]
  for (const [i, unit] of units.entries()) {
    if (unit._tag === "opaque") continue
    const here = countWords(unit.text)
    if (here < left) {
      left -= here
      continue
    }
    let end = 0
    for (const word of unit.text.matchAll(/\S+/g))
      if (left-- > 0) end = word.index + word[0].length
      else break
    const parts: ReadonlyArray<SegmentUnit> = [
      { _tag: "text", text: unit.text.slice(0, end) },
      { _tag: "opaque", id },
      { _tag: "text", text: unit.text.slice(end) }
    ]
    return [
      ...units.slice(0, i),
      ...parts.filter((part) => part._tag === "opaque" || part.text !== ""),
      ...units.slice(i + 1)
    ]
  }
  return [...units, { _tag: "opaque", id }]
}

/** Gives a translation every opaque unit of its source exactly once: strange ones and doubles are dropped,
 *  missing ones inserted after as large a share of the words. */
export const repaired = (source: EngineSegment, translation: EngineSegment): EngineSegment => {
  const wanted = source.units.flatMap((unit) => (unit._tag === "opaque" ? [unit.id] : []))
  if (wanted.length === 0 && translation.units.every(({ _tag: kind }) => kind === "text")) return translation
  const missing = new Set(wanted)
  let units: ReadonlyArray<SegmentUnit> = translation.units.filter(
    (unit) => unit._tag === "text" || missing.delete(unit.id)
  )
  if (missing.size === 0) return { units }
  const { before, all } = countsOf(source)
  // The last comes first, so that those which belong at one place stay in order.
  for (const id of [...missing].toReversed())
    units = inserted(units, id, all === 0 ? 1 : before.get(id)! / all)
  return { units }
}

export const translatorRouter = (engines: ReadonlyArray<Translator>, nowMs: () => number): Translator => {
  const breakers = new Breakers(nowMs)
  const enginesFor = (source: Language, target: Language) =>
    engines.filter(
      (engine) =>
        engine.readiness().ready &&
        breakers.closed(engine.info.id) &&
        engine.supports(source, target) !== false
    )
  return {
    info: infoOf("translator"),
    readiness: readinessOf(engines),
    supports: (source, target) => {
      let best: "direct" | "pivot" | false = false
      for (const engine of engines) {
        const support = engine.readiness().ready ? engine.supports(source, target) : false
        if (support === "direct") return support
        if (support !== false) best = support
      }
      return best
    },
    pairs: () => [
      ...new Map(
        engines.flatMap((engine) =>
          engine.readiness().ready ? engine.pairs().map((pair) => [pair.join(">"), pair] as const) : []
        )
      ).values()
    ],
    formality: (target) => engines.some((engine) => engine.readiness().ready && engine.formality(target)),
    translate: (request) =>
      Effect.suspend(() => {
        const able = enginesFor(request.source, request.target)
        const attempt = (at: number): ReturnType<Translator["translate"]> => {
          const engine = able[at]
          if (engine === undefined)
            return Effect.fail(
              unavailable(
                "translator",
                reasons(engines) || `nothing translates ${request.source} to ${request.target} now`
              )
            )
          return engine.translate(request).pipe(
            Effect.flatMap((result) => {
              if (result.segments.length !== request.segments.length)
                return Effect.fail(
                  new EngineFault({
                    reason: "upstream",
                    engine: engine.info.id,
                    detail: "not as many segments as asked for"
                  })
                )
              breakers.worked(engine.info.id)
              return Effect.succeed({
                ...result,
                segments: result.segments.map((segment, i) => repaired(request.segments[i]!, segment))
              })
            }),
            Effect.catch((fault: EngineFault) => {
              if (fault.reason === "bad-input") return Effect.fail(fault)
              // Too much at once is no failure, and a pair that has just been given up says nothing about
              // the others.
              if (fault.reason !== "overloaded" && fault.reason !== "unsupported")
                breakers.failed(engine.info.id)
              return at + 1 < able.length ? attempt(at + 1) : Effect.fail(fault)
            })
          )
        }
        return attempt(0)
      })
  }
}

export const recognizerRouter = (engines: ReadonlyArray<Recognizer>): Recognizer => {
  const ready = () => engines.filter((engine) => engine.readiness().ready)
  const able = (language: Language | undefined) =>
    ready().filter((engine) =>
      language === undefined
        ? engine.detects || engine.languages().length > 0
        : engine.languages().includes(language)
    )

  /** Whose places a lease is of. */
  const lenders = new WeakMap<RecognizerLease, Recognizer>()
  const lentBy = <L extends RecognizerLease | undefined>(engine: Recognizer, lease: L): L => {
    if (lease !== undefined) lenders.set(lease, engine)
    return lease
  }

  const held = (owner: string): RecognizerLease | undefined => {
    for (const engine of engines) {
      const lease = engine.places.held(owner)
      if (lease !== undefined) return lease
    }
    return undefined
  }

  const reserve = (claim: RecognizerClaim): RecognizerLease | undefined => {
    const existing = held(claim.owner)
    if (existing !== undefined) return existing
    for (const engine of able(claim.language)) {
      const lease = lentBy(engine, engine.places.reserve(claim))
      if (lease !== undefined) return lease
    }
    return undefined
  }

  const nothingRecognizes = (language: Language | undefined): EngineFault =>
    unavailable("recognizer", reasons(engines) || `nothing hears ${language ?? "that"} now`)

  return {
    info: infoOf("recognizer"),
    readiness: readinessOf(engines),
    languages: () => [...new Set(ready().flatMap((engine) => engine.languages()))],
    get detects() {
      return ready().some((engine) => engine.detects)
    },
    get takesHints() {
      return ready().some((engine) => engine.takesHints === true)
    },
    capacity: () =>
      ready().reduce(
        (sum, engine) => {
          const { used, max } = engine.capacity()
          return { used: sum.used + used, max: sum.max + max }
        },
        { used: 0, max: 0 }
      ),
    places: {
      reserve,
      held,
      waiting: (use) => engines.reduce((sum, engine) => sum + engine.places.waiting(use), 0),
      lease: (claim) =>
        Effect.suspend((): Effect.Effect<RecognizerLease, EngineFault> => {
          const lease = reserve(claim)
          if (lease !== undefined) return Effect.succeed(lease)
          const candidates = able(claim.language)
          const waiting = candidates.map((engine) => engine.places.waiting(claim.use))
          const engine = candidates[waiting.indexOf(Math.min(...waiting))]
          if (engine === undefined) return Effect.fail(nothingRecognizes(claim.language))
          return Effect.map(engine.places.lease(claim), (lent) => lentBy(engine, lent))
        })
    },
    recognize: (audio, options) =>
      Stream.suspend(() => {
        const { lease, language } = options
        const candidates = able(language)
        const engine =
          (lease === undefined ? undefined : lenders.get(lease)) ??
          candidates.find((candidate) => {
            const { used, max } = candidate.capacity()
            return used < max
          }) ??
          candidates[0]
        return engine === undefined
          ? Stream.fail(nothingRecognizes(language))
          : engine.recognize(audio, options)
      })
  }
}

export const synthesizerRouter = (engines: ReadonlyArray<Synthesizer>): Synthesizer => {
  const ready = () => engines.filter((engine) => engine.readiness().ready)
  return {
    info: infoOf("synthesizer"),
    readiness: readinessOf(engines),
    languages: () => [...new Set(ready().flatMap((engine) => engine.languages()))],
    speak: (text, options) =>
      Effect.suspend(() => {
        const base = options.language.split("-")[0]!
        const able = ready().filter((engine) => engine.languages().includes(base))
        const attempt = (at: number): ReturnType<Synthesizer["speak"]> => {
          const engine = able[at]
          if (engine === undefined)
            return Effect.fail(unavailable("synthesizer", `nothing speaks ${options.language} now`))
          return Effect.catch(engine.speak(text, options), (fault: EngineFault) =>
            retryable(fault) && at + 1 < able.length ? attempt(at + 1) : Effect.fail(fault)
          )
        }
        return attempt(0)
      })
  }
}
