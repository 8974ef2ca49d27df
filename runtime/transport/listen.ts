/** Chooses the transport: uWebSockets.js where its binary loads, otherwise node:http and ws, which is
 *  reported in one log line. */
import { type Listen, listenBy, type ListenOptions, type Server } from "./server.ts"

export type Adapter = "auto" | "uws" | "node"

/** Takes the port; the server that it returns answers 503 until it is told what to serve. */
export const bindWith = async (
  adapter: Adapter,
  log: (line: string) => void,
  options: ListenOptions
): Promise<Server> => {
  if (adapter !== "node") {
    const uws = await import("./uws.ts")
    const loaded = await uws.load().then(
      () => true,
      (cause: Error) => {
        if (adapter === "uws") throw cause
        log(`uWebSockets.js does not load here (${cause.message.split("\n")[0]}): serving with node:http`)
        return false
      }
    )
    if (loaded) return uws.bind(options)
  }
  return (await import("./node.ts")).bind(options)
}

export const listenWith = async (
  adapter: Adapter,
  log: (line: string) => void,
  ...[services, options]: Parameters<Listen>
): Promise<Server> => listenBy((of) => bindWith(adapter, log, of))(services, options)
