/** Runs one candidate of the translation benches, which prints its port when it listens; `troupe` prints its
 *  key too. node server.js http-uws|http-node|http-fastify|voice-uws|voice-ws, or troupe
 *  [CHUNK_BYTES,SESSIONS] */
import { httpFastify, httpNode, httpUws } from "../candidates/translation/http-floors.ts"
import { troupe } from "../candidates/translation/troupe.ts"
import { voiceUws, voiceWs } from "../candidates/translation/voice-floors.ts"

const [, , kind, sized = "640,0"] = process.argv
const [chunkBytes, sessions] = sized.split(",").map(Number)

const candidates: Readonly<Record<string, () => void | Promise<void>>> = {
  "http-uws": httpUws,
  "http-node": httpNode,
  "http-fastify": httpFastify,
  "voice-uws": voiceUws,
  "voice-ws": voiceWs,
  troupe: () => troupe({ chunkBytes: chunkBytes!, sessions: sessions! })
}

await candidates[kind!]!()
