/** A node as one layer, from its configuration down to its listener. Part of the composition root.
 *  Source: docs/architecture.md, "How a process starts and stops". */
import { Cause, Context, Effect, Exit, Layer, Scope } from "effect"
import type { Config } from "./config/config.ts"
import { EnginePorts } from "./engines.ts"
import { FirstStart } from "./first-start.ts"
import { drainingLayer, Listener, proxyLayer, resumedLayer } from "./listener.ts"
import type { LocalSecrets } from "./local-secrets.ts"
import {
  actorsLayer,
  Configuration,
  Logging,
  Sealing,
  Storage,
  telemetryLayer,
  type StartFault
} from "./parts.ts"
import { Port } from "./port.ts"
import { Authorization } from "./services/authorization.ts"
import { Chat } from "./services/chat.ts"
import { Shop } from "./services/store.ts"
import { Accounting, Translation } from "./services/translation.ts"

/** What a started node tells of itself. */
export interface NodeView {
  readonly url: string
  readonly port: number
  /** The secrets that this start created; undefined when it created none. */
  readonly createdSecrets: LocalSecrets | undefined
  /** Lines that tell a person which optional parts are missing. */
  readonly notes: ReadonlyArray<string>
  /** Starts in the background what would otherwise slow the first request down. */
  warm(): Promise<void>
}

export interface RunningNode extends NodeView {
  stop(): Promise<void>
}

const notesOf = (config: Config, unready: string | undefined, isOff: boolean): ReadonlyArray<string> => [
  ...(unready === undefined ? [] : [`translation has no engine yet: ${unready}`]),
  ...(!isOff || config["authorization.enabled"] === "off"
    ? []
    : [
        "the authorization server is off: set SERVICE_SERVER_ISSUER, SERVICE_ADMIN_API_KEY, SERVICE_SESSION_SECRET and SERVICE_SESSION_SECURE for a public address"
      ])
]

export class Node extends Context.Service<Node, NodeView>()("program/Node") {
  static readonly layer = Layer.effect(Node)(
    Effect.gen(function* () {
      const config = yield* Configuration
      const { url, server } = yield* Listener
      const engines = yield* EnginePorts
      const shop = yield* Shop
      const readiness = engines.translator.readiness()
      const isOff = (yield* Authorization) === undefined
      return {
        url,
        port: server.port,
        createdSecrets: (yield* FirstStart).created,
        notes: notesOf(config, readiness.ready ? undefined : readiness.reason, isOff),
        warm: async () => {
          await Promise.all([engines.warm(), shop.warm()])
        }
      }
    })
  )
}

/** Says, as the last act of a stop, that everything is closed. */
const stoppedLayer = Layer.effectDiscard(
  Effect.flatMap(Logging, (log) => Effect.addFinalizer(() => Effect.sync(() => log("info", "stopped"))))
)

/** The parts of a node above its configuration, in the order in which they open; they close in reverse. Tests
 *  replace one by a part that fails. */
export const parts = {
  sealing: Sealing.layer,
  storage: Storage.layer,
  actors: actorsLayer,
  engines: EnginePorts.layer,
  firstStart: FirstStart.layer,
  port: Port.layer,
  accounting: Accounting.layer,
  authorization: Authorization.layer,
  shop: Shop.layer,
  translation: Translation.layer,
  chat: Chat.layer,
  resumed: resumedLayer,
  listener: Listener.layer,
  proxy: proxyLayer,
  draining: drainingLayer,
  node: Node.layer
}

/** Composes a node of its parts: each needs only what stands above it here. */
export const nodeLayer = (of: typeof parts = parts): Layer.Layer<Node, StartFault, Configuration> =>
  of.node.pipe(
    Layer.provideMerge(of.draining),
    Layer.provideMerge(of.proxy),
    Layer.provideMerge(of.listener),
    Layer.provideMerge(of.resumed),
    Layer.provideMerge(of.chat),
    Layer.provideMerge(of.translation),
    Layer.provideMerge(of.shop),
    Layer.provideMerge(of.authorization),
    Layer.provideMerge(of.accounting),
    Layer.provideMerge(of.port),
    Layer.provideMerge(of.firstStart),
    Layer.provideMerge(of.engines),
    Layer.provideMerge(of.actors),
    Layer.provideMerge(of.storage),
    Layer.provideMerge(of.sealing),
    Layer.provideMerge(stoppedLayer),
    Layer.provideMerge(Logging.layer),
    Layer.provideMerge(telemetryLayer)
  )

/** Starts a node that its caller stops. */
export const startNode = async (config: Config, of: typeof parts = parts): Promise<RunningNode> => {
  const scope = Effect.runSync(Scope.make())
  const close = (exit: Exit.Exit<unknown, unknown>): Promise<void> =>
    Effect.runPromise(Scope.close(scope, exit))
  const layer = Layer.provide(nodeLayer(of), Layer.succeed(Configuration)(config))
  const built = await Effect.runPromiseExit(Scope.provide(scope)(Layer.build(layer)))
  if (Exit.isFailure(built)) {
    await close(built)
    throw Cause.squash(built.cause)
  }
  let stopping: Promise<void> | undefined
  return { ...Context.get(built.value, Node), stop: () => (stopping ??= close(Exit.void)) }
}
