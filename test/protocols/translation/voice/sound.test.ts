/** Real sound through a whole session: files as `flac` and `lame` write them over a WebSocket, their decoder,
 *  the embedded recognizer in its thread, the transcript back on the wire. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Context } from "effect"
import { afterEach, expect, it } from "vitest"
import { EngineProcess, EngineStarts } from "../../../../actors/engines/engine-process.ts"
import { pocketsphinx } from "../../../../actors/engines/speech/pocketsphinx.ts"
import { wordErrors, wordsOf } from "../../../../bench/word-errors.ts"
import { until, VoiceWorld } from "./voice-world.ts"

const cacheFolder = mkdtempSync(join(tmpdir(), "troupe-sound-"))
let world: VoiceWorld

afterEach(async () => {
  await world.close()
  rmSync(cacheFolder, { recursive: true, force: true })
})

const spoken = wordsOf("the weather is nice today and we will go to the park")

it("FLAC, MP3 and auto: the words come back, concluded once, with times inside the sound", async () => {
  world = await VoiceWorld.open({
    ear: (system) => {
      const starts = new Map()
      system.host(EngineProcess, Context.make(EngineStarts, starts))
      return pocketsphinx({ system, starts, cacheFolder, sessionsMax: 1 })
    }
  })
  for (const [type, file] of [
    ["audio/flac", "weather.flac"],
    ["audio/mpeg", "weather.mp3"],
    ["audio/auto", "weather.flac"]
  ] as const) {
    const { listener } = await world.connect({
      source_media_content_type: type,
      source_language: "en",
      target_languages: ["de"]
    })
    const bytes = readFileSync(new URL(`../../../samples/audio/${file}`, import.meta.url))
    for (let at = 0; at < bytes.length; at += 2_000) listener.sound(bytes.subarray(at, at + 2_000))
    listener.end()
    await until(() => listener.code !== 0, 60_000)
    expect([listener.error, listener.code], type).toEqual([undefined, 1000])
    const text = listener.concluded()
    expect(wordErrors(spoken, wordsOf(text)) / spoken.length, `${type}: ${text}`).toBeLessThanOrEqual(0.2)
    expect(listener.concluded("de")).toBe(text.toUpperCase())
    const segments = listener.heard.flatMap((message) => message["source_transcript_update"]?.concluded ?? [])
    for (const { start_time, end_time } of segments)
      expect(start_time >= 0 && start_time < end_time && end_time <= 3_700, `${start_time}–${end_time}`).toBe(
        true
      )
  }
}, 120_000)
