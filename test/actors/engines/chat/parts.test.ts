/** The small parts by themselves: chunk reading both ways, the prompt bridge, namespaces, the breaker,
 *  addresses, records, the translating and the deterministic model. */
import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { Aborter, signalOf } from "../../../../actors/engines/chat/abort.ts"
import { echo, sample } from "../../../../actors/engines/chat/echo.ts"
import type { ModelEvent, ModelRequest, ModelSink } from "../../../../actors/engines/chat/model.ts"
import { ChunkReader } from "../../../../actors/engines/chat/openai-sse-chunks.ts"
import { readRecords } from "../../../../actors/engines/chat/upstream-record.ts"
import { SseReader } from "../../../../actors/engines/chat/sse-reader.ts"
import { targetOf, translatorModel } from "../../../../actors/engines/chat/translator-model.ts"
import { isPublicAddress, webFetch } from "../../../../protocols/chat/turn/public-fetch.ts"
import { CompletionChunks } from "../../../../protocols/chat/answer/completion-chunks.ts"
import { memberText, readBody } from "../../../../protocols/chat/request/json-body.ts"
import { ChunkRewriter } from "../../../../protocols/chat/turn/chunk-rewriter.ts"
import { PromptBridgeReader } from "../../../../protocols/chat/turn/prompt-bridge.ts"
import { ToolNames, ToolNameRestorer } from "../../../../protocols/chat/turn/tool-names.ts"
import { scripted } from "../../../protocols/translation/harness.ts"

const random = (seed: number) => () => {
  seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff
  return seed / 0x7fffffff
}

/** A stream through reader and writer, with and without the learned frame; cut at random. */
const rewritten = (
  payloads: ReadonlyArray<string>,
  learns: boolean,
  cut: () => number,
  eol = "\n",
  space = " "
): { readonly text: string; readonly literals: number } => {
  let out = ""
  let literals = 0
  const chunks = new CompletionChunks({
    id: "chatcmpl-x",
    created: 5,
    model: "main/ü",
    includeUsage: false,
    legacy: false,
    onFirstEvent: () => {},
    write: (text) => {
      out += text
    }
  })
  const sink: ModelSink = {
    onFirstEvent: () => {},
    event: (event) => {
      if (event._tag !== "usage") chunks.event(event)
    },
    flush: () => chunks.flush(),
    rawTextDelta: (text) => {
      literals++
      chunks.rawTextDelta(text)
    }
  }
  const reader = new ChunkReader(sink, learns)
  const sse = new SseReader((payload) => reader.payload(payload), reader.skipLearnedFrames)
  const bytes = Buffer.from(payloads.map((payload) => `data:${space}${payload}${eol}${eol}`).join(""))
  for (let at = 0; at < bytes.length;) {
    const next = at + 1 + Math.floor(cut() * 40)
    sse.push(bytes, at, Math.min(next, bytes.length))
    at = next
    chunks.flush()
  }
  return { text: out, literals }
}

describe("the hot path", () => {
  it("the learned frame gives byte for byte what parsing gives, over seeds, styles and odd strings", () => {
    const words = [
      "plain",
      "Grüße ",
      "漢字",
      "🎻",
      '"quoted"',
      "back\\slash",
      "line\nbreak",
      "\u0001",
      "\u2028",
      "</script>",
      '"content":"x"',
      ""
    ]
    for (let seed = 1; seed <= 60; seed++) {
      const next = random(seed)
      const spaced = seed % 3 === 0
      const style = (value: unknown): string => {
        const text = JSON.stringify(value)
        if (spaced) return text.replaceAll('":', '": ').replaceAll(',"', ', "')
        return seed % 3 === 1 ? text : text.replaceAll("ü", "\\u00fc").replaceAll("/", "\\/")
      }
      const payloads = [
        { delta: { role: "assistant", content: "" } },
        ...Array.from({ length: 30 }, () => ({
          delta:
            next() < 0.1
              ? { reasoning_content: "hm" }
              : { content: words[Math.floor(next() * words.length)]! }
        })),
        { delta: {}, finish_reason: "stop" }
      ].map((choice, i) =>
        style({
          id: "up",
          object: "chat.completion.chunk",
          created: 1,
          model: "m",
          ...(i % 7 === 6 ? { usage: null } : {}),
          choices: [
            {
              index: 0,
              ...choice,
              logprobs: null,
              ...("finish_reason" in choice ? {} : { finish_reason: null })
            }
          ],
          ...(seed % 4 === 0 ? { obfuscation: "aB3xYz09".slice(Math.floor(next() * 8)) } : {})
        })
      )
      const cuts = random(seed)
      const fast = rewritten(
        [...payloads, "[DONE]"],
        true,
        () => 16 * cuts(),
        seed % 5 === 0 ? "\r\n" : "\n",
        seed % 11 === 0 ? "" : " "
      )
      const slow = rewritten([...payloads, "[DONE]"], false, random(seed + 7))
      expect(fast.text, `seed ${seed}`).toBe(slow.text)
      expect(slow.literals).toBe(0)
      expect(fast.literals, `seed ${seed}`).toBeGreaterThan(5)
    }
  })
  it("what only looks like the frame is parsed", () => {
    const frame = (content: string, rest = '"finish_reason":null}]}'): string =>
      `{"choices":[{"index":0,"delta":{"content":${content}},${rest}`
    for (const odd of [
      frame('"a","tool_calls":null,"x":"b"'),
      frame('"a"},"y":{"z":"b"'),
      frame("null"),
      frame('"a"', '"finish_reason":"st"}]}')
    ]) {
      expect(rewritten([frame('"1"'), odd, frame('"2"')], true, () => 99).text).toBe(
        rewritten([frame('"1"'), odd, frame('"2"')], false, random(3)).text
      )
    }
    for (const odd of [frame('"a\tb"'), `${frame('"a"')}\ndata: {}`])
      expect(() => rewritten([frame('"1"'), odd], true, () => 99)).toThrow(/not JSON/)
  })
})

describe("events out of bytes", () => {
  const payloads = (text: string, size: number): ReadonlyArray<string> => {
    const found: Array<string> = []
    const reader = new SseReader((payload) => {
      found.push(payload)
    })
    const bytes = Buffer.from(text)
    for (let at = 0; at < bytes.length; at += size) reader.push(bytes, at, Math.min(bytes.length, at + size))
    reader.end()
    return found
  }
  it("a byte order mark at the beginning is none of the first line", () => {
    for (const size of [1, 2, 3, 4, 99])
      expect(payloads("\ufeffdata: 1\n\ndata: 2\n\n", size)).toEqual(["1", "2"])
  })
  it("a large event in small pieces costs its length, not its square", () => {
    const began = performance.now()
    expect(
      payloads(`data: ${"x".repeat(12_000_000)}\n\ndata: 2\n\n`, 1_024).map(({ length }) => length)
    ).toEqual([12_000_000, 1])
    expect(performance.now() - began).toBeLessThan(3_000)
    expect(() => payloads(`data: ${"x".repeat(17_000_000)}`, 4_096)).toThrow(/too large/)
  })
  it("whatever stands between and before events, learned frames tell what parsing tells, in pieces of every size", () => {
    const next = random(17)
    const one = <A>(all: ReadonlyArray<A>): A => all[Math.floor(next() * all.length)]!
    for (let i = 0; i < 150; i++) {
      const eol = one(["\n", "\r\n"])
      const space = one(["", " ", "  "])
      const created = i % 5 === 0
      const frame = (content: string, n: number): string =>
        JSON.stringify({
          id: "c",
          created: created ? n : 1,
          choices: [{ index: i % 3 === 0 ? (n % 4) >> 1 : 0, delta: { content }, finish_reason: null }],
          ...(n % 9 === 8 ? { usage: { prompt_tokens: n, completion_tokens: n } } : {})
        })
      const stream = Array.from(
        { length: 25 },
        (_, n) =>
          `${one(["", "", `: note${eol}`, `event: message${eol}`, `id: ${n}${eol}`, `retry: 5${eol}`, eol, `data:${eol}`])}data:${space}${n % 11 === 10 ? frame("a", n).replace(',"choices"', `,${eol}data:"choices"`) : frame(one(["a", "ü", "🎻\n", '"', "x\\"]), n)}${one(["", "", `${eol}id: 3`, `${eol}: after`])}${eol}${one(["", "", eol])}${eol}`
      ).join("")
      const told = (learns: boolean, size: number): string => {
        const events: Array<unknown> = []
        const sink: ModelSink = {
          onFirstEvent: () => {},
          flush: () => {},
          event: (event) => {
            events.push(event)
          },
          rawTextDelta: (text) => {
            events.push({ _tag: "text", choice: 0, text: JSON.parse(`"${text}"`) })
          }
        }
        const reader = new ChunkReader(sink, learns)
        const sse = new SseReader((payload) => reader.payload(payload), reader.skipLearnedFrames)
        const bytes = Buffer.from(stream)
        for (let at = 0; at < bytes.length; at += size) sse.push(bytes, at, Math.min(bytes.length, at + size))
        sse.end()
        return JSON.stringify(events)
      }
      const slow = told(false, 1e9)
      for (const size of [1, 2, 7, 64, 1_000, 1e9]) expect(told(true, size), stream).toBe(slow)
    }
  })
})

it("an answer that outgrows its limit ends at the same word, learned or parsed", () => {
  const piece = "x".repeat(1_048_576)
  const told = (as: "literal" | "event"): number => {
    let bytes = 0
    const output = {
      firstEventSent: true,
      reset: () => {},
      onFirstEvent: () => {},
      flush: () => {},
      event: (event: ModelEvent) => {
        if (event._tag === "text") bytes += event.text.length
      },
      rawTextDelta: (text: string) => {
        bytes += text.length
      }
    }
    const filter = new ChunkRewriter(output, {
      names: new ToolNames([], [], true),
      external: new Set(),
      builtins: new Set(),
      dropCalls: false,
      oneCall: false,
      bridge: undefined,
      keepsText: false,
      onOutputTooLong: () => {}
    })
    for (let i = 0; i < 20; i++)
      if (as === "literal") filter.rawTextDelta!(piece, piece.length)
      else filter.event({ _tag: "text", choice: 0, text: piece })
    expect(filter.finishes()).toEqual([{ _tag: "finish", choice: 0, reason: "length" }])
    return bytes
  }
  expect(told("literal")).toBe(told("event"))
})

it("an answer's bytes are counted alike, learned or parsed: in UTF-8, without escapes", () => {
  const words = ["plain", "Grüße\n", "漢字", '🎻"', "\\", "\u2028", "\u0001"]
  const counted = (learns: boolean): number => {
    const output = {
      firstEventSent: true,
      reset: () => {},
      onFirstEvent: () => {},
      flush: () => {},
      event: () => {},
      rawTextDelta: () => {}
    }
    const filter = new ChunkRewriter(output, {
      names: new ToolNames([], [], true),
      external: new Set(),
      builtins: new Set(),
      dropCalls: false,
      oneCall: false,
      bridge: undefined,
      keepsText: false,
      onOutputTooLong: () => {}
    })
    const reader = new ChunkReader(filter, learns)
    const sse = new SseReader((payload) => reader.payload(payload), reader.skipLearnedFrames)
    for (const content of words)
      sse.push(Buffer.from(`data: ${JSON.stringify({ choices: [{ delta: { content } }] })}\n\n`))
    return filter.outputBytes
  }
  expect([counted(true), counted(false)]).toEqual([
    Buffer.byteLength(words.join("")),
    Buffer.byteLength(words.join(""))
  ])
})

describe("the chunk reader", () => {
  const read = (...chunks: ReadonlyArray<unknown>): ReadonlyArray<ModelEvent> => {
    const events: Array<ModelEvent> = []
    const reader = new ChunkReader({
      onFirstEvent: () => {},
      flush: () => {},
      event: (event) => {
        events.push(event)
      }
    })
    for (const chunk of chunks) reader.payload(Buffer.from(JSON.stringify(chunk)).toString("latin1"))
    return events
  }
  const calls = (...toolCalls: ReadonlyArray<unknown>) => ({
    choices: [{ delta: { tool_calls: toolCalls } }]
  })
  it("calls without an index, by id or in order; whole calls; arguments as an object; all with index 0", () => {
    const joined = (events: ReadonlyArray<ModelEvent>): unknown =>
      events
        .filter(({ _tag }) => _tag === "call")
        .map((call: any) => [
          call.name,
          events
            .filter((event) => event._tag === "arguments" && event.index === call.index)
            .map((event: any) => event.text)
            .join("")
        ])
    expect(
      joined(
        read(
          calls({ id: "a", function: { name: "f", arguments: "{" } }),
          calls({ function: { arguments: "}" } }),
          calls({ id: "b", function: { name: "g", arguments: "{}" } })
        )
      )
    ).toEqual([
      ["f", "{}"],
      ["g", "{}"]
    ])
    expect(
      joined(
        read(
          calls(
            { index: 0, id: "a", function: { name: "f", arguments: { x: 1 } } },
            { index: 0, id: "b", function: { name: "g", arguments: "{}" } }
          )
        )
      )
    ).toEqual([
      ["f", '{"x":1}'],
      ["g", "{}"]
    ])
    expect(
      joined(
        read(
          calls(
            { index: 0, id: "a", function: { name: "f", arguments: '{"a"' } },
            { index: 1, id: "b", function: { name: "g", arguments: "" } }
          ),
          calls({ index: 1, function: { arguments: "{}" } }),
          calls({ index: 0, function: { arguments: ":1}" } })
        )
      )
    ).toEqual([
      ["f", '{"a":1}'],
      ["g", "{}"]
    ])
  })
  it("any bytes: an answer or a fault, never another throw", () => {
    const next = random(5)
    const seeds = [
      JSON.stringify(calls({ index: 0, id: "a", function: { name: "f", arguments: "{}" } })),
      JSON.stringify({ choices: [{ delta: { content: "x" }, finish_reason: "stop" }], usage: {} }),
      "[DONE]",
      "null",
      "[]",
      '{"choices":[null]}',
      '{"choices":[{"delta":{"tool_calls":[5]}}]}'
    ]
    for (let i = 0; i < 3_000; i++) {
      const seed = seeds[i % seeds.length]!
      const at = Math.floor(next() * seed.length)
      const mutated =
        next() < 0.3
          ? seed
          : `${seed.slice(0, at)}${String.fromCharCode(Math.floor(next() * 127))}${seed.slice(at + Math.floor(next() * 3))}`
      try {
        read0(mutated)
      } catch (cause) {
        expect((cause as { _tag?: string })._tag, mutated).toBe("UpstreamFault")
      }
    }
  })
  const read0 = (payload: string): void => {
    new ChunkReader({ onFirstEvent: () => {}, flush: () => {}, event: () => {} }).payload(payload)
  }
})

describe("the prompt bridge", () => {
  const through = (
    text: string,
    cut: () => number
  ): { readonly text: string; readonly calls: number; readonly early: string } => {
    const reader = new PromptBridgeReader([{ name: "f", parameters: {} }])
    let out = ""
    for (let at = 0; at < text.length;) {
      const next = at + 1 + Math.floor(cut() * 6)
      out += reader.push(text.slice(at, next))
      at = next
    }
    const end = reader.end()
    return { text: out + end.text, calls: end.calls.length, early: out }
  }
  it.each([
    ["a block", '```json\n{"tool_calls":[{"name":"f","arguments":{}}]}\n```', "", 1],
    ["bare", ' {"tool_calls" : [{"name":"f","arguments":{"a":"`"}}]}', "", 1],
    ["after words", 'Sure.\n```\n{"tool_calls":[{"name":"f"}]}\n```', "Sure.\n", 1],
    ["code", "Use ```js\nlet a\n``` and `b`.", "Use ```js\nlet a\n``` and `b`.", 0],
    ["an unknown name", '{"tool_calls":[{"name":"g"}]}', '{"tool_calls":[{"name":"g"}]}', 0],
    ["other JSON", '{"a":1}', '{"a":1}', 0],
    ["only blanks", "  ", "  ", 0]
  ])("%s, cut anywhere", (_, output, text, calls) => {
    for (let seed = 1; seed < 40; seed++) expect(through(output, random(seed))).toMatchObject({ text, calls })
  })
  it("ordinary text does not wait", () => {
    expect(through("no block here", () => 0).early).toBe("no block here")
  })
})

it("an internal name is never seen, wherever the stream is cut", () => {
  const names = new ToolNames(
    [
      { name: "look", parameters: {} },
      { name: "look_up", parameters: {} }
    ],
    [],
    false
  )
  const text = "external__look external__look_up external__lo external__other external__look"
  for (let seed = 1; seed < 60; seed++) {
    const next = random(seed)
    const unmasking = new ToolNameRestorer(names)
    let out = ""
    for (let at = 0; at < text.length;) {
      const to = at + 1 + Math.floor(next() * 9)
      out += unmasking.push(text.slice(at, to))
      at = to
    }
    expect(out + unmasking.end()).toBe("look look_up external__lo external__other look")
  }
})

describe("web_fetch", () => {
  it.each([
    "127.0.0.1",
    "10.1.2.3",
    "169.254.169.254",
    "192.168.0.1",
    "100.64.0.1",
    "0.0.0.0",
    "::1",
    "::ffff:127.0.0.1",
    "fd00::1",
    "fe80::1",
    "224.0.0.1",
    "nonsense"
  ])("%s is not public", (address) => expect(isPublicAddress(address)).toBe(false))
  it("8.8.8.8 and 2606:4700::1 are", () =>
    expect([isPublicAddress("8.8.8.8"), isPublicAddress("2606:4700::1")]).toEqual([true, true]))
  it("a name that leads inside, credentials and other schemes are refused before any connection", async () => {
    const { signal } = new AbortController()
    const resolve = () => Promise.resolve([{ address: "10.0.0.1", family: 4 }])
    await expect(webFetch("http://inside.example/", signal, { resolve })).rejects.toThrow(
      "not a public address"
    )
    await expect(webFetch("http://127.0.0.1:1/", signal)).rejects.toThrow("not a public address")
    await expect(webFetch("file:///etc/passwd", signal)).rejects.toThrow("only http and https")
    await expect(webFetch("http://a:b@example.com/", signal)).rejects.toThrow("no credentials")
  })
})

describe("aborting", () => {
  it("tells each hearer once, in order, but not who was removed meanwhile or came later", () => {
    const aborter = new Aborter()
    const heard: Array<string> = []
    const third = (): void => {
      heard.push("third")
    }
    const twice = (): void => {
      heard.push("twice")
    }
    aborter.addEventListener("abort", () => {
      heard.push("first")
      aborter.removeEventListener("abort", third)
    })
    aborter.addEventListener("abort", twice)
    aborter.addEventListener("abort", third)
    expect(aborter.aborted).toBe(false)
    aborter.abort()
    aborter.abort()
    aborter.addEventListener("abort", twice)
    expect([aborter.aborted, heard]).toEqual([true, ["first", "twice"]])
  })
  it("as a true signal: aborted with it, before or after; a true signal is itself", () => {
    const early = new Aborter()
    const late = new Aborter()
    const { signal } = new AbortController()
    const signalOfEarly = signalOf(early)
    late.abort()
    expect([signalOfEarly.aborted, signalOf(late).aborted, signalOf(signal) === signal]).toEqual([
      false,
      true,
      true
    ])
    early.abort()
    expect(signalOfEarly.aborted).toBe(true)
  })
})

it("a body of 64 levels is read, one of 65 is not; brackets side by side or in a text are no levels", () => {
  const nested = (levels: number) => Buffer.from(`{"a":${"[".repeat(levels - 1)}${"]".repeat(levels - 1)}}`)
  expect(readBody(nested(64)).object).toHaveProperty("a")
  expect(() => readBody(nested(65))).toThrow("nested deeper than 64 levels")
  expect(() => readBody(Buffer.from('{"a":'.repeat(65) + "1" + "}".repeat(65)))).toThrow(
    "nested deeper than 64 levels"
  )
  expect(
    readBody(Buffer.from(JSON.stringify({ a: Array.from({ length: 100 }, () => ({ b: [] })) }))).object["a"]
  ).toHaveLength(100)
  expect(
    readBody(Buffer.from(JSON.stringify({ a: "[".repeat(100), b: '\\"{{' + "{".repeat(100) }))).object["a"]
  ).toHaveLength(100)
})

it("a member's own text is what JSON.parse reads of it, however it is written", () => {
  const next = random(9)
  const one = <A>(all: ReadonlyArray<A>): A => all[Math.floor(next() * all.length)]!
  const value = (depth: number): unknown => {
    if (depth > 3) return one([1, -2.5e3, true, null, "", "\\", 'a"b', '},{["messages":', '\\"', "ü漢🎻\n"])
    const items = <A>(make: () => A): Array<A> => Array.from({ length: Math.floor(next() * 4) }, make)
    if (next() < 0.3) return items(() => value(depth + 1))
    if (next() >= 0.5) return value(9)
    return Object.fromEntries(items(() => [one(["messages", "m", "\\", '"', ""]), value(depth + 1)]))
  }
  for (let i = 0; i < 2_000; i++) {
    const members = Array.from(
      { length: Math.floor(next() * 5) },
      () => [one(["messages", "model", "x", "", '"messages']), value(0)] as const
    )
    const space = (): string => one(["", " ", "\n\t"])
    const text = `${space()}{${members.map(([name, of]) => `${space()}${JSON.stringify(name)}${space()}:${space()}${JSON.stringify(of, null, one([0, 1]))}${space()}`).join(",") || space()}}${space()}`
    const { messages } = JSON.parse(text)
    const found = memberText(text, "messages")
    if (members.some(([name]) => name.includes('"')))
      expect(
        found === undefined || JSON.stringify(JSON.parse(found)) === JSON.stringify(messages),
        text
      ).toBe(true)
    else
      expect(found === undefined ? undefined : JSON.stringify(JSON.parse(found)), text).toBe(
        JSON.stringify(messages)
      )
  }
  expect(memberText('{"messages":1,"mess\\u0061ges":2}', "messages")).toBeUndefined()
  expect(memberText('{"mess\\u0061ges":2,"messages":1}', "messages")).toBeUndefined()
})

it("records: what is wrong is named", () => {
  const of = (...records: ReadonlyArray<unknown>) => readRecords(records)
  expect(of({ kind: "ollama", base_url: "http://x" })).toMatch(/^chat\.upstreams\[0\]\.id: /)
  expect(of({ id: "a", kind: "ollama", base_url: "http://x" }, { id: "a", kind: "embedded" })).toMatch(
    /^chat\.upstreams\[1\]\.id: two/
  )
  expect(of({ id: "a", kind: "ollama" })).toMatch(/^chat\.upstreams\[0\]\.base_url: /)
  expect(of({ id: "a", kind: "embedded", retries: "2" })).toMatch(/^chat\.upstreams\[0\]\.retries: /)
  expect(of({ id: "a", kind: "embedded", nonsense: 1 })).toMatch(/^chat\.upstreams\[0\]\.nonsense: /)
  expect(of({ id: "A b", kind: "embedded" })).toMatch(/^chat\.upstreams\[0\]\.id: /)
  // What would not reach the server is refused rather than left out.
  for (const base_url of [
    "http://x/v1?api-version=1",
    "http://a:b@x/v1",
    "http://x/v1#a",
    "http://x:99999",
    "ftp://x",
    "http://"
  ])
    expect(of({ id: "a", kind: "ollama", base_url }), base_url).toMatch(/^chat\.upstreams\[0\]\.base_url: /)
  for (const base_url of ["http://x", "https://x:8/@a/v1/", "http://[::1]:8/v1"])
    expect(of({ id: "a", kind: "ollama", base_url }), base_url).toMatchObject([{ base_url }])
  expect(readRecords({})).toMatch(/array/)
  expect(of({ id: "a", kind: "embedded" })).toMatchObject([{ max_concurrency: 64, queue: 256, retries: 2 }])
})

const ask = (more: Partial<ModelRequest>): ModelRequest => ({
  model: "echo",
  stream: false,
  messages: [{ role: "user", content: "one two three" }],
  ...more
})

describe("local/echo", () => {
  const steps = async (more: Partial<ModelRequest>) => {
    const all: Array<unknown> = []
    for await (const step of echo.generate(ask(more), new AbortController().signal)) all.push(step)
    return all
  }
  it("words, limits, tools, results", async () => {
    expect(await steps({})).toEqual([
      { text: "one " },
      { text: "two " },
      { text: "three" },
      { finish: "stop", usage: { input: 3, output: 3, cached: 0, reasoning: 0 } }
    ])
    expect(await steps({ maxTokens: 2 })).toEqual([
      { text: "one " },
      { text: "two" },
      { finish: "length", usage: { input: 3, output: 2, cached: 0, reasoning: 0 } }
    ])
    expect(await steps({ stop: ["two"] })).toMatchObject([{ text: "one " }, { finish: "stop" }])
    const tools = [
      {
        name: "f",
        parameters: {
          type: "object",
          properties: {
            s: { type: "string" },
            n: { type: "integer" },
            b: { type: "boolean" },
            a: { type: "array" },
            o: { type: "object" },
            e: { enum: ["x", "y"] }
          }
        }
      }
    ]
    expect(await steps({ tools, toolChoice: "required" })).toMatchObject([
      { toolCall: { name: "f", arguments: JSON.stringify({ s: "", n: 0, b: false, a: [], o: {}, e: "x" }) } },
      { finish: "tool_calls" }
    ])
    expect(await steps({ tools })).toMatchObject([{}, {}, { text: "three" }, {}])
    expect(
      await steps({
        tools,
        toolChoice: "required",
        messages: [
          { role: "user", content: "q" },
          { role: "tool", callId: "c", content: "r" }
        ]
      })
    ).toMatchObject([{ text: "tool: " }, { text: "r" }, { finish: "stop" }])
    // The gateway's own second request for a call comes after the result: the result is still answered, else
    // a client that keeps `required` never ends.
    expect(
      await steps({
        tools,
        toolChoice: "required",
        messages: [
          { role: "user", content: "q" },
          { role: "tool", callId: "c", content: "r" },
          { role: "system", content: "Call one of the tools." }
        ]
      })
    ).toMatchObject([{ text: "tool: " }, { text: "r" }, { finish: "stop" }])
    expect(sample({ anyOf: [{ type: "string" }] })).toBe("")
    expect(
      [{ minimum: -9007199254740991, maximum: 9007199254740991 }, { minimum: 3 }, { maximum: -2 }, {}].map(
        (bounds) => sample({ type: "integer", ...bounds })
      )
    ).toEqual([0, 3, -2, 0])
  })
})

describe("local/translate", () => {
  const targets = ["de", "fr", "es"]
  it.each([
    ["Translate to French", "fr"],
    ["Translate the following into German.", "de"],
    ["You are a translator. target: es", "es"],
    ["Translate from English to Spanish: hi", "es"],
    ["Translate to Klingon", undefined],
    ["hello", undefined]
  ])("%s → %s", (text, target) => expect(targetOf(text, targets)).toBe(target))
  it("sentence by sentence, the order in a system or the user message; no target is said clearly", async () => {
    const { engines } = scripted({ change: (text) => text.toUpperCase() })
    const model = translatorModel(engines)
    const run = async (...messages: ModelRequest["messages"]) => {
      const events: Array<ModelEvent> = []
      await model.generate(
        ask({ messages }),
        {
          onFirstEvent: () => {},
          flush: () => {},
          event: (event) => {
            events.push(event)
          }
        },
        new AbortController().signal
      )
      return events
    }
    const texts = (events: ReadonlyArray<ModelEvent>) =>
      events.flatMap((event) => (event._tag === "text" ? [event.text] : []))
    expect(
      texts(
        await run(
          { role: "system", content: "Translate to German" },
          { role: "user", content: "Hi there. How are you?" }
        )
      )
    ).toEqual(["HI THERE. ", "HOW ARE YOU?"])
    expect(texts(await run({ role: "user", content: "Translate to French: good day" }))).toEqual(["GOOD DAY"])
    await expect(run({ role: "user", content: "good day" })).rejects.toThrow(/name a target language/)
    expect(await Effect.runPromise(Effect.succeed(1))).toBe(1)
  })
})
