/** The translator engine as a chat model: a system or user message names the target language, the answer is
 *  the user's text in it. It is guaranteed that sentences leave one by one as they are translated.
 *  Source: docs/spec/chat.md, section 13.5. */
import { Effect } from "effect"
import type { EngineFault, Engines, Language } from "../ports.ts"
import { signalOf, type Abort } from "./abort.ts"
import { UpstreamFault, textOf, type ChatModel, type ModelRequest } from "./model.ts"

const languageNames = new Intl.DisplayNames(["en"], { type: "language" })
const countWords = (text: string): number => text.match(/\S+/g)?.length ?? 0

/** Recognises "Translate to French", "into es", "target: de"; "en français" is not read. */
const targetWording =
  /\b(?:translate|translation|translated)?\b[^.\n]{0,80}?\b(?:in)?to\s+(?:the\s+)?([\p{L}-]{2,24})|\btarget(?:[ _-]?lang(?:uage)?)?\s*[:=]\s*([\p{L}-]{2,24})/iu

export const targetOf = (text: string, targets: ReadonlyArray<Language>): Language | undefined => {
  const match = targetWording.exec(text)
  const word = (match?.[1] ?? match?.[2])?.toLowerCase()
  return word === undefined
    ? undefined
    : targets.find((code) => code === word || (languageNames.of(code) ?? "").toLowerCase() === word)
}

interface Instruction {
  readonly target: Language
  /** The text that follows it. */
  readonly text: string
}

/** Reads an instruction in front of the text: up to the first colon or line end, if that part names a
 *  language. */
const instructionOf = (text: string, targets: ReadonlyArray<Language>): Instruction | undefined => {
  const end = text.search(/[:\n]/)
  const instruction = end < 0 ? text : text.slice(0, end)
  const target = targetOf(instruction, targets)
  return target === undefined ? undefined : { target, text: end < 0 ? "" : text.slice(end + 1).trim() }
}

const sentences = (text: string): ReadonlyArray<string> =>
  text.match(/[^.!?\n]+(?:[.!?]+|\n|$)\s*/g) ?? [text]

const unsupported = (detail: string): UpstreamFault =>
  new UpstreamFault({ reason: "unsupported", detail, param: "messages" })

const nameOf = (code: Language): string => languageNames.of(code) ?? code

interface Job {
  readonly source: Language
  readonly target: Language
  readonly text: string
  /** False where the text is in the target language already. */
  readonly translates: boolean
}

/** Reads out of the messages what is to be translated into which language. */
const jobOf = ({ translator, detector }: Engines, { messages }: ModelRequest): Job => {
  const readiness = translator.readiness()
  if (!readiness.ready)
    throw new UpstreamFault({
      reason: "unsupported",
      detail: `no translation engine is ready: ${readiness.reason}`
    })
  const targets = [...new Set(translator.pairs().map(([, target]) => target))]
  const user = textOf(messages.findLast(({ role }) => role === "user")?.content ?? "")
  const instruction = instructionOf(user, targets)
  const target =
    instruction?.target ??
    messages
      .filter(({ role }) => role !== "assistant" && role !== "tool")
      .map(({ content }) => targetOf(textOf(content), targets))
      .findLast((language) => language !== undefined)
  if (target === undefined)
    throw unsupported(
      `name a target language in the system or user message, as "Translate to ${languageNames.of(targets[0] ?? "es") ?? "Spanish"}"; there are ${targets.map(nameOf).join(", ") || "none"}`
    )
  const text = instruction === undefined || instruction.text === "" ? user : instruction.text
  const source = detector.detect(text).language ?? "en"
  const translates = source !== target
  if (translates && translator.supports(source, target) === false)
    throw unsupported(`there is no engine from ${nameOf(source)} to ${nameOf(target)}`)
  return { source, target, text, translates }
}

const faultOf = ({ reason, detail }: EngineFault): UpstreamFault =>
  new UpstreamFault({ reason: reason === "timeout" || reason === "overloaded" ? reason : "error", detail })

const translated = async (
  { translator }: Engines,
  { source, target, text }: Job,
  signal: Abort
): Promise<string> => {
  const request = { source, target, segments: [{ units: [{ _tag: "text" as const, text }] }] }
  const result = await Effect.runPromise(Effect.result(translator.translate(request)), {
    signal: signalOf(signal)
  }).catch(() => {
    throw new UpstreamFault({ reason: "aborted", detail: "the caller went" })
  })
  if (result._tag === "Failure") throw faultOf(result.failure)
  return result.success.segments[0]!.units.map((unit) => (unit._tag === "text" ? unit.text : "")).join("")
}

export const translatorModel = (engines: Engines): ChatModel => ({
  supports: {
    tools: false,
    images: false,
    audio: false,
    files: false,
    logprobs: false,
    n: false,
    json_schema: false,
    hints: false,
    tool_choice_none: false
  },
  list: async () => [{ id: "translate" }],
  close: () => {},
  async generate(request, sink, signal) {
    const job = jobOf(engines, request)
    sink.onFirstEvent()
    let answer = ""
    let wordsLeft = request.maxTokens ?? Infinity
    let cut = false
    for (const sentence of sentences(job.text)) {
      const blank = /\s*$/.exec(sentence)![0]
      const body = sentence.slice(0, sentence.length - blank.length)
      let text =
        job.translates && body !== "" ? await translated(engines, { ...job, text: body }, signal) : body
      const words = text.match(/\S+\s*/g) ?? []
      if (words.length > wordsLeft) {
        text = words.slice(0, wordsLeft).join("").trimEnd()
        cut = true
      }
      wordsLeft -= words.length
      answer += text
      if (text + blank !== "") sink.event({ _tag: "text", choice: 0, text: cut ? text : text + blank })
      sink.flush()
      if (cut) break
    }
    sink.event({ _tag: "finish", choice: 0, reason: cut ? "length" : "stop" })
    sink.event({
      _tag: "usage",
      usage: {
        input: request.messages.reduce((sum, { content }) => sum + countWords(textOf(content)), 0),
        output: countWords(answer),
        cached: 0,
        reasoning: 0
      }
    })
  }
})
