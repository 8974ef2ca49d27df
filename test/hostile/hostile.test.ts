import { spawn } from "node:child_process"
import { expect, it } from "vitest"
import { buildChild } from "../child.ts"

/** The long mode is `npm run hostile -- --minutes 60`. */
const minutes = process.env["TROUPE_HOSTILE_MINUTES"] ?? "1"

it("a hostile minute: honest clients of four services are answered rightly, nothing is left behind, G-13 every 5xx has its line in the log", async () => {
  const program = await buildChild("test/hostile/main.ts")
  const child = spawn(process.execPath, [program, "--minutes", minutes, "--json"])
  let out = ""
  let err = ""
  child.stdout.on("data", (data) => {
    out += String(data)
  })
  child.stderr.on("data", (data) => {
    err += String(data)
  })
  const code = await new Promise((resolve) => child.on("close", resolve))
  console.log(out)
  const last = out.trim().split("\n").at(-1) ?? ""
  expect(last.startsWith("{"), err).toBe(true)
  expect(JSON.parse(last)).toEqual({ faults: [] })
  expect(code).toBe(0)
}, 900_000)
