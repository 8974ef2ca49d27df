/** Deadlines, on the clock that the kernel's timers run by. */
import { readdirSync, readFileSync } from "node:fs"
import { expect, it } from "vitest"
import { Deadlines } from "../../../../actors/engines/chat/deadlines.ts"
import { places, Pool } from "../../../../actors/engines/pool.ts"
import { ActorSystem } from "../../../../runtime/registry.ts"
import { openMemory } from "../../../../storage/memory.ts"
import { Effect } from "effect"

/** A node whose wall clock is decades ahead of its uptime, as every node's is. */
const node = () => {
  const clock = { wallMs: Date.UTC(2026, 10, 22), upMs: 5_000 }
  const system = new ActorSystem({
    store: openMemory(),
    nowMs: () => clock.wallMs,
    monotonicMs: () => clock.upMs
  })
  const pass = (ms: number): void => {
    clock.upMs += ms
    system.tick()
  }
  return { clock, system, pass }
}

it("K-8: a deadline fires after its time, whatever the wall clock says", () => {
  const { clock, system, pass } = node()
  const deadlines = new Deadlines(system)
  const fired: Array<string> = []
  deadlines.start(1_000, () => fired.push("late"))
  deadlines.start(100, () => fired.push("soon"))
  clock.wallMs -= 3_600_000
  pass(200)
  expect(fired).toEqual(["soon"])
  pass(1_000)
  expect(fired).toEqual(["soon", "late"])
})

it("K-8: a lease ends after its time", () => {
  const { system, pass } = node()
  const pool = new Pool({ id: "p", resources: places(1), clock: system })
  const lease = Effect.runSync(pool.take({ account: "a" }))
  lease.renew(1_000)
  pass(900)
  expect(lease.ended).toBe(false)
  pass(200)
  expect(lease.ended).toBe(true)
})

it("K-8: nobody puts a timer on the wheel by wall time", () => {
  const root = new URL("../../../../", import.meta.url)
  const sources = ["actors", "protocols", "runtime"].flatMap((room) =>
    readdirSync(new URL(room, root), { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".ts"))
      .map((name) => `${room}/${name}`)
  )
  const byWall = sources.filter((file) =>
    /timers\.schedule\([^,]*\b(?:nowMs|Date)\b/.test(readFileSync(new URL(file, root), "utf8"))
  )
  expect(byWall).toEqual([])
})
