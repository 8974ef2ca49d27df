// Bundles the simulation and runs it: node test/simulation/bundle.mjs --seeds 300 --seed 1 --jobs 2.
// With --kernel it runs over the sources of another folder or commit: --kernel ../other, --kernel d62ad77.
import { build } from "esbuild"
import { execFileSync, spawn } from "node:child_process"
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve, sep } from "node:path"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("../..", import.meta.url))
const here = join(root, "test/simulation")
const args = process.argv.slice(2)
const at = args.indexOf("--kernel")
const [, kernel] = at < 0 ? [] : args.splice(at, 2)
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
const bundled = new Set(["effect", "msgpackr"])
const rooms = ["runtime", "storage", "actors", "protocols"]

/** The folder whose rooms are simulated. */
const sourcesOf = (folder) => {
  if (kernel === undefined) return root
  if (existsSync(join(kernel, "runtime"))) return resolve(kernel)
  const archive = execFileSync("git", ["archive", kernel, ...rooms], { cwd: root, maxBuffer: 2 ** 29 })
  mkdirSync(join(folder, "sources"))
  execFileSync("tar", ["-x", "-C", join(folder, "sources")], { input: archive })
  return join(folder, "sources")
}

mkdirSync(join(root, "node_modules/.cache"), { recursive: true })
const folder = mkdtempSync(join(root, "node_modules/.cache/simulation-"))
const sources = sourcesOf(mkdtempSync(join(tmpdir(), "simulation-")))

/** Our imports of the program's rooms are those of the chosen folder; its packages are ours. */
const elsewhere = {
  name: "elsewhere",
  setup: (bundle) => {
    bundle.onResolve({ filter: /^\.\.?\// }, ({ path, resolveDir }) => {
      const target = resolve(resolveDir, path)
      const room = rooms.find((name) => target.startsWith(join(root, name) + sep))
      return room === undefined ? undefined : { path: join(sources, target.slice(root.length)) }
    })
    bundle.onResolve({ filter: /^[^./]/ }, ({ path, resolveDir, kind, pluginData }) =>
      pluginData === "again" || resolveDir.startsWith(root)
        ? undefined
        : bundle.resolve(path, { resolveDir: root, kind, pluginData: "again" })
    )
  }
}

const outfile = join(folder, "main.mjs")
await build({
  entryPoints: [join(here, "main.ts")],
  outfile,
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20",
  logLevel: "warning",
  external: Object.keys({ ...manifest.dependencies, ...manifest.devDependencies })
    .filter((name) => !bundled.has(name))
    .flatMap((name) => [name, `${name}/*`]),
  plugins: sources === root ? [] : [elsewhere],
  banner: {
    js: `import { createRequire as __createRequire } from "node:module"; const require = __createRequire(import.meta.url);`
  }
})
const child = spawn(process.execPath, ["--max-semi-space-size=32", outfile, ...args], { stdio: "inherit" })
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => child.kill(signal))
child.on("exit", (code) => {
  rmSync(folder, { recursive: true, force: true })
  if (sources !== root && kernel !== undefined && !existsSync(join(kernel, "runtime")))
    rmSync(sources, { recursive: true, force: true })
  process.exitCode = code ?? 1
})
