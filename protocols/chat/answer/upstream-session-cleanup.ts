/** Asks upstreams to delete the sessions that they hold for stored responses which were deleted here. Best
 *  effort: three attempts, and nothing waits for it. Pending deletions are on disk, so a restart continues
 *  with them.
 *  Source: docs/spec/chat.md, section 15.5. */
import { Forgotten } from "../../../actors/proxy-session.ts"
import type { Upstreams } from "../../../actors/engines/chat/upstreams.ts"
import type { ActorSystem } from "../../../runtime/registry.ts"
import { committed, type Store } from "../../../storage/store.ts"

const attemptsMax = 3
const batchMax = 16
const periodMs = 1_000

export interface CleanupDeps {
  readonly store: Store
  readonly actors: ActorSystem
  readonly upstreams: Upstreams
}

export class UpstreamSessionCleanup {
  private readonly deps: CleanupDeps
  private readonly underWay = new Set<string>()
  private closed = false

  constructor(deps: CleanupDeps) {
    this.deps = deps
    this.schedule()
  }

  close(): void {
    this.closed = true
  }

  private schedule(): void {
    const { actors } = this.deps
    actors.timers.after(periodMs, () => {
      if (this.closed || !actors.running) return
      this.sweep()
      this.schedule()
    })
  }

  private sweep(): void {
    for (const { key, value } of Forgotten.range(this.deps.store, { limit: batchMax })) {
      const [upstreamId, session] = key as [string, string]
      if (this.underWay.has(session)) continue
      this.underWay.add(session)
      void this.cleanUp(upstreamId, session, value.attempts)
        .catch(() => {})
        .finally(() => this.underWay.delete(session))
    }
  }

  private async cleanUp(upstreamId: string, session: string, attempts: number): Promise<void> {
    const isDone = await this.forget(upstreamId, session)
    const key: [string, string] = [upstreamId, session]
    const row =
      isDone || attempts + 1 >= attemptsMax
        ? Forgotten.delete(key)
        : Forgotten.put(key, { attempts: attempts + 1 })
    await committed(this.deps.store, [row])
  }

  /** An upstream that keeps no sessions, or is configured no more, has nothing to forget. */
  private async forget(upstreamId: string, session: string): Promise<boolean> {
    const upstream = this.deps.upstreams.all.find(({ record }) => record.id === upstreamId)
    try {
      await upstream?.model.forget?.(session)
      return true
    } catch {
      return false
    }
  }
}
