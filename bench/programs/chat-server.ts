/** Runs one gateway candidate in front of chat-upstream: node chat-server.js raw|undici|node|troupe
 *  UPSTREAM_PORT. It prints its port. */
import { nodePipe } from "../candidates/chat/node-pipe.ts"
import { rawPipe } from "../candidates/chat/raw-pipe.ts"
import { troupe } from "../candidates/chat/troupe.ts"
import { undiciPipe } from "../candidates/chat/undici-pipe.ts"

const [, , kind, upstreamPort] = process.argv

const gateways: Readonly<Record<string, (upstreamPort: string) => void | Promise<void>>> = {
  raw: rawPipe,
  undici: undiciPipe,
  node: nodePipe,
  troupe
}

await gateways[kind!]!(upstreamPort!)
