/** The shipped program's live speech: real sound over a WebSocket, the embedded recognizer in its worker, the
 *  translation behind it. */
import { readFileSync } from "node:fs"
import { afterAll, beforeAll, expect, it } from "vitest"
import { WebSocket } from "ws"
import { wordErrors, wordsOf } from "../../bench/word-errors.ts"
import { ModelServer } from "./model-server.ts"
import { Program } from "./program.ts"

const spoken = wordsOf("the weather is nice today and we will go to the park")
const sound = readFileSync(new URL("../samples/audio/weather.flac", import.meta.url))

let models: ModelServer
let program: Program

beforeAll(async () => {
  models = await ModelServer.open()
  program = await Program.start({ env: models.env })
})

afterAll(async () => {
  await program?.close()
  models?.close()
})

interface Update {
  readonly concluded: ReadonlyArray<{ readonly text: string }>
}

it("a FLAC file is heard and translated", async () => {
  const { developerKey } = await program.secrets()
  const created = await fetch(`${program.url}/v3/voice/realtime`, {
    method: "POST",
    headers: { Authorization: `DeepL-Auth-Key ${developerKey}`, "Content-Type": "application/json" },
    body: JSON.stringify({
      source_media_content_type: "audio/flac",
      source_language: "en",
      source_language_mode: "fixed",
      target_languages: ["de"]
    })
  })
  expect(created.status).toBe(200)
  const { streaming_url, token } = (await created.json()) as Record<string, string>
  const socket = new WebSocket(`${streaming_url}?token=${encodeURIComponent(token!)}`)
  const texts: Record<string, string> = { source: "", target: "" }
  socket.on("message", (data: Buffer) => {
    const [name, update] = Object.entries(JSON.parse(data.toString()))[0] as [string, Update]
    const [side] = name.split("_transcript_update")
    if (name.endsWith("_transcript_update")) texts[side!] += update.concluded.map(({ text }) => text).join("")
  })
  const closed = new Promise<number>((resolve) => socket.on("close", resolve))
  await new Promise((resolve, reject) => socket.on("open", resolve).on("error", reject))
  for (let at = 0; at < sound.length; at += 2_000) {
    const data = sound.subarray(at, at + 2_000).toString("base64")
    socket.send(JSON.stringify({ source_media_chunk: { data } }))
  }
  socket.send(JSON.stringify({ end_of_source_media: {} }))
  expect(await closed).toBe(1000)
  expect(wordErrors(spoken, wordsOf(texts["source"]!)) / spoken.length).toBeLessThanOrEqual(0.2)
  expect(texts["target"]).toBe(texts["source"]!.toUpperCase())
})
