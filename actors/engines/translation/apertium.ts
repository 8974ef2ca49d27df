/** Apertium (GPL, separate processes from Debian) as translator: one warm pipeline per direction. It is
 *  guaranteed that each direction passes a canary in its source language before it answers, and that no
 *  more than `warmMax` of them run. Source: docs/spec/engines.md, section 2.4. */
import { Effect } from "effect"
import type { ActorSystem } from "../../../runtime/registry.ts"
import { supervise, type EngineStartMap, type Supervised } from "../engine-process.ts"
import { places, Pool } from "../pool.ts"
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
import { repaired } from "../router.ts"
import { Routes, translateAlong } from "./routes.ts"
import { isSmall, piecesOf } from "./segment-pieces.ts"

const modesFolderDefault = "/usr/share/apertium/modes"
const warmMaxDefault = 6

/** Segments of one request that are in one pipeline, or wait for it, at a time. */
const segmentsAtOnce = 32

/** Texts of all requests that are in one pipeline at a time: enough to keep its programs busy, and few enough that
 *  one who comes later does not wait long. */
const inPipelineMax = 32

/** Texts that wait for one pipeline. */
const waitingMax = 480

/** A direction: its pipeline and the places in it. */
interface Direction {
  readonly engine: Supervised<Pipeline>
  readonly pool: Pool<number>
}

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

/** Translates one text. Its place in the pipeline is free when the programs are done with it, even if nobody waits
 *  for the answer any more, so that nobody can fill the pipeline by going away. */
const translateText = ({ engine, pool }: Direction, text: string, account: string) =>
  engine.use(({ start }) =>
    Effect.uninterruptibleMask((restore) =>
      Effect.flatMap(restore(pool.take({ account })), (lease) => restore(start(text, () => lease.release())))
    )
  )

const translatePiece = (direction: Direction, piece: EngineSegment, account: string) => {
  if (piece.units.every((unit) => unit._tag === "opaque" || unit.text.trim() === ""))
    return Effect.succeed(piece)
  const stream = streamOf(piece)
  return Effect.map(translateText(direction, stream.text, account), (answer) => segmentOf(answer, stream))
}

const translateSegment = (
  direction: Direction,
  segment: EngineSegment,
  account: string
): Effect.Effect<EngineSegment, EngineFault> => {
  if (isSmall(segment)) return translatePiece(direction, segment, account)
  const { pieces, join } = piecesOf(segment)
  return Effect.map(
    Effect.forEach(pieces, (piece) =>
      Effect.map(translatePiece(direction, piece, account), (translated) => repaired(piece, translated))
    ),
    join
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
  const directions = new Map<string, Direction>()

  const directionOf = (name: string): Direction => {
    const existing = directions.get(name)
    if (existing !== undefined) return existing
    const id = `apertium/${name}`
    const start = pipeline(`apertium ${name}`, modes.get(name)!, canaries[name.split(">")[0]!])
    const direction = {
      engine: supervise({ system, starts, id, start }),
      pool: new Pool({ id, resources: places(inPipelineMax), waitersMax: waitingMax, clock: system })
    }
    directions.set(name, direction)
    return direction
  }

  /** The running directions, least recently used first. */
  const running = new Map<string, Direction>()

  /** Returns the running direction; undefined when too many others are busy. */
  const runningDirection = (name: string): Direction | undefined => {
    const direction = directionOf(name)
    if (!running.delete(name) && running.size >= warmMax) {
      const idle = [...running].find(([, { engine }]) => !engine.busy())
      if (idle === undefined) return undefined
      running.delete(idle[0])
      idle[1].engine.stop()
    }
    running.set(name, direction)
    return direction
  }

  const works = (name: string): boolean => modes.has(name) && directions.get(name)?.engine.lost() !== true

  /** Two directions go through the hub that comes first: the one most pairs share. */
  const routes = new Routes([...modes.keys()], works)

  const readiness = (): Readiness =>
    [...modes.keys()].some(works)
      ? { ready: true }
      : { ready: false, reason: whyNotReady({ modes, lacking }, enabled) }

  const translateBy = (
    name: string,
    segments: ReadonlyArray<EngineSegment>,
    account: string
  ): Effect.Effect<ReadonlyArray<EngineSegment>, EngineFault> => {
    const direction = runningDirection(name)
    if (direction === undefined) return fail("overloaded", `${warmMax} other directions are at work`)
    return Effect.forEach(segments, (segment) => translateSegment(direction, segment, account), {
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
      for (const name of pairsWarm) if (works(name)) runningDirection(name)?.engine.start()
    },
    translate: ({ account = "", source, target, segments }: TranslateRequest) =>
      Effect.suspend(() => {
        const route = routes.find(source, target)
        if (route === undefined) return fail("unsupported", `no pair ${source}-${target}`)
        const translated = translateAlong(route, segments, (name, untranslated) =>
          translateBy(name, untranslated, account)
        )
        return Effect.map(translated, (answers) => ({ segments: answers, engine: "apertium" }))
      })
  }
}
