/** The configured model servers: which of them offers which model, how many calls each takes at once, whose
 *  breaker is open. It is guaranteed that a list which cannot be had never fails a caller: the last one
 *  stays.
 *  Source: docs/spec/chat.md, sections 6, 13 and 14. */
import { CircuitBreaker } from "../../circuit-breaker.ts"
import { defined } from "../../../runtime/defined.ts"
import type { ActorSystem, Ref } from "../../../runtime/registry.ts"
import type { Abort } from "./abort.ts"
import type { Deadlines } from "./deadlines.ts"
import { UpstreamFault, type ChatModel, type ListedModel, type Supports } from "./model.ts"
import type { UpstreamRecord } from "./upstream-record.ts"

export interface GateLimits {
  /** Permits that are out at once. */
  readonly max: number
  /** Callers that wait for one. */
  readonly queue: number
  readonly waitMs: number
}

/** Gives out permits, and holds a queue for those who wait: first in, first out; a caller that goes leaves
 *  it at once. */
export class Gate {
  running = 0
  private readonly waiting: Array<Waiter> = []
  private readonly limits: GateLimits
  private readonly deadlines: Deadlines

  constructor(limits: GateLimits, deadlines: Deadlines) {
    this.limits = limits
    this.deadlines = deadlines
  }

  get queued(): number {
    return this.waiting.length
  }

  /** Enters in this turn when there is a permit, and returns a promise when there is none. Whoever enters
   *  has to leave once. */
  enter(signal: Abort): Promise<void> | undefined {
    if (this.running < this.limits.max) {
      this.running++
      return undefined
    }
    if (this.waiting.length >= this.limits.queue)
      return Promise.reject(new UpstreamFault({ reason: "queue-full", detail: "the queue is full" }))
    return new Promise((resolve, reject) => {
      const leaveQueue = (fault: UpstreamFault | undefined): void => {
        deadline.stop()
        signal.removeEventListener("abort", abort)
        const index = this.waiting.indexOf(waiter)
        if (index >= 0) this.waiting.splice(index, 1)
        if (fault === undefined) resolve()
        else reject(fault)
      }
      const abort = (): void =>
        leaveQueue(new UpstreamFault({ reason: "aborted", detail: "the caller went" }))
      const deadline = this.deadlines.start(this.limits.waitMs, () =>
        leaveQueue(new UpstreamFault({ reason: "queue-full", detail: "waited too long" }))
      )
      const waiter = { admit: () => leaveQueue(undefined) }
      this.waiting.push(waiter)
      if (signal.aborted) abort()
      else signal.addEventListener("abort", abort, { once: true })
    })
  }

  leave(): void {
    const next = this.waiting[0]
    if (next === undefined) this.running--
    else next.admit()
  }
}

interface Waiter {
  readonly admit: () => void
}

export class Upstream {
  readonly record: UpstreamRecord
  readonly model: ChatModel
  readonly gate: Gate
  readonly breaker: Ref<typeof CircuitBreaker>
  models: ReadonlyArray<ListedModel> | undefined = undefined
  listedAtMs = -Infinity
  lastSuccessMs: number | undefined = undefined
  lastError: { readonly atMs: number; readonly code: string } | undefined = undefined
  refreshing: Promise<void> | undefined = undefined

  /** Callers have been turned away since its last success. */
  breakerOpen = false

  constructor(record: UpstreamRecord, model: ChatModel, system: ActorSystem, deadlines: Deadlines) {
    this.record = record
    this.model = model
    this.gate = new Gate(
      { max: record.max_concurrency, queue: record.queue, waitMs: record.queue_timeout_ms },
      deadlines
    )
    this.breaker = system.ref(CircuitBreaker, `chat/${record.id}`)
  }

  /** The models it offers: its own list, or its record's until there is one. */
  get offered(): ReadonlyArray<ListedModel> | undefined {
    return this.models ?? this.record.models?.map((id) => ({ id }))
  }
}

/** A model as one call's destination. */
export interface Target {
  readonly upstream: Upstream
  readonly model: string
}

/** Returns what the model can do, as its dialect knows and as the record says; it is worked out once. */
export const supportsOf = (target: Target): Supports => {
  const cached = supportsCache.get(target)
  if (cached !== undefined) return cached
  const {
    upstream: { model, record },
    model: name
  } = target
  const supports = {
    ...(model.supportsFor?.(name) ?? model.supports),
    ...record.supports,
    ...defined({ native_tools: record.native_tools })
  }
  supportsCache.set(target, supports)
  return supports
}

const supportsCache = new WeakMap<Target, Supports>()

/** The model's name as the API shows it. */
export const publicId = ({ upstream, model }: Target): string => `${upstream.record.id}/${model}`

export interface PublicModel {
  readonly id: string
  readonly object: "model"
  readonly created: number
  readonly owned_by: string
}

/** A caller waits so long for lists. */
const listWaitMs = 2_000

/** A name that nobody offers makes lists be asked for again which are older than this. */
const forcedAfterMs = 5_000

/** A list has to come within this. */
const listMs = 30_000

/** So many names are remembered with their targets. */
const targetsMax = 10_000
export interface UpstreamsOptions {
  readonly cacheMs: number
  readonly nowMs: () => number
  readonly deadlines: Deadlines
}

const byId = (a: PublicModel, b: PublicModel): number => {
  if (a.id === b.id) return 0
  return a.id < b.id ? -1 : 1
}

export class Upstreams {
  readonly all: ReadonlyArray<Upstream>
  private readonly cacheMs: number
  private readonly nowMs: () => number
  private readonly deadlines: Deadlines
  private readonly startedS: number
  private readonly targets = new Map<string, Target>()

  constructor(all: ReadonlyArray<Upstream>, { cacheMs, nowMs, deadlines }: UpstreamsOptions) {
    this.all = all
    this.cacheMs = cacheMs
    this.nowMs = nowMs
    this.deadlines = deadlines
    this.startedS = Math.floor(nowMs() / 1_000)
  }

  close(): void {
    for (const { model } of this.all) model.close()
  }

  /** Asks for the list, once at a time per upstream; it never rejects. */
  private refresh(upstream: Upstream): Promise<void> {
    return (upstream.refreshing ??= (async () => {
      const controller = new AbortController()
      const deadline = this.deadlines.start(listMs, () => controller.abort())
      try {
        upstream.models = await upstream.model.list(controller.signal)
        this.targets.clear()
        upstream.lastSuccessMs = this.nowMs()
      } catch (fault) {
        upstream.lastError = {
          atMs: this.nowMs(),
          code: fault instanceof UpstreamFault ? fault.reason : "error"
        }
      } finally {
        deadline.stop()
        upstream.listedAtMs = this.nowMs()
        upstream.refreshing = undefined
      }
    })())
  }

  /** Refreshes the lists that are due. It waits for upstreams that have no list at all, and with
   *  `forceOlderMs` for those whose list is older than that. */
  private refreshDue(forceOlderMs: number | undefined): Promise<unknown> | undefined {
    const waits: Array<Promise<void>> = []
    const now = this.nowMs()
    for (const upstream of this.all) {
      const age = now - upstream.listedAtMs
      if (age < this.cacheMs && (forceOlderMs === undefined || age < forceOlderMs)) continue
      const refresh = this.refresh(upstream)
      if (upstream.listedAtMs === -Infinity || forceOlderMs !== undefined) waits.push(refresh)
    }
    if (waits.length === 0) return undefined
    let late: (() => void) | undefined
    const deadline = this.deadlines.start(listWaitMs, () => late?.())
    return Promise.race([
      Promise.all(waits),
      new Promise<void>((resolve) => {
        late = resolve
      })
    ]).finally(() => deadline.stop())
  }

  async list(): Promise<ReadonlyArray<PublicModel>> {
    await this.refreshDue(undefined)
    const entries: Array<PublicModel> = []
    for (const { record, offered } of this.all) {
      for (const { id, created, ownedBy } of offered ?? [])
        entries.push({
          id: `${record.id}/${id}`,
          object: "model",
          created: created ?? this.startedS,
          owned_by: (record.kind.startsWith("openai") ? ownedBy : undefined) ?? record.id
        })
      for (const alias of Object.keys(record.aliases))
        entries.push({ id: alias, object: "model", created: this.startedS, owned_by: "alias" })
    }
    return entries.sort(byId)
  }

  async entry(id: string): Promise<PublicModel | undefined> {
    let found = (await this.list()).find((entry) => entry.id === id)
    if (found === undefined) {
      await this.refreshDue(forcedAfterMs)
      found = (await this.list()).find((entry) => entry.id === id)
    }
    return found
  }

  /** Returns the target at once when it is offered; otherwise asks the upstreams, at most once in a while. */
  resolve(name: string): Target | undefined | Promise<Target | undefined> {
    const target = this.find(name)
    if (target !== undefined) {
      void this.refreshDue(undefined)
      return target
    }
    return Promise.resolve(this.refreshDue(undefined)).then(
      () => this.find(name) ?? Promise.resolve(this.refreshDue(forcedAfterMs)).then(() => this.find(name))
    )
  }

  find(name: string): Target | undefined {
    const cached = this.targets.get(name)
    if (cached !== undefined) return cached
    const found = this.search(name)
    if (found !== undefined && this.targets.size < targetsMax) this.targets.set(name, found)
    return found
  }

  private search(name: string): Target | undefined {
    for (const { record } of this.all)
      if (Object.hasOwn(record.aliases, name)) {
        const model = record.aliases[name]!
        return this.exact(model) ?? this.exact(`${record.id}/${model}`) ?? this.bare(model)
      }
    return this.exact(name) ?? this.bare(name)
  }

  /** Reads the name as `upstream/model`. */
  private exact(name: string): Target | undefined {
    const slash = name.indexOf("/")
    const upstream = slash < 0 ? undefined : this.all.find(({ record }) => record.id === name.slice(0, slash))
    if (upstream === undefined) return undefined
    const model = name.slice(slash + 1)
    return model !== "" &&
      (upstream.record.open_models || upstream.offered?.some(({ id }) => id === model) === true)
      ? { upstream, model }
      : undefined
  }

  /** Reads the name as a model's, which any upstream may offer. */
  private bare(name: string): Target | undefined {
    const upstream = this.all.find(({ offered }) => offered?.some(({ id }) => id === name))
    return upstream === undefined ? undefined : { upstream, model: name }
  }
}
