/** A conversation that is too long, cut by whole turns, the oldest first; the first system message stays.
 *  Source: chat section 15.6. */
import { estimated, type Message } from "../../../actors/engines/chat/model.ts"

const tokens = (messages: ReadonlyArray<Message>): number => estimated(JSON.stringify(messages))

/** Down to `windowTokens`, or to half where the window is not known. The last turn always stays. */
export const truncated = (
  messages: ReadonlyArray<Message>,
  windowTokens: number | undefined
): ReadonlyArray<Message> => {
  const limit = windowTokens ?? Math.floor(tokens(messages) / 2)
  const first = messages[0]?.role === "system" || messages[0]?.role === "developer" ? [messages[0]] : []
  let rest = messages.slice(first.length)
  while (tokens([...first, ...rest]) > limit) {
    // A turn begins with what a user says; results never lose their calls.
    const next = rest.findIndex(({ role }, i) => i > 0 && role === "user")
    if (next < 0) break
    rest = rest.slice(next)
  }
  return [...first, ...rest]
}
