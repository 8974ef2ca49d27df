/** Lists every bench by the name that the command line uses, in the order of a full run. */
import { chatBenches } from "./benches/chat.ts"
import { httpBenches } from "./benches/http.ts"
import { kernelBenches } from "./benches/kernel.ts"
import { oauthBenches } from "./benches/oauth.ts"
import { programBenches } from "./benches/programs.ts"
import { voiceBenches } from "./benches/voice.ts"
import type { Bench } from "./rounds.ts"

export const benches: Record<string, Bench> = {
  ...kernelBenches,
  ...httpBenches,
  ...voiceBenches,
  ...chatBenches,
  ...programBenches,
  ...oauthBenches
}

/** The benches that `--against` compares when no name is given: the paths that a change must not make more
 *  expensive. */
export const guardedBenches: ReadonlyArray<string> = [
  "tell",
  "ask",
  "idle",
  "durable-1",
  "durable-64",
  "durable-512",
  "http-json",
  "voice-v3",
  "chat-stream",
  "oauth-refresh",
  "cold-start"
]
