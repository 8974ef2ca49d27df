/** Values that are here now or come later: where nothing waits there is no promise, and no turn of the queue
 *  (bench/oauth-introspect-jwt). */

export const mapMaybePromise = <A, B>(
  value: A | Promise<A>,
  next: (value: A) => B | Promise<B>
): B | Promise<B> => (value instanceof Promise ? value.then(next) : next(value))

/** The answer itself when it came in this turn. */
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
