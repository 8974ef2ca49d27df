/** The context that every command gets: the program's options, the running server, and how results are
 *  printed. */
import type { Command } from "commander"
import { loadConfig, type Config } from "../config/config.ts"
import { clientOf, type Client } from "./client.ts"

interface ProgramOptions {
  readonly json?: boolean
  readonly url?: string
  readonly key?: string
  readonly config?: string
}

export class CliContext {
  readonly program: Command

  constructor(program: Command) {
    this.program = program
  }

  get options(): ProgramOptions {
    return this.program.opts<ProgramOptions>()
  }

  get json(): boolean {
    return this.options.json === true
  }

  config(warn?: (line: string) => void): Promise<Config> {
    return loadConfig(process.env, this.options.config, warn)
  }

  async client(): Promise<Client> {
    return clientOf(await this.config(), this.options)
  }

  /** Prints one JSON value with --json, otherwise the text of `words`. */
  print(value: unknown, words: () => string): void {
    console.log(this.json ? JSON.stringify(value) : words())
  }
}

/** Formats rows as aligned columns. */
export const columns = (rows: ReadonlyArray<ReadonlyArray<string>>): string => {
  const widths = rows[0]?.map((_, i) => Math.max(...rows.map((row) => (row[i] ?? "").length))) ?? []
  const line = (row: ReadonlyArray<string>): string =>
    row
      .map((cell, i) => cell.padEnd(widths[i]!))
      .join("  ")
      .trimEnd()
  return rows.map(line).join("\n")
}
