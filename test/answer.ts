/** Brings what a handler returned to its response, as the transport does. */
import { Cause, Effect, Exit } from "effect"
import { effectOf, type Answer, type Response } from "../runtime/http.ts"

/** Stands for the answer that nobody hears, because the client went and the handler was interrupted. */
export const unheard = 499

export const answerOf = async (answer: Answer, signal?: AbortSignal): Promise<Response> => {
  const exit = await Effect.runPromiseExit(effectOf(answer), signal === undefined ? {} : { signal })
  if (Exit.isSuccess(exit)) return exit.value
  if (Cause.hasInterruptsOnly(exit.cause)) return { status: unheard }
  throw Cause.squash(exit.cause)
}
