// Bundles a TypeScript program of the tests below dist/ and runs it: node test/tools/bundled.mjs FILE ARGUMENTS
import { build } from "esbuild"
import { spawn } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("../..", import.meta.url))
const [entry, ...args] = process.argv.slice(2)
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
const bundled = new Set(["effect", "msgpackr"])
const folder = mkdtempSync(join(root, "dist", "child-"))
const outfile = join(folder, "main.mjs")
await build({
  entryPoints: [join(root, entry)],
  outfile,
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20",
  logLevel: "warning",
  external: Object.keys({
    ...manifest.dependencies,
    ...manifest.optionalDependencies,
    ...manifest.devDependencies
  })
    .filter((name) => !bundled.has(name))
    .flatMap((name) => [name, `${name}/*`]),
  banner: {
    js: `import { createRequire as __createRequire } from "node:module"; const require = __createRequire(import.meta.url);`
  }
})
const child = spawn(process.execPath, [outfile, ...args], { stdio: "inherit" })
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => child.kill(signal))
child.on("exit", (code) => {
  rmSync(folder, { recursive: true, force: true })
  process.exit(code ?? 1)
})
