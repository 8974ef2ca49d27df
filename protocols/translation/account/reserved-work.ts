/** Work that is paid from a reservation. Guarantee: whether it fails, is a defect or is interrupted because its
 *  client went, the reservation is released; once it has succeeded, what is booked is answered for.
 *  Source: docs/spec/translation.md, sections 6.1 and 19.7. */
import { Effect } from "effect"
import { effectOf, type Answer, type Response } from "../../../runtime/http.ts"
import { problem, type Refusal } from "../problems.ts"
import type { Reservation } from "./usage.ts"

export interface ReservedWork<A> {
  readonly reservation: Reservation
  readonly work: Effect.Effect<A, Refusal>
  /** Books, and answers when that is on disk; it is not interrupted. */
  readonly finish: (result: A) => Answer
}

/** Answers when a booking is on disk; at once when it is written behind. */
export const answerBooked = (booked: Promise<void> | undefined, answer: () => Answer): Answer =>
  booked === undefined
    ? answer()
    : Effect.matchEffect(Effect.tryPromise({ try: () => booked, catch: (cause) => cause }), {
        onFailure: (cause) => Effect.succeed(problem({ _tag: "Down", status: 504, cause })),
        onSuccess: () => effectOf<Response>(answer())
      })

export const answerReserved = <A>({ reservation, work, finish }: ReservedWork<A>): Effect.Effect<Response> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.matchEffect(
      Effect.onError(restore(work), () => Effect.sync(() => reservation.release())),
      {
        onFailure: (refusal) => Effect.succeed(problem(refusal)),
        onSuccess: (result) => effectOf(finish(result))
      }
    )
  )
