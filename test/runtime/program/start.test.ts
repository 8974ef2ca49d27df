/** A node over a real folder: whatever part fails, and whenever the start is interrupted, everything that was
 *  opened before is closed. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect, Layer } from "effect"
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest"
import { DocumentJob } from "../../../actors/document-job.ts"
import { loadConfig, type Config } from "../../../runtime/program/config/config.ts"
import { EnginePorts } from "../../../runtime/program/engines.ts"
import { nodeLayer, parts, startNode } from "../../../runtime/program/start.ts"
import { openLmdb } from "../../../storage/lmdb.ts"

vi.setConfig({ testTimeout: 120_000 })

const home = mkdtempSync(join(tmpdir(), "troupe-start-"))
const folder = join(home, "data")
afterAll(() => rmSync(home, { recursive: true, force: true }))

const freePort = (): Promise<number> =>
  new Promise((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address() as { readonly port: number }
      probe.close(() => resolve(port))
    })
  })

/** Resolves when the port can be taken, rejects when somebody holds it. */
const takePort = (port: number): Promise<void> =>
  new Promise((resolve, reject) => {
    const probe = createServer()
      .once("error", reject)
      .listen({ port, host: "127.0.0.1", exclusive: true }, () => probe.close(() => resolve()))
  })

const children = (): ReadonlyArray<string> =>
  readdirSync("/proc/self/task").flatMap((task) =>
    readFileSync(`/proc/self/task/${task}/children`, "utf8").split(" ").filter(Boolean)
  )

/** The timers that were set, and neither fired nor cleared, also those that do not hold the process. */
const timers = new Set<unknown>()
const { setInterval: every, clearInterval: noMore, setTimeout: after, clearTimeout: never } = globalThis
beforeAll(() => {
  const watched = (timer: unknown) => {
    timers.add(timer)
    return timer as NodeJS.Timeout
  }
  globalThis.setInterval = ((...of: Parameters<typeof every>) => watched(every(...of))) as typeof every
  globalThis.setTimeout = ((work: (...of: Array<unknown>) => void, ...of: Array<unknown>) => {
    const timer = after(
      (...values: Array<unknown>) => {
        timers.delete(timer)
        work(...values)
      },
      ...(of as [number])
    )
    return watched(timer)
  }) as typeof after
  globalThis.clearInterval = (timer) => {
    timers.delete(timer)
    noMore(timer)
  }
  globalThis.clearTimeout = (timer) => {
    timers.delete(timer)
    never(timer)
  }
})
afterAll(() => {
  Object.assign(globalThis, {
    setInterval: every,
    clearInterval: noMore,
    setTimeout: after,
    clearTimeout: never
  })
})

/** Describes what this process holds: open files and sockets, listeners, children, workers, timers. */
const held = () => ({
  descriptors: readdirSync("/proc/self/fd").length,
  handles: process
    .getActiveResourcesInfo()
    .filter((kind) => /TCP|Process|Worker|Message/.test(kind))
    .sort(),
  children: children(),
  timers: timers.size
})

const configOf = (port: number, more: Record<string, string> = {}): Promise<Config> =>
  loadConfig({
    TROUPE_DATA: folder,
    TROUPE_PORT: String(port),
    TROUPE_HOST: "127.0.0.1",
    TROUPE_LOG_LEVEL: "error",
    STT_MAX_SESSIONS: "0",
    ...more
  })

type Part = keyof typeof parts

/** The parts of a node, of which one does something after it has opened. */
const partsWith = (name: Part, then: Effect.Effect<void>): typeof parts => ({
  ...parts,
  [name]: Layer.tap(parts[name] as Layer.Layer<never, never, never>, () => then)
})

/** Expects that the port is free, that the folder can be opened again, and that nothing else is left. */
const expectClosed = async (port: number, before: ReturnType<typeof held>): Promise<void> => {
  await takePort(port)
  await (await openLmdb({ folder })).close()
  // The event loop reports a closed handle until its turn is over.
  await vi.waitFor(() => expect(held()).toEqual(before), { timeout: 30_000 })
}

describe("a start that fails", () => {
  let before = held()
  let port = 0

  beforeAll(async () => {
    port = await freePort()
    // The first node creates the records of a first start and loads what stays loaded.
    await (await startNode(await configOf(port))).stop()
    await (await openLmdb({ folder })).close()
    await vi.waitFor(() => expect(held()).toMatchObject({ handles: [], children: [], timers: 0 }))
    before = held()
  })

  for (const name of Object.keys(parts) as ReadonlyArray<Part>) {
    it(`closes everything when a fault follows ${name}, G-6`, async () => {
      const of = partsWith(name, Effect.die(new Error(`injected after ${name}`)))
      await expect(startNode(await configOf(port), of)).rejects.toThrow(`injected after ${name}`)
      await expectClosed(port, before)
    })

    it(`closes everything when an interruption follows ${name}`, async () => {
      await expect(startNode(await configOf(port), partsWith(name, Effect.interrupt))).rejects.toThrow()
      await expectClosed(port, before)
    })
  }

  it("closes the parts in the reverse of their order, and says so last", async () => {
    const closed: Array<string> = []
    const of = { ...parts } as unknown as Record<Part, Layer.Layer<never, never, never>>
    for (const name of Object.keys(parts) as ReadonlyArray<Part>)
      of[name] = Layer.tap(of[name], () =>
        Effect.addFinalizer(() => Effect.sync(() => void closed.push(name)))
      )
    const node = await startNode(await configOf(port), of as unknown as typeof parts)
    await Promise.all([node.stop(), node.stop()])
    expect(closed).toEqual(Object.keys(parts).toReversed())
    await expectClosed(port, before)
  })

  it("closes a port that was reserved before its number was needed", async () => {
    const listened: Array<number> = []
    const of = partsWith("shop", Effect.die(new Error("injected")))
    const port0 = {
      ...of,
      port: Layer.tap(parts.port, (context) =>
        Effect.sync(() => {
          for (const value of context.mapUnsafe.values()) listened.push((value as { port: number }).port)
        })
      )
    }
    await expect(startNode(await configOf(0), port0)).rejects.toThrow("injected")
    expect(listened).toHaveLength(1)
    await expectClosed(listened[0]!, before)
  })

  it("ends the processes of the engines", async () => {
    let running: ReadonlyArray<string> = []
    const of: typeof parts = {
      ...parts,
      node: Layer.tap(parts.node, () =>
        Effect.gen(function* () {
          const { translator } = yield* EnginePorts
          const segments = [{ units: [{ _tag: "text" as const, text: "Good morning." }] }]
          yield* Effect.orDie(translator.translate({ source: "en", target: "es", segments }))
          running = children()
          return yield* Effect.die(new Error("injected"))
        })
      ) as typeof parts.node
    }
    await expect(startNode(await configOf(port), of)).rejects.toThrow("injected")
    expect(running.length).toBeGreaterThan(0)
    await expectClosed(port, before)
  })
})

it("G-6: an unreadable actor is failed and named in log and health; the node serves", async () => {
  const id = "11111111-2222-4333-8444-555555555555"
  const store = await openLmdb({ folder })
  await new Promise((resolve) =>
    store.commit(
      [{ _tag: "snapshot", kind: DocumentJob.kind, id, seq: 1, state: new Uint8Array([0xc1]) }],
      resolve
    )
  )
  await store.close()
  const lines: Array<string> = []
  const spy = vi.spyOn(process.stderr, "write").mockImplementation((line) => lines.push(String(line)) > 0)
  const node = await startNode(await configOf(0)).finally(() => spy.mockRestore())
  try {
    expect((await fetch(`${node.url}/livez`)).status).toBe(200)
    const details: unknown = await (await fetch(`${node.url}/health/details`)).json()
    expect(details).toMatchObject({
      actors: expect.arrayContaining([
        expect.objectContaining({ kind: DocumentJob.kind, live: 1, failed: 1 })
      ])
    })
    expect(lines.filter((line) => line.includes(id))).toEqual([expect.stringContaining('"level":"error"')])
  } finally {
    await node.stop()
  }
})

it("a part that is missing does not compile", () => {
  // @ts-expect-error a node needs every part
  void (() => nodeLayer({ storage: parts.storage }))
})
