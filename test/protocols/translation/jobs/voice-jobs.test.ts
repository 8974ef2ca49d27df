import { beforeEach, describe, expect, it } from "vitest"
import { wavOf } from "../../../../actors/engines/speech/openai-transcription.ts"
import { dropLeftovers } from "../../../../protocols/translation/jobs/leftovers.ts"
import { srtOf } from "../../../../protocols/translation/jobs/voice-file.ts"
import { soundOf } from "../../../actors/engines/scripted-recognizer.ts"
import { until } from "../memories/tmx-files.ts"
import { TranslationHarness, type Answer } from "../harness.ts"
import { voiceEngines } from "../voice/voice-world.ts"

let world: TranslationHarness

const open = async (more: object = {}): Promise<void> => {
  world = await TranslationHarness.open({}, { engines: voiceEngines(), ...more })
}

beforeEach(() => open())
const path = "/v1/jobs/voice/translate"

/** Words 1 to 10: two finals of five words, a second each. */
const sound = (words = 10): Buffer => Buffer.from(wavOf(new Int16Array(soundOf(1, words).buffer)))

const body = (bytes: number, more: object = {}) => ({
  source_file: { name: "a.wav", content_type: "audio/wav", content_length: bytes },
  parameters: { source_language: "en" },
  targets: [{ language: "de", type: "text/plain" }],
  ...more
})

const create = (job: object, query = ""): Promise<Answer> => world.call({ path, query, body: job })

const read = async (id: string, query = ""): Promise<any> =>
  (await world.call({ method: "GET", path: `${path}/${id}`, query })).body

const asset = (
  method: string,
  address: string,
  signature: string | undefined,
  file?: Uint8Array
): Promise<Answer> => {
  const url = new URL(address)
  return world.call({
    method,
    path: url.pathname,
    query: url.search.slice(1),
    key: "",
    headers: signature === undefined ? {} : { authorization: `DeepL-Signature ${signature}` },
    type: "application/octet-stream",
    ...(file === undefined ? {} : { body: file })
  })
}

const settled = (id: string): Promise<any> =>
  until(async () => {
    const job = await read(id)
    return job.results.every((one: any) => ["complete", "failed"].includes(one.status)) ? job : undefined
  })

const worked = async (more: object = {}, file = sound()): Promise<any> => {
  const { body: created } = await create(body(file.length, more))
  expect((await asset("PUT", created.upload_url, created.signature, file)).status).toBe(204)
  return settled(created.job_id)
}

describe("voice translate jobs (translation 13)", () => {
  it("create 201, upload 204, results by target: text, subtitles, speech; download; gone when all are fetched", async () => {
    const file = sound()
    const targets = [
      { language: "de", type: "text/plain" },
      { language: "en-US", type: "application/x-subrip" },
      { language: "de", type: "audio/pcm;encoding=s16le;rate=16000" }
    ]
    const { status, body: created } = await create(body(file.length, { targets }), "include=signed_url")
    expect([status, created]).toEqual([
      201,
      {
        job_id: expect.any(String),
        upload_url: expect.stringMatching(/^http:\/\/localhost\/v1\/assets\//),
        signature: expect.any(String),
        signed_upload_url: expect.stringContaining("X-Signature=")
      }
    ])
    expect((await read(created.job_id)).results).toEqual([
      { status: "pending" },
      { status: "pending" },
      { status: "pending" }
    ])
    const put = await asset("PUT", created.signed_upload_url, undefined, file)
    expect([put.status, put.text]).toEqual([204, ""])
    const job = await settled(created.job_id)
    expect(job).toMatchObject({
      job_id: created.job_id,
      product: "voice",
      operation: "translate",
      created_at: "2026-01-31T12:00:00.000Z",
      source_file: { name: "a.wav", content_type: "audio/wav", content_length: file.length },
      parameters: { source_language: "en" },
      targets,
      results: [{ status: "complete" }, { status: "complete" }, { status: "complete" }]
    })
    const signed = await read(created.job_id, "include=signed_url")
    const fetched: Array<string> = []
    for (const [i, one] of signed.results.entries()) {
      expect((await asset("GET", one.download_url, signed.results[(i + 1) % 3].signature)).status).toBe(403)
      fetched.push(
        (
          await (i === 0
            ? asset("GET", one.signed_download_url, undefined)
            : asset("GET", one.download_url, one.signature))
        ).text
      )
    }
    expect(fetched[0]).toBe("W1 W2 W3 W4 W5 W6 W7 W8 W9 W10")
    expect(fetched[1]).toBe(
      "1\n00:00:00,000 --> 00:00:01,000\nw1 w2 w3 w4 w5\n\n2\n00:00:01,000 --> 00:00:02,000\nw6 w7 w8 w9 w10\n"
    )
    expect(fetched[2]!.length).toBeGreaterThan(100)
    await until(async () =>
      (await world.call({ method: "GET", path: `${path}/${created.job_id}` })).status === 404
        ? true
        : undefined
    )
    await until(async () => ((await world.store.blobs.ids()).length === 0 ? true : undefined))
    expect((await world.call({ method: "GET", path: "/v2/usage" })).body.speech_to_text_minutes_count).toBe(1)
  })
  it("a job of which one result is fetched shows it as downloaded", async () => {
    const job = await worked({
      targets: [
        { language: "de", type: "text/plain" },
        { language: "fr", type: "text/plain" }
      ]
    })
    await asset("GET", job.results[0].download_url, job.results[0].signature)
    await until(async () => ((await read(job.job_id)).results[0].status === "downloaded" ? true : undefined))
    expect((await read(job.job_id)).results[1].status).toBe("complete")
  })
  it.each<[string, object, string]>([
    ["no source_file", { source_file: undefined }, "/source_file"],
    ["no name", { source_file: { content_type: "audio/wav", content_length: 1 } }, "/source_file/name"],
    [
      "content_type of no sound",
      { source_file: { name: "a", content_type: "text/plain", content_length: 1 } },
      "/source_file/content_type"
    ],
    [
      "MP4, for which there is no decoder",
      { source_file: { name: "a", content_type: "audio/mp4", content_length: 1 } },
      "/source_file/content_type"
    ],
    [
      "content_length 0",
      { source_file: { name: "a", content_type: "audio/wav", content_length: 0 } },
      "/source_file/content_length"
    ],
    [
      "content_length above 1 GiB",
      { source_file: { name: "a", content_type: "audio/wav", content_length: 1_073_741_825 } },
      "/source_file/content_length"
    ],
    ["unknown source language", { parameters: { source_language: "xx" } }, "/parameters/source_language"],
    ["no targets", { targets: [] }, "/targets"],
    ["targets that are no objects", { targets: ["de"] }, "/targets"],
    [
      "unknown target language",
      {
        targets: [
          { language: "de", type: "text/plain" },
          { language: "xx", type: "text/plain" }
        ]
      },
      "/targets/1/language"
    ],
    ["unknown type", { targets: [{ language: "de", type: "text/html" }] }, "/targets/0/type"],
    ["a type without an encoder", { targets: [{ language: "de", type: "audio/flac" }] }, "/targets/0/type"],
    ["a language nobody speaks", { targets: [{ language: "fr", type: "audio/opus" }] }, "/targets/0/type"]
  ])("%s: 400 naming the field as a JSON pointer", async (_, more, pointer) => {
    const answer = await create(body(10, more))
    expect([answer.status, answer.body.message.startsWith(`${pointer}: `)]).toEqual([400, true])
  })
  it("wrong length: 400 and the job still waits; wrong or other signature: 403; a second upload: 403", async () => {
    const file = sound()
    const { body: created } = await create(body(file.length))
    const { body: other } = await create(body(5))
    expect((await asset("PUT", created.upload_url, created.signature, file.subarray(1))).status).toBe(400)
    expect((await asset("PUT", created.upload_url, other.signature, file)).status).toBe(403)
    expect((await asset("PUT", created.upload_url, undefined, file)).status).toBe(403)
    expect((await read(created.job_id)).results[0].status).toBe("pending")
    expect((await asset("PUT", created.upload_url, created.signature, file)).status).toBe(204)
    expect((await asset("PUT", created.upload_url, created.signature, file)).status).toBe(403)
  })
  it("17 never uploaded: after 5 minutes all results failed and upload 403, after another hour 404", async () => {
    const { body: created } = await create(body(5))
    world.nowMs += 300_000
    expect((await asset("PUT", created.upload_url, created.signature, Buffer.from("12345"))).status).toBe(403)
    world.system.tick()
    const job = await settled(created.job_id)
    expect(job.results).toEqual([{ status: "failed", error: { message: expect.any(String) } }])
    world.nowMs += 3_600_000
    world.system.tick()
    await until(async () =>
      (await world.call({ method: "GET", path: `${path}/${created.job_id}` })).status === 404
        ? true
        : undefined
    )
  })
  it("the download window ends an hour after the upload: job and files gone", async () => {
    const job = await worked()
    world.nowMs += 3_600_000
    world.system.tick()
    await until(async () =>
      (await world.call({ method: "GET", path: `${path}/${job.job_id}` })).status === 404 ? true : undefined
    )
    await until(async () => ((await world.store.blobs.ids()).length === 0 ? true : undefined))
    expect((await asset("GET", job.results[0].download_url, job.results[0].signature)).status).toBe(404)
  })
  it("a file that is not what it claims to be: failed, with a text", async () => {
    const {
      results: [result]
    } = await worked({}, Buffer.from("RIFFxxxxWAVEnothing"))
    expect(result).toEqual({
      status: "failed",
      error: { message: expect.stringMatching(/not audio|declared/) }
    })
  })
  it("stereo is mixed", async () => {
    const mono = sound(5)
    const samples = new Int16Array(mono.buffer, mono.byteOffset + 44, (mono.length - 44) / 2)
    const stereo = Buffer.alloc(44 + samples.length * 4)
    mono.copy(stereo, 0, 0, 44)
    stereo.writeUInt16LE(2, 22)
    for (const [i, sample] of samples.entries()) {
      stereo.writeInt16LE(sample, 44 + i * 4)
      stereo.writeInt16LE(sample, 46 + i * 4)
    }
    const job = await worked({}, stereo)
    expect((await asset("GET", job.results[0].download_url, job.results[0].signature)).text).toBe(
      "W1 W2 W3 W4 W5"
    )
  })
  it("10 concurrent jobs per account, 2 of them above 100 MB: 429", async () => {
    for (let i = 0; i < 2; i++) expect((await create(body(104_857_601))).status).toBe(201)
    expect((await create(body(104_857_601))).status).toBe(429)
    for (let i = 2; i < 10; i++) expect((await create(body(10))).status).toBe(201)
    expect((await create(body(10))).status).toBe(429)
    world.nowMs += 300_000
    world.system.tick()
    await until(async () => ((await create(body(10))).status === 201 ? true : undefined))
  })
  it("free 403, scoped key 403, foreign and unknown 404, malformed 400, speech quota used up 456", async () => {
    const { body: created } = await create(body(10))
    const nobody = "0f8fad5b-d9cb-469f-a165-70867728950e"
    expect(
      (await world.call({ path, body: body(1), key: await world.key({ scopes: ["translate:text"] }) })).status
    ).toBe(403)
    expect(
      (await world.call({ path, body: body(1), key: await world.key({ limits: { speechToTextMs: 0 } }) }))
        .status
    ).toBe(456)
    expect([
      (await world.call({ method: "GET", path: `${path}/${nobody}` })).status,
      (await world.call({ method: "GET", path: `${path}/x` })).status
    ]).toEqual([404, 400])
    expect(
      (await (await TranslationHarness.open()).call({ method: "GET", path: `${path}/${created.job_id}` }))
        .status
    ).toBe(404)
    await open({ account: { tier: "free" } })
    expect((await create(body(10))).status).toBe(403)
  })
  it("leftovers of a crash between an upload's last byte and its record are removed at the start, nothing else", async () => {
    const { body: created } = await create(body(sound().length))
    const one = async function* () {
      yield new Uint8Array(3)
    }
    const stray = [
      `voice-${created.job_id}-source-${crypto.randomUUID()}`,
      `tm-${crypto.randomUUID()}-${crypto.randomUUID()}`,
      `tmx-${crypto.randomUUID()}`
    ]
    for (const id of [...stray, "documents-belong-to-others"]) await world.store.blobs.write(id, one())
    const job = await worked()
    await dropLeftovers(world.store, world.system)
    const left = await world.store.blobs.ids()
    expect([
      left.includes("documents-belong-to-others"),
      stray.some((id) => left.includes(id)),
      left.includes(`voice-${job.job_id}-0`)
    ]).toEqual([true, false, true])
  })
  it("subtitle times", () => {
    expect(srtOf([{ text: "a", startMs: 3_723_004, endMs: 3_724_999 }])).toBe(
      "1\n01:02:03,004 --> 01:02:04,999\na\n"
    )
  })
})
