/** Fills the chat service: trees of responses, a long session, one made in the background. */
import { good, until, type Making } from "./making.ts"

export const chat = (to: Making, json: object, key = "chat-key-one", path = ""): Promise<any> =>
  good(to.call(`/v1/responses${path}`, { json, headers: { authorization: `Bearer ${key}` } }))
export const fillChat = async (to: Making): Promise<void> => {
  const { facts } = to
  await until("the models of the upstream", async () =>
    (await good(to.call("/v1/models", { headers: { authorization: "Bearer chat-key-one" } }))).data.some(
      ({ id }: any) => id === "outside/steady"
    )
  )
  const plain = await chat(to, { model: "local/echo", input: "The first word" })
  const next = await chat(to, {
    model: "local/echo",
    input: "The second word",
    previous_response_id: plain.id,
    instructions: "Say it back",
    metadata: { sample: "yes" }
  })
  const fork = await chat(to, {
    model: "local/echo",
    input: "Another second word",
    previous_response_id: plain.id
  })
  // Long enough that its journal is folded, with a tail.
  let long = await chat(to, { model: "local/echo", input: "turn 0" }, "chat-key-two")
  for (let i = 1; i < 70; i++)
    long = await chat(
      to,
      { model: "local/echo", input: `turn ${i}`, previous_response_id: long.id },
      "chat-key-two"
    )
  const hidden = await chat(to, { model: "local/echo", input: "hidden" })
  const after = await chat(to, { model: "local/echo", input: "seen", previous_response_id: hidden.id })
  await good(
    to.call(`/v1/responses/${hidden.id}`, {
      method: "DELETE",
      headers: { authorization: "Bearer chat-key-one" }
    })
  )
  const upstream = await chat(to, { model: "outside/steady", input: "kept at the upstream" })
  const forgotten = await chat(to, { model: "outside/steady", input: "to be forgotten at the upstream" })
  const background = await chat(to, {
    model: "local/echo",
    input: "made behind",
    background: true,
    stream: false
  })
  await until(
    "a background response",
    async () =>
      (
        await good(
          to.call(`/v1/responses/${background.id}`, { headers: { authorization: "Bearer chat-key-one" } })
        )
      ).status === "completed"
  )
  const streamed = await to.call("/v1/responses", {
    json: { model: "outside/steady", input: "made behind and heard", background: true, stream: true },
    headers: { authorization: "Bearer chat-key-one" }
  })
  facts["chat"] = {
    plain: plain.id,
    next: next.id,
    fork: fork.id,
    long: long.id,
    hidden: hidden.id,
    after: after.id,
    upstream: upstream.id,
    forgotten: forgotten.id,
    background: background.id,
    streamed: /"id":"(resp_[0-9a-f]+)"/.exec(streamed.text)![1]
  }
}
