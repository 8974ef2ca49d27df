#!/usr/bin/env node
// The command: the built program when there is one, else how to build it.
import { existsSync } from "node:fs"
import { fileURLToPath } from "node:url"

const main = new URL("../../dist/main.cjs", import.meta.url)

if (!existsSync(fileURLToPath(main))) {
  console.error("troupe is not built yet: run npm run build")
  process.exit(1)
}

await import(main.href)
