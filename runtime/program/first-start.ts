/** The secrets of this machine: read at every start, and created by a first start on a machine that serves
 *  nobody else, each only once. Part of the composition root. */
import { Context, Effect, Layer } from "effect"
import { isLoopbackHost } from "../../protocols/shared/addresses.ts"
import { randomToken, type Sealer } from "../../storage/seal.ts"
import type { Config } from "./config/config.ts"
import { readLocalSecrets, writeLocalSecrets, type LocalSecrets } from "./local-secrets.ts"
import { Configuration, Sealing, step, Storage } from "./parts.ts"
import { createDemoTranslation } from "./services/translation-demo.ts"

const isLocal = ({ testMode, publicBase, host }: Config): boolean =>
  !testMode && isLoopbackHost(publicBase === undefined ? host.toLowerCase() : new URL(publicBase).hostname)

export class MachineSecrets {
  /** True when only this machine can reach the server, so that demo accounts and keys may be created. */
  readonly isLocal: boolean
  current: LocalSecrets | undefined
  /** What this start created; undefined when it created nothing. */
  created: LocalSecrets | undefined
  private readonly folder: string
  private readonly seal: Sealer

  constructor(config: Config, seal: Sealer) {
    this.isLocal = isLocal(config)
    this.folder = config.data
    this.seal = seal
    this.current = config.testMode ? undefined : readLocalSecrets(config.data, seal)
  }

  /** Adds to the secrets on disk. The first to be kept are those of the demo account. */
  keep(more: Partial<LocalSecrets> | undefined): void {
    if (more === undefined || (this.current === undefined && more.accountId === undefined)) return
    const before = this.current ?? { operatorToken: randomToken() }
    this.created = this.current = { ...before, ...more } as LocalSecrets
    writeLocalSecrets(this.folder, this.seal, this.current)
  }
}

export class FirstStart extends Context.Service<FirstStart, MachineSecrets>()("program/FirstStart") {
  static readonly layer = Layer.effect(FirstStart)(
    Effect.gen(function* () {
      const config = yield* Configuration
      const seal = yield* Sealing
      const store = yield* Storage
      return yield* step("first start", async () => {
        const secrets = new MachineSecrets(config, seal)
        if (secrets.isLocal && secrets.current === undefined)
          secrets.keep(await createDemoTranslation(store, seal))
        return secrets
      })
    })
  )
}
