/** Faults of the fences that keep one writer and one history: sequence numbers, the remembered tails of
 *  journals, the lock of the data folder. */
import type { Mutant } from "./mutant.ts"

const lmdb = ["test/storage/lmdb.test.ts"]
const restore = ["test/storage/restore.test.ts"]
const lock = ["test/storage/folder-lock.test.ts"]
const storage = ["test/storage/storage.test.ts"]
const both = ["test/storage/storage.test.ts", "test/laws/store.test.ts"]

export const fence: ReadonlyArray<Mutant> = [
  {
    id: "append-overwrites",
    file: "storage/staged-commit.ts",
    find: `if (seq !== tail.last + 1) return "sequence"`,
    replace: `if (seq > tail.last + 1) return "sequence"`,
    why: "a cell that is behind overwrites events of another",
    tests: both
  },
  {
    id: "snapshot-goes-back",
    file: "storage/staged-commit.ts",
    find: `    if (seq < tail.base) return "sequence"\n`,
    replace: "",
    why: "an old snapshot replaces a newer one",
    tests: both
  },
  {
    id: "snapshot-moves-the-tail-back",
    file: "storage/staged-commit.ts",
    find: "this.setTail(address, { last: Math.max(seq, tail.last), base: seq })",
    replace: "this.setTail(address, { last: seq, base: seq })",
    why: "after a snapshot of an earlier event the next append overwrites the events behind it",
    tests: both
  },
  {
    id: "tails-outlive-a-fault",
    file: "storage/writer.ts",
    find: "        this.tails.clear()\n        this.changes = []",
    replace: "        this.changes = []",
    why: "after a lost commit the actor's journal goes on behind a gap, or refuses for ever",
    tests: ["test/storage/writer.test.ts"]
  },
  {
    id: "refused-commit-keeps-its-tails",
    file: "storage/writer.ts",
    find: "        commit.undo()\n",
    replace: "",
    why: "a refused commit moves the tail: the actor's next append is refused",
    tests: both
  },
  {
    id: "waiting-outlives-a-fault",
    file: "storage/writer.ts",
    find: "        this.waiting = new Map()\n        this.leaving = new Map()\n        this.tails",
    replace: "        this.leaving = new Map()\n        this.tails",
    why: "reads return what was reported lost",
    tests: storage
  },
  {
    id: "shared-lock",
    file: "storage/folder-lock.ts",
    find: "tryLock(file, 0, 0, true)",
    replace: "tryLock(file, 0, 0, false)",
    why: "two writers hold one folder, and check conditions apart",
    tests: lock
  },
  {
    id: "lock-by-process",
    file: "storage/folder-lock.ts",
    find: "tryLock(file, 0, 0, true)",
    replace: "tryLock(file, process.pid, 1, true)",
    why: "each process locks a part of its own, and a second writer is not refused",
    tests: lock
  },
  {
    id: "store-file-unlocked",
    file: "storage/lmdb.ts",
    find: "if (!isNew) unlockStore = lockStore(folder, file)",
    replace: 'if (!isNew && durability === "relaxed") unlockStore = lockStore(folder, file)',
    why: "who deletes the lock's file lets a second writer in",
    tests: lock
  },
  {
    id: "lock-file-removed",
    file: "storage/folder-lock.ts",
    find: "  nameHolder(file)\n  return () => closeSync(file)\n",
    replace:
      "  nameHolder(file)\n  return () => {\n    closeSync(file)\n    rmSync(join(folder, lockFile))\n  }\n",
    also: {
      find: "import { closeSync, ftruncateSync, openSync, readFileSync, writeSync }",
      replace: "import { closeSync, ftruncateSync, openSync, readFileSync, rmSync, writeSync }"
    },
    why: "the next process locks a file of its own",
    tests: lock
  },
  {
    id: "restore-cut-off-is-opened",
    file: "storage/lmdb.ts",
    find: "    if (existsSync(join(folder, restoreFolder)))\n",
    replace: "    if (existsSync(join(folder, restoreFolder, restoreFolder)))\n",
    why: "a node serves what a killed restore had put in its place so far",
    tests: restore
  },
  {
    id: "restore-believes-the-backup",
    file: "storage/restore.ts",
    find: "    if (copied.sha256 !== sha256)\n",
    replace: "    if (copied.sha256.length !== sha256.length)\n",
    why: "a changed file is restored, and fails when it is read",
    tests: restore
  },
  {
    id: "manifest-before-the-files",
    file: "storage/backup.ts",
    find: "    await mkdir(join(target, blobsFolder), { mode: 0o700 })\n",
    replace:
      '    await mkdir(join(target, blobsFolder), { mode: 0o700 })\n    await writeWhole(join(target, manifestFile), "{}")\n',
    why: "a backup that was cut off has a manifest",
    tests: restore
  },
  {
    id: "lock-outlives-a-refusal",
    file: "storage/lmdb.ts",
    find: "    unlock()\n    throw faultOf(cause)",
    replace: "    throw faultOf(cause)",
    why: "a folder that was refused stays locked for every other process",
    tests: lmdb
  },
  {
    id: "older-schema",
    file: "storage/lmdb.ts",
    find: "Number(schema) > schemaVersion",
    replace: "Number(schema) > schemaVersion + 100",
    why: "an older build writes into the data of a newer one",
    tests: storage
  },
  {
    id: "sequence-before-acceptance",
    file: "runtime/cell.ts",
    find: "    const { generation } = ext\n    const conflict = kind",
    replace: "    const { generation } = ext\n    this.seq = seq\n    const conflict = kind",
    why: "after a refused row the next commit of the actor is refused for its sequence",
    tests: ["test/runtime/cell.test.ts"]
  },
  {
    id: "end-keeps-its-sequence",
    file: "runtime/cell.ts",
    find: "      state = kind.definition.initial\n      seq = 0\n",
    replace: "      state = kind.definition.initial\n",
    why: "the next actor of an address that was ended begins with a gap, and every commit of it is refused",
    tests: ["test/runtime/kernel.test.ts", "test/runtime/cracks.test.ts"]
  }
]
