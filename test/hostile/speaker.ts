/** An honest person who speaks: one session of live voice with real sound, from its handshake to its close. */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { WebSocket } from "ws"
import { wordErrors, wordsOf } from "../../bench/word-errors.ts"
import type { HonestSettings } from "./honest.ts"
import { root } from "./served.ts"
import { turnedAway, type Verdict } from "./tally.ts"

const spoken = wordsOf("the weather is nice today and we will go to the park")
const sound = readFileSync(join(root, "test/samples/audio/weather.flac"))
const wordErrorsMax = 0.2
const patienceMs = 120_000

export const speak = async ({ port, accounts }: HonestSettings): Promise<Verdict> => {
  const created = await fetch(`http://localhost:${port}/v3/voice/realtime`, {
    method: "POST",
    headers: {
      Authorization: `DeepL-Auth-Key ${accounts.translationKey}`,
      "Content-Type": "application/json",
      "X-Forwarded-For": "192.0.2.1"
    },
    body: JSON.stringify({
      source_media_content_type: "audio/flac",
      source_language: "en",
      source_language_mode: "fixed",
      target_languages: ["de"]
    })
  }).catch((cause: Error) => cause)
  if (created instanceof Error) return created.message
  const { streaming_url, token, ...rest } = (await created.json()) as Record<string, string>
  if (created.status === 503) return turnedAway
  if (created.status !== 200) return `${created.status} ${JSON.stringify(rest)}`
  const socket = new WebSocket(`${streaming_url}?token=${encodeURIComponent(token!)}`)
  let heard = ""
  let failed = ""
  socket.on("message", (data: Buffer) => {
    const [name, update] = Object.entries(JSON.parse(data.toString()))[0] as [string, any]
    if (name === "source_transcript_update")
      heard += update.concluded.map(({ text }: { readonly text: string }) => text).join("")
    if (name === "error") failed = JSON.stringify(update)
  })
  socket.on("open", () => {
    for (let at = 0; at < sound.length; at += 2_000)
      socket.send(
        JSON.stringify({ source_media_chunk: { data: sound.subarray(at, at + 2_000).toString("base64") } })
      )
    socket.send(JSON.stringify({ end_of_source_media: {} }))
  })
  const code = await new Promise<number>((resolve) => {
    const timer = setTimeout(() => socket.terminate(), patienceMs)
    socket.on("error", () => {})
    socket.on("close", (closed) => {
      clearTimeout(timer)
      resolve(closed)
    })
  })
  if (code === 1013) return turnedAway
  if (code !== 1000) return `closed with ${code} ${failed}`
  const errors = wordErrors(spoken, wordsOf(heard)) / spoken.length
  return errors <= wordErrorsMax ? undefined : `heard: ${heard}`
}
