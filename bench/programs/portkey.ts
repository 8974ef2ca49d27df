/** Portkey's gateway as its package ships it, in a process of its own: node portkey.js; prints its port. On Node 20 it fails at its first streamed
 *  answer, because it writes to headers which `fetch` made immutable; the one change made to it is that those headers are copied. */
import { createRequire } from "node:module"
import net from "node:net"

const port = await new Promise<number>((resolve) => { const probe = net.createServer().listen(0, "127.0.0.1", () => { const at = (probe.address() as net.AddressInfo).port; probe.close(() => resolve(at)) }) })
const plain = globalThis.fetch
globalThis.fetch = async (...given) => { const { body, status, statusText, headers } = await plain(...given); return new Response(body, { status, statusText, headers: new Headers(headers) }) }

// It draws while it starts, and tells of each stream that its client left; only the port may be heard.
const write = process.stdout.write.bind(process.stdout)
process.stdout.write = () => true
console.error = () => {}
process.argv = [process.argv[0]!, process.argv[1]!, `--port=${port}`, "--headless"]
await import(createRequire(import.meta.url).resolve("@portkey-ai/gateway/build/start-server.js"))
const listens = (): Promise<boolean> => new Promise((resolve) => { const wire = net.connect(port, "127.0.0.1", () => { wire.destroy(); resolve(true) }).on("error", () => resolve(false)) })
while (!await listens()) await new Promise((resolve) => setTimeout(resolve, 20))
write(`${port}\n`)
