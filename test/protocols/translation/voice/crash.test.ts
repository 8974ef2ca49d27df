import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it } from "vitest"
import { buildChild, startChild, type Child } from "../../../child.ts"
import { Listener, pcm, until } from "./voice-world.ts"

const rounds = Number(process.env["TROUPE_CRASH_ROUNDS"] ?? 20) > 20 ? 60 : 12

it("kill -9 in the middle of a live session, restart, reconnect: no concluded text doubled, none lost but what the killed turn was sending", async () => {
  const folder = mkdtempSync(join(tmpdir(), "troupe-voice-"))
  const program = await buildChild("test/protocols/translation/voice/voice-child.ts")
  let child: Child
  let base = ""
  let secret = ""
  const up = async (): Promise<void> => {
    child = startChild(program, [folder])
    const [port, key] = (await child.line(/^\d+ /)).split(" ") as [string, string]
    base = `http://127.0.0.1:${port}`
    secret = key
  }
  const call = async (method: string, query: string, body?: unknown): Promise<any> => {
    const answer = await fetch(`${base}/v3/voice/realtime${query}`, {
      method,
      headers: { Authorization: `DeepL-Auth-Key ${secret}`, "Content-Type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) })
    })
    expect(answer.status).toBe(200)
    return answer.json()
  }
  await up()
  let opened = await call("POST", "", { source_media_content_type: pcm, target_languages: ["de"] })
  const listeners: Array<Listener> = []
  let word = 1
  let seed = 11
  for (let round = 0; round < rounds; round++) {
    const listener = new Listener(`${opened.streaming_url}?token=${opened.token}`)
    listeners.push(listener)
    expect(await listener.opened).toBe(true)
    const sending = setInterval(() => {
      if (listener.ws.readyState === listener.ws.OPEN) {
        listener.words(word, 2)
        word += 2
      }
    }, 8)
    await until(() => listener.concluded("de") !== "")
    seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff
    await new Promise((resolve) => setTimeout(resolve, (seed >> 8) % 90))
    child!.process.kill("SIGKILL")
    await child!.exited
    await until(() => listener.ws.readyState === listener.ws.CLOSED)
    clearInterval(sending)
    await up()
    opened = await call("GET", `?token=${encodeURIComponent(opened.token)}`)
  }
  const last = new Listener(`${opened.streaming_url}?token=${opened.token}`)
  listeners.push(last)
  await last.opened
  last.words(word, 5)
  last.end()
  await until(() => last.code === 1000)
  child!.process.kill("SIGKILL")

  type Concluded = { readonly text: string; readonly start_time: number; readonly end_time: number }
  for (const transcript of ["source_transcript_update", "target_transcript_update"]) {
    // Times go on where the concluded text ended: a lost segment would be a gap, a doubled one a step back.
    // Only at a kill may there be a gap:
    // text is marked delivered in the turn that sends it, and the kill can fall between the two. Nobody can
    // tell that case from a client which
    // has read it all, and it is never doubled.
    let endMs = 0
    let torn = 0
    const words: Array<number> = []
    for (const { heard } of listeners) {
      const concluded: ReadonlyArray<Concluded> = heard.flatMap(
        (message: Record<string, any>) => message[transcript]?.concluded ?? []
      )
      for (const [at, { text, start_time, end_time }] of concluded.entries()) {
        if (at === 0 && start_time > endMs) torn++
        else expect(start_time).toBe(endMs)
        endMs = end_time
        words.push(
          ...text
            .trim()
            .split(" ")
            .map((word) => Number(word.slice(1)))
        )
      }
    }
    expect(words).toEqual([...new Set(words)].sort((a, b) => a - b))
    expect(words.length).toBeGreaterThan(5 * rounds)
    expect(torn, "kills that fell between mark and send").toBeLessThan(rounds)
  }
  rmSync(folder, { recursive: true, force: true })
}, 240_000)
