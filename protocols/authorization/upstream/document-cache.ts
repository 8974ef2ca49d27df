/** Fetched things kept for a while: bounded in number and bytes, least recently used out first, and how long
 *  HTTP says that they are fresh.
 *  Source: authorization section 11.4; RFC 9111 section 5. */
import type { IncomingHttpHeaders } from "node:http"

export interface CacheEntry<A> {
  readonly value: A
  /** When its name was first seen. */
  readonly firstMs: number
  /** 0: known, to be fetched anew. */
  readonly freshUntilMs: number
  readonly bytes: number
}

const entriesMax = 10_000
const bytesMax = 64 * 1_048_576

export class Documents<A> {
  private readonly entries = new Map<string, CacheEntry<A>>()
  private readonly entriesMax: number
  private readonly bytesMax: number
  private bytes = 0

  constructor(limits: { readonly entriesMax?: number; readonly bytesMax?: number } = {}) {
    this.entriesMax = limits.entriesMax ?? entriesMax
    this.bytesMax = limits.bytesMax ?? bytesMax
  }

  /** Also a stale one: the caller compares times. */
  get(name: string): CacheEntry<A> | undefined {
    const entry = this.entries.get(name)
    if (entry !== undefined) {
      this.entries.delete(name)
      this.entries.set(name, entry)
    }
    return entry
  }

  put(name: string, entry: CacheEntry<A>): void {
    this.drop(name)
    this.entries.set(name, entry)
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

/** Undefined: not to be kept. */
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
  // A text that is no date has expired (RFC 9111 5.3).
  const expiresMs = Date.parse(headers.expires) || 0
  return within(expiresMs - (Date.parse(headers.date ?? "") || nowMs))
}
