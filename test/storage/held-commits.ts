/** A store for tests of what waits for the disk. */
import { openMemory } from "../../storage/memory.ts"
import type { Store } from "../../storage/store.ts"

/** A memory store whose commits, from `hold` on, settle only when the test says so. */
export const heldStore = (): {
  readonly store: Store
  hold(): void
  /** A commit waits. */
  readonly waiting: Promise<void>
  settle(): void
} => {
  const inner = openMemory()
  let held: Array<() => void> | undefined
  let asked: () => void = () => {}
  const waiting = new Promise<void>((resolve) => {
    asked = resolve
  })
  const commit: Store["commit"] = (writes, settled) =>
    inner.commit(writes, (fault) => {
      if (held === undefined) return settled(fault)
      held.push(() => settled(fault))
      asked()
    })
  return {
    store: Object.assign(Object.create(inner) as Store, { commit }),
    hold: () => {
      held = []
    },
    waiting,
    settle: () => {
      const waited = held ?? []
      held = undefined
      for (const settle of waited) settle()
    }
  }
}

/** What is done by now is done: promises that were settled have been heard. */
export const turned = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
