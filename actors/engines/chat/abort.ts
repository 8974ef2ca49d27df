/** The word that an answer is not wanted any more. What AbortController and AbortSignal are, without an
 *  EventTarget for each turn (bench/chat-turns); `signalOf` makes a true signal where a platform's API asks
 *  for one. */
export interface Abort {
  readonly aborted: boolean
  addEventListener(type: "abort", hear: () => void, options?: { readonly once: true }): void
  removeEventListener(type: "abort", hear: () => void): void
}

export class Aborter implements Abort {
  aborted = false
  private readonly hearers: Array<() => void> = []

  /** Each is called once, in order, unless it was removed before its turn. */
  addEventListener(_: "abort", hear: () => void): void {
    if (!this.aborted) this.hearers.push(hear)
  }

  removeEventListener(_: "abort", hear: () => void): void {
    const at = this.hearers.indexOf(hear)
    if (at < 0) return
    if (at === this.hearers.length - 1) this.hearers.pop()
    else this.hearers.splice(at, 1)
  }

  abort(): void {
    this.aborted = true
    for (let hear = this.hearers.shift(); hear !== undefined; hear = this.hearers.shift()) hear()
  }
}

export const signalOf = (abort: Abort): AbortSignal => {
  if (abort instanceof AbortSignal) return abort
  const controller = new AbortController()
  if (abort.aborted) controller.abort()
  else abort.addEventListener("abort", () => controller.abort(), { once: true })
  return controller.signal
}
