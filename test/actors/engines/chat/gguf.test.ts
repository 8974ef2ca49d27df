/** What gguf.ts does itself, against a scripted stand-in for node-llama-cpp found by its own loading. The
 *  package itself runs in test/oracles/gguf.oracle.ts. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeEach, describe, expect, it, vi } from "vitest"
import { embedded, type Step } from "../../../../actors/engines/chat/embedded-model.ts"
import { grammarSchema } from "../../../../actors/engines/chat/grammar-schema.ts"
import type { ModelRequest } from "../../../../actors/engines/chat/model.ts"

const folder = mkdtempSync(join(tmpdir(), "troupe-gguf-"))
const started = process.cwd()
const file = join(folder, "model.gguf")

const install = (place: string, code: string): string => {
  const home = join(folder, place, "node_modules/node-llama-cpp")
  mkdirSync(home, { recursive: true })
  writeFileSync(
    join(home, "package.json"),
    JSON.stringify({ name: "node-llama-cpp", type: "module", exports: { ".": "./index.js" } })
  )
  writeFileSync(join(home, "index.js"), code)
  return join(folder, place, "package.json")
}

install(
  ".",
  "export const getLlama = (options) => globalThis.standIn.getLlama(options)\nexport class LlamaChat { constructor() { return globalThis.standIn.chat } }\n"
)

writeFileSync(file, "")
process.chdir(folder)

afterAll(() => {
  process.chdir(started)
  rmSync(folder, { recursive: true, force: true })
})

/** A token is a letter of `type:text|…`; it says its script, a chunk at a time. */
class StandIn {
  held: ReadonlyArray<string> = []
  output = 0
  readonly asked: Array<{ history: ReadonlyArray<any>; options: any }> = []
  readonly read: Array<number> = []
  options: any
  cleared = 0
  disposed = 0
  script: (options: any) => Promise<string> | string = () => "eogToken"
  load: () => unknown = () => this.model
  contextSize = 400

  readonly llama = {
    maxThreads: 4,
    cpuMathCores: 2,
    loadModel: async () => this.load(),
    createGrammarForJsonSchema: async (schema: unknown) => ({ schema }),
    getGrammarFor: async () => ({ schema: "json" })
  }

  readonly sequence: any = {
    adaptStateToTokens: async (tokens: ReadonlyArray<string>) => {
      let same = 0
      while (same < this.held.length && this.held[same] === tokens[same]) same++
      this.held = this.held.slice(0, same)
    },
    evaluateWithoutGeneratingNewTokens: async (tokens: ReadonlyArray<string>) => {
      this.read.push(tokens.length)
      this.held = [...this.held, ...tokens]
    },
    clearHistory: async () => {
      this.cleared++
      this.held = []
    }
  }

  readonly model: any = {
    tokenizer: {},
    dispose: async () => {
      this.disposed++
    },
    createContext: async () => ({ contextSize: this.contextSize, getSequence: () => this.sequence })
  }

  readonly chat = {
    chatWrapper: {
      generateContextState: ({ chatHistory }: any) => ({
        contextText: {
          tokenize: () => [
            ...chatHistory
              .map(({ type, text, response }: any) => `${type}:${text ?? response.join("")}`)
              .join("|")
          ]
        }
      })
    },
    generateResponse: async (history: ReadonlyArray<any>, options: any) => {
      this.asked.push({ history, options })
      return { metadata: { stopReason: await this.script(options) } }
    }
  }

  constructor() {
    Object.defineProperty(this.sequence, "nextTokenIndex", { get: () => this.held.length })
    Object.defineProperty(this.sequence, "tokenMeter", { get: () => ({ usedOutputTokens: this.output }) })
  }

  async getLlama(options: unknown): Promise<unknown> {
    this.options = options
    return this.llama
  }
}

let standIn: StandIn

beforeEach(() => {
  vi.resetModules()
  standIn = (globalThis as any).standIn = new StandIn()
})

const opened = async () => (await import("../../../../actors/engines/chat/gguf.ts")).gguf(file)

const asking = (more: Partial<ModelRequest> = {}): ModelRequest => ({
  model: "m",
  stream: true,
  messages: [{ role: "user", content: "hi" }],
  ...more
})

const steps = async (of: AsyncIterable<Step>): Promise<ReadonlyArray<Step>> => {
  const all: Array<Step> = []
  for await (const step of of) all.push(step)
  return all
}

const alive = new AbortController().signal

const speaks =
  (...texts: ReadonlyArray<string>) =>
  async ({ onResponseChunk }: any) => {
    for (const text of texts) {
      await Promise.resolve()
      standIn.output++
      onResponseChunk({ text, tokens: [1] })
    }
    return "eogToken"
  }

describe("the package", () => {
  it("is found where the program was started; where it is not, the fault says what to do; one that is broken says so itself", async () => {
    const { load } = await import("../../../../actors/engines/chat/gguf.ts")
    expect(await load()).toHaveProperty("LlamaChat")
    await expect(load(["/nowhere/package.json"])).rejects.toMatchObject({
      reason: "unsupported",
      detail: "a GGUF model needs node-llama-cpp: npm i --no-save node-llama-cpp"
    })
    await expect(
      load(["/nowhere/package.json", install("broken", 'throw new Error("half installed")')])
    ).rejects.toThrow("half installed")
  })
  it("is never built or downloaded; it gets one core less than there are", async () => {
    await opened()
    expect(standIn.options).toMatchObject({
      build: "never",
      skipDownload: true,
      progressLogs: false,
      logLevel: "error"
    })
    expect(standIn.llama.maxThreads).toBe(1)
  })
  it("a machine it has no binary for is told, and asked again next time", async () => {
    const { gguf } = await import("../../../../actors/engines/chat/gguf.ts")
    const fine = standIn.getLlama
    standIn.getLlama = async () => {
      throw new Error("NoBinaryFoundError")
    }
    await expect(gguf(file)).rejects.toMatchObject({
      reason: "unsupported",
      detail: "node-llama-cpp does not run on this machine: NoBinaryFoundError"
    })
    standIn.getLlama = fine
    expect((await gguf(file)).contextTokens).toBe(400)
  })
})

describe("a file", () => {
  it("that cannot be loaded: what the log said, else what was thrown, without the path; what was half open is closed", async () => {
    const { gguf } = await import("../../../../actors/engines/chat/gguf.ts")
    const { model } = standIn
    standIn.load = () => {
      standIn.options.logger("error", "llama_model_load: error loading model: missing tensor 'x'")
      standIn.options.logger("error", "failed")
      throw new Error("Failed to load model")
    }
    await expect(gguf(file)).rejects.toMatchObject({
      reason: "unsupported",
      detail: "the model file model.gguf cannot be loaded: missing tensor 'x'"
    })
    standIn.load = () => {
      throw new Error(`no magic in ${file}`)
    }
    await expect(gguf(file)).rejects.toMatchObject({
      detail: "the model file model.gguf cannot be loaded: no magic in model.gguf"
    })
    standIn.load = () => ({
      ...model,
      createContext: async () => {
        throw new Error("not enough memory")
      }
    })
    await expect(gguf(file)).rejects.toMatchObject({
      detail: "the model file model.gguf cannot be loaded: not enough memory"
    })
    expect(standIn.disposed).toBe(1)
    standIn.load = () => model
    await gguf(file)
  })
  it("that is not there is told by the worker, each time", async () => {
    const model = embedded([{ id: "a" }], { _tag: "gguf", files: { a: join(folder, "absent.gguf") } })
    for (let i = 0; i < 2; i++)
      await expect(
        model.generate(
          asking({ model: "a" }),
          { onFirstEvent: () => {}, event: () => {}, flush: () => {} },
          alive
        )
      ).rejects.toMatchObject({ reason: "unsupported", detail: "the model file absent.gguf is not there" })
    model.close()
  })
})

describe("an answer", () => {
  it("words as they come, then why it ended and what it cost; thoughts are reasoning, comments are nobody's business", async () => {
    standIn.script = async ({ onResponseChunk }) => {
      for (const chunk of [
        { type: "segment", segmentType: "thought", text: "hm", tokens: [1, 2] },
        { type: "segment", segmentType: "comment", text: "(", tokens: [3] },
        { text: "", tokens: [] },
        { text: "yes", tokens: [4] }
      ])
        onResponseChunk(chunk)
      standIn.output += 4
      return "maxTokens"
    }
    const messages: ModelRequest["messages"] = [
      { role: "developer", content: "d" },
      { role: "user", content: [{ type: "text", text: "u" }] },
      { role: "assistant", content: "a" },
      { role: "user", content: "v" }
    ]
    expect(await steps((await opened()).generate(asking({ messages }), alive))).toEqual([
      { reasoning: "hm" },
      { text: "yes" },
      {
        finish: "length",
        usage: { input: "system:d|user:u|model:a|user:v|model:".length, output: 4, cached: 0, reasoning: 2 }
      }
    ])
    expect(standIn.asked[0]!.history).toEqual([
      { type: "system", text: "d" },
      { type: "user", text: "u" },
      { type: "model", response: ["a"] },
      { type: "user", text: "v" },
      { type: "model", response: [] }
    ])
  })
  it("an answer begun by the client is gone on with", async () => {
    await steps(
      (await opened()).generate(
        asking({
          messages: [
            { role: "user", content: "u" },
            { role: "assistant", content: "We" }
          ]
        }),
        alive
      )
    )
    expect(standIn.asked[0]!.history.at(-1)).toEqual({ type: "model", response: ["We"] })
  })
  it("the prompt is read in slices, and what is known of it not again", async () => {
    const model = await opened()
    const text = "x".repeat(300)
    const input = `user:${text}|model:`.length
    await steps(model.generate(asking({ messages: [{ role: "user", content: text }] }), alive))
    expect(standIn.read).toEqual([128, 128, input - 1 - 256])
    const [end] = await steps(model.generate(asking({ messages: [{ role: "user", content: text }] }), alive))
    expect(end).toMatchObject({ usage: { input, cached: input - 1 } })
    expect(standIn.read).toHaveLength(3)
  })
  it("what it is asked with, and what stands for nothing asked", async () => {
    const model = await opened()
    const last = async (more: Partial<ModelRequest>) => {
      await steps(model.generate(asking(more), alive))
      return standIn.asked.at(-1)!.options
    }
    const plain = await last({})
    expect(plain).toMatchObject({
      temperature: 0.8,
      topP: 0.95,
      topK: 40,
      minP: 0.05,
      repeatPenalty: false,
      maxTokens: 400 - "user:hi|model:".length - 2,
      stopOnAbortSignal: true
    })
    expect([plain.customStopTriggers, "grammar" in plain]).toEqual([undefined, false])
    expect((await last({})).seed).not.toBe(plain.seed)
    expect(
      await last({ temperature: 0, topP: 0.5, seed: -1, stop: ["."], maxTokens: 9, frequencyPenalty: 1 })
    ).toMatchObject({
      temperature: 0,
      topP: 0.5,
      seed: 0xffff_ffff,
      customStopTriggers: ["."],
      maxTokens: 9,
      repeatPenalty: { penalty: 1, frequencyPenalty: 1 }
    })
    expect((await last({ maxTokens: 1_000_000 })).maxTokens).toBeLessThan(400)
    expect((await last({ format: { type: "json_object" } })).grammar).toEqual({ schema: "json" })
    expect(
      (await last({ format: { type: "json_schema", name: "n", schema: { anyOf: [{ type: "null" }] } } }))
        .grammar
    ).toEqual({ schema: { oneOf: [{ type: "null" }] } })
  })
  it("a conversation longer than the window is refused, not cut", async () => {
    const model = await opened()
    await expect(
      steps(model.generate(asking({ messages: [{ role: "user", content: "x".repeat(400) }] }), alive))
    ).rejects.toMatchObject({
      reason: "context",
      detail: "The conversation has 412 tokens; this model reads 400."
    })
    expect(standIn.asked).toEqual([])
  })
  it("one at a time; who goes while waiting is never asked, who goes while the prompt is read is not answered", async () => {
    const model = await opened()
    const waiting = new AbortController()
    const reading = new AbortController()
    let end!: () => void
    standIn.script = () =>
      new Promise((resolve) => {
        end = () => resolve("eogToken")
      })
    const first = steps(model.generate(asking(), alive))
    await vi.waitFor(() => expect(standIn.asked).toHaveLength(1))
    standIn.script = speaks("b")
    const second = steps(model.generate(asking(), waiting.signal))
    const third = steps(
      model.generate(asking({ messages: [{ role: "user", content: "x".repeat(300) }] }), reading.signal)
    )
    const fourth = steps(model.generate(asking(), alive))
    waiting.abort()
    await new Promise((resolve) => {
      setImmediate(resolve)
    })
    expect(standIn.asked).toHaveLength(1)
    const { evaluateWithoutGeneratingNewTokens: reads } = standIn.sequence
    standIn.sequence.evaluateWithoutGeneratingNewTokens = async (tokens: ReadonlyArray<string>) => {
      await reads(tokens)
      if (tokens.length === 128) reading.abort()
    }
    end()
    expect([await first, await second, await third].map((all) => all.length)).toEqual([1, 0, 0])
    expect(await fourth).toMatchObject([{ text: "b" }, { finish: "stop" }])
    expect(standIn.asked).toHaveLength(2)
  })
  it("a failure is told, and the next answer begins with nothing", async () => {
    const model = await opened()
    standIn.script = async () => {
      throw new Error("the context broke")
    }
    await expect(steps(model.generate(asking(), alive))).rejects.toThrow("the context broke")
    standIn.script = speaks("fine")
    expect(await steps(model.generate(asking(), alive))).toMatchObject([
      { text: "fine" },
      { usage: { cached: 0 } }
    ])
    expect(standIn.cleared).toBe(1)
  })
})

describe("a schema as a grammar", () => {
  const anything = grammarSchema({})
  it.each<readonly [string, unknown, unknown]>([
    [
      "the plain ones",
      {
        type: "object",
        properties: { a: { type: "integer", minimum: 3 }, b: { type: "string", maxLength: 5, pattern: "x" } },
        required: ["a"]
      },
      {
        type: "object",
        properties: { a: { type: "integer" }, b: { type: "string", maxLength: 5 } },
        additionalProperties: false
      }
    ],
    ["any object", { type: "object" }, { type: "object", additionalProperties: true }],
    ["choices", { anyOf: [{ type: "null" }, { const: 1 }] }, { oneOf: [{ type: "null" }, { const: 1 }] }],
    [
      "several types",
      { type: ["object", "null"], properties: { a: { type: "boolean" } } },
      {
        oneOf: [
          { type: "object", properties: { a: { type: "boolean" } }, additionalProperties: false },
          { type: "null" }
        ]
      }
    ],
    [
      "no type",
      { properties: { a: true } },
      { type: "object", properties: { a: anything }, additionalProperties: false }
    ],
    [
      "references, old and new",
      { $ref: "#/definitions/n", definitions: { n: { type: "array", items: { $ref: "#/$defs/n" } } } },
      { $ref: "#/$defs/n", $defs: { n: { type: "array", items: { $ref: "#/$defs/n" } } } }
    ],
    ["a reference to elsewhere", { $ref: "https://example.com/s" }, anything],
    ["one of all", { allOf: [{ type: "number" }] }, { type: "number" }],
    ["all of several", { allOf: [{ type: "number" }, {}] }, anything],
    ["dates", { type: "string", format: "date" }, { type: "string", format: "date" }],
    ["other formats", { type: "string", format: "uri" }, { type: "string" }],
    ["a list of lists", { enum: [["a"]] }, anything],
    ["words", { enum: ["a", null, 2] }, { enum: ["a", null, 2] }],
    ["long repetitions", { type: "array", minItems: 2, maxItems: 1_000_000 }, { type: "array", minItems: 2 }],
    ["no schema at all", { type: "banana", properties: null }, anything],
    ["a NUL", { type: "object", properties: { "\u0000": {} } }, anything]
  ])("%s", (_, schema, grammar) => expect(grammarSchema(schema)).toEqual(grammar))
})
