/** `troupe voice` streams a file at its own pace over the voice API and prints captions meanwhile. On a
 *  terminal the last lines are tentative and rewritten in place; in a pipe only concluded text is printed. */
import { createWriteStream, readFileSync } from "node:fs"
import { extname } from "node:path"
import { WebSocket } from "ws"
import { call, type Client } from "./client.ts"

export interface VoiceOptions {
  readonly targets: ReadonlyArray<string>
  readonly from?: string
  readonly pace: number
  readonly json: boolean
  readonly speak?: string
  readonly out?: string
}

const types: Record<string, string> = {
  ".ogg": "audio/ogg",
  ".opus": "audio/ogg",
  ".webm": "audio/webm",
  ".flac": "audio/flac",
  ".mp3": "audio/mpeg",
  ".mkv": "audio/x-matroska",
  ".mka": "audio/x-matroska"
}

const chunkMs = 100

/** The bytes per chunk of a file whose length in ms only the server can determine. Source:
 *  docs/spec/translation.md, section 12.5. */
const blindBytes = 3_200

interface Source {
  readonly type: string
  readonly bytes: Uint8Array
  readonly chunkBytes: number
}

const sourceOf = (file: string): Source => {
  const bytes = readFileSync(file === "-" ? 0 : file)
  if (bytes.toString("latin1", 0, 4) !== "RIFF") {
    const type = types[extname(file).toLowerCase()] ?? "audio/auto"
    return { type, bytes, chunkBytes: blindBytes }
  }
  let at = 12
  let rate = 0
  let channels = 0
  let bits = 0
  while (at + 8 <= bytes.length) {
    const id = bytes.toString("latin1", at, at + 4)
    const size = bytes.readUInt32LE(at + 4)
    if (id === "fmt ") {
      channels = bytes.readUInt16LE(at + 10)
      rate = bytes.readUInt32LE(at + 12)
      bits = bytes.readUInt16LE(at + 22)
    }
    if (id === "data") {
      if (bits !== 16 || channels !== 1 || ![8_000, 16_000, 44_100, 48_000].includes(rate))
        throw new Error(
          `a WAV file must be 16-bit mono at 8, 16, 44.1 or 48 kHz; this is ${bits}-bit, ${channels} channels, ${rate} Hz`
        )
      return {
        type: `audio/pcm;encoding=s16le;rate=${rate}`,
        bytes: bytes.subarray(at + 8, at + 8 + size),
        chunkBytes: 2 * Math.round((rate * chunkMs) / 1_000)
      }
    }
    at += 8 + size + (size % 2)
  }
  throw new Error("this WAV file holds no sound")
}

/** Prints one line per transcript; on a terminal the tentative end of a line is dimmed and rewritten. */
class Captions {
  private readonly width = process.stdout.columns ?? 80
  private readonly live = process.stdout.isTTY === true
  private readonly tentative = new Map<string, string>()
  private drawn = 0

  show(label: string, concluded: string, tentative: string): void {
    if (this.live && this.drawn > 0) process.stdout.write(`\x1b[${this.drawn}A\x1b[J`)
    this.drawn = 0
    if (concluded.trim() !== "") console.log(`${label}  ${concluded.trim()}`)
    if (!this.live) return
    this.tentative.set(label, tentative.trim())
    for (const [name, text] of this.tentative) {
      if (text === "") continue
      const room = this.width - name.length - 4
      console.log(`\x1b[2m${name}  ${text.length > room ? `…${text.slice(1 - room)}` : text}\x1b[0m`)
      this.drawn++
    }
  }
}

interface TranscriptSegment {
  readonly text: string
}

interface Update {
  readonly language?: string
  readonly concluded: ReadonlyArray<TranscriptSegment & { readonly language?: string }>
  readonly tentative: ReadonlyArray<TranscriptSegment>
}

export const voice = async (client: Client, file: string, options: VoiceOptions): Promise<void> => {
  const source = sourceOf(file)
  const session = await call<{
    readonly streaming_url: string
    readonly token: string
    readonly session_id: string
  }>(client, "POST", "/v3/voice/realtime", {
    source_media_content_type: source.type,
    target_languages: options.targets,
    ...(options.from === undefined ? {} : { source_language: options.from, source_language_mode: "fixed" }),
    ...(options.speak === undefined ? {} : { target_media_languages: [options.speak] })
  })
  const ws = new WebSocket(`${session.streaming_url}?token=${encodeURIComponent(session.token)}`)
  const speech = options.out === undefined ? undefined : createWriteStream(options.out)
  const captions = new Captions()
  const transcripts: Record<string, string> = {}
  let failure: string | undefined
  ws.on("message", (data: Buffer) => {
    const message = JSON.parse(data.toString()) as Record<string, any>
    if (options.json) {
      if (message["target_media_chunk"] === undefined) console.log(data.toString())
    }
    const [name, body] = Object.entries(message)[0]!
    if (name === "error") failure = `${body.error_code} (${body.reason_code}): ${body.error_message}`
    if (name === "target_media_chunk")
      for (const packet of body.data as ReadonlyArray<string>) speech?.write(Buffer.from(packet, "base64"))
    if (!name.endsWith("_transcript_update")) return
    const { language, concluded, tentative } = body as Update
    const label = (name.startsWith("source") ? "heard" : language!).padEnd(5)
    transcripts[label.trim()] = (transcripts[label.trim()] ?? "") + concluded.map(({ text }) => text).join("")
    if (!options.json)
      captions.show(
        label,
        concluded.map(({ text }) => text).join(""),
        tentative.map(({ text }) => text).join("")
      )
  })
  const closed = new Promise<void>((resolve, reject) => {
    ws.on("close", () => resolve())
    ws.on("error", reject)
  })
  await new Promise((resolve, reject) => {
    ws.on("open", resolve)
    ws.on("error", reject)
  })
  const startedMs = performance.now()
  for (
    let at = 0, sent = 0;
    at < source.bytes.length && ws.readyState === ws.OPEN;
    at += source.chunkBytes, sent++
  ) {
    ws.send(
      JSON.stringify({
        source_media_chunk: {
          data: Buffer.from(source.bytes.subarray(at, at + source.chunkBytes)).toString("base64")
        }
      })
    )
    const dueMs = ((sent + 1) * chunkMs) / options.pace - (performance.now() - startedMs)
    if (dueMs > 0) await new Promise((resolve) => setTimeout(resolve, dueMs))
  }
  if (ws.readyState === ws.OPEN) ws.send(JSON.stringify({ end_of_source_media: {} }))
  await closed
  speech?.end()
  if (failure !== undefined) throw new Error(failure)
}
