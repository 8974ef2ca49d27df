/** The live voice session, with its real pipeline over a recognizer, a translator and a voice of the seed. */
import { Context, Effect, Stream } from "effect"
import type { AnyDefinition } from "../../../runtime/actor.ts"
import { VoiceSession } from "../../../actors/voice-session.ts"
import { VoiceEngines } from "../../../actors/voice/session-types.ts"
import { EngineFault, type RecognitionEvent } from "../../../actors/engines/ports.ts"
import { nameAmong, oneOf, say, type Role, type Surroundings } from "./role.ts"

const crashed = () => new EngineFault({ reason: "crashed", engine: "simulated", detail: "it died" })

const engines = ({ work }: Surroundings) => ({
  recognizer: {
    recognize: (audio: Stream.Stream<unknown>): Stream.Stream<RecognitionEvent, EngineFault> => {
      let heard = 0
      return Stream.flatMap(audio, () => {
        const { outcome } = work.next("recognizer", "all")
        if (outcome === "dies") return Stream.die(new Error("a bug of the recognizer"))
        if (outcome === "fails") return Stream.fail(crashed())
        const count = outcome === "bursts" ? 5 : 1
        return Stream.fromIterable(
          Array.from({ length: count }, (): RecognitionEvent => {
            heard++
            return {
              _tag: "final",
              text: "said",
              startMs: heard * 100,
              endMs: heard * 100 + 90,
              language: "en"
            }
          })
        )
      })
    }
  },
  translator: {
    formality: () => false,
    translate: ({ segments }: { readonly segments: ReadonlyArray<unknown> }) =>
      work.perform("translator", "all", () => ({ segments, engine: "simulated" }), crashed)
  },
  synthesizer: { speak: () => Effect.die(new Error("nobody listens")) }
})

const config = {
  accountId: "a0",
  keyId: "key",
  contentType: "audio/pcm;encoding=s16le;rate=16000",
  format: "json",
  sourceLanguage: "en",
  fixed: true,
  targets: ["de"],
  mediaTargets: [],
  mediaType: "",
  voice: null,
  formality: "default",
  tag: null
}

export const voiceSession: Role = {
  definition: VoiceSession as unknown as AnyDefinition,
  services: (surroundings) => Context.make(VoiceEngines, engines(surroundings) as never),
  say: ({ random, state }) => {
    const token = typeof state["token"] === "string" ? state["token"] : "t"
    return oneOf(random, [
      [state._tag === "Absent" ? 12 : 1, () => say("Create", { config, token: nameAmong(random, "t", 99) })],
      [state["connection"] === "" ? 6 : 0.3, () => say("Connect", { token })],
      [0.5, () => say("Renew", { presented: token, token: nameAmong(random, "t", 99) })],
      [1, () => say("Disconnect", { token })],
      [4, () => say("Deliver", { token })],
      [1, () => say("EndSource")],
      [0.5, () => say("End")]
    ])
  }
}
