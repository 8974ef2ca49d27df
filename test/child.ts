/** Runs a TypeScript file as a process of its own (crash tests need one to kill): bundles it into a temporary
 *  folder. */
import { spawn, type ChildProcess } from "node:child_process"
import { mkdtempSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { build } from "esbuild"

const root = new URL("..", import.meta.url).pathname

/** What has files of its own beside its code stays outside; Effect goes in, because a crash test starts many
 *  processes. */
const { dependencies, optionalDependencies, devDependencies } = JSON.parse(
  readFileSync(join(root, "package.json"), "utf8")
) as Record<string, Record<string, string>>

const external = Object.keys({ ...dependencies, ...optionalDependencies, ...devDependencies }).filter(
  (name) => name !== "effect" && name !== "msgpackr"
)

/** The path of the bundled program, below dist/ so that it finds node_modules. */
export const buildChild = async (entry: string): Promise<string> => {
  const outdir = mkdtempSync(join(root, "dist", "child-"))
  await build({
    entryPoints: [join(root, entry)],
    outfile: join(outdir, "main.mjs"),
    bundle: true,
    format: "esm",
    platform: "node",
    target: "node20",
    external,
    logLevel: "error",
    minifySyntax: true,
    banner: {
      js: "import { createRequire as __r } from 'node:module'; const require = __r(import.meta.url);"
    }
  })
  return join(outdir, "main.mjs")
}

export interface Child {
  readonly process: ChildProcess
  readonly lines: Array<string>
  readonly exited: Promise<number | null>
  line(matching: RegExp): Promise<string>
}

export const startChild = (
  program: string,
  args: ReadonlyArray<string>,
  env: Record<string, string> = {}
): Child => {
  const child = spawn(process.execPath, [program, ...args], {
    stdio: ["pipe", "pipe", "inherit"],
    env: { ...process.env, ...env }
  })
  const lines: Array<string> = []
  const waiting: Array<{
    matching: RegExp
    resolve: (line: string) => void
    reject: (cause: Error) => void
  }> = []
  createInterface({ input: child.stdout! }).on("line", (line) => {
    lines.push(line)
    for (const wait of waiting.splice(0))
      if (wait.matching.test(line)) wait.resolve(line)
      else waiting.push(wait)
  })
  const exited = new Promise<number | null>((resolve) =>
    child.on("close", (code) => {
      for (const wait of waiting)
        wait.reject(new Error(`the child ended (${code}) before it said ${wait.matching}`))
      resolve(code)
    })
  )
  return {
    process: child,
    lines,
    exited,
    line: (matching) => {
      const said = lines.find((line) => matching.test(line))
      return said !== undefined
        ? Promise.resolve(said)
        : new Promise((resolve, reject) => {
            waiting.push({ matching, resolve, reject })
          })
    }
  }
}
