/** The sweeper removes what has expired, and keeps pace with whatever rate filled the store: it goes on slice by
 *  slice while anything is due. Each slice is a bounded number of rows, and the next one waits until the disk has
 *  it, so that requests are answered in between.
 *  Source: docs/spec/authorization.md, sections 1.3 and 19.1. */

/** Does one slice, and resolves to true while there is more to do now. */
export type SweptPart = () => boolean | void | Promise<boolean | void>

const everyMs = 1_000

export class Sweeper {
  private readonly parts: ReadonlyArray<SweptPart>
  private readonly failed: (cause: unknown) => void
  private running: Promise<void> | undefined
  private timer: NodeJS.Timeout | undefined
  private stopped = false

  constructor(parts: ReadonlyArray<SweptPart>, failed: (cause: unknown) => void) {
    this.parts = parts
    this.failed = failed
  }

  start(): void {
    this.timer = setInterval(() => void this.sweep().catch(this.failed), everyMs)
    this.timer.unref()
  }

  /** Sweeps until nothing is due. A sweep that is under way is joined. */
  sweep(): Promise<void> {
    this.running ??= this.swept().finally(() => {
      this.running = undefined
    })
    return this.running
  }

  private async swept(): Promise<void> {
    for (const part of this.parts)
      while (!this.stopped && (await part()) === true) {
        // The next slice follows when this one is on disk.
      }
  }

  /** Ends after the slice that is under way. */
  async stop(): Promise<void> {
    this.stopped = true
    clearInterval(this.timer)
    await this.running?.catch(() => {})
  }
}
