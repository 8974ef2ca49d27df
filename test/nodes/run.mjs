/** `npm run nodes`: builds once and runs what depends on Node's version (both adapters, the native packages,
 *  the built program) under each major version that is supported. The versions come from the npm package
 *  `node`, so the first run needs the registry.
 *
 *      npm run nodes                  20, 22 and 24
 *      npm run nodes -- 22 25         these
 *
 *  It ends with 1 when a test failed under any of them. */
import { execFileSync, spawnSync } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("../..", import.meta.url))

const suites = [
  "test/runtime/transport",
  "test/storage/lmdb.test.ts",
  "test/shipped/library.test.ts",
  "test/shipped/restart.test.ts",
  "test/shipped/uploads.test.ts",
  "test/conformance/translation.client.test.ts"
]

const majors = process.argv.length > 2 ? process.argv.slice(2) : ["20", "22", "24"]

/** Returns the path of a Node of that major version. It is asked in an empty folder, where npm finds no
 *  project of its own. */
const nodeOf = (major) => {
  const folder = mkdtempSync(join(tmpdir(), "nodes-"))
  try {
    const args = ["exec", "--yes", `--package=node@${major}`, "--", "node", "-p", "process.execPath"]
    return execFileSync("npm", args, { cwd: folder, encoding: "utf8" }).trim().split("\n").at(-1)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

// With the copies of uWebSockets.js for every Node, not for this one alone.
execFileSync(process.execPath, [join(root, "runtime/build.mjs"), "--pack"], { stdio: "inherit" })

const failed = majors.filter((major) => {
  const node = nodeOf(major)
  const versions = execFileSync(node, ["-p", "`${process.version}, ABI ${process.versions.modules}`"])
  console.log(`\nNode ${versions.toString().trim()}`)
  const { status } = spawnSync(
    node,
    [join(root, "node_modules/vitest/vitest.mjs"), "run", "--config", "test/vitest.config.ts", ...suites],
    { cwd: root, stdio: "inherit", env: { ...process.env, TROUPE_BUILT: "1" } }
  )
  return status !== 0
})

console.log(failed.length === 0 ? `all well under ${majors.join(", ")}` : `failed under ${failed.join(", ")}`)
process.exitCode = failed.length === 0 ? 0 : 1
