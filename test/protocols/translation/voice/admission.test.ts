/** Nothing is accepted that cannot be served: recognizers are reserved when a session is created, a lost client
 *  gives its recognizer back, and jobs neither starve live speech nor each other. */
import { afterEach, describe, expect, it } from "vitest"
import { wavOf } from "../../../../actors/engines/speech/openai-transcription.ts"
import { leaseMs } from "../../../../actors/voice/pipeline.ts"
import { soundOf } from "../../../actors/engines/scripted-recognizer.ts"
import { until, VoiceWorld, type Listener, type VoiceScript } from "./voice-world.ts"

let world: VoiceWorld
const open = async (script: VoiceScript = {}): Promise<VoiceWorld> => (world = await VoiceWorld.open(script))
afterEach(() => world.close())

const used = (): number => world.engines.recognizer.capacity().used

const cut = async (listener: Listener): Promise<void> => {
  listener.ws.terminate()
  await until(() => listener.code !== 0)
}

/** The words, five a final, as they are concluded. */
const words = (first: number, count: number): string =>
  Array.from({ length: count }, (_, i) => `w${first + i}`).join(" ")

const isSaid = (listener: Listener, text: string) => until(() => listener.concluded() === text)

describe("V-3: admission of live sessions", () => {
  it("as many are accepted as can be recognized, before a word is said; each of them is served", async () => {
    await open({ hearing: { capacity: 2 } })
    const both = [await world.connect(), await world.connect()]
    expect((await world.create()).status).toBe(503)
    for (const { listener } of both) {
      listener.words(1, 5)
      await isSaid(listener, words(1, 5))
    }
    expect((await world.create()).status).toBe(503)
  })
  it("a session that nobody connects to keeps its place for a minute", async () => {
    await open({ hearing: { capacity: 1 } })
    await world.create()
    await world.pass(59_000)
    expect((await world.create()).status).toBe(503)
    await world.pass(2_000)
    expect((await world.create()).status).toBe(200)
  })
  it("two cut connections: their places are free after the grace, and both sessions can be resumed", async () => {
    await open({ hearing: { capacity: 2 } })
    const lost = [await world.connect(), await world.connect()]
    for (const { listener } of lost) {
      listener.words(1, 3)
      await until(() => listener.heard.length > 0)
      await cut(listener)
    }
    expect((await world.create()).status).toBe(503)
    await world.pass(leaseMs + 1_000)
    expect(used()).toBe(0)
    for (const { token } of lost) {
      const { status, body } = await world.renew(token)
      expect(status).toBe(200)
      const back = world.listen(body)
      await back.opened
      back.words(4, 2)
      await isSaid(back, words(1, 5))
    }
  })
  it("a client that comes back in time has its recognizer still, in the middle of a sentence", async () => {
    await open({ hearing: { capacity: 1 } })
    const { listener, token } = await world.connect()
    listener.words(1, 3)
    await until(() => listener.heard.length > 0)
    await cut(listener)
    await world.pass(leaseMs - 2_000)
    const { body } = await world.renew(token)
    const back = world.listen(body)
    await back.opened
    await world.pass(leaseMs)
    back.words(4, 2)
    await isSaid(back, words(1, 5))
    expect(world.engines.recognizer.hearings).toBe(1)
  })
  it("a client that comes back late, when others have all places, is refused without losing its token, and is next", async () => {
    await open({ hearing: { capacity: 1 } })
    const { listener, token } = await world.connect()
    await cut(listener)
    await world.pass(leaseMs + 1_000)
    const other = await world.connect({}, await world.stranger())
    expect((await world.renew(token)).status).toBe(503)
    const returning = world.renew(token)
    await until(() => world.engines.recognizer.places.waiting("live") === 1)
    // Nobody who is new overtakes it.
    other.listener.end()
    const { status, body } = await returning
    expect(status).toBe(200)
    expect((await world.create({}, await world.stranger())).status).toBe(503)
    const back = world.listen(body)
    await back.opened
    back.words(1, 5)
    await isSaid(back, words(1, 5))
  }, 20_000)
  it("a client that goes while it waits for a recognizer leaves the queue, and its token stays good", async () => {
    await open({ hearing: { capacity: 1 } })
    const { listener, token } = await world.connect()
    await cut(listener)
    await world.pass(leaseMs + 1_000)
    const other = await world.connect({}, await world.stranger())
    const client = new AbortController()
    const returning = world.renew(token, undefined, client.signal).catch(() => "gone")
    await until(() => world.engines.recognizer.places.waiting("live") === 1)
    client.abort()
    expect(await returning).toBe("gone")
    await until(() => world.engines.recognizer.places.waiting("live") === 0)
    await cut(other.listener)
    await world.pass(leaseMs + 1_000)
    expect(used()).toBe(0)
    expect((await world.renew(token)).status).toBe(200)
  }, 20_000)
  it("the recognizer is free as soon as the end of the source is recognized, not when the client reads it", async () => {
    await open({ hearing: { capacity: 1 } })
    const { listener } = await world.connect()
    listener.words(1, 5)
    listener.end()
    await until(() => used() === 0)
    expect((await world.create()).status).toBe(200)
  })
})

it("V-1: a client that closes at end_of_stream twenty times is not locked out", async () => {
  await open({ hearing: { capacity: 2 } })
  for (let i = 0; i < 22; i++) {
    const { listener } = await world.connect()
    listener.ws.on("message", (data) => {
      if (String(data).includes("end_of_stream")) listener.ws.close(1000)
    })
    listener.end()
    await until(() => listener.code !== 0)
  }
  expect((await world.create()).status).toBe(200)
})

const jobsPath = "/v1/jobs/voice/translate"

const call = async (method: string, url: string, key: string, body?: Uint8Array | object) => {
  const isFile = body instanceof Uint8Array
  const answer = await fetch(url, {
    method,
    headers: {
      Authorization: isFile ? `DeepL-Signature ${key}` : `DeepL-Auth-Key ${key}`,
      "Content-Type": isFile ? "application/octet-stream" : "application/json"
    },
    ...(body === undefined ? {} : { body: isFile ? new Uint8Array(body) : JSON.stringify(body) })
  })
  const text = await answer.text()
  return { status: answer.status, body: text === "" ? undefined : JSON.parse(text) }
}

/** Uploads a job of so many words; answers its id. */
const startJob = async (key: string, count: number): Promise<string> => {
  const base = `http://127.0.0.1:${world.server.port}`
  const file = wavOf(new Int16Array(soundOf(1, count).buffer))
  const created = await call("POST", base + jobsPath, key, {
    source_file: { name: "a.wav", content_type: "audio/wav", content_length: file.length },
    parameters: { source_language: "en" },
    targets: [{ language: "en-US", type: "text/plain" }]
  })
  expect(created.status).toBe(201)
  expect((await call("PUT", created.body.upload_url, created.body.signature, file)).status).toBe(204)
  return created.body.job_id
}

const statusOf = async (key: string, id: string): Promise<string> =>
  (await call("GET", `http://127.0.0.1:${world.server.port}${jobsPath}/${id}`, key)).body.results[0].status

const isComplete = async (key: string, id: string): Promise<void> => {
  for (let status = ""; status !== "complete";) {
    status = await statusOf(key, id)
    expect(["processing", "complete"]).toContain(status)
  }
}

describe("V-3: live speech, jobs and a hostile neighbour", () => {
  it("two live sessions and five jobs at once, while a neighbour takes all it can: everybody is served", async () => {
    await open({ hearing: { capacity: 2, jobs: 1 } })
    const { recognizer } = world.engines
    const [neighbour, customer] = [await world.stranger(), await world.stranger()]
    const live = [await world.connect(), await world.connect({}, customer)]
    // Everything waits behind one job, so that the order of what follows is the pool's own.
    const first = recognizer.places.reserve({ use: "job", account: "x", owner: "x", language: "en" })
    // The neighbour asks for sessions, and has as many long jobs as an account may have.
    for (let i = 0; i < 25; i++) expect([503, 429]).toContain((await world.create({}, neighbour)).status)
    const hostile = await Promise.all(Array.from({ length: 10 }, () => startJob(neighbour, 400)))
    const jobs = await Promise.all(Array.from({ length: 5 }, () => startJob(customer, 10)))
    await until(() => recognizer.places.waiting("job") === 15)
    for (let round = 0; round < 3; round++)
      for (const { listener } of live) {
        listener.words(round * 5 + 1, 5)
        await isSaid(listener, words(1, round * 5 + 5))
      }
    recognizer.lessees.length = 0
    first!.release()
    for (const id of jobs) await isComplete(customer, id)
    for (const id of hostile) await isComplete(neighbour, id)
    // Each of the customer's five came after one turn of the neighbour's, which had to take more turns than jobs.
    const [ofNeighbour, ofCustomer] = recognizer.lessees
    const expected = Array.from({ length: 10 }, (_, i) => (i % 2 === 0 ? ofNeighbour : ofCustomer))
    expect(recognizer.lessees.slice(0, 10)).toEqual(expected)
    expect(recognizer.lessees.slice(10).every((account) => account === ofNeighbour)).toBe(true)
    expect(recognizer.lessees.length).toBeGreaterThan(20)
    for (const { listener } of live) {
      listener.end()
      await until(() => listener.names.includes("end_of_stream"))
      expect(listener.error).toBeUndefined()
    }
  }, 60_000)
})
