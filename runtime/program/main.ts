/** The program's entry. `serve` starts at once, from its precompiled bundle; the command line is loaded only
 *  for everything else (bench cold-start). */
import { fileURLToPath } from "node:url"
import type { serve as Serve } from "./cli/serve.ts"
import { loadPrecompiled } from "./cli/precompiled.ts"

/** Commands that write into data folders and backups, which are their owner's alone (G-9). */
const keepersOfData = ["serve", "backup", "restore", "check"]

/** Nobody reads any more what is written to a pipe that was closed, and a full disk takes no more log: neither
 *  ends the process (G-3). */
const outliveOutput = (): void => {
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {})
}

const main = async (first: string | undefined, rest: ReadonlyArray<string>): Promise<void> => {
  if (first !== undefined && keepersOfData.includes(first)) process.umask(0o077)
  outliveOutput()
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
