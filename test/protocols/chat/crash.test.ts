/** kill -9 between turns and in the middle of streams; SIGTERM in the middle of a stream. */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, beforeEach, afterEach, expect, it } from "vitest"
import { buildChild, startChild, type Child } from "../../child.ts"
import { FakeUpstream, completion, textStream, type UpstreamRequest } from "./fake-upstream.ts"
import { frames, until } from "./chat-server.ts"

const rounds = Number(process.env["TROUPE_CRASH_ROUNDS"] ?? 20) > 20 ? 60 : 10
let program = ""
let folder = ""
let upstream: FakeUpstream
let child: Child
let base = ""

beforeAll(async () => {
  program = await buildChild("test/protocols/chat/chat-child.ts")
})

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "troupe-chat-"))
  upstream = await FakeUpstream.open()
})

afterEach(() => {
  child.process.kill("SIGKILL")
  upstream.close()
  rmSync(folder, { recursive: true, force: true })
})

afterAll(() => rmSync(join(program, ".."), { recursive: true, force: true }))

const up = async (graceMs = 0): Promise<void> => {
  child = startChild(program, [folder, upstream.url, String(graceMs)])
  base = `http://127.0.0.1:${(await child.line(/^port /)).slice(5)}`
}

const post = async (body: Record<string, unknown>): Promise<{ status: number; body: any }> => {
  const answer = await fetch(`${base}/v1/responses`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "main/m", ...body })
  })
  return { status: answer.status, body: await answer.json() }
}

const texts = (seen: UpstreamRequest): ReadonlyArray<string> =>
  seen.body.messages.map(({ content }: { content: string }) => content)

it("CHAT-50 kill -9 between turns and mid-stream, restart: every completed turn is continued by its id at once, nothing half-written is visible", async () => {
  await up()
  let previous: string | undefined
  let words: Array<string> = []
  let killed = 0
  const half: Array<string> = []
  for (let round = 0; round < rounds; round++) {
    upstream.respondWith((seen) =>
      seen.body.stream === true
        ? {
            chunks: textStream("half ", "a ", "word"),
            pace: (i) =>
              i > 1
                ? new Promise((resolve) => {
                    setTimeout(resolve, 20)
                  })
                : Promise.resolve()
          }
        : { json: completion(`re ${texts(seen).at(-1)!}`) }
    )
    const said = `turn ${round}`
    const whole = await post({
      input: said,
      ...(previous === undefined ? {} : { previous_response_id: previous })
    })
    expect(whole.status).toBe(200)
    expect(texts(upstream.last)).toEqual([...words, said])
    words = [...words, said, `re ${said}`]
    previous = whole.body.id as string
    if (round % 2 === 0) {
      const response = await fetch(`${base}/v1/responses`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ model: "main/m", input: "lost", stream: true, previous_response_id: previous })
      })
      const reader = response.body!.getReader()
      let text = ""
      while (!text.includes("half ")) text += new TextDecoder().decode((await reader.read()).value)
      half.push(/"id":"(resp_[0-9a-f]+)"/.exec(text)![1]!)
      reader.cancel().catch(() => {})
    }
    child.process.kill("SIGKILL")
    await child.exited
    killed++
    await up()
    expect(
      ((await (await fetch(`${base}/v1/responses/${previous}`)).json()) as { output: unknown }).output
    ).toEqual(whole.body.output)
  }
  expect(killed).toBe(rounds)
  // A stream that was cut is unknown or marked as cut; it never looks complete.
  for (const id of half) {
    const found = await fetch(`${base}/v1/responses/${id}`)
    if (found.status === 200) expect(((await found.json()) as { status: string }).status).toBe("cancelled")
    else expect(found.status).toBe(404)
  }
}, 120_000)

it("after kill -9 a queued background response is made, one that was under way has failed", async () => {
  await up()
  upstream.respondWith({ chunks: textStream("a").slice(0, 2), hang: true })
  const { body } = await post({ input: "x", background: true })
  await until(() => upstream.requests.length === 1)
  child.process.kill("SIGKILL")
  await child.exited
  upstream.respondWith({ json: completion("later") })
  await up()
  const after = (await (await fetch(`${base}/v1/responses/${body.id}`)).json()) as any
  expect([after.status, after.error]).toEqual([
    "failed",
    { code: "server_error", message: "interrupted by restart" }
  ])
  // A stop gives a running one back to the queue; the next process makes it.
  upstream.respondWith({ chunks: textStream("a").slice(0, 2), hang: true })
  const second = await post({ input: "y", background: true })
  await until(() => upstream.requests.length === 1)
  child.process.kill("SIGTERM")
  expect(await child.exited).toBe(0)
  upstream.respondWith({ json: completion("later") })
  await up()
  let state: any
  for (let i = 0; i < 200 && state?.status !== "completed"; i++) {
    state = await (await fetch(`${base}/v1/responses/${second.body.id}`)).json()
    await new Promise((resolve) => {
      setTimeout(resolve, 10)
    })
  }
  expect([state.status, state.output[0].content[0].text]).toEqual(["completed", "later"])
}, 60_000)

it("after kill -9 in the middle of a background stream its items are over too: incomplete, in the look-up and in the resumed stream", async () => {
  await up()
  upstream.respondWith({ chunks: textStream("half ", "a word").slice(0, 2), hang: true })
  const response = await fetch(`${base}/v1/responses`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "main/m", input: "x", stream: true, background: true })
  })
  const reader = response.body!.getReader()
  let text = ""
  while (!text.includes("half ")) text += new TextDecoder().decode((await reader.read()).value)
  reader.cancel().catch(() => {})
  // Longer than events wait for the disk.
  await new Promise((resolve) => {
    setTimeout(resolve, 200)
  })
  child.process.kill("SIGKILL")
  await child.exited
  await up()
  const id = /"id":"(resp_[0-9a-f]+)"/.exec(text)![1]!
  const after = (await (await fetch(`${base}/v1/responses/${id}`)).json()) as any
  expect([after.status, after.output[0].status, after.output[0].content[0].text]).toEqual([
    "failed",
    "incomplete",
    "half "
  ])
  const resumed = frames(await (await fetch(`${base}/v1/responses/${id}?stream=true`)).text())
  expect([
    resumed.at(-2)!.data.type,
    resumed.at(-2)!.data.response.output[0].status,
    resumed.at(-1)!.data
  ]).toEqual(["response.failed", "incomplete", "[DONE]"])
}, 60_000)

it("CHAT-70 SIGTERM during a stream longer than the grace: error frame, exit 0, /health 503 meanwhile, new turns 503", async () => {
  await up(400)
  upstream.respondWith({ chunks: textStream("a", "b").slice(0, 2), hang: true })
  const chat = fetch(`${base}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "main/m", stream: true, messages: [{ role: "user", content: "x" }] })
  })
  const stream = await chat
  const reader = stream.body!.getReader()
  let text = new TextDecoder().decode((await reader.read()).value)
  child.process.kill("SIGTERM")
  let health = 200
  await until(() => {
    void fetch(`${base}/health`).then(
      ({ status }) => {
        health = status
      },
      () => {}
    )
    return health === 503
  }, 2_000)
  const refused = await fetch(`${base}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "main/m", messages: [{ role: "user", content: "x" }] })
  })
  expect([refused.status, ((await refused.json()) as any).error.code]).toEqual([503, "shutting_down"])
  for (let part = await reader.read(); !part.done; part = await reader.read())
    text += new TextDecoder().decode(part.value)
  const all = frames(text)
  expect([all.at(-2)!.data.error.code, all.at(-1)!.data]).toEqual(["shutting_down", "[DONE]"])
  expect(await child.exited).toBe(0)
}, 60_000)
