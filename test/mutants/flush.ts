/** Faults of "nothing acknowledged before the flush": an answer that leaves before its commit is on disk. */
import type { Mutant } from "./mutant.ts"

const lmdb = ["test/storage/lmdb.test.ts"]
const storage = ["test/storage/storage.test.ts"]
const laws = ["test/laws/store.test.ts"]

export const flush: ReadonlyArray<Mutant> = [
  {
    id: "lmdb-flushed",
    file: "storage/lmdb.ts",
    find: "      if (this.flushesToDisk) await this.db.flushed\n",
    replace: "",
    why: "a commit counts as durable before its pages are on disk: a power loss takes what was acknowledged",
    tests: lmdb
  },
  {
    id: "batch-unawaited",
    file: "storage/lmdb.ts",
    find: "await this.db.batch(() => {",
    replace: "void this.db.batch(() => {",
    why: "a transaction that fails is acknowledged, and its rejection is nobody's",
    tests: lmdb
  },
  {
    id: "flushed-forgets-leaving",
    file: "storage/writer.ts",
    find: "if (this.flushing === undefined && this.settledCallbacks.length === 0) return Promise.resolve()",
    replace: "if (this.settledCallbacks.length === 0) return Promise.resolve()",
    why: "flushed() resolves while the last transaction is still on its way",
    tests: ["test/storage/writer.test.ts"]
  },
  {
    id: "backup-waits-for-nothing",
    file: "storage/lmdb.ts",
    find: "          await writer.flushed()\n          await db.backup(",
    replace: "          await db.backup(",
    why: "a backup lacks commits that were accepted before it began",
    tests: lmdb
  },
  {
    id: "close-waits-for-nothing",
    file: "storage/lmdb.ts",
    find: "      for (const backup of backups) await backup\n      await writer.flushed()\n",
    replace: "      for (const backup of backups) await backup\n",
    why: "what was accepted in the last turn is lost at a clean shutdown",
    tests: lmdb
  },
  {
    id: "committed-when-accepted",
    file: "storage/store.ts",
    find: "    if (conflict !== undefined) reject(conflict)\n",
    replace: "    if (conflict !== undefined) reject(conflict)\n    else resolve()\n",
    why: "every caller of committed() answers before the flush, and never hears a storage fault",
    tests: [...storage, ...laws]
  },
  {
    id: "settled-at-next-turn",
    file: "storage/writer.ts",
    find: "    this.settledCallbacks.push(settled)\n    this.commits++",
    replace:
      "    setImmediate(settled, undefined)\n    this.settledCallbacks.push(() => {})\n    this.commits++",
    why: "a commit settles without a fault, whatever becomes of it",
    tests: [...storage, ...laws]
  },
  {
    id: "store-write",
    file: "protocols/store/engine/engine.ts",
    find: "    if (lost instanceof Conflict)\n      return resume(Effect.fail(conflict(",
    replace:
      "    resume(Effect.succeed(value))\n    if (lost instanceof Conflict)\n      return resume(Effect.fail(conflict(",
    why: "the store answers 201 for a product that a full disk refused",
    tests: ["test/protocols/store/engine/engine.test.ts"]
  },
  {
    id: "code-without-refresh",
    file: "protocols/authorization/token/grants/authorization-code.ts",
    find: "      if (!(outcome instanceof Promise)) continue\n      await outcome\n",
    replace: "      if (!(outcome instanceof Promise)) continue\n",
    why: "a code's token is answered before the code is spent on disk: after a crash it works again",
    tests: ["test/protocols/authorization/token/grants/authorization-code.test.ts"]
  },
  {
    id: "sealed-state-spent",
    file: "protocols/authorization/upstream/sealed-state.ts",
    find: "    await spent\n",
    replace: "",
    why: "a round trip goes on before its state is spent on disk: after a crash it can be replayed",
    tests: ["test/protocols/authorization/upstream/sealed-state.test.ts"]
  },
  {
    id: "usage-written-behind",
    file: "protocols/translation/account/usage.ts",
    find: "        return batch.settled\n      }",
    replace: "        return undefined\n      }",
    why: "with behindMs 0 a translation is answered before its booking is on disk",
    tests: ["test/protocols/translation/account/guard.test.ts"]
  },
  {
    id: "answer-overtakes",
    file: "runtime/cell.ts",
    find: "if (pending === undefined || pending.length === 0) this.kind",
    replace: "if (pending?.length !== -1) this.kind",
    why: "a read is answered from a state that a power loss takes back",
    tests: ["test/runtime/kernel.test.ts", "test/runtime/cracks.test.ts"]
  },
  {
    id: "answer-with-the-oldest",
    file: "runtime/cell.ts",
    find: "else pending[pending.length - 1]!.answers.push(done, outcome)",
    replace: "else pending[0]!.answers.push(done, outcome)",
    why: "a read leaves with the oldest of several commits, and has seen the newest",
    tests: ["test/runtime/kernel.test.ts", "test/runtime/cracks.test.ts"]
  },
  {
    id: "activity-before-its-phase",
    file: "runtime/cell.ts",
    find: "    const enters = this.setState(state) || ends\n",
    replace: "    const enters = this.setState(state) || ends\n    if (enters) this.enterPhase(state)\n",
    why: "an activity works for a phase that is lost",
    tests: ["test/runtime/kernel.test.ts", "test/runtime/cracks.test.ts"]
  },
  {
    id: "passivation-forgets-commits",
    file: "runtime/cell.ts",
    find: "(ext.pendingCommits.length === 0 && !ext.isSettling && ext.activity?.isPending !== true))",
    replace: "(!ext.isSettling && ext.activity?.isPending !== true))",
    why: "a cell leaves memory with answers that wait for their flush, and the next one may not know its commit",
    tests: ["test/runtime/kernel.test.ts", "test/runtime/cracks.test.ts"]
  },
  {
    id: "stop-waits-for-nothing",
    file: "runtime/registry.ts",
    find: "      Effect.promise(() => this.store.flushed())\n",
    replace: "      Effect.void\n",
    why: "a shutdown ends before what was accepted is on disk",
    tests: ["test/runtime/registry.test.ts"]
  },
  {
    id: "end-told-early",
    file: "runtime/cell.ts",
    find: "    ext.pendingCommits.push({\n",
    replace: "    if (ends) this.kind.system.ended(this)\n    ext.pendingCommits.push({\n",
    why: "watchers hear of an end that the disk may refuse",
    tests: ["test/runtime/kernel.test.ts", "test/runtime/cracks.test.ts"]
  }
]
