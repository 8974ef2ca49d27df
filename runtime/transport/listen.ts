/** Chooses the transport: uWebSockets.js where its binary loads, otherwise node:http and ws, which is
 *  reported in one log line. */
import { type Listen, listenBy, type ListenOptions, type Server } from "./server.ts"

export type Adapter = "auto" | "uws" | "node"

/** Returns why the library does not load. */
const faultOf = (load: () => unknown): Error | undefined => {
  try {
    load()
  } catch (cause) {
    return cause as Error
  }
  return undefined
}

/** Takes the port; the server that it returns answers 503 until it is told what to serve. */
export const bindWith = async (
  adapter: Adapter,
  log: (line: string) => void,
  options: ListenOptions
): Promise<Server> => {
  if (adapter !== "node") {
    const { loadLibrary } = await import("./uws-library.ts")
    const fault = faultOf(() => loadLibrary(options.cacheFolder))
    if (fault === undefined) return (await import("./uws.ts")).bind(options)
    const reason = `uWebSockets.js does not load here (${fault.message.split("\n")[0]})`
    if (adapter === "uws") throw new Error(reason, { cause: fault })
    log(`${reason}: serving with node:http`)
  }
  return (await import("./node.ts")).bind(options)
}

export const listenWith = async (
  adapter: Adapter,
  log: (line: string) => void,
  ...[services, options]: Parameters<Listen>
): Promise<Server> => listenBy((of) => bindWith(adapter, log, of))(services, options)
