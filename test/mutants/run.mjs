/** `npm run mutants`: applies each mutant of list.ts to a copy of the tree, runs the tests that it names with
 *  `--bail 1`, and demands that one of them fails. Guarantee: the working tree is never touched, no mutant
 *  counts as killed unless its tests are green without it, and a file that no longer loads is not a kill.
 *
 *      npm run mutants                              every mutant
 *      npm run mutants -- --only fence              one class
 *      npm run mutants -- --only fence/retold-tail  one mutant; several are separated by commas
 *      npm run mutants -- --jobs 2                  two trees at once
 *      npm run mutants -- --trust                   without the green run before
 *
 *  It ends with 0 when every mutant was killed, with 1 otherwise, and with 2 when the tests are red without
 *  a mutant. */
import { execFileSync, spawn } from "node:child_process"
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { build } from "esbuild"

const root = fileURLToPath(new URL("../..", import.meta.url))

/** Limits how long the tests of one mutant may run, in ms. */
const mutantMsMax = 180_000

/** Limits the run of all named tests without a mutant, in ms. */
const greenMsMax = 1_800_000

const { values: options } = parseArgs({
  options: {
    only: { type: "string" },
    jobs: { type: "string", default: "1" },
    trust: { type: "boolean", default: false }
  }
})

const loadList = async () => {
  const { outputFiles } = await build({
    entryPoints: [join(root, "test/mutants/list.ts")],
    bundle: true,
    format: "esm",
    platform: "node",
    write: false,
    logLevel: "warning"
  })
  const source = Buffer.from(outputFiles[0].contents).toString("base64")
  return import(`data:text/javascript;base64,${source}`)
}

/** Copies the files that git tracks or would track, so that uncommitted tests count, and links the
 *  dependencies. */
const copyTree = () => {
  const tree = mkdtempSync(join(tmpdir(), "mutants-"))
  const files = execFileSync("git", ["ls-files", "-z", "-co", "--exclude-standard"], { cwd: root })
    .toString()
    .split("\0")
    .filter((file) => file !== "" && existsSync(join(root, file)))
  for (const file of files) {
    mkdirSync(join(tree, dirname(file)), { recursive: true })
    copyFileSync(join(root, file), join(tree, file))
  }
  symlinkSync(join(root, "node_modules"), join(tree, "node_modules"))
  return tree
}

/** Builds the program of a tree, for the tests that run it. */
const buildTree = (tree) =>
  execFileSync(process.execPath, ["runtime/build.mjs"], { cwd: tree, stdio: "inherit" })

/** The process groups under way, which end with this process. */
const running = new Set()

const endGroup = (pid) => {
  try {
    process.kill(-pid, "SIGKILL")
  } catch {
    // The group has ended already.
  }
}

/** Runs tests in a tree. Resolves with the title of the first failed test, with what else was wrong, or with
 *  neither when all are green. */
const runTests = (tree, { files, only, msMax, bail, built }) =>
  new Promise((resolve) => {
    const report = join(tree, "mutants-report.json")
    rmSync(report, { force: true })
    const child = spawn(
      process.execPath,
      [
        join(tree, "node_modules/vitest/vitest.mjs"),
        "run",
        "--config",
        "test/vitest.config.ts",
        "--reporter=json",
        `--outputFile=${report}`,
        "--cache=false",
        ...(bail ? ["--bail=1"] : []),
        ...(only === undefined ? [] : ["-t", only]),
        ...files
      ],
      {
        cwd: tree,
        stdio: ["ignore", "pipe", "pipe"],
        detached: true,
        env: { ...process.env, TROUPE_BUILT: built ? "" : "1" }
      }
    )
    running.add(child.pid)
    let output = ""
    const collect = (chunk) => {
      output = (output + chunk).slice(-4_000)
    }
    child.stdout.on("data", collect)
    child.stderr.on("data", collect)
    let timedOut = false
    const timer = setTimeout(() => {
      timedOut = true
      endGroup(child.pid)
    }, msMax)
    child.on("close", (code) => {
      clearTimeout(timer)
      endGroup(child.pid)
      running.delete(child.pid)
      if (timedOut) return resolve({ timedOut })
      if (!existsSync(report)) return resolve({ broken: output || `vitest ended with ${code}` })
      const { testResults } = JSON.parse(readFileSync(report, "utf8"))
      const failed = testResults
        .flatMap(({ assertionResults }) => assertionResults)
        .find(({ status }) => status === "failed")
      if (failed !== undefined) return resolve({ failed: failed.fullName })
      if (code === 0) return resolve({})
      const { message } = testResults.find(({ status }) => status === "failed") ?? {}
      resolve({ broken: message || output })
    })
  })

const verdictOf = ({ failed, timedOut, broken }, mutant) => {
  if (failed !== undefined) return "killed"
  if (timedOut) return mutant.timeoutKills ? "killed" : "timed out"
  return broken === undefined ? "survived" : "broken"
}

const judge = async (tree, { address, mutant }) => {
  const path = join(tree, mutant.file)
  const original = existsSync(path) ? readFileSync(path, "utf8") : ""
  const edits = [mutant, ...(mutant.also === undefined ? [] : [mutant.also])]
  if (edits.some(({ find }) => original.split(find).length !== 2))
    return { address, verdict: "stale", detail: mutant.file }
  if (mutant.equivalent !== undefined) return { address, verdict: "equivalent", detail: mutant.equivalent }
  const mutated = edits.reduce((text, { find, replace }) => text.replace(find, () => replace), original)
  writeFileSync(path, mutated)
  try {
    const { tests: files, only, built } = mutant
    const outcome = await runTests(tree, { files, only, built, msMax: mutantMsMax, bail: true })
    const verdict = verdictOf(outcome, mutant)
    return { address, verdict, detail: outcome.failed ?? outcome.broken ?? mutant.why }
  } finally {
    writeFileSync(path, original)
    if (mutant.built) buildTree(tree)
  }
}

const stop = (trees) => {
  for (const pid of running) endGroup(pid)
  for (const tree of trees) rmSync(tree, { recursive: true, force: true })
}

const secondsSince = (startedMs) => ((performance.now() - startedMs) / 1_000).toFixed(1)

const { mutants } = await loadList()
const wanted = options.only?.split(",")
const selected = mutants.filter(
  ({ address }) =>
    wanted === undefined || wanted.some((name) => address === name || address.startsWith(`${name}/`))
)
if (selected.length === 0) {
  console.error(`no mutant is called ${options.only}`)
  process.exit(2)
}

const startedMs = performance.now()
const trees = Array.from({ length: Math.max(1, Number(options.jobs) || 1) }, copyTree)
process.on("exit", () => stop(trees))
for (const tree of trees) buildTree(tree)
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(130))

/** Demands that what the mutants name is green without them, each test as they name it. */
const demandGreen = async (tree) => {
  const filesOf = new Map()
  for (const { mutant } of selected) {
    if (mutant.equivalent !== undefined) continue
    const files = filesOf.get(mutant.only) ?? new Set()
    filesOf.set(mutant.only, files)
    for (const file of mutant.tests) files.add(file)
  }
  let count = 0
  for (const [only, files] of filesOf) {
    const outcome = await runTests(tree, { files: [...files], only, msMax: greenMsMax, bail: false })
    const { failed, timedOut, broken } = outcome
    if (failed !== undefined || timedOut || broken !== undefined) {
      console.error(`the tests are red without a mutant: ${failed ?? broken ?? "timed out"}`)
      process.exit(2)
    }
    count += files.size
  }
  console.log(`${count} test files are green without a mutant (${secondsSince(startedMs)} s)`)
}

if (!options.trust) await demandGreen(trees[0])

const counts = new Map()
const waiting = [...selected]
await Promise.all(
  trees.map(async (tree) => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const mutantStartedMs = performance.now()
      const { address, verdict, detail } = await judge(tree, next)
      counts.set(verdict, (counts.get(verdict) ?? 0) + 1)
      const firstLine = detail.trim().split("\n")[0]
      console.log(`${verdict.padEnd(10)} ${address} (${secondsSince(mutantStartedMs)} s): ${firstLine}`)
    }
  })
)
const countOf = (verdict) => counts.get(verdict) ?? 0
const verdicts = ["killed", "survived", "stale", "timed out", "broken", "equivalent"]
console.log(
  `${selected.length} mutants: ${verdicts.map((verdict) => `${countOf(verdict)} ${verdict}`).join(", ")}; ${secondsSince(startedMs)} s`
)
process.exit(countOf("killed") + countOf("equivalent") === selected.length ? 0 : 1)
