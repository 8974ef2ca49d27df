/** The program. `serve` starts at once; everything else is the command line's and loaded only then (bench/cold-start). */
const [, , first, ...rest] = process.argv

if (first === "serve" && !rest.some((word) => word === "-h" || word === "--help")) {
  const { serve } = await import("./cli/serve.ts")
  process.exitCode = await serve(rest)
} else {
  const { run } = await import("./cli/program.ts")
  process.exitCode = await run(process.argv)
}
