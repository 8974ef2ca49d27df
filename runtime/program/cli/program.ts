/** The command line. Its exit codes are 0 for success, 1 for failure, 2 for wrong usage and 78 for a
 *  configuration that cannot be used. `--json` prints one JSON value instead of text. */
import { Command, CommanderError } from "commander"
import { ConfigFault } from "../config/config.ts"
import { addActors } from "./commands/actors.ts"
import { addConfig } from "./commands/config.ts"
import { addBackup, addCheck, addRestore } from "./commands/data.ts"
import { addKeys } from "./commands/keys.ts"
import { addServe } from "./commands/serve.ts"
import { addStore } from "./commands/store.ts"
import { addTranslate, addVoice } from "./commands/translation.ts"
import { CliContext } from "./context.ts"

/** Lists the commands in the order in which `--help` prints them. */
const commands = [
  addServe,
  addTranslate,
  addVoice,
  addKeys,
  addStore,
  addConfig,
  addActors,
  addBackup,
  addRestore,
  addCheck
]

const createProgram = (): Command =>
  new Command("troupe")
    .description("Actor-based runtime that serves translation and live voice, among others.")
    .option("--json", "print JSON")
    .option("--url <url>", "the running server (default: http://localhost:<port>)")
    .option("--key <key>", "API key (default: the demo key of the data folder)")
    .option("--config <file>", "YAML configuration file")
    .showHelpAfterError()
    .exitOverride()

const exitCodeOf = (cause: unknown): number => {
  if (cause instanceof CommanderError) {
    if (cause.code === "address") console.error(cause.message)
    return cause.exitCode === 0 ? 0 : 2
  }
  console.error(cause instanceof Error ? cause.message : String(cause))
  return cause instanceof ConfigFault ? 78 : 1
}

export const run = async (argv: ReadonlyArray<string>): Promise<number> => {
  const program = createProgram()
  const cli = new CliContext(program)
  for (const add of commands) add(cli)
  try {
    await program.parseAsync(argv as Array<string>)
    return Number(process.exitCode ?? 0)
  } catch (cause) {
    return exitCodeOf(cause)
  }
}
