/** What the chat service is asked: stored responses, their events, turns that go on from them. */
import type { Asking } from "../program.ts"
import type { Asked } from "./asked.ts"

export const askChat = async (to: Asked): Promise<void> => {
  const { facts } = to
  const by = (asking: Asking = {}, key = "chat-key-one"): Asking => ({
    ...asking,
    headers: { authorization: `Bearer ${key}` }
  })
  await to.until("the models of the upstream", async () =>
    (await to.program.call("/v1/models", by())).body.data.some(({ id }: any) => id === "outside/steady")
  )
  const { chat: ids } = facts
  for (const name of [
    "plain",
    "next",
    "fork",
    "hidden",
    "after",
    "upstream",
    "forgotten",
    "background",
    "streamed",
    "halted",
    "haltedStream"
  ])
    await to.ask(`/v1/responses/${ids[name]}`, by(), `response: ${name}`)
  await to.ask(`/v1/responses/${facts["staleResponse"]}`, by(), "response: of an earlier hour")
  await to.ask(`/v1/responses/${ids.held}`, by(), "response: of a session that was held")
  await to.ask(`/v1/responses/${ids.plain}`, by({}, "chat-key-two"), "response: of another owner")
  await to.ask(`/v1/responses/${ids.after}/input_items`, by(), "items of a response")
  for (const name of ["streamed", "haltedStream"])
    await to.ask(`/v1/responses/${ids[name]}?stream=true`, by(), `events of the response: ${name}`)
  await to.ask(`/v1/responses/${ids.long}`, by({}, "chat-key-two"), "response: long")
  await to.ask(
    "/v1/responses",
    by(
      { json: { model: "local/echo", input: "on it goes", previous_response_id: ids.long } },
      "chat-key-two"
    ),
    "a turn after seventy"
  )
  const before = to.outside.heard.length
  await to.ask(
    "/v1/responses",
    by({ json: { model: "outside/steady", input: "on it goes", previous_response_id: ids.upstream } }),
    "a turn after one of the upstream's"
  )
  to.say(
    "what the upstream was asked to go on from",
    to.outside.heard
      .slice(before)
      .filter(({ path }) => path === "/model/responses")
      .map(({ text }) => (JSON.parse(text) as any).previous_response_id)
  )
  await to.ask("/v1/models", by())
  await to.until("the upstream is asked to forget", async () =>
    to.outside.heard.some(({ method }) => method === "DELETE")
  )
  to.say(
    "what the upstream was asked to forget",
    to.outside.heard.find(({ method }) => method === "DELETE")?.path
  )
}
