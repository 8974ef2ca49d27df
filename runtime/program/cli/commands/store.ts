/** `troupe store import` imports records into the store of the running server (cli/store-import.ts). */
import type { CliContext } from "../context.ts"

export const addStore = (cli: CliContext): void => {
  cli.program
    .command("store")
    .description("the store")
    .command("import")
    .description("import records from a file of JSON lines, in batches, with progress")
    .argument("<file>", "one record a line, as the API takes it")
    .option("--resource <name>", "what the lines are", "products")
    .option("--singular <name>", "its singular, where it is not the name without s")
    .option("--lookup-by-sku", "products: a known item_number is updated")
    .option("--token <token>", "admin token (default: the demo store's)")
    .action(
      async (
        file: string,
        options: { resource: string; singular?: string; lookupBySku?: boolean; token?: string }
      ) => {
        const { storeImport } = await import("../store-import.ts")
        process.exitCode = await storeImport(await cli.client(), file, {
          ...options,
          json: cli.json,
          headerPrefix: (await cli.config()).storeHeaderPrefix
        })
      }
    )
}
