/** An engine's worker process: what it is lent, how it ends, and that it takes nobody with it. */
import { readFileSync } from "node:fs"
import { expect, it } from "vitest"
import { startWorker, type EngineWorker } from "../../../actors/engines/worker.ts"
import type { FromFlite, ToFlite } from "../../../actors/engines/workers/flite.ts"
import { buildChild, startChild } from "../../child.ts"
import { endBySignal, workerProcesses } from "./worker-processes.ts"

const processes = workerProcesses()

type Flite = EngineWorker<ToFlite, FromFlite>

/** Starts Flite, which is up when it says so. */
const flite = async (): Promise<Flite> => {
  const worker = startWorker<ToFlite, FromFlite>("flite", {})
  await new Promise<void>((resolve, reject) => {
    worker.onDeath((reason) => reject(new Error(reason)))
    worker.listen(() => resolve())
  })
  return worker
}

const wavOf = (worker: Flite, text: string): Promise<Uint8Array> =>
  new Promise((resolve, reject) => {
    worker.listen((message) => {
      if (message._tag === "Spoken") resolve(message.wav)
      else reject(new Error(message._tag))
    })
    worker.send({ id: 1, text, voice: "slt" })
  })

/** False for what has ended, a zombie included. */
const isAlive = (pid: number): boolean => {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"))
  } catch {
    return false
  }
}

const deathOf = (worker: Flite): Promise<string> => new Promise((resolve) => worker.onDeath(resolve))

it("a crash of native code ends the worker alone; each listener hears its signal once", async () => {
  const worker = await flite()
  const reasons: Array<string> = []
  worker.onDeath((reason) => reasons.push(reason))
  expect(worker.dead).toBe(false)
  await endBySignal(processes.at(-1)!, "SIGSEGV")
  worker.kill()
  worker.onDeath((reason) => reasons.push(`later: ${reason}`))
  expect(reasons).toEqual(["the worker ended with SIGSEGV", "later: the worker ended with SIGSEGV"])
  expect(worker.dead).toBe(true)
  worker.send({ id: 1, text: "nobody hears this", voice: "slt" })
})

it("an error that nothing catches is the reason of its death", async () => {
  const worker = await flite()
  const death = deathOf(worker)
  worker.send(null as unknown as ToFlite)
  expect(await death).toMatch(/destructure|null/)
})

it("a worker has no secret of ours in its environment, nor our flags", async () => {
  process.env["TROUPE_TEST_SECRET"] = "never-lent"
  const worker = await flite()
  const { pid } = processes.at(-1)!
  const lent = readFileSync(`/proc/${pid}/environ`, "utf8")
  worker.kill()
  expect(lent).toMatch(/(?:^|\0)PATH=/)
  expect(lent).not.toContain("TROUPE_")
  expect(lent).not.toContain("NODE_OPTIONS")
})

it("what ends a whole group is the server's to answer: the worker goes on", async () => {
  const worker = await flite()
  const child = processes.at(-1)!
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) child.kill(signal)
  expect((await wavOf(worker, "still here")).length).toBeGreaterThan(1_000)
  worker.kill()
})

it("no worker outlives its server, even one that was killed", async () => {
  const server = startChild(await buildChild("test/actors/engines/worker-child.ts"), [])
  const pid = Number(await server.line(/^\d+$/))
  expect(isAlive(pid)).toBe(true)
  server.process.kill("SIGKILL")
  await server.exited
  while (isAlive(pid)) await new Promise((resolve) => setTimeout(resolve, 10))
})
