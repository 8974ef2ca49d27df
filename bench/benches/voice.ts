/** Measures voice sessions: audio chunks over WebSockets at fixed times, with an update per 200 ms of
 *  audio. */
import { thisTree } from "../checkout.ts"
import { cpuMsOf, loadCore, run, serverCore, start } from "../processes.ts"
import type { Bench, Measured, Size } from "../rounds.ts"
import type { Tree } from "../tree.ts"
import { isLoadBound } from "./servers.ts"

interface VoiceLoad {
  readonly sent: number
  readonly updates: number
  readonly expected: number
  readonly errors: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly lateP99Ms: number
}

interface Rate {
  readonly sessions: number
  /** How many chunks each session sends per second. */
  readonly chunksPerSecond: number
  readonly bytes: number
}

interface VoiceServer {
  readonly name: string
  readonly args: ReadonlyArray<string>
  /** The WebSocket's path, with `{}` in place of the session's number. */
  readonly path: string
}

const voice = (title: string, { sessions, chunksPerSecond, bytes }: Rate): Bench => {
  const count = (size: Size): number => (size.smoke ? 20 : sessions)

  const measure = async (tree: Tree, { name, args, path }: VoiceServer, size: Size): Promise<Measured> => {
    // It is started again for each round, because a session's token opens only one connection.
    const server = await start({ tree, core: serverCore, name: "server", args })
    try {
      let beforeMs = 0
      const seconds = size.smoke ? 0.6 : size.seconds
      const port = server.firstLine.split(" ")[0]!
      const load = await run<VoiceLoad>(
        {
          tree: thisTree(),
          core: loadCore,
          name: "load-voice",
          args: [port, count(size), chunksPerSecond, bytes, seconds, path]
        },
        () => {
          beforeMs = cpuMsOf(server.pid)
        }
      )
      const cpuMs = cpuMsOf(server.pid) - beforeMs
      if (load.errors > 0) throw new Error(`${title} ${name}: ${load.errors} errors`)
      if (load.updates < load.expected - count(size))
        throw new Error(`${title} ${name}: ${load.expected - load.updates} updates missing`)
      return {
        value: (cpuMs * 1_000) / load.sent,
        extra: `update p50 ${load.p50Ms} p99 ${load.p99Ms} ms`,
        load: { p50Ms: load.p50Ms, p99Ms: load.p99Ms },
        ...(isLoadBound(load.lateP99Ms, load.p99Ms, size)
          ? { invalid: `latency load-bound (p99 ${load.lateP99Ms} ms late)` }
          : {})
      }
    } finally {
      server.kill()
    }
  }

  return {
    title,
    unit: "µs CPU/chunk",
    open: (size) => {
      const servers: ReadonlyArray<VoiceServer> = [
        { name: "uWS floor", args: ["voice-uws"], path: "/" },
        { name: "ws", args: ["voice-ws"], path: "/" },
        {
          name: "troupe",
          args: ["troupe", `${bytes},${count(size)}`],
          path: "/v3/voice/realtime/connect?token=t{}"
        }
      ]
      return {
        candidates: servers.map((server) => ({
          name: server.name,
          compared: server.name === "troupe",
          prepare: (tree) => ({ measure: () => measure(tree, server, size) })
        }))
      }
    }
  }
}

export const voiceBenches: Record<string, Bench> = {
  "voice-v3": voice("voice V3, 500 x 50/s x 640 B", { sessions: 500, chunksPerSecond: 50, bytes: 640 }),
  "voice-v4": voice("voice V4, 1,000 x 5/s x 6,400 B", { sessions: 1_000, chunksPerSecond: 5, bytes: 6_400 })
}
