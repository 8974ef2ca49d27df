/** The router presents an ordered list of engines as one engine per port: it uses the first that is ready and
 *  supports the request, and the next one when that fails in a way that another may not. An engine that fails
 *  five times in a row is skipped for half a minute. Source: docs/spec/engines.md, sections 11.1 and 11.2. */
import { Effect, Stream } from "effect"
import {
  EngineFault,
  retryable,
  type Engine,
  type Language,
  type Recognizer,
  type EngineSegment,
  type Synthesizer,
  type Translator,
  type SegmentUnit
} from "./ports.ts"

const failuresMax = 5
const restMs = 30_000

/** One circuit breaker per engine, which is closed or is open until a point in time. */
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
      record.untilMs = this.nowMs() + restMs
      record.count = 0
    }
    this.failures.set(id, record)
  }

  worked(id: string): void {
    if (this.failures.size > 0) this.failures.delete(id)
  }
}

const none = (port: string, detail: string): EngineFault =>
  new EngineFault({ reason: "unavailable", engine: port, detail })

const reasons = (engines: ReadonlyArray<Engine>): string =>
  engines
    .map((engine) => {
      const is = engine.readiness()
      return is.ready ? "" : `${engine.info.id}: ${is.reason}`
    })
    .filter((line) => line !== "")
    .join("; ")

const readinessOf = (engines: ReadonlyArray<Engine>) => () =>
  engines.some((engine) => engine.readiness().ready)
    ? ({ ready: true } as const)
    : ({ ready: false, reason: reasons(engines) || "no engine is configured" } as const)

const infoOf = (port: string) => ({ id: port, version: "1", tier: "embedded" as const, licence: "MIT" })

const words = (text: string): number => text.match(/\S+/g)?.length ?? 0

/** Counts the words before each opaque unit, and all words. */
const wordsBefore = ({
  units
}: EngineSegment): { readonly before: ReadonlyMap<number, number>; readonly all: number } => {
  const before = new Map<number, number>()
  let all = 0
  for (const unit of units)
    if (unit._tag === "text") all += words(unit.text)
    else before.set(unit.id, all)
  return { before, all }
}

/** Inserts a unit after `share` of the words. */
const inserted = (
  units: ReadonlyArray<SegmentUnit>,
  id: number,
  share: number
): ReadonlyArray<SegmentUnit> => {
  let left = Math.round(share * wordsBefore({ units }).all)
  if (left === 0) return [{ _tag: "opaque", id }, ...units]
  for (const [i, unit] of units.entries()) {
    if (unit._tag === "opaque") continue
    const here = words(unit.text)
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

/** Repairs a translation so that it holds every opaque unit of the source exactly once: unknown units and
 *  duplicates are removed, missing ones are inserted after the same share of the words as in the source. */
export const repaired = (source: EngineSegment, made: EngineSegment): EngineSegment => {
  const wanted = source.units.flatMap((unit) => (unit._tag === "opaque" ? [unit.id] : []))
  if (wanted.length === 0 && made.units.every(({ _tag: kind }) => kind === "text")) return made
  const missing = new Set(wanted)
  let units: ReadonlyArray<SegmentUnit> = made.units.filter(
    (unit) => unit._tag === "text" || missing.delete(unit.id)
  )
  if (missing.size === 0) return { units }
  const { before, all } = wordsBefore(source)
  // The last unit is inserted first, so that units at the same position stay in order.
  for (const id of [...missing].toReversed())
    units = inserted(units, id, all === 0 ? 1 : before.get(id)! / all)
  return { units }
}

export const translatorRouter = (engines: ReadonlyArray<Translator>, nowMs: () => number): Translator => {
  const breakers = new Breakers(nowMs)
  const can = (source: Language, target: Language) =>
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
        const is = engine.readiness().ready ? engine.supports(source, target) : false
        if (is === "direct") return is
        if (is !== false) best = is
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
        const able = can(request.source, request.target)
        const attempt = (at: number): ReturnType<Translator["translate"]> => {
          const engine = able[at]
          if (engine === undefined)
            return Effect.fail(
              none(
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
              // Overload is not a failure of the engine, and a pair that has just become unavailable says
              // nothing about the other pairs.
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
    recognize: (audio, options) =>
      Stream.unwrap(
        Effect.sync(() => {
          const engine =
            able(options.language).find((one) => {
              const { used, max } = one.capacity()
              return used < max
            }) ?? able(options.language)[0]
          return engine === undefined
            ? Stream.fail(
                none("recognizer", reasons(engines) || `nothing hears ${options.language ?? "that"} now`)
              )
            : engine.recognize(audio, options)
        })
      )
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
        const able = ready().filter((one) => one.languages().includes(base))
        const attempt = (at: number): ReturnType<Synthesizer["speak"]> => {
          const engine = able[at]
          if (engine === undefined)
            return Effect.fail(none("synthesizer", `nothing speaks ${options.language} now`))
          return Effect.catch(engine.speak(text, options), (fault: EngineFault) =>
            retryable(fault) && at + 1 < able.length ? attempt(at + 1) : Effect.fail(fault)
          )
        }
        return attempt(0)
      })
  }
}
