/** What a sample is asked, always in the same order: every service, every kind of actor, every table. The generator asks the program that
 *  wrote the sample and records what it says; the test asks the program of today and compares. */
import { Asked, operator, type Known } from "./asking/asked.ts"
import { askAuthorization } from "./asking/authorization.ts"
import { askChat } from "./asking/chat.ts"
import { askStore } from "./asking/store.ts"
import { askTranslation, askVoice } from "./asking/translation.ts"
import { inventoryOf, Program, type Place } from "./program.ts"
import type { Transcript } from "./recording.ts"

/** So much later than it was recorded the sample is opened: what rested after a failure is due. */
export const laterMs = 31_000

export interface Sample {
  readonly place: Place
  readonly facts: Known
  readonly name: string
}

/** Opens a sample where it has been unpacked, asks everything, looks at every actor, and stops. */
export const asked = async ({ place, facts, name }: Sample): Promise<Transcript> => {
  const before = await inventoryOf(place.data)
  place.outside.heard.length = 0
  const program = await Program.start(place)
  const to = new Asked(program, place.outside, facts, before)
  place.outside.nowMs = () => program.nowMs
  try {
    if (name === "full") {
      await askVoice(to)
      await askAuthorization(to)
      await askStore(to)
      await askChat(to)
      await askTranslation(to)
    } else {
      await askStore(to, ["products", "customers", "credit_cards", "users"])
      await to.ask(`/v1/responses/${facts["plainResponse"]}`)
      await to.ask("/oauth/token", { form: { grant_type: "client_credentials" } })
    }
    await to.until("nothing is leaving any more", async () =>
      (await program.call("/console/api/actors", operator(to))).body.actors.every(
        ({ phase }: any) => phase !== "Leaving"
      )
    )
    await to.look("end")
    await to.ask("/console/api/check", operator(to), "check")
    const health = await program.call("/health/details", {
      headers: { authorization: "Bearer chat-key-one" }
    })
    to.say(
      "kinds that are hosted",
      (health.body?.actors ?? []).map(({ kind, failed }: any) => `${kind}, failed ${failed}`).sort(),
      health.status
    )
    to.say("it stops as asked", await program.stop())
    const after = await inventoryOf(place.data)
    const { answers, states, journals } = to
    const names = (what: "kinds" | "tables" | "counters" | "blobs"): ReadonlyArray<string> =>
      Object.keys(after[what]).sort()
    return {
      answers,
      states,
      journals,
      after: {
        kinds: names("kinds"),
        tables: names("tables"),
        counters: names("counters"),
        blobs: names("blobs")
      }
    }
  } finally {
    await program.kill()
  }
}
