/** A GGUF file as a chat model, through node-llama-cpp where the user has installed it (`npm i --no-save node-llama-cpp`). Runs in the worker chat-model.
 *  Tools come and go through the prompt bridge. Source: chat section 13.5. */
import { createRequire } from "node:module"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import type { ChatModule, Step } from "./embedded.ts"
import { textOf, type ModelRequest } from "./model.ts"

const packageName = "node-llama-cpp"
/** Beside the program, or in the folder where it was started. */
const load = async (): Promise<any> => {
  try { return await import(packageName) } catch { /* look where the user is */ }
  try { return await import(pathToFileURL(createRequire(join(process.cwd(), "package.json")).resolve(packageName)).href) } catch { throw new Error(`unsupported: a GGUF model needs ${packageName}: npm i --no-save ${packageName}`) }
}
const contextTokensMax = 8_192

export const gguf = async (file: string): Promise<ChatModule> => {
  const { getLlama, LlamaChatSession } = await load()
  const llama = await getLlama()
  const model = await llama.loadModel({ modelPath: file })
  const contextTokens = Math.min(model.trainContextSize, contextTokensMax)
  /** One generation at a time: one context, one queue. */
  let turn: Promise<unknown> = Promise.resolve()
  const context = await model.createContext({ contextSize: contextTokens })
  const prompt = async (request: ModelRequest, signal: AbortSignal, word: (text: string) => void): Promise<{ readonly input: number; readonly output: number; readonly cut: boolean }> => {
    const sequence = context.getSequence()
    try {
      const session = new LlamaChatSession({ contextSequence: sequence })
      const last = request.messages.at(-1)
      session.setChatHistory(request.messages.slice(0, -1).map(({ role, content }) =>
        role === "system" || role === "developer" ? { type: "system", text: textOf(content) } : role === "assistant" ? { type: "model", response: [textOf(content)] } : { type: "user", text: textOf(content) }))
      const grammar = request.format === undefined ? undefined : await (request.format.type === "json_schema" ? llama.createGrammarForJsonSchema(request.format.schema) : llama.getGrammarFor("json"))
      const asked = textOf(last?.content ?? "")
      const { responseText, stopReason } = await session.promptWithMeta(asked, {
        signal, stopOnAbortSignal: true, onTextChunk: word, temperature: request.temperature, topP: request.topP, maxTokens: request.maxTokens, seed: request.seed,
        customStopTriggers: request.stop, ...(grammar === undefined ? {} : { grammar })
      })
      return { input: request.messages.reduce((sum, { content }) => sum + model.tokenize(textOf(content)).length, 0), output: model.tokenize(responseText).length, cut: stopReason === "maxTokens" }
    } finally { sequence.dispose() }
  }
  return {
    id: file, contextTokens,
    async *generate(request, signal): AsyncIterable<Step> {
      const words: Array<string> = []
      let wake: (() => void) | undefined, over = false
      const work = turn.then(() => signal.aborted ? undefined : prompt(request, signal, (text) => { words.push(text); wake?.() })).finally(() => { over = true; wake?.() })
      turn = work.catch(() => {})
      while (!over || words.length > 0) {
        const word = words.shift()
        if (word !== undefined) yield { text: word }
        else if (!over) await new Promise<void>((resolve) => { wake = resolve })
      }
      const told = await work
      if (told !== undefined) yield { finish: told.cut ? "length" : "stop", usage: { input: told.input, output: told.output, cached: 0, reasoning: 0 } }
    }
  }
}
