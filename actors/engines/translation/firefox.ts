/** Firefox Translations models which the operator supplies
 *  (models/mt/<src>-<trg>/{model.bin,vocab.spm[,trgvocab.spm]}), by fxtranslate (WASM) in a worker
 *  per direction; other pairs pivot through English. It is guaranteed that the engine sees no marks: an
 *  opaque unit splits the text. Source: docs/spec/engines.md, section 2.3. */
import { existsSync, readdirSync } from "node:fs"
import { join } from "node:path"
import { Effect } from "effect"
import type { ActorSystem } from "../../../runtime/registry.ts"
import { EngineFault, type EngineSegment, type SegmentUnit, type Translator } from "../ports.ts"
import { supervise, type EngineStartMap, type Start, type Supervised } from "../engine-process.ts"
import { startWorker } from "../worker.ts"
import type { FromFirefox, ToFirefox } from "../workers/fxtranslate.ts"
import { Routes, translateAlong } from "./routes.ts"

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
      (started) => Effect.sync(() => started.kill())
    )
    const fault = (reason: EngineFault["reason"], detail: string) =>
      new EngineFault({ reason, engine: id, detail })
    const waiting = new Map<number, (effect: Effect.Effect<string, EngineFault>) => void>()
    let next = 0
    yield* Effect.callback<void, EngineFault>((resume) => {
      worker.onDeath((reason) => resume(Effect.fail(fault("unavailable", `${folder}: ${reason}`))))
      worker.listen((message) => {
        if (message._tag === "Ready") return resume(Effect.void)
        if (message._tag === "NotReady")
          return resume(Effect.fail(fault("unavailable", `${folder}: ${message.reason}`)))
        waiting.get(message.id)?.(
          message._tag === "Translated"
            ? Effect.succeed(message.text)
            : Effect.fail(fault("bad-input", message.detail))
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

export interface FirefoxOptions {
  readonly system: ActorSystem
  readonly starts: EngineStartMap
  readonly folder: string
}

export const firefox = ({ system, starts, folder }: FirefoxOptions): Translator => {
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
    const start = model(join(folder, name))
    models.set(pair, supervise({ system, starts, id: `${id}/${pair}`, start }))
  }
  const works = (pair: string): boolean => models.get(pair)?.lost() === false
  const routes = new Routes([...models.keys()], works, ["en"])

  const translateUnit = (pair: string, unit: SegmentUnit): Effect.Effect<SegmentUnit, EngineFault> => {
    if (unit._tag === "opaque" || unit.text.trim() === "") return Effect.succeed(unit)
    const lead = unit.text.slice(0, unit.text.length - unit.text.trimStart().length)
    const trail = unit.text.slice(unit.text.trimEnd().length)
    return Effect.map(
      models.get(pair)!.use(({ translate }) => translate(unit.text.trim())),
      (text) => ({ _tag: "text" as const, text: `${lead}${text.trim()}${trail}` })
    )
  }

  const translateBy = (
    pair: string,
    segments: ReadonlyArray<EngineSegment>
  ): Effect.Effect<ReadonlyArray<EngineSegment>, EngineFault> =>
    Effect.forEach(segments, ({ units }) =>
      Effect.map(
        Effect.forEach(units, (unit) => translateUnit(pair, unit)),
        (translated) => ({ units: translated })
      )
    )

  return {
    info: { id, version: "0.4.2", tier: "local", licence: "MPL-2.0" },
    readiness: () =>
      [...models.keys()].some(works)
        ? { ready: true }
        : {
            ready: false,
            reason: models.size === 0 ? `no models in ${folder}` : `the models in ${folder} do not load`
          },
    supports: (source, target) => routes.support(source, target),
    pairs: () => routes.pairs(),
    formality: () => false,
    translate: ({ source, target, segments }) =>
      Effect.suspend(() => {
        const route = routes.find(source, target)
        if (route === undefined)
          return Effect.fail(
            new EngineFault({ reason: "unsupported", engine: id, detail: `no model for ${source}-${target}` })
          )
        return Effect.map(translateAlong(route, segments, translateBy), (translated) => ({
          segments: translated,
          engine: id
        }))
      })
  }
}
