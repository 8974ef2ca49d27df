/** A cache of fetched documents: bounded in number and bytes, evicts the least recently used, and computes
 *  how long HTTP allows a document to be fresh.
 *  Source: docs/spec/authorization.md, section 11.4; RFC 9111 section 5. */
import type { IncomingHttpHeaders } from "node:http"
import { flatText } from "../../shared/flat-text.ts"

export interface CacheEntry<A> {
  readonly value: A
  /** Time at which the name was first seen, in epoch ms. */
  readonly firstMs: number
  /** Time until which the value is fresh, in epoch ms; 0 when it must be fetched again. */
  readonly freshUntilMs: number
  readonly bytes: number
}

const entriesMax = 10_000
const bytesMax = 16 * 1_048_576

export class Documents<A> {
  private readonly entries = new Map<string, CacheEntry<A>>()
  private readonly entriesMax: number
  private readonly bytesMax: number
  private bytes = 0

  constructor(limits: { readonly entriesMax?: number; readonly bytesMax?: number } = {}) {
    this.entriesMax = limits.entriesMax ?? entriesMax
    this.bytesMax = limits.bytesMax ?? bytesMax
  }

  /** Returns stale entries too; the caller compares the times. */
  get(name: string): CacheEntry<A> | undefined {
    const entry = this.entries.get(name)
    if (entry !== undefined) {
      this.entries.delete(name)
      this.entries.set(flatText(name), entry)
    }
    return entry
  }

  put(name: string, entry: CacheEntry<A>): void {
    this.drop(name)
    this.entries.set(flatText(name), entry)
    this.bytes += sizeOf(name, entry)
    while (this.entries.size > this.entriesMax || this.bytes > this.bytesMax)
      this.drop(this.entries.keys().next().value!)
  }

  private drop(name: string): void {
    const entry = this.entries.get(name)
    if (entry === undefined) return
    this.entries.delete(name)
    this.bytes -= sizeOf(name, entry)
  }
}

const sizeOf = (name: string, { bytes }: CacheEntry<unknown>): number => name.length + bytes

const floorMs = 30_000

/** Returns how many ms a response is fresh; undefined when it must not be cached. */
export const freshMs = (
  headers: IncomingHttpHeaders,
  ceilingMs: number,
  nowMs: number
): number | undefined => {
  const directives = new Map(
    (headers["cache-control"] ?? "")
      .toLowerCase()
      .split(",")
      .map((part) => {
        const [name = "", value = ""] = part.split("=")
        return [name.trim(), value.trim().replaceAll('"', "")] as const
      })
  )
  if (directives.has("no-store")) return undefined
  if (directives.has("no-cache")) return Math.min(floorMs, ceilingMs)
  const age = directives.get("s-maxage") ?? directives.get("max-age")
  const within = (lifetimeMs: number): number => Math.min(Math.max(lifetimeMs, floorMs), ceilingMs)
  if (age !== undefined && /^\d{1,12}$/.test(age)) return within(Number(age) * 1_000)
  if (headers.expires === undefined) return within(ceilingMs)
  // A text that is not a date means expired (RFC 9111 section 5.3).
  const expiresMs = Date.parse(headers.expires) || 0
  return within(expiresMs - (Date.parse(headers.date ?? "") || nowMs))
}
