import { spawn } from "node:child_process"
import { expect, it } from "vitest"
import { buildChild } from "../child.ts"

/** The long mode is `npm run crash -- --kills 1000`. */
const kills = process.env["TROUPE_STORM_KILLS"] ?? "5"

it("SIGKILL under mixed load of all services: what was acknowledged is there, nothing twice, refused never seen", async () => {
  const program = await buildChild("test/storm/main.ts")
  const child = spawn(process.execPath, [program, "--kills", kills, "--json"])
  let out = ""
  let err = ""
  child.stdout.on("data", (data) => {
    out += String(data)
  })
  child.stderr.on("data", (data) => {
    err += String(data)
  })
  await new Promise((resolve) => child.on("close", resolve))
  const last = out.trim().split("\n").at(-1) ?? ""
  expect(last.startsWith("{"), err).toBe(true)
  const report = JSON.parse(last)
  expect(report).toMatchObject({ kills: Number(kills), violations: [] })
  for (const [service, promises] of Object.entries(report.promises))
    expect(promises, `${service}: ${out}`).toBeGreaterThan(0)
}, 600_000)
