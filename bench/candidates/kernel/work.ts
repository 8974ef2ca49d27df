/** Defines the work that a kernel bench repeats, and the ways of repeating it. */

/** Performs a number of operations; resolves with a checksum of the work. */
export type Work = (operations: number) => Promise<number>

export const nextTurn = (): Promise<void> =>
  new Promise((resolve) => {
    setImmediate(resolve)
  })

/** Repeats one operation after the other. */
export const sequential =
  (ask: () => Promise<unknown>): Work =>
  async (n) => {
    for (let i = 0; i < n; i++) await ask()
    return n
  }

/** Repeats a thousand at once, then the next thousand. */
export const inThousands =
  (ask: () => Promise<unknown>): Work =>
  async (n) => {
    for (let i = 0; i < n; i += 1_000) await Promise.all(Array.from({ length: 1_000 }, ask))
    return n
  }

/** Repeats with a fixed number of operations in flight at any time. */
export const concurrent =
  (width: number, ask: (i: number) => Promise<unknown>): Work =>
  async (n) => {
    let next = 0
    await Promise.all(
      Array.from({ length: width }, async () => {
        while (next < n) await ask(next++)
      })
    )
    return n
  }
