/** Three actors that do often what the real ones rarely do: end, expire under a row's condition, keep a
 *  snapshot, use lanes, ask their own kind from an activity, and break. */
import { Context, Effect, Schema, Stream } from "effect"
import {
  command,
  defineActor,
  lane,
  persist,
  refuse,
  reply,
  type AnyDefinition
} from "../../../runtime/actor.ts"
import type { ActorSystem } from "../../../runtime/registry.ts"
import { table } from "../../../storage/store.ts"
import type { Work } from "../work.ts"
import { nameAmong, oneOf, say, type Role } from "./role.ts"

const Labels = table("labels", Schema.String)
const hourMs = 3_600_000

const broken = (): never => {
  throw new Error("a bug of the rule")
}

/** The whole hour after next: two holds within an hour end at the same time. */
const holdUntilMs = (nowMs: number): number => Math.floor(nowMs / hourMs) * hourMs + 2 * hourMs

const Refused = Schema.TaggedStruct("Refused", {})
const refused = () => refuse({ _tag: "Refused" })

/** Keeps a sum and a label of its own until a time; its writes depend on rows that others write too. */
export const Purse = defineActor("purse", {
  state: Schema.TaggedUnion({ Open: { sum: Schema.Int, untilMs: Schema.Int }, Closed: {} }),
  event: Schema.TaggedUnion({ Added: { by: Schema.Int }, Held: { untilMs: Schema.Int }, Closed: {} }),
  commands: {
    Add: command({ by: Schema.Int }, { reply: Schema.Int }),
    Sum: command({}, { reply: Schema.Int }),
    Hold: command({ label: Schema.String }, { reply: Schema.Void, refusal: Refused }),
    Extend: command({}, { reply: Schema.Void }),
    Release: command({ label: Schema.String }, { reply: Schema.Void, refusal: Refused }),
    /** Says no answer for a label that is taken: that is a defect. */
    Seize: command({ label: Schema.String }, { reply: Schema.Void }),
    Spend: command({ amount: Schema.Int }, { reply: Schema.Void, refusal: Refused }),
    Close: command({}, { reply: Schema.Int }),
    Break: command({}, { reply: Schema.Void }),
    Expire: command({}, { reply: Schema.Void })
  },
  keep: "snapshot",
  mailbox: { capacity: 4 },
  restart: { times: 2, within: "1 minute" },
  passivateAfter: "5 seconds",
  expiresAt: (state) => (state._tag === "Open" && state.untilMs > 0 ? state.untilMs : undefined),
  endsIn: ["Closed"]
}).behaves({
  initial: { _tag: "Open", sum: 0, untilMs: 0 },
  on: {
    Open: {
      Add: ({ sum }, { by }) => persist({ _tag: "Added", by }).reply(sum + by),
      Sum: ({ sum }) => reply(sum),
      Hold: (_, { label }, { id, nowMs }) =>
        persist({ _tag: "Held", untilMs: holdUntilMs(nowMs) })
          .with(Labels.put([label], id, "absent"))
          .otherwise(refused())
          .reply(undefined),
      Extend: (_, __, { nowMs }) => persist({ _tag: "Held", untilMs: holdUntilMs(nowMs) }).reply(undefined),
      Release: (_, { label }, { id }) =>
        persist({ _tag: "Added", by: 1 })
          .with(Labels.delete([label], Labels.unchanged(id)))
          .otherwise(refused())
          .reply(undefined),
      Seize: (_, { label }, { id }) =>
        persist({ _tag: "Added", by: 100 })
          .with(Labels.put([label], id, "absent"))
          .reply(undefined),
      Spend: (_, { amount }) =>
        persist({ _tag: "Added", by: -amount })
          .with({ _tag: "add", table: "spent", key: ["all"], amount, max: 40 })
          .otherwise(refused())
          .reply(undefined),
      Close: ({ sum }) => persist({ _tag: "Closed" }).reply(sum),
      Break: broken,
      Expire: ({ untilMs }, _, { nowMs }) =>
        nowMs >= untilMs ? persist({ _tag: "Closed" }).reply(undefined) : reply(undefined)
    },
    Closed: {
      Add: () => reply(0),
      Sum: () => reply(0),
      Hold: refused,
      Extend: () => reply(undefined),
      Release: refused,
      Seize: () => reply(undefined),
      Spend: refused,
      Close: () => reply(0),
      Break: broken,
      Expire: () => reply(undefined)
    }
  },
  evolve: {
    Added: (state, { by }) => (state._tag === "Open" ? { ...state, sum: state.sum + by } : state),
    Held: (state, { untilMs }) => (state._tag === "Open" ? { ...state, untilMs } : state),
    Closed: () => ({ _tag: "Closed" })
  }
})

interface RelayHelp {
  readonly work: Work
  readonly peer: (id: string) => Effect.Effect<unknown, unknown>
}

class Help extends Context.Service<Help, RelayHelp>()("simulation/Help") {}

/** Works in bursts beside its lanes, and asks its own kind while it does. */
export const Relay = defineActor("relay", {
  state: Schema.TaggedUnion({
    Idle: { steps: Schema.Int },
    Working: { steps: Schema.Int },
    Pausing: { steps: Schema.Int },
    Over: {}
  }),
  event: Schema.TaggedUnion({ Begun: {}, Stepped: {}, Paused: {}, Halted: {}, Finished: {} }),
  commands: {
    Begin: command({}, { reply: Schema.Void }),
    Step: command({}, { reply: Schema.Int }),
    Steps: command({}, { reply: Schema.Int }),
    Pause: command({}, { reply: Schema.Void }),
    Halt: command({}, { reply: Schema.Void }),
    Finish: command({}, { reply: Schema.Void }),
    Break: command({}, { reply: Schema.Void })
  },
  lanes: {
    words: lane.in<string>({ capacity: 4, whenFull: "refuse" }),
    echoes: lane.out<string>({ capacity: 4, whenFull: "wait" })
  },
  keep: "journal",
  snapshotEvery: 3,
  mailbox: { capacity: 4 },
  restart: { times: 2, within: "30 seconds", backoff: "100 millis" },
  passivateAfter: "5 seconds",
  endsIn: ["Over"],
  resume: ["Working", "Pausing"]
}).behaves<Help>({
  initial: { _tag: "Idle", steps: 0 },
  on: {
    Idle: {
      Begin: () => persist({ _tag: "Begun" }).reply(undefined),
      Step: ({ steps }) => reply(steps),
      Steps: ({ steps }) => reply(steps),
      Pause: () => reply(undefined),
      Halt: () => reply(undefined),
      Finish: () => persist({ _tag: "Finished" }).reply(undefined),
      Break: broken
    },
    Working: {
      Begin: () => reply(undefined),
      Step: ({ steps }) => persist({ _tag: "Stepped" }).reply(steps + 1),
      Steps: ({ steps }) => reply(steps),
      Pause: () => persist({ _tag: "Stepped" }, { _tag: "Paused" }).reply(undefined),
      Halt: () => persist({ _tag: "Halted" }).reply(undefined),
      Finish: () => persist({ _tag: "Finished" }).reply(undefined),
      Break: broken
    },
    Pausing: {
      Begin: () => persist({ _tag: "Begun" }).reply(undefined),
      Step: ({ steps }) => reply(steps),
      Steps: ({ steps }) => reply(steps),
      Pause: () => reply(undefined),
      Halt: () => persist({ _tag: "Halted" }).reply(undefined),
      Finish: () => persist({ _tag: "Finished" }).reply(undefined),
      Break: broken
    },
    Over: {
      Begin: () => reply(undefined),
      Step: () => reply(0),
      Steps: () => reply(0),
      Pause: () => reply(undefined),
      Halt: () => reply(undefined),
      Finish: () => reply(undefined),
      Break: broken
    }
  },
  evolve: {
    Begun: (state) => ({ _tag: "Working", steps: stepsOf(state) }),
    Stepped: (state) => (state._tag === "Working" ? { ...state, steps: state.steps + 1 } : state),
    Paused: (state) => ({ _tag: "Pausing", steps: stepsOf(state) }),
    Halted: (state) => ({ _tag: "Idle", steps: stepsOf(state) }),
    Finished: () => ({ _tag: "Over" })
  },
  activity: {
    Working: (_, { id, lanes }) =>
      Stream.unwrap(
        Effect.map(Help, ({ work, peer }) => {
          const { outcome, random } = work.next("relay", id)
          const step = { _tag: "Step" as const }
          const pause = Effect.sleep(random.int(300))
          const asked = Effect.ignore(peer(`r${random.int(4)}`))
          const echo = Effect.suspend(() =>
            Effect.forEach(lanes.words.takeNow(), (word) => Effect.sync(() => lanes.echoes.offer(word)))
          )
          const steps = Stream.fromIterable(Array.from({ length: outcome === "bursts" ? 12 : 2 }, () => step))
          const afterwards = Stream.unwrap(
            Effect.suspend((): Effect.Effect<Stream.Stream<{ readonly _tag: "Pause" | "Finish" }>> => {
              if (outcome === "dies") return Effect.die(new Error("a bug of the work"))
              if (outcome === "hangs") return Effect.never
              const _tag = outcome === "fails" ? ("Finish" as const) : ("Pause" as const)
              return Effect.succeed(Stream.succeed({ _tag }))
            })
          )
          return Stream.concat(
            Stream.fromEffectDrain(Effect.andThen(asked, Effect.andThen(pause, echo))),
            Stream.concat(steps, afterwards)
          )
        })
      ),
    Pausing: (_, { id }) =>
      Stream.unwrap(
        Effect.map(Help, ({ work }) =>
          Stream.fromEffect(
            Effect.match(
              work.perform(
                "relay",
                id,
                () => undefined,
                () => undefined
              ),
              { onSuccess: () => ({ _tag: "Halt" as const }), onFailure: () => ({ _tag: "Finish" as const }) }
            )
          )
        )
      )
  }
})

const stepsOf = (state: { readonly _tag: string }): number =>
  "steps" in state ? (state as { readonly steps: number }).steps : 0

/** Lives in memory only, works while it is warm, and ends. */
export const Spark = defineActor("spark", {
  state: Schema.TaggedUnion({ Cold: { ticks: Schema.Int }, Warm: { ticks: Schema.Int }, Out: {} }),
  event: Schema.TaggedUnion({ Heated: {}, Ticked: {}, Cooled: {}, Quenched: {} }),
  commands: {
    Heat: command({}, { reply: Schema.Void }),
    Tick: command({}, { reply: Schema.Int }),
    Ticks: command({}, { reply: Schema.Int }),
    Cool: command({}, { reply: Schema.Void }),
    Quench: command({}, { reply: Schema.Void }),
    Break: command({}, { reply: Schema.Void })
  },
  keep: "memory",
  mailbox: { capacity: 4 },
  restart: { times: 2, within: "30 seconds" },
  passivateAfter: "5 seconds",
  endsIn: ["Out"]
}).behaves<Help>({
  initial: { _tag: "Cold", ticks: 0 },
  on: {
    Cold: {
      Heat: () => persist({ _tag: "Heated" }).reply(undefined),
      Tick: ({ ticks }) => persist({ _tag: "Ticked" }).reply(ticks + 1),
      Ticks: ({ ticks }) => reply(ticks),
      Cool: () => reply(undefined),
      Quench: () => persist({ _tag: "Quenched" }).reply(undefined),
      Break: broken
    },
    Warm: {
      Heat: () => reply(undefined),
      Tick: ({ ticks }) => persist({ _tag: "Ticked" }).reply(ticks + 1),
      Ticks: ({ ticks }) => reply(ticks),
      Cool: () => persist({ _tag: "Cooled" }).reply(undefined),
      Quench: () => persist({ _tag: "Ticked" }, { _tag: "Quenched" }).reply(undefined),
      Break: broken
    },
    Out: {
      Heat: () => reply(undefined),
      Tick: () => reply(0),
      Ticks: () => reply(0),
      Cool: () => reply(undefined),
      Quench: () => reply(undefined),
      Break: broken
    }
  },
  evolve: {
    Heated: (state) => ({ _tag: "Warm", ticks: ticksOf(state) }),
    Ticked: (state) => (state._tag === "Out" ? state : { ...state, ticks: state.ticks + 1 }),
    Cooled: (state) => ({ _tag: "Cold", ticks: ticksOf(state) }),
    Quenched: () => ({ _tag: "Out" })
  },
  activity: {
    Warm: (_, { id }) =>
      Stream.unwrap(
        Effect.map(Help, ({ work }) => {
          const { outcome, random } = work.next("spark", id)
          if (outcome === "hangs") return Stream.never
          const ticks = Array.from({ length: outcome === "bursts" ? 12 : 1 }, () => ({
            _tag: "Tick" as const
          }))
          const end = Effect.suspend(() =>
            outcome === "dies"
              ? Effect.die(new Error("a bug of the work"))
              : Effect.succeed({ _tag: outcome === "fails" ? ("Quench" as const) : ("Cool" as const) })
          )
          return Stream.concat(
            Stream.fromEffectDrain(Effect.sleep(random.int(300))),
            Stream.concat(Stream.fromIterable(ticks), Stream.fromEffect(end))
          )
        })
      )
  }
})

const ticksOf = (state: { readonly _tag: string }): number =>
  "ticks" in state ? (state as { readonly ticks: number }).ticks : 0

const help = (work: Work, system: () => ActorSystem): Context.Context<never> =>
  Context.make(Help, {
    work,
    peer: (id) => Effect.suspend(() => system().ref(Relay, id).ask("Steps", {}, 1_000))
  }) as unknown as Context.Context<never>

export const ownRoles: ReadonlyArray<Role> = [
  {
    definition: Purse as AnyDefinition,
    say: ({ random }) =>
      oneOf(random, [
        [6, () => say("Add", { by: 1 + random.int(9) })],
        [4, () => say("Sum")],
        [3, () => say("Hold", { label: nameAmong(random, "l", 3) })],
        [2, () => say("Extend")],
        [2, () => say("Release", { label: nameAmong(random, "l", 3) })],
        [1, () => say("Seize", { label: nameAmong(random, "l", 3) })],
        [2, () => say("Spend", { amount: 1 + random.int(9) })],
        [2, () => say("Close")],
        [1, () => say("Break")]
      ])
  },
  {
    definition: Relay as unknown as AnyDefinition,
    services: ({ work, system }) => help(work, system),
    say: ({ random }) =>
      oneOf(random, [
        [6, () => say("Begin")],
        [5, () => say("Step")],
        [4, () => say("Steps")],
        [2, () => say("Pause")],
        [2, () => say("Halt")],
        [1, () => say("Finish")],
        [1, () => say("Break")]
      ])
  },
  {
    definition: Spark as unknown as AnyDefinition,
    services: ({ work, system }) => help(work, system),
    say: ({ random }) =>
      oneOf(random, [
        [5, () => say("Heat")],
        [5, () => say("Tick")],
        [3, () => say("Ticks")],
        [2, () => say("Cool")],
        [1, () => say("Quench")],
        [1, () => say("Break")]
      ])
  }
]
