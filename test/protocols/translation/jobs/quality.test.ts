import { Deferred, Effect, Fiber } from "effect"
import { openMemory } from "../../../../storage/memory.ts"
import { qualityWork } from "../../../../protocols/translation/jobs/quality.ts"
import { beforeEach, describe, expect, it } from "vitest"
import { checkPair, summaryOf } from "../../../../protocols/translation/jobs/quality-checks.ts"
import { until } from "../memories/tmx-files.ts"
import { TranslationHarness, type Answer, scripted } from "../harness.ts"

let world: TranslationHarness

beforeEach(async () => {
  world = await TranslationHarness.open({
    detects: { "Dies ist ein recht langer deutscher Satz.": "de" },
    writes: ["de"]
  })
})

const path = "/v1/quality-evaluation"
const metadata = { source_language: "en", target_language: "de" }
const evaluate = (body: unknown, more: object = {}): Promise<Answer> => world.call({ path, body, ...more })

const reported = async (segments: ReadonlyArray<object>): Promise<any> => {
  const { status, body } = await evaluate({ metadata, segments })
  expect(status).toBe(202)
  return until(async () => {
    const answer = await world.call({ method: "GET", path: `${path}/${body.job_id}` })
    return answer.status === 200 ? answer.body : undefined
  })
}

describe("quality evaluation (translation 14)", () => {
  it("202 with job_id, a relative poll_url and Retry-After; then done with segments in order and a summary", async () => {
    const answer = await evaluate({
      metadata,
      segments: [
        { source: "It costs 5 euros.", target: "Es kostet 6 Euro." },
        { source: "Good.", target: "Gut." }
      ]
    })
    expect([answer.status, answer.body, answer.header("retry-after")]).toEqual([
      202,
      { job_id: expect.any(String), poll_url: `/v1/quality-evaluation/${answer.body.job_id}` },
      "5"
    ])
    const done = await until(async () => {
      const now = await world.call({ method: "GET", path: answer.body.poll_url })
      return now.status === 200 ? now.body : undefined
    })
    expect(done).toEqual({
      job_id: answer.body.job_id,
      status: "done",
      segments: [
        {
          segment_index: 0,
          errors: [
            {
              type: "Accuracy",
              sub_type: "Omission",
              severity: "Major",
              explanation: expect.any(String),
              source_spans: [{ start: 9, end: 10 }],
              target_spans: []
            },
            {
              type: "Accuracy",
              sub_type: "Addition",
              severity: "Major",
              explanation: expect.any(String),
              source_spans: [],
              target_spans: [{ start: 10, end: 11 }]
            }
          ]
        },
        { segment_index: 1, errors: [] }
      ],
      summary: {
        overall_score: 90,
        granular_counts: { Accuracy: { Omission: { Major: 1 }, Addition: { Major: 1 } } }
      }
    })
  })
  it("the corrector's findings and different translations of one source are told", async () => {
    const { segments } = await reported([
      { source: "A cat", target: "teh Katze" },
      { source: "A cat", target: "die Katze" }
    ])
    expect(
      segments.map(({ errors }: any) =>
        errors.map(({ sub_type, target_spans }: any) => [sub_type, target_spans])
      )
    ).toEqual([[["Spelling", [{ start: 0, end: 3 }]]], [["Inconsistency", [{ start: 0, end: 9 }]]]])
  })
  it.each<[string, unknown, string]>([
    ["no metadata", { segments: [] }, "metadata is required."],
    ["no source_language", { metadata: {}, segments: [] }, "metadata.source_language is required."],
    [
      "unsupported source",
      { metadata: { source_language: "pl", target_language: "de" } },
      "metadata.source_language is not supported."
    ],
    [
      "unsupported pair",
      { metadata: { source_language: "de", target_language: "fr" } },
      "metadata.target_language is not supported for this source_language."
    ],
    ["no segments", { metadata }, "segments is required."],
    ["empty segments", { metadata, segments: [] }, "segments is required."],
    ["no source", { metadata, segments: [{ target: "a" }] }, "segments[0].source is required."],
    [
      "empty target",
      {
        metadata,
        segments: [
          { source: "a", target: "a" },
          { source: "b", target: "" }
        ]
      },
      "segments[1].target is required."
    ],
    [
      "a number",
      { metadata, segments: [{ source: "a", target: 5 }] },
      "segments[0].target must be a string."
    ],
    [
      "501 segments",
      { metadata, segments: Array.from({ length: 501 }, () => ({ source: "a", target: "b" })) },
      "segments must hold at most 500 items."
    ],
    [
      "10001 characters",
      { metadata, segments: [{ source: "x".repeat(10_001), target: "b" }] },
      "segments[0].source must have at most 10000 characters."
    ]
  ])("%s: 400 with a message only", async (_, body, message) => {
    const answer = await evaluate(body)
    expect([answer.status, answer.body]).toEqual([400, { message }])
  })
  it("JSON only: 415; not JSON: 400; free and scoped keys: 403", async () => {
    expect((await evaluate("metadata=x")).status).toBe(415)
    expect((await evaluate("{", { type: "application/json" })).status).toBe(400)
    expect((await evaluate({}, { key: await world.key({ scopes: ["translate:text"] }) })).status).toBe(403)
    world = await TranslationHarness.open({}, { account: { tier: "free" } })
    expect((await evaluate({})).status).toBe(403)
  })
  it("job_id must be a valid UUID: 400; unknown, foreign, or older than 24 h after the end: 404", async () => {
    const bad = await world.call({ method: "GET", path: `${path}/x` })
    expect([bad.status, bad.body]).toEqual([400, { message: "job_id must be a valid UUID." }])
    expect(
      (await world.call({ method: "GET", path: `${path}/0f8fad5b-d9cb-469f-a165-70867728950e` })).status
    ).toBe(404)
    const { job_id } = await reported([{ source: "a", target: "b" }])
    expect(
      (await (await TranslationHarness.open()).call({ method: "GET", path: `${path}/${job_id}` })).status
    ).toBe(404)
    world.nowMs += 86_400_000
    world.system.tick()
    await until(async () =>
      (await world.call({ method: "GET", path: `${path}/${job_id}` })).status === 404 ? true : undefined
    )
  })
  it("POST 100 a minute, GET 1000 a minute per key: 429 with Retry-After", async () => {
    for (let i = 0; i < 100; i++) expect((await evaluate({})).status).toBe(400)
    const limited = await evaluate({})
    expect([limited.status, Number(limited.header("retry-after"))]).toEqual([429, 60])
    for (let i = 0; i < 1_000; i++) await world.call({ method: "GET", path: `${path}/x` })
    expect((await world.call({ method: "GET", path: `${path}/x` })).status).toBe(429)
  })
})

describe("checks (translation 14.2)", () => {
  const found = (
    source: string,
    target: string,
    detected?: string,
    languages = { source: "en", target: "de" }
  ) =>
    checkPair({ source, target }, languages, detected).map(
      ({ sub_type, severity }) => `${sub_type} ${severity}`
    )
  it.each<[string, string, string, ReadonlyArray<string>]>([
    ["nothing wrong", "He paid 1,249.50 euros.", "Er zahlte 1.249,50 Euro.", []],
    [
      "untranslated",
      "This is the very same text.",
      "this is the very same text",
      ["Untranslated text Critical"]
    ],
    ["placeholder lost", "Hello {name}!", "Hallo!", ["Omission Major"]],
    ["placeholder added", "Hello!", "Hallo {name}!", ["Addition Major"]],
    ["final mark", "Really?", "Wirklich.", ["Punctuation Minor"]],
    ["bracket", "It (really) is.", "Es (wirklich ist.", ["Punctuation Minor"]],
    ["encoding", "Straight road", "Gerade StraÃ\u009Fe \uFFFD", ["Character encoding Major"]],
    ["doubled word", "the cat", "die die Katze", ["Grammar Minor"]],
    ["register", "You know your name.", "Wissen Sie, wie du heißt.", ["Grammatical register Minor"]],
    [
      "much too short",
      "A sentence that says really quite a lot of things.",
      "Kurz.",
      ["Under-translation Major"]
    ]
  ])("%s", (_, source, target, wanted) => expect(found(source, target)).toEqual(wanted))
  it("the wrong language, where it is certain", () => {
    expect(
      found("Ceci n'est pas une pipe, vraiment pas.", "Esto no es una pipa, de verdad que no.", "es", {
        source: "fr",
        target: "en-gb"
      })
    ).toEqual(["Mistranslation Critical"])
  })
  it("spans are code points, sorted, half-open", () => {
    const [issue] = checkPair(
      { source: "💜💜 42.", target: "💜💜." },
      { source: "en", target: "de" },
      undefined
    )
    expect(issue!.source_spans).toEqual([{ start: 3, end: 5 }])
  })
  it("score = max(0, round(100 − 100·(25·critical + 5·major + minor) / max(100, words)))", () => {
    const issue = (severity: string) => ({ type: "Fluency", sub_type: "Spelling", severity }) as any
    const score = (words: number, ...severities: ReadonlyArray<string>) =>
      summaryOf([{ source: "x ".repeat(words), target: "" }], [severities.map(issue)]).overall_score
    expect([
      score(10),
      score(10, "Minor"),
      score(10, "Critical", "Major"),
      score(200, "Critical"),
      score(1, ..."CCCCC".split("").map(() => "Critical"))
    ]).toEqual([100, 99, 70, 88, 0])
  })
})

it("an evaluation that is interrupted stops its corrector, and writes no report", async () => {
  const store = openMemory()
  const begun = Deferred.makeUnsafe<void>()
  let interrupted = 0
  const { engines } = scripted({ writes: ["de"] })
  const corrector: NonNullable<typeof engines.corrector> = {
    ...engines.corrector!,
    correct: () =>
      Effect.onInterrupt(
        Effect.suspend(() => {
          Deferred.doneUnsafe(begun, Effect.void)
          return Effect.never
        }),
        () => Effect.sync(() => interrupted++)
      )
  }
  const segments = [{ source: "A house.", target: "Ein Haus." }]
  await store.blobs.write(
    "segments",
    (async function* () {
      yield Buffer.from(JSON.stringify(segments))
    })()
  )
  const { evaluate } = qualityWork(store, { ...engines, corrector }, Effect.void)
  const job = Effect.runFork(evaluate({ source: "en", target: "de", blob: "segments" }, "j"))
  await Effect.runPromise(Deferred.await(begun))
  await Effect.runPromise(Fiber.interrupt(job))
  expect(interrupted).toBe(1)
  expect(await store.blobs.ids()).toEqual(["segments"])
})
