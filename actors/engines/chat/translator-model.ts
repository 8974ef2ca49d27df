/** The translator engine as a chat model: a system or user message names the target language, the answer is
 *  the user's text in it, sentence by sentence as they are done. Source: chat section 13.5, design section 7.
 *  */
import { Effect } from "effect"
import type { Engines, Language } from "../ports.ts"
import { signalOf } from "./abort.ts"
import { UpstreamFault, textOf, type ChatModel, type ModelRequest } from "./model.ts"

const named = new Intl.DisplayNames(["en"], { type: "language" })
const words = (text: string): number => text.match(/\S+/g)?.length ?? 0

/** "Translate to French", "en français" is not read; "into es", "target: de". */
const asks =
  /\b(?:translate|translation|translated)?\b[^.\n]{0,80}?\b(?:in)?to\s+(?:the\s+)?([\p{L}-]{2,24})|\btarget(?:[ _-]?lang(?:uage)?)?\s*[:=]\s*([\p{L}-]{2,24})/iu

export const targetOf = (text: string, targets: ReadonlyArray<Language>): Language | undefined => {
  const match = asks.exec(text)
  const word = (match?.[1] ?? match?.[2])?.toLowerCase()
  return word === undefined
    ? undefined
    : targets.find((code) => code === word || (named.of(code) ?? "").toLowerCase() === word)
}

/** An order in front of the text: up to the first colon or line end, when that part names a language. */
const split = (
  text: string,
  targets: ReadonlyArray<Language>
): { readonly target: Language; readonly rest: string } | undefined => {
  const end = text.search(/[:\n]/)
  const order = end < 0 ? text : text.slice(0, end)
  const target = targetOf(order, targets)
  return target === undefined ? undefined : { target, rest: end < 0 ? "" : text.slice(end + 1).trim() }
}

const sentences = (text: string): ReadonlyArray<string> =>
  text.match(/[^.!?\n]+(?:[.!?]+|\n|$)\s*/g) ?? [text]

export const translating = (engines: Engines): ChatModel => ({
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
  async generate(request: ModelRequest, sink, signal) {
    const { translator, detector } = engines
    const ready = translator.readiness()
    if (!ready.ready)
      throw new UpstreamFault({
        reason: "unsupported",
        detail: `no translation engine is ready: ${ready.reason}`
      })
    const targets = [...new Set(translator.pairs().map(([, target]) => target))]
    const user = textOf(request.messages.findLast(({ role }) => role === "user")?.content ?? "")
    const own = split(user, targets)
    const ordered =
      own?.target ??
      request.messages
        .filter(({ role }) => role !== "assistant" && role !== "tool")
        .map(({ content }) => targetOf(textOf(content), targets))
        .findLast((target) => target !== undefined)
    if (ordered === undefined)
      throw new UpstreamFault({
        reason: "unsupported",
        detail: `name a target language in the system or user message, as "Translate to ${named.of(targets[0] ?? "es") ?? "Spanish"}"; there are ${targets.map((code) => named.of(code) ?? code).join(", ") || "none"}`,
        param: "messages"
      })
    const text = own !== undefined && own.rest !== "" ? own.rest : user
    const source = detector.detect(text).language ?? "en"
    const pair = source === ordered ? undefined : translator.supports(source, ordered)
    if (pair === false)
      throw new UpstreamFault({
        reason: "unsupported",
        detail: `there is no engine from ${named.of(source) ?? source} to ${named.of(ordered) ?? ordered}`,
        param: "messages"
      })
    sink.onFirstEvent()
    let made = ""
    let left = request.maxTokens ?? Infinity
    let cut = false
    for (const sentence of sentences(text)) {
      const tail = /\s*$/.exec(sentence)![0]
      const body = sentence.slice(0, sentence.length - tail.length)
      let out = body
      if (pair !== undefined && body !== "") {
        const result = await Effect.runPromise(
          Effect.result(
            translator.translate({
              source,
              target: ordered,
              segments: [{ units: [{ _tag: "text", text: body }] }]
            })
          ),
          { signal: signalOf(signal) }
        ).catch(() => {
          throw new UpstreamFault({ reason: "aborted", detail: "the caller went" })
        })
        if (result._tag === "Failure")
          throw new UpstreamFault({
            reason:
              result.failure.reason === "timeout"
                ? "timeout"
                : result.failure.reason === "overloaded"
                  ? "overloaded"
                  : "error",
            detail: result.failure.detail
          })
        out = result.success.segments[0]!.units.map((unit) => (unit._tag === "text" ? unit.text : "")).join(
          ""
        )
      }
      const said = out.match(/\S+\s*/g) ?? []
      if (said.length > left) {
        out = said.slice(0, left).join("").trimEnd()
        cut = true
      }
      left -= said.length
      made += out
      if (out + tail !== "") sink.event({ _tag: "text", choice: 0, text: cut ? out : out + tail })
      sink.flush()
      if (cut) break
    }
    sink.event({ _tag: "finish", choice: 0, reason: cut ? "length" : "stop" })
    sink.event({
      _tag: "usage",
      usage: {
        input: request.messages.reduce((sum, { content }) => sum + words(textOf(content)), 0),
        output: words(made),
        cached: 0,
        reasoning: 0
      }
    })
  }
})
