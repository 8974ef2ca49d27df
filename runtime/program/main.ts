/** The program's entry. `serve` starts at once, from its precompiled bundle; the command line is loaded only
 *  for everything else (bench cold-start). */
import { fileURLToPath } from "node:url"
import type { serve as Serve } from "./cli/serve.ts"
import { loadPrecompiled } from "./cli/precompiled.ts"

const main = async (first: string | undefined, rest: ReadonlyArray<string>): Promise<void> => {
  if (first !== "serve" || rest.some((word) => word === "-h" || word === "--help")) {
    const { run } = await import("./cli/program.ts")
    process.exitCode = await run(process.argv)
    return
  }
  const {
    exports: { serve },
    keep
  } = loadPrecompiled<{ readonly serve: typeof Serve }>(
    fileURLToPath(new URL("./serve.cjs", import.meta.url)),
    (name) => import(name)
  )
  process.exitCode = await serve(rest, keep)
}

void main(process.argv[2], process.argv.slice(3))
