/** `troupe backup`, `troupe restore` and `troupe check` work on the data folder. */
import { existsSync } from "node:fs"
import { openLmdb, restore } from "../../../../storage/lmdb.ts"
import { call, clientOf } from "../client.ts"
import type { CliContext } from "../context.ts"

export const addBackup = (cli: CliContext): void => {
  cli.program
    .command("backup")
    .description(
      "a consistent copy into an empty folder, also while the server runs; the master key is not part of it"
    )
    .argument("<folder>")
    .action(async (folder: string) => {
      const target = new URL(`file://${process.cwd()}/`).pathname
      const to = folder.startsWith("/") ? folder : `${target}${folder}`
      const config = await cli.config()
      const server = clientOf(config, cli.options)
      const running = await fetch(`${server.url}/livez`).then(
        (answer) => answer.ok,
        () => false
      )
      if (running) await call(server, "POST", "/console/api/backup", { folder: to })
      else {
        const store = await openLmdb({ folder: config.data })
        try {
          await store.backup(to)
        } finally {
          await store.close()
        }
      }
      cli.print({ folder: to }, () => `backed up to ${to}`)
    })
}

export const addRestore = (cli: CliContext): void => {
  cli.program
    .command("restore")
    .description("bring a backup into the empty data folder of a stopped server")
    .argument("<folder>")
    .action(async (folder: string) => {
      const config = await cli.config()
      if (!existsSync(folder)) throw new Error(`${folder}: no such folder`)
      await restore(folder, config.data)
      cli.print({ data: config.data }, () => `restored into ${config.data}`)
    })
}

export const addCheck = (cli: CliContext): void => {
  cli.program
    .command("check")
    .description("integrity of the data of the running server")
    .action(async () => {
      const report = await call<{
        readonly ok: boolean
        readonly entries: number
        readonly faults: ReadonlyArray<string>
      }>(await cli.client(), "GET", "/console/api/check")
      cli.print(report, () =>
        [`${report.entries} entries, ${report.ok ? "all well" : "faults:"}`, ...report.faults].join("\n")
      )
      if (!report.ok) process.exitCode = 1
    })
}
