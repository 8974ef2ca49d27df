/** Values that are available now or later. A value available now needs no promise and no turn of the
 *  microtask queue (bench/oauth-introspect-jwt). */

export const mapMaybePromise = <A, B>(
  value: A | Promise<A>,
  next: (value: A) => B | Promise<B>
): B | Promise<B> => (value instanceof Promise ? value.then(next) : next(value))

/** Returns the answer itself when it arrives in this turn, and a promise otherwise. */
export const askMaybeSync = <A>(ask: (done: (answer: A) => void) => void): A | Promise<A> => {
  let answered: { readonly value: A } | undefined
  let later: ((answer: A) => void) | undefined
  ask((value) => {
    if (later === undefined) answered = { value }
    else later(value)
  })
  return answered === undefined
    ? new Promise((resolve) => {
        later = resolve
      })
    : answered.value
}
