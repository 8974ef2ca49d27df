/** Lets everybody else have a turn: for work that is long and must not be felt. */
export const turn = (): Promise<void> =>
  new Promise((next) => {
    setImmediate(next)
  })

/** After how many entries of a walk. */
export const entriesPerTurn = 1_000
