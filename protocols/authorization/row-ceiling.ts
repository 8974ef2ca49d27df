/** Limits how many rows of a table strangers may leave until they expire, in all and from one source. A row
 *  counts from the commit that writes it until the sweeper has removed it, so that the disk holds no more. After
 *  a start the rows of before count too, but to no source.
 *  Source: docs/spec/authorization.md, section 3.5. */
import { flatText } from "../shared/flat-text.ts"

export interface RowLimits {
  readonly rowsMax: number
  /** Undefined where all sources share the rows. */
  readonly rowsPerSourceMax?: number
}

export class RowCeiling {
  private readonly limits: RowLimits
  private rows = 0

  /** The source of each row that has one. */
  private readonly sources = new Map<string, string>()

  private readonly rowsBySource = new Map<string, number>()

  constructor(limits: RowLimits) {
    this.limits = limits
  }

  get size(): number {
    return this.rows
  }

  get isReached(): boolean {
    return this.rows >= this.limits.rowsMax
  }

  isReachedBy(source: string): boolean {
    return (this.rowsBySource.get(source) ?? 0) >= (this.limits.rowsPerSourceMax ?? Infinity)
  }

  /** Begins with the rows that the store holds. */
  begin(rows: number): void {
    this.rows = rows
    this.sources.clear()
    this.rowsBySource.clear()
  }

  added(): void {
    this.rows++
  }

  /** Charges a row that was added to its source. */
  charge(address: string, source: string): void {
    const before = this.rowsBySource.get(source)
    const own = before === undefined ? flatText(source) : source
    this.rowsBySource.set(own, (before ?? 0) + 1)
    this.sources.set(address, own)
  }

  removed(address: string): void {
    this.rows--
    const source = this.sources.get(address)
    if (source === undefined) return
    this.sources.delete(address)
    const rows = this.rowsBySource.get(source)! - 1
    if (rows === 0) this.rowsBySource.delete(source)
    else this.rowsBySource.set(source, rows)
  }
}
