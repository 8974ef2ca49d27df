/** Faults of the order of system calls: what survives a power loss. */
import type { Mutant } from "./mutant.ts"

const blobs = ["test/storage/blobs.test.ts"]
const lmdb = ["test/storage/lmdb.test.ts"]

export const fsync: ReadonlyArray<Mutant> = [
  {
    id: "blob",
    file: "storage/blobs.ts",
    find: "          await handle.sync()\n        } finally {\n          await handle.close()\n        }\n        await rename",
    replace: "        } finally {\n          await handle.close()\n        }\n        await rename",
    why: "after a power loss a blob has its name, and no bytes",
    tests: blobs
  },
  {
    id: "blob-folder",
    file: "storage/blobs.ts",
    find: "      await syncFolder()\n      return size",
    replace: "      return size",
    why: "after a power loss an acknowledged blob has no name",
    tests: blobs
  },
  {
    id: "blob-folder-opened-only",
    file: "storage/blobs.ts",
    find: `    const handle = await open(folder, "r")\n    try {\n      await handle.sync()\n    } finally {`,
    replace: `    const handle = await open(folder, "r")\n    try {\n      await handle.stat()\n    } finally {`,
    why: "the folder is opened and closed, and its entry is still only in memory",
    tests: blobs
  },
  {
    id: "blob-renamed-later",
    file: "storage/blobs.ts",
    find: "        await rename(temporary, path)\n",
    replace: "        void rename(temporary, path)\n",
    why: "the folder is flushed before the name is in it",
    tests: blobs
  },
  {
    id: "lmdb-never-syncs",
    file: "storage/lmdb.ts",
    find: `      noSync: durability === "relaxed",\n`,
    replace: "      noSync: true,\n",
    why: "no commit is ever flushed to disk, whatever is configured",
    tests: lmdb
  },
  {
    id: "full-is-relaxed",
    file: "storage/lmdb.ts",
    find: `new Lmdb(db, room, durability === "full")`,
    replace: `new Lmdb(db, room, durability !== "full")`,
    why: "the durable setting does not wait for the flush, the relaxed one does",
    tests: lmdb
  },
  {
    id: "revocation-intent",
    file: "protocols/authorization/token/pending-revocations.ts",
    find: "      fsyncSync(file)\n",
    replace: "",
    why: "a revocation that the store refused is forgotten by a power loss",
    tests: ["test/protocols/authorization/token/pending-revocations.test.ts"]
  }
]
