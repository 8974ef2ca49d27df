/** Lets other work of the process pass, between slices of a long one. */
export const yieldToEventLoop = (): Promise<void> =>
  new Promise((resolve) => {
    setImmediate(resolve)
  })
