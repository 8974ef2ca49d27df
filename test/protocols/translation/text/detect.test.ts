import { describe, expect, it } from "vitest"
import { TranslationHarness } from "../harness.ts"

describe("language detection (translation 16)", () => {
  const path = "/v3/detect/language"
  const open = () =>
    TranslationHarness.open({ detects: { "Hallo Welt": "de", Hello: "en-US", nuqneH: "tlh" } })
  it("one result per text, in order, JSON or form; the language only with success", async () => {
    const world = await open()
    const answer = await world.call({ path, body: { text: ["Hallo Welt", "Hello", "nuqneH", "???", "12"] } })
    expect([answer.status, answer.body]).toEqual([
      200,
      {
        results: [
          { detected_language: "de", detection_status: "success" },
          { detected_language: "en", detection_status: "success" },
          { detection_status: "unsupported_language" },
          { detection_status: "no_language_detected" },
          { detection_status: "no_language_detected" }
        ]
      }
    ])
    expect((await world.call({ path, body: "text=Hallo+Welt&text=Hello" })).body.results).toHaveLength(2)
  })
  it("400 Missing parameter text., 51 texts 400, no strings 400, 403, 415", async () => {
    const world = await open()
    const missing = await world.call({ path, body: {} })
    expect([missing.status, missing.body.message]).toEqual([400, "Missing parameter text."])
    expect((await world.call({ path, body: { text: Array.from({ length: 51 }, () => "a") } })).status).toBe(
      400
    )
    expect((await world.call({ path, body: { text: [1] } })).status).toBe(400)
    expect((await world.call({ path, body: { text: ["a"] }, key: "nobody" })).status).toBe(403)
    expect((await world.call({ path, body: "a", type: "text/plain" })).status).toBe(415)
  })
})
