/** A corrector in a supervised worker. It is guaranteed that edits come in the order of the text
 *  and do not overlap. Source: docs/spec/engines.md, section 8. */
import { Effect } from "effect"
import type { ActorSystem } from "../../../runtime/registry.ts"
import {
  EngineFault,
  type Corrector,
  type Edit,
  type EngineInfo,
  type Language,
  type Readiness
} from "../ports.ts"
import { supervise, type EngineStartMap, type Start } from "../engine-process.ts"
import { startWorker } from "../worker.ts"

export interface ToCorrector {
  readonly id: number
  readonly text: string
  readonly language: Language
}

export type FromCorrector =
  | { readonly _tag: "Ready" }
  | { readonly _tag: "Corrected"; readonly id: number; readonly edits: ReadonlyArray<Edit> }
  | { readonly _tag: "Failed"; readonly id: number; readonly detail: string }

interface Handle {
  readonly correct: (text: string, language: Language) => Effect.Effect<ReadonlyArray<Edit>, EngineFault>
}

/** How many texts may wait for the worker at once. */
const waitingMax = 64

const correctMs = 4_000

export interface WorkerCorrectorOptions {
  readonly system: ActorSystem
  readonly starts: EngineStartMap
  readonly info: EngineInfo
  readonly worker: string
  readonly data: unknown
  readonly languages: ReadonlyArray<Language>
  readonly canary: CorrectorCanary
}

/** A text that a working corrector corrects to `corrected`. */
export interface CorrectorCanary {
  readonly text: string
  readonly language: Language
  readonly corrected: string
}

/** Sorts edits; of overlapping ones the first wins. */
export const inOrder = (edits: ReadonlyArray<Edit>): ReadonlyArray<Edit> => {
  let end = -1
  return [...edits]
    .sort((a, b) => a.from - b.from || a.to - b.to)
    .filter(({ from, to }) => {
      const free = from >= end
      if (free) end = Math.max(to, from + 1)
      return free
    })
}

/** Applies edits, which must be in order. */
export const edited = (text: string, edits: ReadonlyArray<Edit>): string => {
  let out = ""
  let from = 0
  for (const edit of edits) {
    out += text.slice(from, edit.from) + edit.text
    from = edit.to
  }
  return out + text.slice(from)
}

const correctorWorker = ({ info, worker: name, data, canary }: WorkerCorrectorOptions): Start<Handle> =>
  Effect.gen(function* () {
    const worker = yield* Effect.acquireRelease(
      Effect.sync(() => startWorker<ToCorrector, FromCorrector>(name, data)),
      (started) => Effect.sync(() => started.kill())
    )
    const fault = (reason: EngineFault["reason"], detail: string) =>
      new EngineFault({ reason, engine: info.id, detail })
    const waiting = new Map<number, (effect: Effect.Effect<ReadonlyArray<Edit>, EngineFault>) => void>()
    let next = 0
    yield* Effect.callback<void, EngineFault>((resume) => {
      worker.onDeath((detail) => resume(Effect.fail(fault("crashed", detail))))
      worker.listen((message) => {
        if (message._tag === "Ready") return resume(Effect.void)
        waiting.get(message.id)?.(
          message._tag === "Corrected"
            ? Effect.succeed(message.edits)
            : Effect.fail(fault("bad-input", message.detail))
        )
        waiting.delete(message.id)
      })
    })
    worker.onDeath((detail) => {
      for (const settle of waiting.values()) settle(Effect.fail(fault("crashed", detail)))
      waiting.clear()
    })
    const correct = (text: string, language: Language) =>
      Effect.callback<ReadonlyArray<Edit>, EngineFault>((resume) => {
        if (waiting.size >= waitingMax) return resume(Effect.fail(fault("overloaded", "too many texts wait")))
        const id = next++
        waiting.set(id, resume)
        worker.send({ id, text, language })
        return Effect.sync(() => {
          waiting.delete(id)
        })
      })
    const corrected = edited(canary.text, inOrder(yield* correct(canary.text, canary.language)))
    if (corrected !== canary.corrected)
      return yield* Effect.fail(fault("unavailable", "it does not correct its canary"))
    return {
      handle: { correct },
      death: Effect.callback<never, EngineFault>((resume) =>
        worker.onDeath((detail) => resume(Effect.fail(fault("crashed", detail))))
      )
    }
  })

export const workerCorrector = (options: WorkerCorrectorOptions): Corrector => {
  const { system, starts, info, languages } = options
  const engine = supervise({ system, starts, id: info.id, start: correctorWorker(options) })
  const readiness = (): Readiness => {
    if (engine.lost()) return engine.readiness()
    return languages.length === 0 ? { ready: false, reason: "no dictionary is installed" } : { ready: true }
  }
  return {
    info,
    readiness,
    languages: () => (readiness().ready ? languages : []),
    correct: (text, language) =>
      Effect.map(
        engine.use((corrector) => corrector.correct(text, language), correctMs),
        inOrder
      )
  }
}
