/** `troupe serve` for a command line that is loaded already; otherwise `main.ts` starts the server
 *  directly. */
import type { CliContext } from "../context.ts"

export const addServe = (cli: CliContext): void => {
  cli.program
    .command("serve")
    .description("start the server")
    .option("--port <port>", "TCP port")
    .action(async ({ port }: { port?: string }) => {
      const { serve } = await import("../serve.ts")
      process.exitCode = await serve([
        ...(cli.options.config === undefined ? [] : ["--config", cli.options.config!]),
        ...(port === undefined ? [] : ["--port", port]),
        ...(cli.json ? ["--json"] : [])
      ])
    })
}
