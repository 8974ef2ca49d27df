/** Measures recovery. It writes a store of N actor states, once per size; then, in a fresh process, it
 *  measures the time to the first answer that needs one (lazy), or until all are in memory (eager). node
 *  recovery.js lazy|eager STATES */
import { spawnSync } from "node:child_process"
import { Context, Schema } from "effect"
import { existsSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { command, defineActor, reply } from "../../runtime/actor.ts"
import { ActorSystem } from "../../runtime/registry.ts"
import { openLmdb } from "../../storage/lmdb.ts"
import { packing } from "../../storage/store.ts"

const State = Schema.TaggedUnion({ On: { n: Schema.Int, owner: Schema.String, note: Schema.String } })

const Kept = defineActor("kept", {
  state: State,
  event: Schema.TaggedUnion({ Never: {} }),
  commands: { Get: command({}, { reply: Schema.Int }) },
  keep: "snapshot",
  mailbox: { capacity: 8 },
  restart: { times: 3, within: "1 minute" },
  passivateAfter: "1 hour"
}).behaves({
  initial: { _tag: "On", n: -1, owner: "", note: "" },
  on: { On: { Get: ({ n }) => reply(n) } },
  evolve: { Never: (state) => state }
})

const [, , mode, sized] = process.argv
const states = Number(sized)
const folder = join(tmpdir(), `troupe-recovery-${states}`)

if (mode === "fill") {
  const store = await openLmdb({ folder, durability: "relaxed" })
  const { pack } = packing(State)
  for (let at = 0; at < states; at += 10_000) {
    for (let i = at; i < Math.min(states, at + 10_000); i++)
      store.commit(
        [
          {
            _tag: "snapshot",
            kind: "kept",
            id: `actor-${i}`,
            seq: 1,
            state: pack({ _tag: "On", n: i, owner: `user-${i % 1_000}`, note: "a small state" })
          }
        ],
        () => {}
      )
    await store.flushed()
  }
  await store.close()
  process.exit(0)
}

if (!existsSync(join(folder, "store.lmdb"))) {
  rmSync(folder, { recursive: true, force: true })
  spawnSync(process.execPath, [process.argv[1]!, "fill", String(states)], { stdio: "inherit" })
}

const startedMs = performance.now()
const cpu = process.cpuUsage()
const store = await openLmdb({ folder })
const system = new ActorSystem({ store, nowMs: Date.now, residentMax: 2_000_000 })
system.host(Kept, Context.empty())

const ask = (i: number): void =>
  system.ref(Kept, `actor-${i}`).askNow("Get", {}, (answer) => {
    if (!("reply" in answer) || answer.reply !== i) throw new Error(`actor ${i} came back wrong`)
  })

if (mode === "lazy") ask(states >> 1)
else for (let i = 0; i < states; i++) ask(i)

const value = performance.now() - startedMs
const used = process.cpuUsage(cpu)

console.log(
  JSON.stringify({
    value,
    extra: `${states.toLocaleString("en")} states, CPU ${Math.round((used.user + used.system) / 1_000)} ms, RSS ${Math.round(process.memoryUsage().rss / 1_048_576)} MiB`
  })
)

process.exit(0)
