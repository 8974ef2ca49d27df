/** The process that the crash test kills: durable asks to a few actors, each acknowledged answer written to
 *  stdout at once. node main.mjs FOLDER ROUND */
import { writeSync } from "node:fs"
import { Context, Schema } from "effect"
import { command, defineActor, persist } from "../../../runtime/actor.ts"
import { ActorSystem } from "../../../runtime/registry.ts"
import { openLmdb } from "../../../storage/lmdb.ts"

export const Ledger = defineActor("ledger", {
  state: Schema.TaggedUnion({ Open: { count: Schema.Int } }),
  event: Schema.TaggedUnion({ Booked: { entry: Schema.String } }),
  commands: { Book: command({ entry: Schema.String }, { reply: Schema.Int }) },
  keep: "journal",
  snapshotEvery: 1_000_000,
  mailbox: { capacity: 1_000 },
  restart: { times: 3, within: "1 minute" },
  passivateAfter: "1 minute"
}).behaves({
  initial: { _tag: "Open", count: 0 },
  on: { Open: { Book: ({ count }, { entry }) => persist({ _tag: "Booked", entry }).reply(count + 1) } },
  evolve: { Booked: ({ count }) => ({ _tag: "Open", count: count + 1 }) }
})

export const ledgers = 8
const [, , folder, round] = process.argv

if (folder !== undefined && round !== undefined) {
  const store = await openLmdb({ folder })
  const system = new ActorSystem({ store, nowMs: Date.now })
  system.host(Ledger, Context.empty())
  let next = 0
  const book = (id: string): void => {
    const entry = `${round}.${next++}`
    system.ref(Ledger, id).askNow("Book", { entry }, (answer) => {
      if ("reply" in answer) writeSync(1, `${id} ${answer.reply} ${entry}\n`)
      book(id)
    })
  }
  for (let i = 0; i < 4 * ledgers; i++) book(`l${i % ledgers}`)
}
