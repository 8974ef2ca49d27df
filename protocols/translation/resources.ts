/** The resources of customers, composed once: glossaries, style lists and memories, and what text, documents
 *  and voice need of them (`aids`, `memories`).
 *  Source: docs/spec/translation.md, sections 7–10. */
import { Context, Effect } from "effect"
import { MemoryWork, MemoryJob, type MemoryPort } from "../../actors/memory-job.ts"
import { QualityJob, QualityWork } from "../../actors/quality-job.ts"
import { VoiceJob, VoiceJobWork } from "../../actors/voice-job.ts"
import type { Route } from "../../runtime/http.ts"
import type { ActorSystem } from "../../runtime/registry.ts"
import type { Store } from "../../storage/store.ts"
import { Customizations } from "./text/customizations.ts"
import { GlossaryRoutes } from "./glossaries/glossaries.ts"
import { LegacyGlossaryRoutes } from "./glossaries/legacy.ts"
import type { Engines } from "../../actors/engines/ports.ts"
import type { Guard } from "./account/guard.ts"
import { dropLeftovers } from "./jobs/leftovers.ts"
import { qualityWork, QualityRoutes } from "./jobs/quality.ts"
import { VoiceJobRoutes } from "./jobs/voice-jobs.ts"
import { voiceWork } from "./jobs/voice-work.ts"
import type { KeyRing } from "./account/keys.ts"
import { MemoryRoutes } from "./memories/memories.ts"
import { MemorySearch } from "./memories/search.ts"
import { memoryWork } from "./memories/work.ts"
import type { HashKey } from "./account/records.ts"
import { SpokenTermsRoutes } from "./voice/spoken-terms.ts"
import type { StyleList } from "./styles/records.ts"
import { StyleRoutes } from "./styles/style-rules.ts"
import type { Usage } from "./account/usage.ts"
import { Writing } from "./text/writing.ts"

export interface ResourceDeps {
  readonly store: Store
  readonly actors: ActorSystem
  readonly engines: Engines
  readonly usage: Usage
  readonly ring: KeyRing
  readonly clock: () => number
  readonly hashKey: HashKey
  readonly publicBase?: string | undefined
  /** Fixtures of test mode: style lists visible to every account, and memories whose segments accounts
   *  share. */
  readonly fixtures?:
    | { readonly styles: ReadonlyArray<StyleList>; readonly memories: ReadonlySet<string> }
    | undefined
}

export interface Resources {
  readonly customizations: Customizations
  readonly memories: MemorySearch
  routes(guard: Guard): ReadonlyArray<Route>
}

export const createResources = (deps: ResourceDeps): Resources => {
  const { store, actors, clock, hashKey: sign, publicBase } = deps
  const memories = new MemorySearch(store)
  const styles = new StyleRoutes({ store, clock, fixtures: deps.fixtures?.styles ?? [] })
  const work: MemoryPort = memoryWork(store, clock, (memoryId) => memories.forget(memoryId))
  actors.host(MemoryJob, Context.make(MemoryWork, work))
  actors.host(VoiceJob, Context.make(VoiceJobWork, voiceWork({ ...deps, clean: work.clean })))
  const tidy = (): void => {
    Effect.runFork(work.clean)
  }
  actors.host(QualityJob, Context.make(QualityWork, qualityWork(store, deps.engines, work.clean)))
  setImmediate(() => {
    if (actors.running) {
      tidy()
      dropLeftovers(store, actors).catch(() => {})
    }
  }) // what a crash has left
  const parts = [
    new GlossaryRoutes({ store, clock }),
    new LegacyGlossaryRoutes({ store, clock }),
    styles,
    new MemoryRoutes({
      store,
      actors,
      clock,
      sign,
      publicBase,
      clean: tidy,
      shared: deps.fixtures?.memories
    }),
    new Writing(deps),
    new SpokenTermsRoutes({ store, clock }),
    new VoiceJobRoutes({ ...deps, sign, ended: tidy }),
    new QualityRoutes(deps)
  ]
  return {
    customizations: new Customizations({ store, styles, memories }),
    memories,
    routes: (guard) => parts.flatMap((part) => part.routes(guard))
  }
}
