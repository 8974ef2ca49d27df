/** The configured model servers: who offers which model, how many calls each takes at once, which of them
 *  rests. A list that cannot be had never fails a caller; the last one stays. Source: chat sections 6, 13,
 *  14. */
import { CircuitBreaker } from "../../circuit-breaker.ts"
import type { ActorSystem, Ref } from "../../../runtime/registry.ts"
import type { Abort } from "./abort.ts"
import type { Deadlines } from "./deadlines.ts"
import { UpstreamFault, type ChatModel, type ListedModel, type Supports } from "./model.ts"
import type { UpstreamRecord } from "./upstream-record.ts"

/** Permits, and a queue for who waits: first in, first out, dropped at once when its caller goes. */
export class Gate {
  running = 0
  private readonly waiting: Array<{ readonly go: () => void }> = []
  private readonly limits: { readonly max: number; readonly queue: number; readonly waitMs: number }
  private readonly deadlines: Deadlines

  constructor(
    limits: { readonly max: number; readonly queue: number; readonly waitMs: number },
    deadlines: Deadlines
  ) {
    this.limits = limits
    this.deadlines = deadlines
  }

  get queued(): number {
    return this.waiting.length
  }

  /** In this turn when there is a permit; whoever enters leaves once. */
  enter(signal: Abort): Promise<void> | undefined {
    if (this.running < this.limits.max) {
      this.running++
      return undefined
    }
    if (this.waiting.length >= this.limits.queue)
      return Promise.reject(new UpstreamFault({ reason: "queue-full", detail: "the queue is full" }))
    return new Promise((resolve, reject) => {
      const out = (fault: UpstreamFault | undefined): void => {
        deadline.stop()
        signal.removeEventListener("abort", gone)
        const at = this.waiting.indexOf(place)
        if (at >= 0) this.waiting.splice(at, 1)
        if (fault === undefined) resolve()
        else reject(fault)
      }
      const gone = (): void => out(new UpstreamFault({ reason: "aborted", detail: "the caller went" }))
      const deadline = this.deadlines.start(this.limits.waitMs, () =>
        out(new UpstreamFault({ reason: "queue-full", detail: "waited too long" }))
      )
      const place = { go: () => out(undefined) }
      this.waiting.push(place)
      if (signal.aborted) gone()
      else signal.addEventListener("abort", gone, { once: true })
    })
  }

  leave(): void {
    const next = this.waiting[0]
    if (next === undefined) this.running--
    else next.go()
  }
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

  /** Callers have been kept away since its last success. */
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

  /** What it offers as far as is known: its list, else its record's. */
  get offered(): ReadonlyArray<ListedModel> | undefined {
    return this.models ?? this.record.models?.map((id) => ({ id }))
  }
}

/** A model as one call's destination. */
export interface Target {
  readonly upstream: Upstream
  readonly model: string
}

/** What the model can, as its dialect knows and as the record says. */
export const supportsOf = (target: Target): Supports => {
  let known = supported.get(target)
  if (known === undefined) {
    const {
      upstream: { model, record },
      model: name
    } = target
    supported.set(
      target,
      (known = {
        ...(model.supportsFor?.(name) ?? model.supports),
        ...record.supports,
        ...(record.native_tools === undefined ? {} : { native_tools: record.native_tools })
      })
    )
  }
  return known
}

const supported = new WeakMap<Target, Supports>()
export const publicId = ({ upstream, model }: Target): string => `${upstream.record.id}/${model}`

export interface PublicModel {
  readonly id: string
  readonly object: "model"
  readonly created: number
  readonly owned_by: string
}

const listWaitMs = 2_000
const forcedAfterMs = 5_000

export class Upstreams {
  readonly all: ReadonlyArray<Upstream>
  private readonly cacheMs: number
  private readonly nowMs: () => number
  private readonly deadlines: Deadlines
  private readonly startedS: number
  private readonly targets = new Map<string, Target>()

  constructor(
    all: ReadonlyArray<Upstream>,
    {
      cacheMs,
      nowMs,
      deadlines
    }: { readonly cacheMs: number; readonly nowMs: () => number; readonly deadlines: Deadlines }
  ) {
    this.all = all
    this.cacheMs = cacheMs
    this.nowMs = nowMs
    this.deadlines = deadlines
    this.startedS = Math.floor(nowMs() / 1_000)
  }

  close(): void {
    for (const { model } of this.all) model.close()
  }

  /** One at a time per upstream; never rejects. */
  private refresh(upstream: Upstream): Promise<void> {
    return (upstream.refreshing ??= (async () => {
      const controller = new AbortController()
      const deadline = this.deadlines.start(30_000, () => controller.abort())
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

  /** Starts what is due; waits for those that have no list at all, and with `force` for those whose list is
   *  older than that. */
  private fresh(forceOlderMs: number | undefined): Promise<unknown> | undefined {
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
    await this.fresh(undefined)
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
    return entries.sort((a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0))
  }

  async entry(id: string): Promise<PublicModel | undefined> {
    let found = (await this.list()).find((entry) => entry.id === id)
    if (found === undefined) {
      await this.fresh(forcedAfterMs)
      found = (await this.list()).find((entry) => entry.id === id)
    }
    return found
  }

  /** At once when it is known; otherwise asks the upstreams, at most once in a while. */
  resolve(name: string): Target | undefined | Promise<Target | undefined> {
    const known = this.find(name)
    if (known !== undefined) {
      void this.fresh(undefined)
      return known
    }
    return Promise.resolve(this.fresh(undefined)).then(
      () => this.find(name) ?? Promise.resolve(this.fresh(forcedAfterMs)).then(() => this.find(name))
    )
  }

  find(name: string): Target | undefined {
    const known = this.targets.get(name)
    if (known !== undefined) return known
    const found = this.search(name)
    if (found !== undefined && this.targets.size < targetsMax) this.targets.set(name, found)
    return found
  }

  private search(name: string): Target | undefined {
    for (const { record } of this.all)
      if (Object.hasOwn(record.aliases, name)) {
        const of = record.aliases[name]!
        return this.exact(of) ?? this.exact(`${record.id}/${of}`) ?? this.bare(of)
      }
    return this.exact(name) ?? this.bare(name)
  }

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

  private bare(name: string): Target | undefined {
    const upstream = this.all.find(({ offered }) => offered?.some(({ id }) => id === name))
    return upstream === undefined ? undefined : { upstream, model: name }
  }
}

const targetsMax = 10_000
