// Bundles the program, its engine workers and the benches into dist/. Effect is bundled (cold start,
// performance.md section 3);
// native and WASM packages stay in node_modules, where they find their own files.
import { build } from "esbuild"
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"

const root = fileURLToPath(new URL("..", import.meta.url))
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
const bundled = new Set(["effect", "commander", "yaml", "jose", "msgpackr"])

const external = Object.keys({
  ...manifest.dependencies,
  ...manifest.optionalDependencies,
  ...manifest.devDependencies
})
  .filter((name) => !bundled.has(name))
  .flatMap((name) => [name, `${name}/*`])

const sources = (folder) =>
  existsSync(join(root, folder))
    ? readdirSync(join(root, folder))
        .filter((f) => f.endsWith(".ts"))
        .map((f) => join(root, folder, f))
    : []

/** What a node needs only once somebody calls out of it, or never: loaded when first touched. */
const late = new Set([
  "node:http",
  "node:https",
  "node:tls",
  "node:dns",
  "node:dns/promises",
  "node:perf_hooks",
  "ws",
  "fastest-levenshtein",
  "saxes"
])

/** Writes every character beyond ASCII as its escape. esbuild does so in strings only, neither in regular
 *  expressions nor in templates; the start reads one byte as one character (precompiled.ts). An escape means
 *  the same everywhere but in a raw template, which is refused. */
const asciiOf = (script) => {
  if (/\.raw`[^`]*[^\0-\x7f]/.test(script))
    throw new Error("dist/serve.cjs: a raw template cannot be written in ASCII")
  return script.replace(/\\[^]|[^\0-\x7f]/g, (text) => {
    const code = text.charCodeAt(text.length - 1)
    return code > 0x7f ? `\\u${code.toString(16).padStart(4, "0")}` : text
  })
}

const common = {
  bundle: true,
  platform: "node",
  target: "node20",
  external,
  sourcemap: true,
  logLevel: "warning"
}

const bundle = (entryPoints, outdir, minify) =>
  entryPoints.length === 0
    ? undefined
    : build({
        ...common,
        entryPoints,
        outdir: join(root, "dist", outdir),
        splitting: true,
        format: "esm",
        minifySyntax: minify,
        minifyWhitespace: minify,
        banner: {
          js: `import { createRequire as __createRequire } from "node:module"; const require = __createRequire(import.meta.url);`
        }
      })

/** Leaves the copies of uWebSockets.js for older C libraries in dist/native: that for this Node, or with
 *  --pack those for every Node and processor. */
const libraries = async () => {
  const file = join(root, "runtime/transport/uws-library.ts")
  const { outputFiles } = await build({
    ...common,
    entryPoints: [file],
    format: "esm",
    sourcemap: false,
    write: false,
    define: { "import.meta.url": JSON.stringify(pathToFileURL(file).href) }
  })
  const source = Buffer.from(outputFiles[0].contents).toString("base64")
  const { buildCopies, pins } = await import(`data:text/javascript;base64,${source}`)
  buildCopies(join(root, "dist/native"), process.argv.includes("--pack") ? Object.keys(pins) : undefined)
}

rmSync(join(root, "dist"), { recursive: true, force: true })

await Promise.all([
  libraries(),
  // What a start runs, as one script: only scripts can be kept compiled (runtime/program/cli/precompiled.ts).
  build({
    ...common,
    entryPoints: [join(root, "runtime/program/cli/serve.ts")],
    outfile: join(root, "dist/serve.cjs"),
    format: "cjs",
    minifySyntax: true,
    minifyWhitespace: true,
    define: { "import.meta.url": "__metaUrl" }
  }).then(() => {
    const file = join(root, "dist/serve.cjs")
    writeFileSync(
      file,
      asciiOf(readFileSync(file, "utf8"))
        .replace(/(?<![\w.$])import\(/g, "__import(")
        .replace(/(?<=[\w$]=)((?:__toESM\()?require\("([^"]+)"\)(?:,1\))?)/g, (whole, load, name) =>
          late.has(name) ? `__late(()=>${load})` : whole
        ),
      "ascii"
    )
  }),
  // CommonJS, so that a start never sets up the loader of modules.
  build({
    ...common,
    entryPoints: [join(root, "runtime/program/main.ts")],
    outfile: join(root, "dist/main.cjs"),
    format: "cjs",
    minifySyntax: true,
    minifyWhitespace: true,
    define: { "import.meta.url": "__metaUrl" },
    banner: { js: `const __metaUrl = require("node:url").pathToFileURL(__filename).href;` },
    plugins: [
      {
        name: "beside",
        setup: (of) =>
          of.onResolve({ filter: /cli\/program\.ts$/ }, () => ({ path: "./program.js", external: true }))
      }
    ]
  }),
  bundle([join(root, "runtime/program/cli/program.ts")], ".", true),
  bundle(sources("actors/engines/workers"), "workers", true),
  bundle(sources("protocols/formats/workers"), "workers", true),
  bundle(sources("actors/hashing/workers"), "workers", true),
  bundle(sources("bench"), "bench", false),
  bundle(sources("bench/programs"), "bench/programs", false)
])
