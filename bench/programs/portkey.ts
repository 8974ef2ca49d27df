/** Runs Portkey's gateway as its package ships it, in a process of its own: node portkey.js. It prints its
 *  port. On Node 20 the gateway fails at its first streamed answer, because it writes to headers which
 *  `fetch` made immutable; the only change made to it is that those headers are copied. */
import { createRequire } from "node:module"
import { freePort, listening } from "../port.ts"

const port = await freePort()
const nativeFetch = globalThis.fetch

globalThis.fetch = async (...request) => {
  const { body, status, statusText, headers } = await nativeFetch(...request)
  return new Response(body, { status, statusText, headers: new Headers(headers) })
}

// The gateway prints a banner at its start and a line for each stream that its client left, but only the port
// may be printed.
const write = process.stdout.write.bind(process.stdout)

process.stdout.write = () => true
console.error = () => {}
process.argv = [process.argv[0]!, process.argv[1]!, `--port=${port}`, "--headless"]
await import(createRequire(import.meta.url).resolve("@portkey-ai/gateway/build/start-server.js"))
await listening(port)
write(`${port}\n`)
