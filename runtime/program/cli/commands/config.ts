/** `troupe config` prints the configuration in force, by the keys of the YAML file. */
import { configEntries } from "../../config/config.ts"
import { columns, type CliContext } from "../context.ts"

const warn = (line: string): void => console.error(`warning: ${line}`)

export const addConfig = (cli: CliContext): void => {
  cli.program
    .command("config")
    .description("the configuration in force, secrets masked")
    .option("--doc", "with what each key means")
    .action(async (options: { doc?: boolean }) => {
      const entries = configEntries(await cli.config(warn))
      const values = Object.fromEntries(entries.map(({ name, value }) => [name, value]))
      cli.print(values, () =>
        columns(
          entries.map(({ name, env, value, doc }) => {
            const row = [name, env, JSON.stringify(value)]
            return options.doc === true ? [...row, doc] : row
          })
        )
      )
    })
}
