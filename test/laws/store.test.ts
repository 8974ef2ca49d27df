import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll } from "vitest"
import { openLmdb } from "../../storage/lmdb.ts"
import { openMemory } from "../../storage/memory.ts"
import { storeLaws } from "./store.laws.ts"

const root = mkdtempSync(join(tmpdir(), "troupe-laws-"))
afterAll(() => rmSync(root, { recursive: true, force: true }))
let folders = 0

storeLaws("memory", async () => openMemory())
storeLaws("lmdb, full durability", () => openLmdb({ folder: join(root, String(folders++)) }))
storeLaws("lmdb, relaxed", () => openLmdb({ folder: join(root, String(folders++)), durability: "relaxed" }))
