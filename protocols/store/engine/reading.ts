/** GETs of the engine, through the cache: fresh, from memory, or 304; revalidated on demand, never stale
 *  after a write.
 *  Source: store sections 6, 7. */
import { gzipSync } from "node:zlib"
import type { Request, Header } from "../../../runtime/http.ts"
import { AnswerCache, type Entry } from "./cache.ts"
import type { Engine } from "./engine.ts"
import { involved, list, listObject, showNested, recordText, type Address } from "./listing.ts"
import { jsonType, noStore, Refused } from "../problems.ts"
import { parseQuery } from "./query.ts"
import type { Answer, Target } from "../target.ts"
import { etagOf } from "./writing.ts"

/** `versions` are those of before it was computed: what changed meanwhile makes it old. */
interface Computed {
  readonly body: string
  readonly etag: string | undefined
  readonly versions: Entry["versions"]
  readonly lastModifiedMs: number
}

export type Read = Exclude<Target, { kind: "endpoint" | "import" }>
const waitMs = 2_000

const matches = (header: string, etag: string): boolean => {
  const plain = etag.replace(/^W\//, "")
  return header.trim() === "*" || header.split(",").some((tag) => tag.trim().replace(/^W\//, "") === plain)
}

const second = (ms: number): number => Math.floor(ms / 1_000) * 1_000

export class Reading {
  private readonly engine: Engine
  private readonly cache: AnswerCache
  private readonly ttlMs: number
  private readonly running = new Map<string, Promise<Computed>>()
  private readonly vary: Header

  constructor(engine: Engine, ttlMs: number, tokenHeader: string) {
    this.engine = engine
    this.ttlMs = ttlMs
    this.cache = new AnswerCache((collection) => engine.version(collection))
    this.vary = ["Vary", `${tokenHeader}, Cookie, Accept-Encoding`]
  }

  answer(target: Read, request: Request, address: Address): Answer | Promise<Answer> {
    if (target.resource.uncached === true)
      return this.after(this.compute(target, address), ({ body, etag }) => ({
        status: 200,
        body,
        headers: [jsonType, noStore, ...(etag === undefined ? [] : [["ETag", etag] as const])]
      }))
    const control = (
      request.headers.get("cache-control") ??
      request.headers.get("pragma") ??
      ""
    ).toLowerCase()
    const nowMs = this.engine.clock()
    const key = `${target.kind}${address.url}?${address.query}`
    if (control.includes("no-cache")) this.cache.drop(key)
    else if (!control.includes("no-store")) {
      const hit = this.cache.get(key, nowMs)
      if (hit !== undefined)
        return this.deliver(hit, request, nowMs, [
          ["Age", String(Math.floor((nowMs - hit.storedMs) / 1_000))]
        ])
    }
    const keep = !control.includes("no-store")
    return this.after(this.once(key, target, address), ({ body, etag, versions, lastModifiedMs }) => {
      const entry: Entry = {
        body,
        etag,
        lastModifiedMs,
        storedMs: nowMs,
        expiresMs: nowMs + this.ttlMs,
        versions,
        zipped: undefined
      }
      if (keep) this.cache.set(key, entry)
      return this.deliver(entry, request, nowMs, [])
    })
  }

  private after<A>(found: Computed | Promise<Computed>, then: (found: Computed) => A): A | Promise<A> {
    return found instanceof Promise ? found.then(then) : then(found)
  }

  /** One computation per key at a time; who comes meanwhile waits a little, then computes too. */
  private once(key: string, target: Read, address: Address): Computed | Promise<Computed> {
    const running = this.running.get(key)
    if (running !== undefined) {
      let timer: ReturnType<typeof setTimeout>
      const late = new Promise<Computed | undefined>((resolve) => {
        timer = setTimeout(() => resolve(undefined), waitMs)
      })
      return Promise.race([running, late])
        .finally(() => clearTimeout(timer))
        .then((found) => (found !== undefined && this.current(found) ? found : this.compute(target, address)))
    }
    const found = this.compute(target, address)
    if (!(found instanceof Promise)) return found
    const settled = found.finally(() => this.running.delete(key))
    this.running.set(key, settled)
    return settled
  }

  /** What was begun before a write must not answer who came after it. */
  private current({ versions }: Computed): boolean {
    return versions.every(([name, version]) => this.engine.version(name) === version)
  }

  private compute(target: Read, address: Address): Computed | Promise<Computed> {
    const { engine } = this
    const { resource } = target
    const query = parseQuery(
      target.kind === "nested" ? { ...resource, fields: {}, nested: {} } : resource,
      address.query,
      engine.zone,
      target.kind === "select"
    )
    const versionsOf = (collections: ReadonlyArray<string>): Entry["versions"] =>
      collections.map((name) => [name, engine.version(name)])
    const changed = (collections: ReadonlyArray<string>): number =>
      Math.max(...collections.map((name) => engine.changedMs(name)))
    if (target.kind === "collection" || target.kind === "select") {
      if (target.kind === "select" && query.ids === undefined)
        throw new Refused(400, "This method requires one or more resource IDs to be specified")
      const collections = involved(resource, query.expand)
      const lastModifiedMs = changed(collections)
      const versions = versionsOf(collections)
      const body = list(engine, resource, query, address)
      return body instanceof Promise
        ? body.then((text) => ({ body: text, etag: undefined, versions, lastModifiedMs }))
        : { body, etag: undefined, versions, lastModifiedMs }
    }
    const row = engine.get(resource.name, target.id)
    if (row === undefined) throw new Refused(404, `there is no such ${resource.singular}`)
    if (target.kind === "nested") {
      const collections = involved(resource, [target.nested])
      const from = (query.page - 1) * query.count
      const whole = showNested(
        engine,
        resource.nested[target.nested]!,
        row,
        Math.min(from + query.count, nestedMax) + 1 + nestedMax
      )
      return {
        body: listObject(
          target.nested,
          whole.slice(from, from + query.count).map((one) => JSON.stringify(one)),
          whole.length,
          query,
          address
        ),
        etag: undefined,
        versions: versionsOf(collections),
        lastModifiedMs: Math.max(row.updatedMs, changed(collections))
      }
    }
    if (query.where.length > 0 || query.sort.length > 0)
      throw new Refused(400, "one record is neither searched nor sorted")
    const expand = target.kind === "filled" ? new Set(Object.keys(resource.nested)) : query.expand
    const collections = involved(resource, expand)
    const lastModifiedMs =
      expand.size === 0
        ? row.updatedMs
        : Math.max(row.updatedMs, changed(collections.filter((name) => name !== resource.name)))
    return {
      body: recordText(engine, resource, row, expand, query.fields),
      versions: versionsOf(collections),
      lastModifiedMs,
      etag: expand.size === 0 ? etagOf(row) : `W/"${row.id}-${row.version}-${lastModifiedMs}"`
    }
  }

  private deliver(entry: Entry, request: Request, nowMs: number, more: ReadonlyArray<Header>): Answer {
    const leftMs = entry.expiresMs - nowMs
    const shownMs = Math.min(Math.ceil(entry.lastModifiedMs / 1_000) * 1_000, second(nowMs))
    const headers: Array<Header> = [
      ["Cache-Control", `private, max-age=${Math.max(0, Math.floor(leftMs / 1_000))}`],
      ["Expires", new Date(nowMs + leftMs).toUTCString()],
      ["Last-Modified", new Date(shownMs).toUTCString()],
      this.vary,
      ...more
    ]
    if (entry.etag !== undefined) headers.push(["ETag", entry.etag])
    if (this.unchanged(entry, request, nowMs)) return { status: 304, headers }
    headers.push(jsonType)
    return { status: 200, body: entry.body, headers }
  }

  private unchanged(entry: Entry, request: Request, nowMs: number): boolean {
    const tags = request.headers.get("if-none-match")
    if (tags !== undefined) return entry.etag !== undefined && matches(tags, entry.etag)
    const sinceMs = Date.parse(request.headers.get("if-modified-since") ?? "")
    // A whole second says nothing about a change later in that same second: then the answer is sent again.
    return (
      !Number.isNaN(sinceMs) &&
      sinceMs <= nowMs &&
      (entry.lastModifiedMs < sinceMs || (entry.lastModifiedMs === sinceMs && nowMs >= sinceMs + 1_000))
    )
  }
}

const nestedMax = 1_000
const zipFrom = 1_024
const zipLevel = 1

/** Whether the client takes gzip, and the body is worth it. */
export const zipped = (request: Request, body: string): Uint8Array | undefined =>
  body.length > zipFrom &&
  /\bgzip\b(?!\s*;\s*q=0(?:\.0*)?(?:,|$))/.test(request.headers.get("accept-encoding") ?? "")
    ? gzipSync(body, { level: zipLevel })
    : undefined
