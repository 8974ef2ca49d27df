/** A corrector in a worker thread, supervised: one question at a time goes in, edits come out in order and
 *  without overlaps.
 *  Source: spec engines section 8. */
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
import { supervise, type Start } from "../engine-process.ts"
import { startWorker } from "../worker.ts"

export interface ToCorrector {
  readonly id: number
  readonly text: string
  readonly language: Language
}

export type FromCorrector =
  | { readonly id: number; readonly edits: ReadonlyArray<Edit> }
  | { readonly id: number; readonly failed: string }
  | { readonly is: "ready" }

interface Handle {
  readonly correct: (text: string, language: Language) => Effect.Effect<ReadonlyArray<Edit>, EngineFault>
}

const waitingMax = 64

export interface ThreadCorrectorOptions {
  readonly system: ActorSystem
  readonly starts: Map<string, any>
  readonly info: EngineInfo
  readonly worker: string
  readonly data: unknown
  readonly languages: ReadonlyArray<Language>
  readonly canary: { readonly text: string; readonly language: Language; readonly wants: string }
}

/** Overlapping edits: the first counts. */
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

export const edited = (text: string, edits: ReadonlyArray<Edit>): string => {
  let out = ""
  let from = 0
  for (const edit of edits) {
    out += text.slice(from, edit.from) + edit.text
    from = edit.to
  }
  return out + text.slice(from)
}

const thread = ({ info, worker: name, data, canary }: ThreadCorrectorOptions): Start<Handle> =>
  Effect.gen(function* () {
    const worker = yield* Effect.acquireRelease(
      Effect.sync(() => startWorker<ToCorrector, FromCorrector>(name, data)),
      (live) => Effect.sync(() => live.kill())
    )
    const fault = (reason: EngineFault["reason"], detail: string) =>
      new EngineFault({ reason, engine: info.id, detail })
    const waiting = new Map<number, (effect: Effect.Effect<ReadonlyArray<Edit>, EngineFault>) => void>()
    let next = 0
    yield* Effect.callback<void, EngineFault>((resume) => {
      worker.onDeath((detail) => resume(Effect.fail(fault("crashed", detail))))
      worker.listen((message) => {
        if ("is" in message) return resume(Effect.void)
        waiting.get(message.id)?.(
          "edits" in message ? Effect.succeed(message.edits) : Effect.fail(fault("bad-input", message.failed))
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
    const made = edited(canary.text, inOrder(yield* correct(canary.text, canary.language)))
    if (made !== canary.wants)
      return yield* Effect.fail(fault("unavailable", "it does not correct its canary"))
    return {
      handle: { correct },
      death: Effect.callback<never, EngineFault>((resume) =>
        worker.onDeath((detail) => resume(Effect.fail(fault("crashed", detail))))
      )
    }
  })

export const threadCorrector = (options: ThreadCorrectorOptions): Corrector => {
  const { system, starts, info, languages } = options
  const engine = supervise(system, starts, info.id, thread(options))
  const lost = (): boolean => engine.lost()
  const readiness = (): Readiness =>
    lost()
      ? engine.readiness()
      : languages.length === 0
        ? { ready: false, reason: "no dictionary is installed" }
        : { ready: true }
  return {
    info,
    readiness,
    languages: () => (readiness().ready ? languages : []),
    correct: (text, language) =>
      Effect.map(
        engine.use((live) => live.correct(text, language), 4_000),
        inOrder
      )
  }
}
