/** Where a rule, which throws its refusals, meets what waits: in an Effect a Refusal is the typed error, and
 *  everything else that is thrown is a defect.
 *  Source: docs/architecture.md, "Transport"; docs/spec/store.md, section 5. */
import { type Context, Effect, Fiber } from "effect"
import { failureOf, type Refusal } from "./problems.ts"

/** What is there now, or is waited for. */
export type Later<A> = A | Effect.Effect<A, Refusal>

/** Applies a rule within an Effect. */
export const ruled = <A>(rule: () => Later<A>): Effect.Effect<A, Refusal> =>
  Effect.suspend(() => {
    try {
      const value = rule()
      return Effect.isEffect(value) ? (value as Effect.Effect<A, Refusal>) : Effect.succeed(value as A)
    } catch (cause) {
      return failureOf(cause)
    }
  })

/** Goes on with a value by a rule: now, where what it throws is the caller's, or when the value is there. */
export const thenLater = <A, B>(value: Later<A>, rule: (value: A) => Later<B>): Later<B> =>
  Effect.isEffect(value)
    ? Effect.flatMap(value as Effect.Effect<A, Refusal>, (there) => ruled(() => rule(there)))
    : rule(value as A)

/** Waits for a promise, which may be rejected with a Refusal; `signal` aborts with who waits. */
export const promised = <A>(work: (signal: AbortSignal) => Promise<A>): Effect.Effect<A, Refusal> =>
  Effect.catch(Effect.tryPromise({ try: work, catch: (cause) => cause }), failureOf)

/** Work that is done to its end, also when nobody waits for it any more; `begun` hears of its fiber. */
export const toItsEnd = <A, E>(
  work: Effect.Effect<A, E>,
  begun?: (fiber: Fiber.Fiber<A, E>) => void
): Effect.Effect<A, E> =>
  Effect.contextWith((context: Context.Context<never>) => {
    const fiber = Effect.runForkWith(context)(work)
    begun?.(fiber)
    return Fiber.join(fiber)
  })

export interface TimeLimit {
  readonly ms: number
  readonly late: () => Refusal
}

/** Interrupts work that takes too long. One fiber and one timer; `Effect.timeout`, which forks twice, made
 *  a write a third dearer. */
export const withinTime = <A>(
  work: Effect.Effect<A, Refusal>,
  { ms, late }: TimeLimit
): Effect.Effect<A, Refusal> =>
  Effect.contextWith((context: Context.Context<never>) =>
    Effect.callback((resume) => {
      const fiber = Effect.runForkWith(context)(work)
      const timer = setTimeout(() => {
        resume(Effect.fail(late()))
        fiber.interruptUnsafe()
      }, ms)
      fiber.addObserver((exit) => {
        clearTimeout(timer)
        resume(exit)
      })
      return Fiber.interrupt(fiber)
    })
  )
