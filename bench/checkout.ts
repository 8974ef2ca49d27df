/** The two trees of `--against`: this one, and another commit's, checked out and built in a temporary folder.
 *  The other tree leaves nothing in the repository (`git archive`, no worktree) and vanishes
 *  with the scratch folder when the run ends, by whatever way it ends. */
import { execFileSync } from "node:child_process"
import { existsSync, mkdirSync, readFileSync, symlinkSync } from "node:fs"
import { join } from "node:path"
import { runToEnd, scratchFolder } from "./processes.ts"
import { root, type Tree } from "./tree.ts"

const git = (...args: ReadonlyArray<string>): string =>
  execFileSync("git", ["-C", root, ...args], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }).trim()

const treeAt = (folder: string, side: string, description: string): Tree => ({
  root: folder,
  programs: join(folder, "dist", "bench", "programs"),
  temporary: scratchFolder(`${side}-files`),
  description
})

const describeThis = (): string => {
  try {
    const changes = git("status", "--porcelain") === "" ? "" : ", with uncommitted changes"
    return `${git("log", "-1", "--format=%h (%s)")}${changes}`
  } catch {
    return "this tree, which is not in git"
  }
}

let own: Tree | undefined

export const thisTree = (): Tree => (own ??= treeAt(root, "after", describeThis()))

interface LockedPackage {
  readonly dev?: boolean
  readonly version?: string
  readonly integrity?: string
}

/** Lists the packages that a run of the program resolves to. Development packages are left out, because this
 *  tree's build compiles both sides with the same compiler. */
const runtimePackages = (folder: string): string => {
  const lock = JSON.parse(readFileSync(join(folder, "package-lock.json"), "utf8")) as {
    readonly packages: Record<string, LockedPackage>
  }
  return Object.entries(lock.packages)
    .filter(([path, { dev }]) => path !== "" && dev !== true)
    .map(([path, { version, integrity }]) => `${path} ${version} ${integrity}`)
    .sort()
    .join("\n")
}

const commitOf = (revision: string): string => {
  try {
    return git("rev-parse", "--verify", "--quiet", "--end-of-options", `${revision}^{commit}`)
  } catch {
    throw new Error(`--against ${revision}: no such commit in ${root}`)
  }
}

/** Checks a commit out, provides its node_modules, and builds it. A link to this tree's node_modules suffices
 *  when both lock the same runtime packages; otherwise its own are installed, with their scripts, which check
 *  the native modules. */
export const checkOut = async (revision: string): Promise<Tree> => {
  const commit = commitOf(revision)
  const folder = join(scratchFolder("before"), "tree")
  const archive = join(scratchFolder("before"), "tree.tar")
  mkdirSync(folder)
  await runToEnd("git", ["-C", root, "archive", "--format=tar", "--output", archive, commit])
  await runToEnd("tar", ["-xf", archive, "-C", folder])

  const linked = existsSync(join(root, "node_modules")) && runtimePackages(folder) === runtimePackages(root)
  if (linked) symlinkSync(join(root, "node_modules"), join(folder, "node_modules"), "dir")
  else await runToEnd("npm", ["ci", "--no-audit", "--no-fund"], { cwd: folder })

  await runToEnd(process.execPath, [join("runtime", "build.mjs")], { cwd: folder })
  const packages = linked ? "this tree's node_modules" : "node_modules of its own"
  return treeAt(folder, "before", `${git("log", "-1", "--format=%h (%s)", commit)}, ${packages}`)
}
