/** Removes the undefined members of an object literal, so that an optional property is absent rather than
 *  undefined (`exactOptionalPropertyTypes`). It walks the keys at run time, so hot paths write their object
 *  out instead. */
type Defined<A> = {
  [K in keyof A as undefined extends A[K] ? never : K]: A[K]
} & {
  [K in keyof A as undefined extends A[K] ? K : never]?: Exclude<A[K], undefined>
}

export const defined = <A extends object>(members: A): Defined<A> => {
  const result: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(members)) if (value !== undefined) result[name] = value
  return result as Defined<A>
}
