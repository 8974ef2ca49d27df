/** The actors of the kernel's tests. */
import { Effect, Schema, Stream } from "effect"
import { command, lane, defineActor, persist, refuse, reply } from "../../runtime/actor.ts"
import { table } from "../../storage/store.ts"

export const Names = table("names", Schema.String)

const shape = {
  state: Schema.TaggedUnion({ Counting: { n: Schema.Int }, Full: { n: Schema.Int } }),
  event: Schema.TaggedUnion({ Added: { by: Schema.Int }, Filled: {} }),
  commands: {
    Add: command({ by: Schema.Int }, { reply: Schema.Int, refusal: Schema.TaggedStruct("IsFull", {}) }),
    Get: command({}, { reply: Schema.Int }),
    Fill: command({}, { reply: Schema.Void }),
    Claim: command(
      { name: Schema.String },
      { reply: Schema.Void, refusal: Schema.TaggedStruct("NameTaken", {}) }
    ),
    Seize: command({ name: Schema.String }, { reply: Schema.Void }),
    Break: command({}, { reply: Schema.Void })
  },
  mailbox: { capacity: 8 },
  restart: { times: 2, within: "1 minute" as const },
  passivateAfter: "10 seconds" as const
}

const broken = (): never => {
  throw new Error("a bug")
}

type State = (typeof shape.state)["Type"]

const rules = {
  initial: { _tag: "Counting" as const, n: 0 },
  on: {
    Counting: {
      Add: ({ n }: { readonly n: number }, { by }: { readonly by: number }) =>
        persist({ _tag: "Added", by }).reply(n + by),
      Get: ({ n }: { readonly n: number }) => reply(n),
      Fill: () => persist({ _tag: "Filled" }).reply(undefined),
      Claim: (_: unknown, { name }: { readonly name: string }) =>
        persist({ _tag: "Added", by: 100 })
          .with(Names.put([name], "taken", "absent"))
          .otherwise(refuse({ _tag: "NameTaken" }))
          .reply(undefined),
      Seize: (_: unknown, { name }: { readonly name: string }) =>
        persist({ _tag: "Added", by: 100 })
          .with(Names.put([name], "taken", "absent"))
          .reply(undefined),
      Break: broken
    },
    Full: {
      Add: () => refuse({ _tag: "IsFull" }),
      Get: ({ n }: { readonly n: number }) => reply(n),
      Fill: () => reply(undefined),
      Claim: () => refuse({ _tag: "NameTaken" }),
      Seize: () => reply(undefined),
      Break: broken
    }
  },
  evolve: {
    Added: (state: State, { by }: { readonly by: number }): State => ({ ...state, n: state.n + by }),
    Filled: (state: State): State => ({ _tag: "Full", n: state.n })
  }
}

export const Journaled = defineActor("journaled", { ...shape, keep: "journal", snapshotEvery: 4 }).behaves(
  rules
)
export const Snapshotted = defineActor("snapshotted", { ...shape, keep: "snapshot" }).behaves(rules)
export const Forgetful = defineActor("forgetful", { ...shape, keep: "memory" }).behaves(rules)

/** Echoes its lane in upper case while Open; expires; ends. `Crash` on the lane is a defect of the activity.
 *  */
export const Echo = defineActor("echo", {
  state: Schema.TaggedUnion({ Shut: {}, Open: { untilMs: Schema.Int, heard: Schema.Int }, Over: {} }),
  event: Schema.TaggedUnion({ Opened: { untilMs: Schema.Int }, Heard: {}, Ended: {}, Shut: {} }),
  commands: {
    Open: command({ forMs: Schema.Int }, { reply: Schema.Void }),
    Heard: command({}, { reply: Schema.Void }),
    Count: command({}, { reply: Schema.Int }),
    Shut: command({}, { reply: Schema.Void }),
    Expire: command({}, { reply: Schema.Void })
  },
  lanes: {
    words: lane.in<string>({ capacity: 4, whenFull: "refuse" }),
    echoes: lane.out<string>({ capacity: 4, whenFull: "wait" })
  },
  keep: "snapshot",
  mailbox: { capacity: 8 },
  restart: { times: 2, within: "1 minute", backoff: "1 second" },
  passivateAfter: "10 seconds",
  expiresAt: (state) => (state._tag === "Open" ? state.untilMs : undefined),
  endsIn: ["Over"],
  resume: ["Open"]
}).behaves({
  initial: { _tag: "Shut" },
  on: {
    Shut: {
      Open: (_, { forMs }, { nowMs }) => persist({ _tag: "Opened", untilMs: nowMs + forMs }).reply(undefined),
      Heard: () => reply(undefined),
      Count: () => reply(-1),
      Shut: () => reply(undefined),
      Expire: () => reply(undefined)
    },
    Open: {
      Open: () => reply(undefined),
      Heard: () => persist({ _tag: "Heard" }).reply(undefined),
      Count: ({ heard }) => reply(heard),
      Shut: () => persist({ _tag: "Shut" }).reply(undefined),
      Expire: ({ untilMs }, _, { nowMs }) =>
        nowMs >= untilMs ? persist({ _tag: "Ended" }).reply(undefined) : reply(undefined)
    },
    Over: {
      Open: () => reply(undefined),
      Heard: () => reply(undefined),
      Count: () => reply(-1),
      Shut: () => reply(undefined),
      Expire: () => reply(undefined)
    }
  },
  evolve: {
    Opened: (_, { untilMs }) => ({ _tag: "Open", untilMs, heard: 0 }),
    Heard: (state) => (state._tag === "Open" ? { ...state, heard: state.heard + 1 } : state),
    Ended: () => ({ _tag: "Over" }),
    Shut: () => ({ _tag: "Shut" })
  },
  activity: {
    Open: (_, { lanes }) =>
      lanes.words.stream.pipe(
        Stream.tap((word) =>
          word === "crash" ? Effect.die(new Error("heard crash")) : lanes.echoes.put(word.toUpperCase())
        ),
        Stream.map(() => ({ _tag: "Heard" as const }))
      )
  }
})
