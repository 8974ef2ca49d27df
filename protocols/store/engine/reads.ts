/** GETs of the engine, through the cache: an answer is computed, taken from memory, or 304. Guarantee: after
 *  a write no answer is stale.
 *  Source: docs/spec/store.md, sections 6, 7. */
import { Deferred, Effect, Exit, Option } from "effect"
import type { Request, Header } from "../../../runtime/http.ts"
import { noStore } from "../../shared/headers.ts"
import { ruled, thenLater, type Later } from "../later.ts"
import { invalid, jsonType, notFound, type Refusal } from "../problems.ts"
import type { Answer, CollectionTarget, NestedTarget, ReadTarget, SelectTarget } from "../target.ts"
import { AnswerCache, type Entry } from "./cache.ts"
import type { Engine } from "./engine.ts"
import { involved, list, listObject, nestedList, nestedMax, recordText, type Address } from "./listing.ts"
import { parseQuery, type Query } from "./query.ts"
import type { Row } from "./resource.ts"
import { etagOf } from "./writes.ts"

/** An answer before its headers. `versions` were read before it was computed, so a concurrent change makes
 *  it stale. */
interface Computed {
  readonly body: string
  readonly etag: string | undefined
  readonly versions: Entry["versions"]
  readonly lastModifiedMs: number
}

const waitMs = 2_000

const matches = (header: string, etag: string): boolean => {
  const plain = etag.replace(/^W\//, "")
  return header.trim() === "*" || header.split(",").some((tag) => tag.trim().replace(/^W\//, "") === plain)
}

const floorToSecond = (ms: number): number => Math.floor(ms / 1_000) * 1_000
const ceilToSecond = (ms: number): number => Math.ceil(ms / 1_000) * 1_000

const cacheControlOf = ({ headers }: Request): string =>
  (headers.get("cache-control") ?? headers.get("pragma") ?? "").toLowerCase()

export class RecordReads {
  private readonly engine: Engine
  private readonly cache: AnswerCache
  private readonly ttlMs: number
  /** What is being computed. Its value is absent when the request that computed it went, or was refused. */
  private readonly running = new Map<string, Deferred.Deferred<Option.Option<Computed>>>()
  private readonly vary: Header

  constructor(engine: Engine, ttlMs: number, tokenHeader: string) {
    this.engine = engine
    this.ttlMs = ttlMs
    this.cache = new AnswerCache((collection) => engine.version(collection))
    this.vary = ["Vary", `${tokenHeader}, Cookie, Accept-Encoding`]
  }

  answer(target: ReadTarget, request: Request, address: Address): Later<Answer> {
    if (target.resource.uncached === true)
      return thenLater(this.compute(target, address), ({ body, etag }) => ({
        status: 200,
        body,
        headers: etag === undefined ? [jsonType, noStore] : [jsonType, noStore, ["ETag", etag]]
      }))
    const control = cacheControlOf(request)
    const nowMs = this.engine.clock()
    const key = `${target._tag}${address.url}?${address.query}`
    const mayStore = !control.includes("no-store")
    if (control.includes("no-cache")) this.cache.drop(key)
    else if (mayStore) {
      const hit = this.cache.get(key, nowMs)
      if (hit !== undefined) {
        const age = String(Math.floor((nowMs - hit.storedMs) / 1_000))
        return this.entryAnswer(hit, request, nowMs, [["Age", age]])
      }
    }
    return thenLater(this.computeOnce(key, target, address), (computed) => {
      // Written out: a spread would make V8 put every entry among the old objects (bench/store-read).
      const { body, etag, versions, lastModifiedMs } = computed
      const entry: Entry = {
        body,
        etag,
        lastModifiedMs,
        storedMs: nowMs,
        expiresMs: nowMs + this.ttlMs,
        versions
      }
      if (mayStore) this.cache.set(key, entry)
      return this.entryAnswer(entry, request, nowMs, [])
    })
  }

  /** Runs one computation per key at a time; a concurrent request waits a little, then computes too. */
  private computeOnce(key: string, target: ReadTarget, address: Address): Later<Computed> {
    const running = this.running.get(key)
    if (running !== undefined)
      return Effect.flatMap(Effect.timeoutOption(Deferred.await(running), waitMs), (found) => {
        const computed = Option.flatten(found)
        return Option.isSome(computed) && this.isCurrent(computed.value)
          ? Effect.succeed(computed.value)
          : ruled(() => this.compute(target, address))
      })
    const computed = this.compute(target, address)
    return Effect.isEffect(computed)
      ? this.shared(key, computed as Effect.Effect<Computed, Refusal>)
      : computed
  }

  private shared(key: string, computed: Effect.Effect<Computed, Refusal>): Effect.Effect<Computed, Refusal> {
    return Effect.suspend(() => {
      const result = Deferred.makeUnsafe<Option.Option<Computed>>()
      this.running.set(key, result)
      return Effect.onExit(computed, (exit) => {
        this.running.delete(key)
        return Deferred.succeed(result, Exit.isSuccess(exit) ? Option.some(exit.value) : Option.none())
      })
    })
  }

  /** Returns whether the answer is current: a computation begun before a write must not answer a request
   *  that arrived after it. */
  private isCurrent({ versions }: Computed): boolean {
    return versions.every(([name, version]) => this.engine.version(name) === version)
  }

  private compute(target: ReadTarget, address: Address): Later<Computed> {
    const { resource } = target
    const query = parseQuery(
      target._tag === "Nested" ? { ...resource, fields: {}, nested: {} } : resource,
      address.query,
      { zone: this.engine.zone, withIds: target._tag === "Select" }
    )
    if (target._tag === "Collection" || target._tag === "Select")
      return this.computeList(target, query, address)
    const row = this.engine.get(resource.name, target.id)
    if (row === undefined) throw notFound(`there is no such ${resource.singular}`)
    if (target._tag === "Nested") return this.computeNested(target, query, address, row)
    if (query.where.length > 0 || query.sort.length > 0)
      throw invalid("one record is neither searched nor sorted")
    const expand = target._tag === "Filled" ? new Set(Object.keys(resource.nested)) : query.expand
    const collections = involved(resource, expand)
    const others = collections.filter((name) => name !== resource.name)
    const lastModifiedMs = Math.max(row.updatedMs, this.changedMs(others))
    return {
      body: recordText(this.engine, resource, row, { expand, fields: query.fields }),
      versions: this.versionsOf(collections),
      lastModifiedMs,
      etag: expand.size === 0 ? etagOf(row) : `W/"${row.id}-${row.version}-${lastModifiedMs}"`
    }
  }

  private computeList(
    { _tag, resource }: CollectionTarget | SelectTarget,
    query: Query,
    address: Address
  ): Later<Computed> {
    if (_tag === "Select" && query.ids === undefined)
      throw invalid("This method requires one or more resource IDs to be specified")
    const collections = involved(resource, query.expand)
    const lastModifiedMs = this.changedMs(collections)
    const versions = this.versionsOf(collections)
    return thenLater(list(this.engine, resource, query, address), (body) => ({
      body,
      etag: undefined,
      versions,
      lastModifiedMs
    }))
  }

  private computeNested(target: NestedTarget, query: Query, address: Address, row: Row): Computed {
    const { resource, nested } = target
    const collections = involved(resource, [nested])
    const from = (query.page - 1) * query.count
    const limit = Math.min(from + query.count, nestedMax) + 1 + nestedMax
    const all = nestedList(this.engine, resource.nested[nested]!, row, limit)
    const page = all.slice(from, from + query.count).map((one) => JSON.stringify(one))
    return {
      body: listObject(nested, { records: page, total: all.length }, query, address),
      etag: undefined,
      versions: this.versionsOf(collections),
      lastModifiedMs: Math.max(row.updatedMs, this.changedMs(collections))
    }
  }

  private versionsOf(collections: ReadonlyArray<string>): Entry["versions"] {
    return collections.map((name) => [name, this.engine.version(name)])
  }

  private changedMs(collections: ReadonlyArray<string>): number {
    return Math.max(...collections.map((name) => this.engine.changedMs(name)))
  }

  /** Answers from an entry. Positional parameters: this runs once per request. */
  private entryAnswer(entry: Entry, request: Request, nowMs: number, more: ReadonlyArray<Header>): Answer {
    const leftMs = entry.expiresMs - nowMs
    const lastModifiedMs = Math.min(ceilToSecond(entry.lastModifiedMs), floorToSecond(nowMs))
    const headers: Array<Header> = [
      ["Cache-Control", `private, max-age=${Math.max(0, Math.floor(leftMs / 1_000))}`],
      ["Expires", new Date(nowMs + leftMs).toUTCString()],
      ["Last-Modified", new Date(lastModifiedMs).toUTCString()],
      this.vary,
      ...more
    ]
    if (entry.etag !== undefined) headers.push(["ETag", entry.etag])
    if (this.isUnchanged(entry, request, nowMs)) return { status: 304, headers }
    headers.push(jsonType)
    return { status: 200, body: entry.body, headers }
  }

  private isUnchanged(entry: Entry, request: Request, nowMs: number): boolean {
    const tags = request.headers.get("if-none-match")
    if (tags !== undefined) return entry.etag !== undefined && matches(tags, entry.etag)
    const sinceMs = Date.parse(request.headers.get("if-modified-since") ?? "")
    if (Number.isNaN(sinceMs) || sinceMs > nowMs) return false
    // A whole second says nothing about a change later in that same second: then the answer is sent again.
    return entry.lastModifiedMs < sinceMs || (entry.lastModifiedMs === sinceMs && nowMs >= sinceMs + 1_000)
  }
}
