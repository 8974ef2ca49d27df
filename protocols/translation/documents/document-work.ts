/** The work of document jobs, as the port that their actors call: threads that know the formats, the
 *  translator, reserved quota, and the order in which jobs run. It knows nothing of HTTP. Guarantee: an
 *  amount reserved for a job is booked or released exactly once.
 *  Source: docs/spec/translation.md, section 4; docs/spec/documents.md, sections 9 and 10. */
import { cpus } from "node:os"
import { Effect, type Scope } from "effect"
import { FairScheduler } from "../../../actors/documents/fair-scheduler.ts"
import { DocumentKeyring } from "../../../actors/documents/keyring.ts"
import type { DocumentMeta } from "../../../actors/documents/meta.ts"
import type { DocumentPort, ExtractedDocument, JobFault } from "../../../actors/documents/ports.ts"
import type { Engines } from "../../../actors/engines/ports.ts"
import { defined } from "../../../runtime/defined.ts"
import type { Blobs, Store } from "../../../storage/store.ts"
import { documentTypeOf } from "../../formats/catalogue.ts"
import type { KeyRing } from "../account/keys.ts"
import type { Bill, Reservation, Usage } from "../account/usage.ts"
import type { MemorySearch } from "../memories/search.ts"
import { isRefusal } from "../problems.ts"
import { DocumentThreads, type Log } from "./threads.ts"
import { sourceLanguageOf, translateBatch, type ResolveCustomization } from "./translator.ts"

/** Maximum number of documents of one account that are translated concurrently. */
const perAccount = 2

export interface DocumentWorkDeps {
  readonly store: Store
  readonly engines: Engines
  readonly usage: Usage
  readonly ring: KeyRing
  readonly clock: () => number
  readonly log?: Log
  /** Glossaries, style lists and memories, which apply to every engine. */
  readonly customizations?: { readonly of: ResolveCustomization; readonly memories: MemorySearch }
  /** Translates a batch; by default the translator, sentence by sentence. */
  readonly translate?: DocumentPort["translate"]
  /** Runs before the work of each job of an account: delays and failures of test mode. */
  readonly before?: (accountId: string) => Effect.Effect<void, JobFault>
  /** Maximum number of documents translated concurrently. */
  readonly atOnce?: number
}

interface QuotaHold {
  readonly amount: number
  readonly reservation: Reservation
}

export class DocumentWorker implements DocumentPort {
  readonly blobs: Blobs
  readonly log: Log
  readonly scheduler: FairScheduler
  readonly threads: DocumentThreads
  readonly translate: DocumentPort["translate"]
  readonly keyring = new DocumentKeyring()
  private readonly deps: DocumentWorkDeps
  private readonly quotaHolds = new Map<string, QuotaHold>()

  constructor(deps: DocumentWorkDeps) {
    const { store, engines, customizations, clock, log = () => {} } = deps
    this.deps = deps
    this.blobs = store.blobs
    this.log = log
    this.threads = new DocumentThreads(log)
    this.translate = deps.translate ?? ((batch) => translateBatch(engines, customizations, batch))
    this.scheduler = new FairScheduler({
      atOnce: deps.atOnce ?? Math.max(1, cpus().length - 1),
      perAccount,
      nowMs: clock
    })
  }

  readonly work = (
    meta: DocumentMeta,
    source: Buffer
  ): Effect.Effect<ExtractedDocument, JobFault, Scope.Scope> =>
    Effect.andThen(
      this.deps.before?.(meta.accountId) ?? Effect.void,
      this.threads.work(
        source,
        meta.format,
        defined({
          target: meta.target,
          charactersMax: meta.charactersMax,
          source: meta.source ?? undefined,
          watermark: meta.watermark ? "Translated by Troupe" : undefined,
          convertTo: meta.convertTo ?? undefined
        })
      )
    )

  readonly languageOf: DocumentPort["languageOf"] = (meta, texts) =>
    sourceLanguageOf(this.deps.engines, meta.source, meta.target, texts)

  readonly fingerprint: DocumentPort["fingerprint"] = ({ accountId, target, options }, source) =>
    JSON.stringify([
      source,
      target,
      options,
      this.customizationName({ accountId, source, target, options }),
      this.deps.engines
        .all()
        .filter(({ port, readiness }) => port === "translator" && readiness().ready)
        .map(({ info }) => [info.id, info.version])
    ])

  /** Names the glossaries and the style list together with their versions. */
  private customizationName(batch: Parameters<ResolveCustomization>[0]): string {
    const customization = this.deps.customizations?.of(batch)
    return customization === undefined || isRefusal(customization) ? "" : customization.name
  }

  readonly billed: DocumentPort["billed"] = ({ format }, characters) => {
    const min = documentTypeOf(format)!.billedMin
    return min === null ? 0 : Math.max(min, characters)
  }

  /** Reserves quota for a job. A key that no longer exists imposes no limit. */
  readonly reserve = (
    id: string,
    meta: Pick<DocumentMeta, "accountId" | "keyId">,
    amount: number
  ): boolean => {
    const existing = this.quotaHolds.get(id)
    if (existing?.amount === amount) return true
    const using = this.deps.ring.byKeyId(meta.accountId, meta.keyId)
    if (using === undefined) return true
    existing?.reservation.release()
    const reservation = this.deps.usage.reserve(using, "document", amount)
    if (isRefusal(reservation)) {
      this.quotaHolds.delete(id)
      return false
    }
    this.quotaHolds.set(id, { amount, reservation })
    return true
  }

  readonly release = (id: string): void => {
    this.quotaHolds.get(id)?.reservation.release()
    this.quotaHolds.delete(id)
  }

  /** Returns the rows that book a downloaded document; the caller commits them. */
  bill(id: string, meta: DocumentMeta, characters: number): Bill | undefined {
    this.reserve(id, meta, characters)
    const bill = this.quotaHolds.get(id)?.reservation.bill(meta.tag)
    this.quotaHolds.delete(id)
    return bill
  }
}
