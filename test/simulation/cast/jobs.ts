/** The actors that work: document, memory, quality and voice jobs, webhook delivery, and engines' processes.
 *  Their ports succeed, fail, die and hang as the seed has it. */
import { Context, Deferred, Effect } from "effect"
import type { AnyDefinition } from "../../../runtime/actor.ts"
import { DocumentJob } from "../../../actors/document-job.ts"
import { FairScheduler } from "../../../actors/documents/fair-scheduler.ts"
import { DocumentKeyring } from "../../../actors/documents/keyring.ts"
import { DocumentWork, JobFault } from "../../../actors/documents/ports.ts"
import { sealing, type DocumentKeys } from "../../../actors/documents/sealed.ts"
import { EngineProcess, EngineStarts, type EngineStart } from "../../../actors/engines/engine-process.ts"
import { EngineFault } from "../../../actors/engines/ports.ts"
import { MemoryJob, MemoryWork } from "../../../actors/memory-job.ts"
import { QualityJob, QualityWork } from "../../../actors/quality-job.ts"
import { VoiceJob, VoiceJobWork } from "../../../actors/voice-job.ts"
import { Deliveries, webhookDelivery, type Attempt } from "../../../actors/webhook-delivery.ts"
import type { Write } from "../../../storage/store.ts"
import { nameAmong, oneOf, say, type Role, type Surroundings } from "./role.ts"

const failure = () => ({ message: "it failed" })

const keys: DocumentKeys = { check: "check", of: () => Buffer.alloc(32, 7), forget: () => {} }

const documentMeta = (accountId: string) => ({
  accountId,
  keyId: "key",
  format: "txt",
  extension: "txt",
  convertTo: null,
  sealedName: "",
  check: "check",
  sourceBytes: 4,
  source: "en",
  target: "de",
  options: { formality: "default", glossaryIds: [], styleId: null, memoryId: null, memoryThreshold: 75 },
  watermark: false,
  tag: null,
  charactersMax: 100,
  periodMs: 0
})

const documentPort = ({ work, time }: Surroundings) => {
  const keyring = new DocumentKeyring()
  return {
    blobs: {
      write: async () => 4,
      read: () => sealing([Buffer.from("text")], keys, "source"),
      delete: async () => {},
      ids: async () => []
    },
    // A client presents its key as soon as the seed lets it.
    keyring: Object.assign(keyring, {
      get: (id: string) => (work.calm || work.draw(`key of ${id}`).chance(0.8) ? keys : undefined)
    }),
    scheduler: new FairScheduler({ atOnce: 2, perAccount: 1, nowMs: () => time.monotonicMs }),
    work: () =>
      work.perform(
        "document-job",
        "work",
        () => ({ segments: [], characters: 4, rebuild: () => Effect.succeed(Buffer.from("text")) }),
        () => new JobFault({ text: "not readable" })
      ),
    languageOf: () => "en",
    translate: () => Effect.die(new Error("there is nothing to translate")),
    fingerprint: () => "fingerprint",
    reserve: () => true,
    release: () => {},
    billed: (_: unknown, characters: number) => characters,
    log: () => {}
  }
}

const documentJob: Role = {
  definition: DocumentJob as unknown as AnyDefinition,
  services: (surroundings) => Context.make(DocumentWork, documentPort(surroundings) as never),
  say: ({ random, state }) => {
    const bill = [{ table: "document-counts", key: ["characters", "a0"], amount: 4 }]
    const meta = documentMeta(nameAmong(random, "a", 2))
    const absent = state._tag === "Absent"
    return oneOf(random, [
      [absent ? 12 : 1, () => say("Receive", { meta, documentsMax: random.chance(0.5) ? 4 : null })],
      [4, () => say("Inspect")],
      [2, () => say("Unlock")],
      [state._tag === "Done" ? 6 : 1, () => say("Downloaded", { bill })],
      [1, () => say("Remove")],
      [1, () => say("Lock")]
    ])
  }
}

const memoryJobOf = (operation: "import" | "export", memoryId: string, nowMs: number) => ({
  accountId: "a0",
  operation,
  memoryId,
  name: null,
  fileName: "memory.tmx",
  contentType: "text/xml",
  contentLength: 4,
  createdMs: nowMs,
  updatedMs: nowMs
})

const memoryJob: Role = {
  definition: MemoryJob as unknown as AnyDefinition,
  services: ({ work }) =>
    Context.make(MemoryWork, {
      read: (job) =>
        work.perform(
          "memory-job",
          job.memoryId,
          () => ({
            memory: {
              memoryId: job.memoryId,
              accountId: "a0",
              name: "memory",
              source: "en",
              targets: ["de"],
              segments: 1,
              createdMs: job.createdMs,
              updatedMs: job.createdMs
            },
            skipped: 0
          }),
          failure
        ),
      write: (_, jobId) => work.perform("memory-job", jobId, () => ({ blob: `tmx-${jobId}` }), failure),
      clean: Effect.void
    }),
  say: ({ random, state, nowMs }) => {
    const memoryId = nameAmong(random, "m", 2)
    const absent = state._tag === "Absent" ? 8 : 1
    return oneOf(random, [
      [absent, () => say("Declare", { job: memoryJobOf("import", memoryId, nowMs) })],
      [absent, () => say("Export", { job: memoryJobOf("export", memoryId, nowMs), after: null })],
      [4, () => say("Read")],
      [state._tag === "Awaiting" ? 8 : 1, () => say("Upload", { blob: "blob" })],
      [2, () => say("Fetch")]
    ])
  }
}

const qualityJob: Role = {
  definition: QualityJob as unknown as AnyDefinition,
  services: ({ work }) =>
    Context.make(QualityWork, {
      evaluate: (_, id) => work.perform("quality-job", id, () => "report", failure),
      clean: Effect.void
    }),
  say: ({ random }) =>
    oneOf(random, [
      [4, () => say("Accept", { accountId: "a0", source: "en", target: "de", blob: "blob" })],
      [4, () => say("Read")]
    ])
}

const voiceJobOf = (nowMs: number) => ({
  accountId: "a0",
  keyId: "key",
  name: "talk",
  contentType: "audio/wav",
  contentLength: 4,
  sourceLanguage: null,
  targets: [
    { language: "de", type: "text" },
    { language: "fr", type: "text" }
  ],
  createdMs: nowMs,
  updatedMs: nowMs
})

const voiceJob: Role = {
  definition: VoiceJob as unknown as AnyDefinition,
  services: ({ work }) =>
    Context.make(VoiceJobWork, {
      run: (_, __, jobId) =>
        work.perform(
          "voice-job",
          jobId,
          () => ({
            results: ["de", "fr"].map((language) => ({
              blob: `${jobId}-${language}`,
              bytes: 4,
              message: "",
              fetched: false
            })),
            audioMs: 1_000
          }),
          failure
        ),
      bill: () => Effect.void,
      clean: Effect.void
    }),
  say: ({ random, state, nowMs }) =>
    oneOf(random, [
      [state._tag === "Absent" ? 10 : 1, () => say("Create", { job: voiceJobOf(nowMs) })],
      [3, () => say("Read")],
      [state._tag === "Waiting" ? 8 : 1, () => say("Upload", { blob: "blob" })],
      [state._tag === "Done" ? 6 : 1, () => say("Fetch", { index: random.int(2) })]
    ])
}

const outboxRows = (subscription: string, seq: number): ReadonlyArray<Write> => [
  { _tag: "put", table: "delivered", key: [subscription, seq], value: new Uint8Array([1]) }
]

const entriesMax = 6

const webhook: Role = {
  definition: webhookDelivery({
    done: outboxRows,
    aside: outboxRows,
    waitsMs: [500, 5_000]
  }) as unknown as AnyDefinition,
  services: ({ work, time }) =>
    Context.make(Deliveries, {
      next: (_, after) => (after >= entriesMax ? undefined : after + 1),
      attempt: (subscription) =>
        Effect.catch(
          work.perform("webhook-delivery", subscription, (): Attempt => ({ delivered: true }), failure),
          () => Effect.succeed<Attempt>({ delivered: false, why: "refused" })
        ),
      done: outboxRows,
      aside: outboxRows,
      waitsMs: [500, 5_000],
      nowMs: () => time.wallMs
    }),
  say: () => say("Wake")
}

/** A process that starts, answers that it is up, lives for a while and dies; or misses something for good. */
const engineStarts = ({ work }: Surroundings) => {
  const start =
    (id: string): EngineStart =>
    (announceUp) =>
      Effect.gen(function* () {
        yield* work.perform(
          "engine",
          id,
          () => undefined,
          () => new EngineFault({ reason: "unavailable", engine: id, detail: "its file is missing" })
        )
        yield* announceUp()
        return yield* Deferred.await(Deferred.makeUnsafe<never, EngineFault>())
      })
  return { get: start }
}

const engine: Role = {
  definition: EngineProcess as unknown as AnyDefinition,
  services: (surroundings) => Context.make(EngineStarts, engineStarts(surroundings) as never),
  say: ({ random }) =>
    oneOf(random, [
      [4, () => say("Start")],
      [2, () => say("Stop")]
    ])
}

export const jobRoles: ReadonlyArray<Role> = [documentJob, memoryJob, qualityJob, voiceJob, webhook, engine]
