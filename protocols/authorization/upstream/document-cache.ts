/** Fetched things kept for a while: bounded in number and bytes, least recently used out first, and how long
 *  HTTP says that they are fresh.
 *  Source: authorization section 11.4; RFC 9111 section 5. */
import type { IncomingHttpHeaders } from "node:http"

export interface Kept<A> {
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
  private readonly kept = new Map<string, Kept<A>>()
  private readonly entriesMax: number
  private readonly bytesMax: number
  private bytes = 0

  constructor(limits: { readonly entriesMax?: number; readonly bytesMax?: number } = {}) {
    this.entriesMax = limits.entriesMax ?? entriesMax
    this.bytesMax = limits.bytesMax ?? bytesMax
  }

  /** Also a stale one: the caller compares times. */
  get(name: string): Kept<A> | undefined {
    const kept = this.kept.get(name)
    if (kept !== undefined) {
      this.kept.delete(name)
      this.kept.set(name, kept)
    }
    return kept
  }

  put(name: string, kept: Kept<A>): void {
    this.drop(name)
    this.kept.set(name, kept)
    this.bytes += sizeOf(name, kept)
    while (this.kept.size > this.entriesMax || this.bytes > this.bytesMax)
      this.drop(this.kept.keys().next().value!)
  }

  private drop(name: string): void {
    const kept = this.kept.get(name)
    if (kept === undefined) return
    this.kept.delete(name)
    this.bytes -= sizeOf(name, kept)
  }
}

const sizeOf = (name: string, { bytes }: Kept<unknown>): number => name.length + bytes

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
  const saidMs =
    age !== undefined && /^\d{1,12}$/.test(age)
      ? Number(age) * 1_000
      : headers.expires === undefined
        ? ceilingMs
        : // What is no date has expired (RFC 9111 5.3).
          (Date.parse(headers.expires) || 0) - (Date.parse(headers.date ?? "") || nowMs)
  return Math.min(Math.max(saidMs, floorMs), ceilingMs)
}
