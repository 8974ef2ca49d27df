/** A conversation that is too long, cut by whole turns, the oldest first.
 *  Guarantee: the first system message and the last turn always stay, and no result loses its call.
 *  Source: docs/spec/chat.md, section 15.6. */
import { estimated, type Message } from "../../../actors/engines/chat/model.ts"

const estimatedTokens = (messages: ReadonlyArray<Message>): number => estimated(JSON.stringify(messages))

const isInstruction = ({ role }: Message): boolean => role === "system" || role === "developer"

/** Cuts down to `windowTokens`, or to half of the estimate where the upstream's window is not configured. */
export const truncated = (
  messages: ReadonlyArray<Message>,
  windowTokens: number | undefined
): ReadonlyArray<Message> => {
  const limit = windowTokens ?? Math.floor(estimatedTokens(messages) / 2)
  const instruction = messages.slice(0, messages[0] !== undefined && isInstruction(messages[0]) ? 1 : 0)
  let rest = messages.slice(instruction.length)
  while (estimatedTokens([...instruction, ...rest]) > limit) {
    // A turn begins with a user's message, so calls and their results leave together.
    const nextTurn = rest.findIndex(({ role }, i) => i > 0 && role === "user")
    if (nextTurn < 0) break
    rest = rest.slice(nextTurn)
  }
  return [...instruction, ...rest]
}
