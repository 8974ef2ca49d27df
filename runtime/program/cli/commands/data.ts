/** `troupe backup`, `troupe restore` and `troupe check` work on the data folder: themselves when no process has
 *  its lock, otherwise through the server that has. */
import { existsSync } from "node:fs"
import { join, resolve } from "node:path"
import { storeFile } from "../../../../storage/data-folder.ts"
import { openLmdb } from "../../../../storage/lmdb.ts"
import { restore } from "../../../../storage/restore.ts"
import { keyMarkOf } from "../../../../storage/seal.ts"
import { StorageFault, type BackupSummary, type Integrity, type Store } from "../../../../storage/store.ts"
import { callPatiently, clientOf, sealerOf, type Client } from "../client.ts"
import type { CliContext } from "../context.ts"

interface Operation<A> {
  readonly itself: (store: Store) => Promise<A>
  readonly served: (server: Client) => Promise<A>
}

/** Opens the folder that no process writes; undefined when one does. */
const openUnlessServed = (folder: string): Promise<Store | undefined> =>
  openLmdb({ folder }).catch((cause: unknown) => {
    if (cause instanceof StorageFault && cause.reason === "locked") return undefined
    throw cause
  })

const operate = async <A>(cli: CliContext, { itself, served }: Operation<A>): Promise<A> => {
  const config = await cli.config()
  const isHere = cli.options.url === undefined && existsSync(join(config.data, storeFile))
  const store = isHere ? await openUnlessServed(config.data) : undefined
  if (store === undefined) return served(clientOf(config, cli.options))
  try {
    return await itself(store)
  } finally {
    await store.close()
  }
}

export const addBackup = (cli: CliContext): void => {
  cli.program
    .command("backup")
    .description(
      "a consistent copy into an empty folder, also while the server runs; the master key is not part of it"
    )
    .argument("<folder>")
    .action(async (folder: string) => {
      const to = resolve(folder)
      const summary = await operate<BackupSummary>(cli, {
        itself: (store) => store.backup(to),
        served: (server) => callPatiently(server, "POST", "/console/api/backup", { folder: to })
      })
      cli.print({ ...summary, folder: to }, () => `backed up to ${to}: ${summary.entries} entries`)
    })
}

const wordsOf = ({ entries, ok, faults }: Integrity): string =>
  [`${entries} entries, ${ok ? "all well" : "faults:"}`, ...faults].join("\n")

export const addRestore = (cli: CliContext): void => {
  cli.program
    .command("restore")
    .description("bring a backup into the empty data folder of a stopped server")
    .argument("<folder>")
    .action(async (folder: string) => {
      const config = await cli.config()
      const seal = sealerOf(config)
      const keyMark = seal && keyMarkOf(seal)
      const report = await restore({ backup: folder, folder: config.data, keyMark })
      const notes = seal === undefined ? ["bring its master key before you start it"] : []
      cli.print({ data: config.data, ...report }, () =>
        [`restored into ${config.data}: ${wordsOf(report)}`, ...notes].join("\n")
      )
      if (!report.ok) process.exitCode = 1
    })
}

export const addCheck = (cli: CliContext): void => {
  cli.program
    .command("check")
    .description("integrity of the data, also while the server runs")
    .action(async () => {
      const report = await operate<Integrity>(cli, {
        itself: (store) => store.check(),
        served: (server) => callPatiently(server, "GET", "/console/api/check")
      })
      cli.print(report, () => wordsOf(report))
      if (!report.ok) process.exitCode = 1
    })
}
