/** Says that an answer is not wanted any more, as AbortController and AbortSignal do, but without an
 *  EventTarget for each turn (bench/chat-turns); `signalOf` makes a true signal where a platform's API
 *  asks for one. It is guaranteed that each listener is called once at most. Source: docs/spec/chat.md,
 *  section 17. */
export interface Abort {
  readonly aborted: boolean
  addEventListener(type: "abort", listener: () => void, options?: { readonly once: true }): void
  removeEventListener(type: "abort", listener: () => void): void
}

export class Aborter implements Abort {
  aborted = false
  private readonly listeners: Array<() => void> = []

  /** Listeners are called once, in order, unless they were removed before their turn. */
  addEventListener(_: "abort", listener: () => void): void {
    if (!this.aborted) this.listeners.push(listener)
  }

  removeEventListener(_: "abort", listener: () => void): void {
    const index = this.listeners.indexOf(listener)
    if (index < 0) return
    if (index === this.listeners.length - 1) this.listeners.pop()
    else this.listeners.splice(index, 1)
  }

  abort(): void {
    this.aborted = true
    for (let listener = this.listeners.shift(); listener !== undefined; listener = this.listeners.shift())
      listener()
  }
}

export const signalOf = (abort: Abort): AbortSignal => {
  if (abort instanceof AbortSignal) return abort
  const controller = new AbortController()
  if (abort.aborted) controller.abort()
  else abort.addEventListener("abort", () => controller.abort(), { once: true })
  return controller.signal
}
