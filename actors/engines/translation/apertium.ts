/** Apertium (GPL, separate processes from Debian) as translator: one warm pipeline per direction. It is
 *  guaranteed that each direction passes a canary in its source language before it answers, and that no
 *  more than `warmMax` of them run. Source: docs/spec/engines.md, section 2.4. */
import { Effect } from "effect"
import type { ActorSystem } from "../../../runtime/registry.ts"
import { supervise, type EngineStartMap, type Supervised } from "../engine-process.ts"
import {
  EngineFault,
  type EngineSegment,
  type Readiness,
  type TranslateRequest,
  type Translator
} from "../ports.ts"
import { canaries, directionsIn, type InstalledDirections } from "./apertium-modes.ts"
import { pipeline, type Pipeline } from "./apertium-pipeline.ts"
import { segmentOf, streamOf } from "./apertium-stream.ts"
import { Routes, translateAlong } from "./routes.ts"

const modesFolderDefault = "/usr/share/apertium/modes"
const warmMaxDefault = 6

/** Segments of one request that are in one pipeline at a time. */
const segmentsAtOnce = 32

export interface ApertiumOptions {
  readonly system: ActorSystem
  readonly starts: EngineStartMap
  readonly modesFolder?: string
  readonly enabled?: boolean
  /** Directions (`en>es`) that `warm` starts. */
  readonly pairsWarm?: ReadonlyArray<string>
  /** Pipelines running at once. */
  readonly warmMax?: number
}

export interface Apertium extends Translator {
  readonly warm: () => void
}

const whyNotReady = ({ modes, lacking }: InstalledDirections, enabled: boolean): string => {
  if (modes.size > 0) return `its pairs do not work: ${[...modes.keys()].join(", ")}`
  if (lacking.size > 0) return `its pairs want programs that are not installed: ${[...lacking].join(", ")}`
  return enabled
    ? "Apertium is not installed: apt-get install --no-install-recommends apertium apertium-eng-spa"
    : "switched off by configuration"
}

const fail = (reason: EngineFault["reason"], detail: string) =>
  Effect.fail(new EngineFault({ reason, engine: "apertium", detail }))

const translateSegment = (engine: Supervised<Pipeline>, segment: EngineSegment) => {
  if (segment.units.every((unit) => unit._tag === "opaque" || unit.text.trim() === ""))
    return Effect.succeed(segment)
  const stream = streamOf(segment)
  return Effect.map(
    engine.use(({ run }) => run(stream.text)),
    (answer) => segmentOf(answer, stream)
  )
}

const nothingInstalled: InstalledDirections = { modes: new Map(), lacking: new Set() }

/** Makes the engine. An installed direction counts as available until its canary fails, because trying each
 *  would cost a cold start of a quarter of a second apiece. */
export const apertium = ({
  system,
  starts,
  modesFolder = modesFolderDefault,
  enabled = true,
  pairsWarm = [],
  warmMax = warmMaxDefault
}: ApertiumOptions): Apertium => {
  const { modes, lacking } = enabled ? directionsIn(modesFolder) : nothingInstalled
  const engines = new Map<string, Supervised<Pipeline>>()

  const engineOf = (name: string): Supervised<Pipeline> => {
    const existing = engines.get(name)
    if (existing !== undefined) return existing
    const start = pipeline(`apertium ${name}`, modes.get(name)!, canaries[name.split(">")[0]!])
    const engine = supervise({ system, starts, id: `apertium/${name}`, start })
    engines.set(name, engine)
    return engine
  }

  /** The running directions, least recently used first. */
  const running = new Map<string, Supervised<Pipeline>>()

  /** Returns the running direction; undefined when too many others are busy. */
  const runningDirection = (name: string): Supervised<Pipeline> | undefined => {
    const engine = engineOf(name)
    if (!running.delete(name) && running.size >= warmMax) {
      const idle = [...running].find(([, other]) => !other.busy())
      if (idle === undefined) return undefined
      running.delete(idle[0])
      idle[1].stop()
    }
    running.set(name, engine)
    return engine
  }

  const works = (name: string): boolean => modes.has(name) && engines.get(name)?.lost() !== true

  /** Two directions go through the hub that comes first: the one most pairs share. */
  const routes = new Routes([...modes.keys()], works)

  const readiness = (): Readiness =>
    [...modes.keys()].some(works)
      ? { ready: true }
      : { ready: false, reason: whyNotReady({ modes, lacking }, enabled) }

  const translateBy = (
    name: string,
    segments: ReadonlyArray<EngineSegment>
  ): Effect.Effect<ReadonlyArray<EngineSegment>, EngineFault> => {
    const engine = runningDirection(name)
    if (engine === undefined) return fail("overloaded", `${warmMax} other directions are at work`)
    return Effect.forEach(segments, (segment) => translateSegment(engine, segment), {
      concurrency: segmentsAtOnce
    })
  }

  return {
    info: { id: "apertium", version: "3", tier: "local", licence: "GPL-2.0-or-later (separate processes)" },
    readiness,
    supports: (source, target) => routes.support(source, target),
    pairs: () => routes.pairs(),
    formality: () => false,
    warm: () => {
      for (const name of pairsWarm) if (works(name)) runningDirection(name)?.start()
    },
    translate: ({ source, target, segments }: TranslateRequest) =>
      Effect.suspend(() => {
        const route = routes.find(source, target)
        if (route === undefined) return fail("unsupported", `no pair ${source}-${target}`)
        return Effect.map(translateAlong(route, segments, translateBy), (translated) => ({
          segments: translated,
          engine: "apertium"
        }))
      })
  }
}
