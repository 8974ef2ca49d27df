/** Chat 13.5: a GGUF file really run by node-llama-cpp, over HTTP, in its worker. The model is written by the
 *  test: its words mean nothing, everything around them does. Wants the package where this is started;
 *  without it that is said in a visible line. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { tinyGguf } from "../actors/engines/chat/tiny-gguf.ts"
import { frames, ChatTestServer } from "../protocols/chat/chat-server.ts"

const installed = (): boolean => {
  for (const from of [join(process.cwd(), "package.json"), import.meta.url])
    try {
      createRequire(from).resolve("node-llama-cpp")
      return true
    } catch {
      /* elsewhere */
    }
  console.warn("node-llama-cpp is not installed: GGUF files not checked. npm i --no-save node-llama-cpp")
  return false
}

const folder = mkdtempSync(join(tmpdir(), "troupe-gguf-"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const file = (name: string, bytes: Buffer | undefined): string => {
  const path = join(folder, name)
  if (bytes !== undefined) writeFileSync(path, bytes)
  return path
}

type Said = { readonly role: string; readonly content: string }
const user = (content: string): Said => ({ role: "user", content })

/** The tiny model has one token for a character and one for a mark: what its template makes of a conversation
 *  can be counted by hand. */
const tokensOf = (messages: ReadonlyArray<Said>): number =>
  2 + messages.reduce((sum, { content }) => sum + content.length + 2, 0)

const schema = (of: object, strict = true): Record<string, unknown> => ({
  response_format: { type: "json_schema", json_schema: { name: "s", schema: of, strict } }
})

describe.runIf(installed())("a GGUF file", () => {
  let world: ChatTestServer
  const ask = (body: Record<string, unknown>, options?: Parameters<ChatTestServer["ask"]>[1]) =>
    world.ask({ model: "own/tiny", messages: [user("hi")], max_tokens: 40, seed: 7, ...body }, options)
  const textOf = async (body: Record<string, unknown> = {}): Promise<string> =>
    (await ask(body)).body.choices[0].message.content
  beforeAll(async () => {
    const whole = tinyGguf()
    world = await ChatTestServer.open({
      records: [
        {
          id: "own",
          kind: "embedded",
          files: {
            tiny: file("tiny.gguf", whole),
            ends: file("ends.gguf", tinyGguf({ end: 3 })),
            long: file("long.gguf", tinyGguf({ contextTokens: 8_192 })),
            absent: file("absent.gguf", undefined),
            text: file("text.gguf", Buffer.from("no model at all")),
            short: file("short.gguf", whole.subarray(0, whole.length - 60_000)),
            head: file("head.gguf", whole.subarray(0, 600))
          }
        }
      ]
    })
  }, 60_000)
  afterAll(() => world.close())

  it("streams what it answers whole, and counts each token", async () => {
    const messages = [{ role: "system", content: "Be brief." }, user("Good day")]
    const { status, body } = await ask({ messages })
    expect([
      status,
      body.choices[0].finish_reason,
      body.usage.prompt_tokens,
      body.usage.completion_tokens,
      body.usage.total_tokens
    ]).toEqual([200, "length", tokensOf(messages), 40, tokensOf(messages) + 40])
    expect(body.choices[0].message.content).toHaveLength(40)
    const all = frames((await ask({ messages, stream: true, stream_options: { include_usage: true } })).text)
      .slice(0, -1)
      .map(({ data }) => data)
    const pieces = all.map(({ choices }) => choices[0]?.delta.content ?? "").filter((piece) => piece !== "")
    expect(pieces.length).toBeGreaterThan(10)
    expect(pieces.join("")).toBe(body.choices[0].message.content)
    expect(all.at(-1).usage).toMatchObject({ prompt_tokens: tokensOf(messages), completion_tokens: 40 })
  })
  it("ends by itself: stop", async () => {
    const { body } = await ask({ model: "own/ends", max_tokens: undefined })
    expect(body.choices[0].finish_reason).toBe("stop")
    expect(body.usage.completion_tokens).toBeLessThan(400)
  })
  it("the same seed says the same, another something else, none something else each time", async () => {
    expect(await textOf()).toBe(await textOf())
    expect(await textOf({ seed: 8 })).not.toBe(await textOf())
    expect(await textOf({ seed: -1 })).not.toBe(await textOf({ seed: 0 }))
    expect(await textOf({ seed: undefined })).not.toBe(await textOf({ seed: undefined }))
    const both = (await ask({ seed: undefined, n: 2 })).body.choices.map(
      ({ message }: any) => message.content
    )
    expect(both[0]).not.toBe(both[1])
  })
  it("temperature 0 needs no seed", async () =>
    expect(await textOf({ temperature: 0, seed: undefined })).toBe(
      await textOf({ temperature: 0, seed: undefined })
    ))
  it("a stop word is where it ends, and is not told", async () => {
    const said = await textOf()
    const stop = said.slice(20, 23)
    const { body } = await ask({ stop: [stop, "never said"] })
    expect([body.choices[0].message.content, body.choices[0].finish_reason]).toEqual([
      said.slice(0, said.indexOf(stop)),
      "stop"
    ])
  })
  it("a conversation of several turns; what is known of it is not read again", async () => {
    const first = [user("What is your name, and why?")]
    const answer = await textOf({ messages: first })
    const turns = [...first, { role: "assistant", content: answer }, user("And hers?")]
    const { usage } = (await ask({ messages: turns })).body
    expect(usage.prompt_tokens).toBe(tokensOf(turns))
    expect(usage.prompt_tokens_details.cached_tokens).toBeGreaterThanOrEqual(tokensOf(first))
    expect(await textOf({ messages: turns })).not.toBe(await textOf({ messages: [user("And hers?")] }))
  })
  it("penalties are heard", async () =>
    expect(await textOf({ temperature: 0, frequency_penalty: 2, presence_penalty: 2 })).not.toBe(
      await textOf({ temperature: 0 })
    ))
  it("a JSON schema binds it: names, kinds, choices, references", async () => {
    const of = {
      type: "object",
      required: ["city", "kind", "when", "tags", "near"],
      additionalProperties: false,
      $defs: {
        place: {
          type: "object",
          properties: {
            x: { type: "integer" },
            next: { anyOf: [{ $ref: "#/$defs/place" }, { type: "null" }] }
          },
          required: ["x"]
        }
      },
      properties: {
        city: { type: "string", maxLength: 8 },
        kind: { enum: ["town", "village"] },
        when: { type: ["boolean", "null"] },
        tags: { type: "array", items: { type: "boolean" }, minItems: 2, maxItems: 3 },
        near: { anyOf: [{ $ref: "#/$defs/place" }, { type: "null" }] }
      }
    }
    for (let seed = 1; seed <= 8; seed++) {
      const { status, body } = await ask({ ...schema(of), seed, max_tokens: 400, temperature: 1.5 })
      expect([status, body.choices?.[0].finish_reason], body.error?.message).toEqual([200, "stop"])
      const value = JSON.parse(body.choices[0].message.content)
      expect(Object.keys(value)).toEqual(["city", "kind", "when", "tags", "near"])
      expect(["town", "village"]).toContain(value.kind)
      expect([true, false, null]).toContain(value.when)
      expect([2, 3]).toContain(value.tags.length)
    }
  })
  it("what a grammar cannot say is checked afterwards; json_object begins an object; a schema that no grammar holds is no failure of the server", async () => {
    expect(
      (await ask({ ...schema({ type: "string", maxLength: 3, pattern: "^never$" }), max_tokens: 100 })).body
        .error
    ).toMatchObject({ code: "upstream_bad_response" })
    expect(
      (await ask({ ...schema({ type: "string", maxLength: 3, pattern: "^never$" }, false), max_tokens: 100 }))
        .status
    ).toBe(200)
    expect(await textOf({ response_format: { type: "json_object" } })).toMatch(/^\{/)
    expect([200, 502]).toContain(
      (
        await ask(
          schema({ type: "array", items: { type: "boolean" }, minItems: 1_000_000, maxItems: 2_000_000 })
        )
      ).status
    )
    expect((await ask({})).status).toBe(200)
  })
  it("tools go through the prompt", async () => {
    const { status, body } = await ask({
      tools: [
        {
          type: "function",
          function: { name: "look", parameters: { type: "object", properties: { at: { type: "string" } } } }
        }
      ],
      messages: [
        user("hi"),
        {
          role: "assistant",
          content: null,
          tool_calls: [{ id: "call_1", type: "function", function: { name: "look", arguments: "{}" } }]
        },
        { role: "tool", tool_call_id: "call_1", content: "a tree" }
      ]
    })
    expect([status, body.choices?.[0].message.content.length]).toEqual([200, 40])
  })
  it("two at once are answered one after the other, each as if it were alone", async () => {
    const alone = [await textOf({ seed: 1 }), await textOf({ messages: [user("other")], seed: 2 })]
    expect(await Promise.all([textOf({ seed: 1 }), textOf({ messages: [user("other")], seed: 2 })])).toEqual(
      alone
    )
  })
  it("who goes in the middle, or while waiting, leaves it free", async () => {
    const said = (await ask({ model: "own/long" })).body.choices[0].message.content
    for (let round = 0; round < 5; round++) {
      const aborted = new AbortController()
      const waiting = new AbortController()
      const reader = (
        await world.fetch("/v1/chat/completions", {
          body: { model: "own/long", messages: [user("on and on")], stream: true, max_tokens: 8_000 },
          signal: aborted.signal
        })
      ).body!.getReader()
      for (let i = 0; i < 5; i++) await reader.read()
      const queued = world
        .fetch("/v1/chat/completions", {
          body: { model: "own/long", messages: [user("me too")], max_tokens: 8_000 },
          signal: waiting.signal
        })
        .catch(() => "gone")
      await new Promise((resolve) => {
        setTimeout(resolve, 20)
      })
      waiting.abort()
      aborted.abort()
      expect(await queued).toBe("gone")
      const { body } = await ask({ model: "own/long" })
      expect(body.choices[0].message.content).toBe(said)
    }
  })
  it("who goes while a long prompt is read leaves it free", async () => {
    const aborted = new AbortController()
    const long = user("A long story. ".repeat(200))
    const asked = world
      .fetch("/v1/chat/completions", {
        body: { model: "own/long", messages: [long], max_tokens: 1 },
        signal: aborted.signal
      })
      .catch(() => "gone")
    setTimeout(() => aborted.abort(), 30)
    expect(await asked).toBe("gone")
    expect((await ask({ model: "own/long" })).status).toBe(200)
    expect((await ask({ model: "own/long", messages: [long], max_tokens: 1 })).body.usage).toMatchObject({
      prompt_tokens: tokensOf([long]),
      completion_tokens: 1
    })
  })
  it("a conversation that is too long is told so; one that fills the window ends there", async () => {
    expect((await ask({ messages: [user("x".repeat(600))] })).body.error).toMatchObject({
      code: "context_length_exceeded",
      message: `The conversation has ${604} tokens; this model reads 512.`
    })
    for (const length of [506, 507])
      expect((await ask({ messages: [user("x".repeat(length))] })).body.error).toMatchObject({
        code: "context_length_exceeded"
      })
    for (const length of [450, 500, 505]) {
      const { body } = await ask({ messages: [user("x".repeat(length))], max_tokens: undefined })
      expect([body.choices?.[0].finish_reason, body.usage?.total_tokens], `${length}`).toEqual([
        "length",
        510
      ])
    }
    expect((await ask({})).status).toBe(200)
  })
  it("a file that is not there, or broken, is told so each time, and harms no other model; put right it is read", async () => {
    for (let round = 0; round < 2; round++)
      for (const [name, message] of [
        ["absent", "the model file absent.gguf is not there"],
        ["text", /^the model file text.gguf cannot be loaded: Invalid GGUF magic/],
        ["short", /^the model file short.gguf cannot be loaded: tensor .* is corrupted or incomplete$/],
        ["head", /^the model file head.gguf cannot be loaded: /]
      ] as const) {
        const { status, body } = await ask({ model: `own/${name}` })
        expect([status, body.error.code], name).toEqual([400, "unsupported_value"])
        expect(body.error.message).toMatch(message)
        expect(body.error.message).not.toContain(folder)
      }
    expect((await ask({})).status).toBe(200)
    file("absent.gguf", tinyGguf())
    expect((await ask({ model: "own/absent" })).body.choices[0].message.content).toBe(await textOf())
  })
  it("stopped while it speaks and started anew in the same process", async () => {
    const open = () =>
      ChatTestServer.open({
        records: [{ id: "own", kind: "embedded", files: { long: join(folder, "long.gguf") } }]
      })
    const first = await open()
    const body = { model: "own/long", messages: [user("on and on")], stream: true, max_tokens: 8_000 }
    await (await first.fetch("/v1/chat/completions", { body })).body!.getReader().read()
    await first.close()
    const second = await open()
    expect((await second.ask({ ...body, stream: false, max_tokens: 5 })).status).toBe(200)
    await second.close()
    expect((await ask({})).status).toBe(200)
  })
})
