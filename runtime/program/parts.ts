/** What every part of a node stands on, as Effect services: configuration, log, seal, store and actors. A part
 *  is a layer. Guarantee: what a part opened is closed with the scope, whichever later part fails and whenever
 *  the start is interrupted. Source: docs/architecture.md, "How a process starts and stops". */
import { Context, Data, Effect, Layer, type Scope } from "effect"
import { RateWindow } from "../../actors/rate-window.ts"
import { isOpenToOthers } from "../../storage/data-folder.ts"
import { openLmdb } from "../../storage/lmdb.ts"
import { openMemory } from "../../storage/memory.ts"
import { keyMarkOf, masterKey, sealer, type Sealer } from "../../storage/seal.ts"
import type { StorageFault, Store } from "../../storage/store.ts"
import type { Log } from "../kind.ts"
import { Actors } from "../registry.ts"
import type { Config } from "./config/config.ts"
import { Telemetry } from "./telemetry/telemetry.ts"

const textOf = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause))

/** Says which part of the node could not be opened; its message is the cause's. */
export class StartFault extends Data.TaggedError("StartFault")<{
  readonly part: string
  readonly cause: unknown
  readonly message: string
}> {}

const attempt = <A>(part: string, work: () => A | Promise<A>): Effect.Effect<A, StartFault> =>
  Effect.tryPromise({
    try: async () => work(),
    catch: (cause) => new StartFault({ part, cause, message: textOf(cause) })
  })

/** Does a step of the start, which an interruption waits for. */
export const step = <A>(part: string, work: () => A | Promise<A>): Effect.Effect<A, StartFault> =>
  Effect.uninterruptible(attempt(part, work))

/** Opens a part, which an interruption waits for, and closes it with the scope. */
export const opening = <A>(
  part: string,
  open: () => A | Promise<A>,
  close: (opened: A) => void | Promise<void>
): Effect.Effect<A, StartFault, Scope.Scope> =>
  Effect.acquireRelease(attempt(part, open), (opened) => Effect.promise(async () => close(opened)))

export class Configuration extends Context.Service<Configuration, Config>()("program/Configuration") {}

export class Logging extends Context.Service<Logging, Log>()("program/Logging") {
  static readonly layer = Layer.effect(Logging)(Effect.map(Telemetry, ({ log }) => log))
}

export const telemetryLayer = Layer.unwrap(Effect.map(Configuration, Telemetry.layer))

/** Seals secrets at rest, under the master key of the data folder. */
export class Sealing extends Context.Service<Sealing, Sealer>()("program/Sealing") {
  static readonly layer = Layer.effect(Sealing)(
    Effect.gen(function* () {
      const config = yield* Configuration
      return yield* step("master key", () => sealer(masterKey(config.data, config.masterKey)))
    })
  )
}

export class Storage extends Context.Service<Storage, Store>()("program/Storage") {
  static readonly layer = Layer.effect(Storage)(
    Effect.gen(function* () {
      const { testMode, data: folder, durability } = yield* Configuration
      const { tracing, observeStore } = yield* Telemetry
      const log = yield* Logging
      const keyMark = keyMarkOf(yield* Sealing)
      const onRoom = (fault: StorageFault | undefined): void =>
        fault === undefined
          ? log("info", "the disk has room again: writes are taken")
          : log("error", "the disk is full: writes are refused until it has room", {
              folder,
              detail: fault.detail
            })
      const store = yield* opening(
        "storage",
        () => (testMode ? openMemory() : openLmdb({ folder, durability, keyMark, onRoom })),
        (opened) => opened.close()
      )
      if (!testMode && isOpenToOthers(folder))
        log("warn", "other users of this machine may look into the data folder: chmod 700", { folder })
      observeStore(store)
      return tracing?.store(store) ?? store
    })
  )
}

export const actorsLayer = Layer.effect(Actors)(
  Effect.gen(function* () {
    const { residentActorsMax: residentMax } = yield* Configuration
    const { tracing } = yield* Telemetry
    const system = yield* Actors.make({
      store: yield* Storage,
      log: yield* Logging,
      residentMax,
      ...(tracing && { scheduler: tracing.scheduler })
    })
    system.host(RateWindow, Context.empty())
    return system
  })
)
