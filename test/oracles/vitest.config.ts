import { defineConfig } from "vitest/config"

/** Other programs as judges: `npm run oracles`. Not part of the ordinary tests, which need no program beside
 *  Node. */
export default defineConfig({
  test: {
    root: new URL("../..", import.meta.url).pathname,
    include: ["test/oracles/**/*.oracle.ts"],
    globalSetup: ["test/build.ts"],
    testTimeout: 300_000,
    hookTimeout: 300_000,
    maxWorkers: 1,
    pool: "forks"
  }
})
