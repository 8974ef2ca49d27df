// Bundles the program, its engine workers and the benches into dist/. Effect is bundled (cold start, performance.md section 3);
// native and WASM packages stay in node_modules, where they find their own files.
import { build } from "esbuild"
import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("..", import.meta.url))
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
const bundled = new Set(["effect", "commander", "yaml", "jose", "msgpackr"])
const external = Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies, ...manifest.devDependencies })
  .filter((name) => !bundled.has(name)).flatMap((name) => [name, `${name}/*`])
const sources = (folder) => existsSync(join(root, folder))
  ? readdirSync(join(root, folder)).filter((f) => f.endsWith(".ts")).map((f) => join(root, folder, f)) : []
const bundle = (entryPoints, outdir, minify) => entryPoints.length === 0 ? undefined : build({
  entryPoints, outdir: join(root, "dist", outdir), bundle: true, splitting: true, format: "esm", platform: "node", target: "node20",
  external, minifySyntax: minify, minifyWhitespace: minify, sourcemap: true, logLevel: "warning",
  banner: { js: `import { createRequire as __createRequire } from "node:module"; const require = __createRequire(import.meta.url);` }
})

rmSync(join(root, "dist"), { recursive: true, force: true })
await Promise.all([
  bundle([join(root, "runtime/main.ts")].filter(existsSync), ".", true),
  bundle(sources("actors/engines/workers"), "workers", true),
  bundle(sources("protocols/formats/workers"), "workers", true),
  bundle(sources("bench"), "bench", false),
  bundle(sources("bench/programs"), "bench/programs", false)
])
