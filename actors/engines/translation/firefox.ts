/** Firefox Translations models which the operator supplies
 *  (models/mt/<src>-<trg>/{model.bin,vocab.spm[,trgvocab.spm]}), by fxtranslate (WASM) in a worker thread per
 *  direction; other pairs pivot through English. The engine sees no marks: an opaque unit splits the text.
 *  Source: spec engines 2.3. */
import { existsSync, readdirSync } from "node:fs"
import { join } from "node:path"
import { Effect } from "effect"
import type { ActorSystem } from "../../../runtime/registry.ts"
import { EngineFault, type Language, type EngineSegment, type Translator } from "../ports.ts"
import { supervise, type Start, type Supervised } from "../engine-process.ts"
import { startWorker } from "../worker.ts"
import type { FromFirefox, ToFirefox } from "../workers/fxtranslate.ts"

const id = "firefox"
const startMs = 30_000
const inFlightMax = 256

interface Model {
  readonly translate: (text: string) => Effect.Effect<string, EngineFault>
}

const model = (folder: string): Start<Model> =>
  Effect.gen(function* () {
    const worker = yield* Effect.acquireRelease(
      Effect.sync(() => startWorker<ToFirefox, FromFirefox>("fxtranslate", { folder })),
      (live) => Effect.sync(() => live.kill())
    )
    const fault = (reason: EngineFault["reason"], detail: string) =>
      new EngineFault({ reason, engine: id, detail })
    const waiting = new Map<number, (effect: Effect.Effect<string, EngineFault>) => void>()
    let next = 0
    yield* Effect.callback<void, EngineFault>((resume) => {
      worker.onDeath((reason) => resume(Effect.fail(fault("unavailable", `${folder}: ${reason}`))))
      worker.listen((message) => {
        if ("is" in message)
          return resume(
            message.is === "ready"
              ? Effect.void
              : Effect.fail(fault("unavailable", `${folder}: ${message.reason}`))
          )
        waiting.get(message.id)?.(
          "text" in message ? Effect.succeed(message.text) : Effect.fail(fault("bad-input", message.failed))
        )
        waiting.delete(message.id)
      })
    }).pipe(
      Effect.timeoutOrElse({
        duration: startMs,
        orElse: () => Effect.fail(fault("unavailable", `${folder} does not load`))
      })
    )
    worker.onDeath((reason) => {
      for (const settle of waiting.values()) settle(Effect.fail(fault("crashed", reason)))
      waiting.clear()
    })
    return {
      handle: {
        translate: (text: string) =>
          Effect.callback<string, EngineFault>((resume) => {
            if (waiting.size >= inFlightMax)
              return resume(Effect.fail(fault("overloaded", "too many sentences at once")))
            const call = next++
            waiting.set(call, resume)
            worker.send({ id: call, text })
            return Effect.sync(() => {
              waiting.delete(call)
            })
          })
      },
      death: Effect.callback<never, EngineFault>((resume) =>
        worker.onDeath((reason) => resume(Effect.fail(fault("crashed", reason))))
      )
    }
  })

export const firefox = ({
  system,
  starts,
  folder
}: {
  readonly system: ActorSystem
  readonly starts: Map<string, any>
  readonly folder: string
}): Translator => {
  const models = new Map<string, Supervised<Model>>()
  for (const name of existsSync(folder) ? readdirSync(folder) : []) {
    const [, source, target] = /^([a-z]{2,3})-([a-z]{2,3})$/.exec(name) ?? []
    if (
      source === undefined ||
      !existsSync(join(folder, name, "model.bin")) ||
      !existsSync(join(folder, name, "vocab.spm"))
    )
      continue
    const pair = `${source}>${target!}`
    models.set(pair, supervise(system, starts, `${id}/${pair}`, model(join(folder, name))))
  }
  const base = (language: Language): Language => language.split("-", 1)[0]!.toLowerCase()
  const has = (pair: string): boolean => models.get(pair)?.lost() === false
  const way = (source: Language, target: Language): ReadonlyArray<string> | undefined =>
    has(`${source}>${target}`)
      ? [`${source}>${target}`]
      : has(`${source}>en`) && has(`en>${target}`)
        ? [`${source}>en`, `en>${target}`]
        : undefined
  const ends = [...new Set([...models.keys()].flatMap((pair) => pair.split(">")))]
  const run = (
    pair: string,
    segments: ReadonlyArray<EngineSegment>
  ): Effect.Effect<ReadonlyArray<EngineSegment>, EngineFault> =>
    Effect.forEach(segments, ({ units }) =>
      Effect.map(
        Effect.forEach(units, (unit) => {
          if (unit._tag === "opaque" || unit.text.trim() === "") return Effect.succeed(unit)
          const lead = unit.text.slice(0, unit.text.length - unit.text.trimStart().length)
          const trail = unit.text.slice(unit.text.trimEnd().length)
          return Effect.map(
            models.get(pair)!.use(({ translate }) => translate(unit.text.trim())),
            (text) => ({ _tag: "text" as const, text: `${lead}${text.trim()}${trail}` })
          )
        }),
        (made) => ({ units: made })
      )
    )
  return {
    info: { id, version: "0.4.2", tier: "local", licence: "MPL-2.0" },
    readiness: () =>
      [...models.keys()].some(has)
        ? { ready: true }
        : {
            ready: false,
            reason: models.size === 0 ? `no models in ${folder}` : `the models in ${folder} do not load`
          },
    supports: (source, target) => {
      const found = way(base(source), base(target))
      return found === undefined ? false : found.length === 1 ? "direct" : "pivot"
    },
    pairs: () =>
      ends.flatMap((source) =>
        ends
          .filter((target) => target !== source && way(source, target) !== undefined)
          .map((target) => [source, target] as const)
      ),
    formality: () => false,
    translate: ({ source, target, segments }) =>
      Effect.suspend(() => {
        const found = way(base(source), base(target))
        if (found === undefined)
          return Effect.fail(
            new EngineFault({ reason: "unsupported", engine: id, detail: `no model for ${source}-${target}` })
          )
        return Effect.map(
          found
            .slice(1)
            .reduce(
              (before, pair) => Effect.flatMap(before, (through) => run(pair, through)),
              run(found[0]!, segments)
            ),
          (made) => ({ segments: made, engine: id })
        )
      })
  }
}
