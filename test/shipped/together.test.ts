/** The shipped program with everybody at once, on its own engines: two live sessions, five voice jobs, somebody
 *  who sends short texts, and a neighbour who sends nothing but huge words. Each gets what the documentation
 *  promises, whatever the others do; how soon is printed, not asserted. */
import { existsSync, readFileSync } from "node:fs"
import { setTimeout as pause } from "node:timers/promises"
import { afterAll, beforeAll, expect, it } from "vitest"
import { wordErrors, wordsOf } from "../../bench/word-errors.ts"
import { Program } from "./program.ts"

const isInstalled = existsSync("/usr/share/apertium/modes/eng-spa.mode") || process.env["CI"] !== undefined
const file = new URL("../../docs/samples/weather.wav", import.meta.url).pathname
const sentence = readFileSync(new URL("../samples/audio/weather.flac", import.meta.url))
const spoken = wordsOf(
  "the weather is nice today and we will go to the park can you hear me now where is the train station"
)

let program: Program
let key: string
let hostileKey: string

const call = (path: string, authKey: string, body?: unknown): Promise<Response> =>
  fetch(`${program.url}${path}`, {
    method: body === undefined ? "GET" : "POST",
    headers: { Authorization: `DeepL-Auth-Key ${authKey}`, "Content-Type": "application/json" },
    ...(body !== undefined && { body: JSON.stringify(body) })
  })

beforeAll(async () => {
  program = await Program.start()
  const secrets = await program.secrets()
  key = secrets.developerKey
  const response = await call("/v2/admin/developer-keys", secrets.adminKey, { label: "neighbour" })
  expect(response.status).toBe(200)
  hostileKey = ((await response.json()) as { readonly key: string }).key
})

afterAll(() => program?.close())

interface Job {
  readonly results: ReadonlyArray<{ readonly status: string; readonly signed_download_url?: string }>
}

/** Hands a voice job in, waits for it, and resolves with its subtitles. */
const subtitles = async (): Promise<string> => {
  const response = await call("/v1/jobs/voice/translate?include=signed_url", key, {
    source_file: { name: "weather.flac", content_type: "audio/flac", content_length: sentence.length },
    parameters: { source_language: "en" },
    targets: [{ language: "es", type: "application/x-subrip" }]
  })
  expect(response.status).toBe(201)
  const { job_id, signed_upload_url } = (await response.json()) as Record<string, string>
  const uploaded = await fetch(signed_upload_url!, { method: "PUT", body: sentence })
  expect(uploaded.status).toBe(204)
  while (true) {
    const asked = await call(`/v1/jobs/voice/translate/${job_id}?include=signed_url`, key)
    expect(asked.status).toBe(200)
    const [result] = ((await asked.json()) as Job).results
    if (result?.status === "complete") return (await fetch(result.signed_download_url!)).text()
    expect(result?.status).toBe("processing")
    await pause(500)
  }
}

/** Runs the task again and again, as often at once as `lanes` says, until it is told to stop. */
const flood = (lanes: number, task: () => Promise<void>): (() => Promise<void>) => {
  let isOver = false
  const loops = Array.from({ length: lanes }, async () => {
    while (!isOver) await task()
  })
  const ended = Promise.all(loops)
  ended.catch(() => {})
  return async () => {
    isOver = true
    await ended
  }
}

/** 100 kB, in turn of one word and of ordinary ones; none of them was sent before. */
const hugeText = (number: number): string =>
  number % 2 === 0 ? number + "x".repeat(100_000) : `${number} big houses and `.repeat(5_000)

const tally = (counts: Map<number, number>, status: number): void => {
  counts.set(status, (counts.get(status) ?? 0) + 1)
}

it.skipIf(!isInstalled)(
  "T-1, V-3: two live sessions, five jobs and a hostile neighbour: everybody is answered",
  async () => {
    const hostile = new Map<number, number>()
    let hugeTexts = 0
    const delays: Array<number> = []
    const took: Record<string, ReadonlyArray<number>> = {}
    const startedAt = performance.now()
    const since = (): number => Math.round(performance.now() - startedAt) / 1000
    const stopHostile = flood(4, async () => {
      const answer = await call("/v2/translate", hostileKey, {
        text: [hugeText(hugeTexts++)],
        source_lang: "EN",
        target_lang: "ES"
      })
      await answer.arrayBuffer()
      tally(hostile, answer.status)
    })
    const stopQuiet = flood(1, async () => {
      const sentAt = performance.now()
      const answer = await call("/v2/translate", key, {
        text: [`The house is big. ${delays.length}`],
        source_lang: "EN",
        target_lang: "ES"
      })
      expect(answer.status).toBe(200)
      expect(await answer.text()).toContain("La casa es grande")
      delays.push(performance.now() - sentAt)
      await pause(100)
    })
    const timed = async <A>(work: Promise<A>): Promise<readonly [A, number]> => [await work, since()]
    const [lives, jobs] = await Promise.all([
      Promise.all([1, 2].map(() => timed(program.run("voice", file, "--from", "en", "--to", "es")))),
      Promise.all([1, 2, 3, 4, 5].map(() => timed(subtitles())))
    ])
    await Promise.all([stopHostile(), stopQuiet()])

    for (const [{ code, out, err }] of lives) {
      expect(code, err).toBe(0)
      const heard = [...out.matchAll(/^heard +(.*)$/gm)].map(([, text]) => text).join(" ")
      expect(wordErrors(spoken, wordsOf(heard)) / spoken.length).toBeLessThanOrEqual(0.2)
    }
    for (const [text] of jobs) expect(text).toContain("El tiempo es bueno hoy")
    expect([200, 429, 504]).toEqual(expect.arrayContaining([...hostile.keys()]))
    expect(program.isAlive).toBe(true)

    took["live sessions"] = lives.map(([, seconds]) => seconds)
    took["jobs"] = jobs.map(([, seconds]) => seconds)
    const sorted = delays.toSorted((a, b) => a - b)
    const at = (share: number): string => `${sorted[Math.floor(share * (sorted.length - 1))]!.toFixed(1)} ms`
    console.info(
      `s after the start: ${JSON.stringify(took)}; texts: ${sorted.length}, p50 ${at(0.5)}, p99 ${at(0.99)}; ` +
        `neighbour: ${JSON.stringify([...hostile])}`
    )
  }
)
