/** Values on the wire: JSON objects, and datetimes as ISO 8601, out with the store's offset and milliseconds,
 *  in with or without an offset. Pure.
 *  Source: docs/spec/store.md, section 2.5. */

/** A JSON object whose members are not checked yet. */
export type JsonObject = Readonly<Record<string, unknown>>

const shape = /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,7}))?)?(Z|[+-]\d\d:?\d\d)?)?$/
const pad = (value: number, digits = 2): string => String(value).padStart(digits, "0")

/** A time zone of the IANA list. Throws RangeError when there is no such zone. */
export class Zone {
  readonly name: string
  private readonly parts: Intl.DateTimeFormat | undefined

  constructor(name: string) {
    this.name = name
    this.parts =
      name === "UTC"
        ? undefined
        : new Intl.DateTimeFormat("en-US", {
            timeZone: name,
            hourCycle: "h23",
            year: "numeric",
            month: "numeric",
            day: "numeric",
            hour: "numeric",
            minute: "numeric",
            second: "numeric"
          })
  }

  /** The minutes that the zone is east of UTC at an instant. */
  private offset(ms: number): number {
    if (this.parts === undefined) return 0
    const parts: Record<string, number> = {}
    for (const { type, value } of this.parts.formatToParts(ms)) parts[type] = Number(value)
    const local = Date.UTC(
      parts["year"]!,
      parts["month"]! - 1,
      parts["day"]!,
      parts["hour"]!,
      parts["minute"]!,
      parts["second"]!
    )
    return Math.round((local - Math.floor(ms / 1_000) * 1_000) / 60_000)
  }

  format(ms: number): string {
    if (this.parts === undefined) return new Date(ms).toISOString()
    const offset = this.offset(ms)
    const minutes = Math.abs(offset)
    const local = new Date(ms + offset * 60_000).toISOString().slice(0, -1)
    return `${local}${offset < 0 ? "-" : "+"}${pad(Math.floor(minutes / 60))}:${pad(minutes % 60)}`
  }

  /** Returns epoch milliseconds; undefined when the text is no datetime. Without an offset it is taken in
   *  this zone; a date alone is its midnight. */
  parse(text: string): number | undefined {
    const found = shape.exec(text)
    if (found === null) return undefined
    const [year, month, day, hour, minute, second] = found.slice(1, 7).map((part) => Number(part ?? 0)) as [
      number,
      number,
      number,
      number,
      number,
      number
    ]
    if (month < 1 || month > 12 || hour > 23 || minute > 59 || second > 59) return undefined
    const local = Date.UTC(
      year,
      month - 1,
      day,
      hour,
      minute,
      second,
      Number((found[7] ?? "0").padEnd(3, "0").slice(0, 3))
    )
    if (new Date(local).getUTCDate() !== day || Number.isNaN(local)) return undefined
    const offset = found[8]
    if (offset === "Z") return local
    if (offset !== undefined) {
      const minutes = Number(offset.slice(1, 3)) * 60 + Number(offset.slice(-2))
      return minutes > 14 * 60 ? undefined : local - (offset[0] === "-" ? -minutes : minutes) * 60_000
    }
    const guess = local - this.offset(local) * 60_000
    return local - this.offset(guess) * 60_000
  }
}
