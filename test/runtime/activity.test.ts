/** One activity of an actor at a time, of the phase that it is in. */
import { Effect, Schema, Stream } from "effect"
import { beforeEach, expect, it } from "vitest"
import { command, defineActor, persist, reply } from "../../runtime/actor.ts"
import { Clocked, timersOf, turns } from "./clocked.ts"

/** What the activities of the running test do: they note their start and end, take long to end when told to,
 *  and tell what the test wants told. */
const script = {
  noted: [] as Array<string>,
  /** An activity that is interrupted waits for this before it has ended. */
  ending: undefined as Promise<void> | undefined,
  /** Each activity tells one command when this resolves. */
  telling: undefined as Promise<"Begin" | "Stay"> | undefined,
  dies: false
}

beforeEach(() => {
  Object.assign(script, { noted: [], ending: undefined, telling: undefined, dies: false })
})

const activityOf = (phase: string) => (): Stream.Stream<{ readonly _tag: "Begin" | "Stay" }> =>
  Stream.fromEffect(
    Effect.suspend(() => {
      script.noted.push(`${phase} starts`)
      if (script.dies) return Effect.die(new Error("a bug"))
      return script.telling === undefined ? Effect.never : Effect.promise(() => script.telling!)
    }).pipe(
      Effect.map((_tag) => ({ _tag }) as const),
      Effect.onInterrupt(() =>
        Effect.promise(async () => {
          await script.ending
          script.noted.push(`${phase} ended`)
        })
      )
    )
  ).pipe(Stream.concat(Stream.never))

const State = Schema.TaggedUnion({ Idle: {}, One: {}, Two: {}, Over: {} })
const moved = (to: "Idle" | "One" | "Two" | "Over") => () => persist({ _tag: "Moved", to }).reply(undefined)

const rules = (phase: "Idle" | "One" | "Two" | "Over") => ({
  Begin: phase === "Idle" ? moved("One") : () => reply(undefined),
  Next: moved("Two"),
  Rest: moved("Idle"),
  End: moved("Over"),
  Stay: moved(phase),
  Phase: () => reply(phase)
})

const Staged = defineActor("staged", {
  state: State,
  event: Schema.TaggedUnion({ Moved: { to: Schema.Literals(["Idle", "One", "Two", "Over"]) } }),
  commands: {
    Begin: command({}, { reply: Schema.Void }),
    Next: command({}, { reply: Schema.Void }),
    Rest: command({}, { reply: Schema.Void }),
    End: command({}, { reply: Schema.Void }),
    Phase: command({}, { reply: Schema.String }),
    Stay: command({}, { reply: Schema.Void })
  },
  keep: "snapshot",
  mailbox: { capacity: 8 },
  restart: { times: 3, within: "1 minute", backoff: "1 second" },
  passivateAfter: "1 hour",
  endsIn: ["Over"]
}).behaves({
  initial: { _tag: "Idle" },
  on: { Idle: rules("Idle"), One: rules("One"), Two: rules("Two"), Over: rules("Over") },
  evolve: { Moved: (_, { to }) => ({ _tag: to }) },
  activity: { One: activityOf("One"), Two: activityOf("Two") }
})

const gate = (): { readonly opened: Promise<void>; readonly open: () => void } => {
  let open!: () => void
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { opened, open }
}

const opened = () => {
  const world = new Clocked(Staged)
  const ask = async (name: string): Promise<unknown> => {
    const answer = world.ask(Staged, "a", name)
    await turns()
    return answer.heard
  }
  return { world, ask }
}

it("the next phase's activity begins when that of the last has ended", async () => {
  const { ask } = opened()
  const ending = gate()
  script.ending = ending.opened
  await ask("Begin")
  await ask("Next")
  expect(script.noted).toEqual(["One starts"])
  ending.open()
  await turns()
  expect(script.noted).toEqual(["One starts", "One ended", "Two starts"])
})

it("a phase that is left while the last activity is still ending gets no activity", async () => {
  const { ask } = opened()
  const ending = gate()
  script.ending = ending.opened
  await ask("Begin")
  await ask("Next")
  await ask("Rest")
  ending.open()
  await turns()
  expect(script.noted).toEqual(["One starts", "One ended"])
})

it("an activity that is interrupted is no crash of its actor", async () => {
  const { world, ask } = opened()
  await ask("Begin")
  await ask("Rest")
  expect(script.noted).toEqual(["One starts", "One ended"])
  expect(world.system.inspect("staged", "a")).toMatchObject({ restarts: 0, status: "idle" })
})

it("what an activity tells while its actor's end is on its way to the disk begins no new actor", async () => {
  const { world, ask } = opened()
  const telling = gate()
  script.telling = telling.opened.then(() => "Begin" as const)
  await ask("Begin")
  world.held.auto = false
  world.ask(Staged, "a", "End")
  telling.open()
  await turns()
  world.held.auto = true
  world.held.flush()
  await turns()
  expect(await ask("Phase")).toBe("Idle")
  expect(script.noted).toEqual(["One starts"])
})

it("the rest after a crash is monotonic: a wall clock that steps back does not prolong it, nor one ahead", async () => {
  for (const stepMs of [-3_600_000, 3_600_000]) {
    const { world, ask } = opened()
    script.noted = []
    script.dies = true
    await ask("Begin")
    script.dies = false
    world.wallMs += stepMs
    world.advance(500)
    await turns()
    expect(script.noted).toEqual(["One starts"])
    world.advance(1_000)
    await turns()
    expect(script.noted).toEqual(["One starts", "One starts"])
  }
})

it("an activity that is interrupted while it waits to tell again leaves no timer", async () => {
  const { world, ask } = opened()
  const telling = gate()
  script.telling = telling.opened.then(() => "Stay" as const)
  await ask("Begin")
  world.held.auto = false
  telling.open()
  await turns()
  world.held.fail()
  await turns()
  expect(timersOf(world)).toBe(1)
  world.held.auto = true
  await ask("Rest")
  expect(timersOf(world)).toBe(0)
})
