/** Runs one turn: the tools offered to the model, its rounds (built-in tools, one more try after an invalid
 *  answer), and the end of the answer.
 *
 *    run ─► round ─► ask (retries, fallbacks) ─► settle ─► built-in calls?  ─► next round
 *                                                       └► must be retried? ─► reset, next round
 *                                                       └► finishes and usage into the output
 *
 *  Source: docs/spec/chat.md, sections 7.4 to 7.6, 11, 13.6 and 14. */
import { signalOf, type Abort } from "../../../actors/engines/chat/abort.ts"
import { attempt, type AttemptOptions, type Caller } from "../../../actors/engines/chat/attempts.ts"
import {
  badResponse,
  estimated,
  type Message,
  type ModelRequest,
  type Tool,
  type Usage
} from "../../../actors/engines/chat/model.ts"
import { supportsOf, type Target } from "../../../actors/engines/chat/upstreams.ts"
import type { TurnSpec } from "../request/turn-spec.ts"
import type { BuiltinTools } from "./builtin-tools.ts"
import { fitToUpstream } from "./capabilities.ts"
import { ChunkRewriter, sinkForChoice, type Output, type RewriteRules } from "./chunk-rewriter.ts"
import { matchesSchema } from "./json-schema.ts"
import { bridgeMessages } from "./prompt-bridge.ts"
import { ToolNames } from "./tool-names.ts"

export interface TurnRunDeps extends AttemptOptions {
  readonly builtins: BuiltinTools
  /** Treatment of hints that a model lacks. */
  readonly unsupported: "drop" | "error"
}

export interface TurnResult {
  readonly usage: Usage
  /** The upstream did not count: the usage is a guess. */
  readonly estimated: boolean
}

export interface TurnCaller extends Caller {
  /** Ends the signal from inside: the answer outgrows its limit. */
  onOutputTooLong(): void
  /** Adds the time that the upstreams took; `usage` when they answered. */
  addUpstreamTime(ms: number, usage: Usage | undefined): void
}

/** A figure as an upstream counts it: what is no count is 0. */
const countOf = (figure: number): number =>
  figure >= 0 && figure <= Number.MAX_SAFE_INTEGER ? Math.floor(figure) : 0

const noTools: ReadonlyArray<Tool> = []
const noNames: ReadonlySet<string> = new Set()

const namesOf = (tools: ReadonlyArray<Tool>): ReadonlySet<string> =>
  tools.length === 0 ? noNames : new Set(tools.map(({ name }) => name))

/** False where an upstream has or may have tools of its own, as embedded models do: there the client's names
 *  get a prefix. */
const hasPlainNames = ({ upstream: { record } }: Target): boolean =>
  !(record.namespace ?? record.kind === "embedded")

/** True when the tools go through the prompt. */
const usesBridge = (target: Target): boolean =>
  supportsOf(target).native_tools === false && target.upstream.record.kind !== "openai-responses"

export class TurnRun {
  private readonly spec: TurnSpec
  private readonly output: Output
  private readonly deps: TurnRunDeps
  private readonly caller: TurnCaller
  private readonly signal: Abort

  /** Messages that this turn adds to the request's: built-in calls with their results, and corrections. */
  private readonly added: Array<Message> = []

  private usage: Usage = { input: 0, output: 0, cached: 0, reasoning: 0 }
  private usageEstimated = false

  /** A built-in tool has run: its side effects forbid retries. */
  private builtinRan = false

  private cachedNames: ToolNames | undefined

  /** Corrections that were tried; each is tried once. */
  private readonly retried = { unknownTool: false, requiredCall: false, schema: false, arguments: false }

  /** Positional, because there is one for every turn. */
  constructor(spec: TurnSpec, output: Output, deps: TurnRunDeps, caller: TurnCaller) {
    this.spec = spec
    this.output = output
    this.deps = deps
    this.caller = caller
    this.signal = caller.signal
  }

  /** Resolves when the whole answer, its finishes and usage included, is in the output. */
  async run(first: Target): Promise<TurnResult> {
    const startedMs = performance.now()
    let answered = false
    try {
      fitToUpstream(this.spec.request, first, this.deps.unsupported)
      let target = first
      for (let round = 0; ; round++) {
        const builtins = this.builtinsOf(round)
        const rewriter = new ChunkRewriter(this.output, this.rulesFor(target, builtins))
        try {
          target = await this.ask(target, rewriter, builtins)
        } catch (fault) {
          if (!rewriter.truncated) throw fault
        }
        rewriter.settle()
        this.addUsage(rewriter, target)
        if (rewriter.builtinCalls.length > 0) {
          await this.runBuiltins(rewriter)
          if (round <= this.deps.builtins.roundsMax) continue
        }
        if (this.mustRetry(rewriter, target)) {
          this.output.reset()
          continue
        }
        this.finish(rewriter)
        answered = true
        return { usage: this.usage, estimated: this.usageEstimated }
      }
    } finally {
      this.caller.addUpstreamTime(performance.now() - startedMs, answered ? this.usage : undefined)
    }
  }

  private finish(rewriter: ChunkRewriter): void {
    for (const finish of rewriter.finishes()) this.output.event(finish)
    this.output.event({ _tag: "usage", usage: this.usage })
    this.output.flush()
  }

  /** The built-in tools that a round offers: none where the request has tools, or after the last round. */
  private builtinsOf(round: number): ReadonlyArray<Tool> {
    const { allowed, roundsMax } = this.deps.builtins
    return this.spec.external || round >= roundsMax ? noTools : allowed
  }

  private async runBuiltins({ builtinCalls, text }: ChunkRewriter): Promise<void> {
    this.builtinRan = true
    const calls = builtinCalls.map(({ id, name, arguments: args }) => ({ id, name, arguments: args }))
    this.added.push({ role: "assistant", content: text === "" ? null : text, calls })
    for (const call of calls) {
      const content = await this.deps.builtins.run(call, signalOf(this.signal))
      this.added.push({ role: "tool", callId: call.id, content })
    }
  }

  /** The request's tools, without those that its tool choice leaves out. */
  private tools(): ReadonlyArray<Tool> {
    const { tools } = this.spec.request
    const { allowed } = this.spec.choice
    if (tools === undefined) return noTools
    return allowed === undefined ? tools : tools.filter(({ name }) => allowed.has(name))
  }

  private names(target: Target): ToolNames {
    const plain = hasPlainNames(target)
    if (this.cachedNames?.plain !== plain)
      this.cachedNames = new ToolNames(this.tools(), this.spec.request.messages, plain)
    return this.cachedNames
  }

  private rulesFor(target: Target, builtins: ReadonlyArray<Tool>): RewriteRules {
    const { request } = this.spec
    const tools = this.tools()
    const dropCalls = request.toolChoice === "none"
    const checksSchema = request.format?.type === "json_schema" && target.upstream.record.kind === "embedded"
    return {
      names: this.names(target),
      external: dropCalls ? noNames : namesOf(tools),
      builtins: namesOf(builtins),
      dropCalls,
      oneCall: request.parallel === false,
      bridge: usesBridge(target) ? this.bridgedTools(target, builtins) : undefined,
      keepsText: builtins.length > 0 || checksSchema,
      onOutputTooLong: () => this.caller.onOutputTooLong()
    }
  }

  private bridgedTools(target: Target, builtins: ReadonlyArray<Tool>): ReadonlyArray<Tool> | undefined {
    const tools = this.tools()
    if (tools.length + builtins.length === 0) return undefined
    if (hasPlainNames(target)) return [...tools, ...builtins]
    const names = new ToolNames(tools, [], false)
    return [...tools.map((tool) => names.tool(tool)), ...builtins]
  }

  /** The request in the target's terms. */
  private requestFor(target: Target, builtins: ReadonlyArray<Tool>): ModelRequest {
    const { request: original } = this.spec
    const fitted = fitToUpstream(original, target, this.deps.unsupported)
    const supports = supportsOf(target)
    const names = this.names(target)
    let messages = this.added.length === 0 ? fitted.messages : [...fitted.messages, ...this.added]
    if (!names.plain) messages = messages.map((message) => names.message(message))
    let offered = this.offeredTools(target, builtins)
    const toolChoice =
      typeof original.toolChoice === "object"
        ? { name: names.toInternal(original.toolChoice.name) }
        : original.toolChoice
    if (usesBridge(target)) {
      messages = bridgeMessages(messages, { tools: offered, toolChoice, parallel: original.parallel })
      offered = noTools
    }
    const hasTools = offered.length > 0
    return {
      ...fitted,
      model: target.model,
      messages,
      verbatim: messages === original.messages ? original.verbatim : undefined,
      stream: original.stream && supports.stream !== false,
      tools: hasTools ? offered : undefined,
      toolChoice: hasTools ? toolChoice : undefined
    }
  }

  private offeredTools(target: Target, builtins: ReadonlyArray<Tool>): ReadonlyArray<Tool> {
    const supports = supportsOf(target)
    const tools = this.tools()
    if (tools.length + builtins.length === 0 || supports.tools === false) return noTools
    if (this.spec.request.toolChoice === "none" && supports.tool_choice_none === false) return noTools
    const names = this.names(target)
    return [...tools.map((tool) => names.tool(tool)), ...builtins]
  }

  /** One round over retries and fallbacks; `n` answers by as many calls where the upstream cannot. */
  private ask(target: Target, rewriter: ChunkRewriter, builtins: ReadonlyArray<Tool>): Promise<Target> {
    const needsCalls = (this.spec.request.n ?? 1) > 1 && supportsOf(target).n === false
    if (needsCalls) return this.askForEachChoice(target, rewriter, builtins)
    const requestFor = (to: Target): ModelRequest => {
      if (to !== target) rewriter.retarget(this.rulesFor(to, builtins))
      return this.requestFor(to, builtins)
    }
    return attempt(target, requestFor, rewriter, this.caller, !this.builtinRan, this.deps)
  }

  /** Asks once per choice; the first fault of one call ends all of them. */
  private async askForEachChoice(
    target: Target,
    rewriter: ChunkRewriter,
    builtins: ReadonlyArray<Tool>
  ): Promise<Target> {
    const others = new AbortController()
    const caller: Caller = {
      signal: AbortSignal.any([signalOf(this.signal), others.signal]),
      attempted: (to, retryOf) => this.caller.attempted(to, retryOf)
    }
    const requestFor = (to: Target): ModelRequest => ({ ...this.requestFor(to, builtins), n: undefined })
    let input = 0
    let output = 0
    const askOnce = async (choice: number): Promise<void> => {
      const sink = sinkForChoice(rewriter, choice, (usage) => {
        input = usage.input
        output += usage.output
      })
      const retrySink = {
        ...sink,
        get firstEventSent() {
          return rewriter.firstEventSent
        },
        reset: () => {}
      }
      try {
        await attempt(target, requestFor, retrySink, caller, false, this.deps)
      } catch (fault) {
        others.abort()
        throw fault
      }
    }
    await Promise.all(Array.from({ length: this.spec.request.n! }, (_, choice) => askOnce(choice)))
    if (input + output > 0)
      rewriter.event({ _tag: "usage", usage: { input, output, cached: 0, reasoning: 0 } })
    return target
  }

  /** Adds a round's usage to the turn's; where the upstream did not count, a guess. */
  private addUsage(rewriter: ChunkRewriter, target: Target): void {
    this.usageEstimated ||= rewriter.usage === undefined
    const usage = rewriter.usage ?? {
      input: estimated(JSON.stringify(this.requestFor(target, []).messages)),
      output: Math.ceil(rewriter.outputBytes / 4),
      cached: 0,
      reasoning: 0
    }
    const { input, output, cached, reasoning } = this.usage
    this.usage = {
      input: input + countOf(usage.input),
      output: output + countOf(usage.output),
      cached: cached + countOf(usage.cached),
      reasoning: reasoning + countOf(usage.reasoning)
    }
  }

  /** Returns true when the answer is invalid and is requested once more, with a correction; throws when it
   *  remains invalid. */
  private mustRetry(rewriter: ChunkRewriter, target: Target): boolean {
    return (
      this.retriesUnknownTool(rewriter) ||
      this.retriesRequiredCall(rewriter) ||
      this.retriesArguments(rewriter) ||
      this.retriesSchema(rewriter, target)
    )
  }

  private correct(content: string): true {
    this.added.push({ role: "system", content })
    return true
  }

  /** Returns true when the answer has only calls of tools that do not exist. */
  private retriesUnknownTool(rewriter: ChunkRewriter): boolean {
    if (rewriter.unknownCalls === 0 || rewriter.callCount > 0 || rewriter.hasContent) return false
    if (this.output.firstEventSent || this.retried.unknownTool)
      throw badResponse("it calls a tool that does not exist")
    this.retried.unknownTool = true
    const names = this.tools().map(({ name }) => name)
    return this.correct(`Only these tools exist: ${names.join(", ") || "none"}.`)
  }

  /** Returns true when the answer has no call although the request forces one. */
  private retriesRequiredCall(rewriter: ChunkRewriter): boolean {
    const { toolChoice } = this.spec.request
    const isForced = toolChoice === "required" || typeof toolChoice === "object"
    if (!isForced || rewriter.callCount > 0) return false
    if (this.output.firstEventSent || this.retried.requiredCall) return false
    this.retried.requiredCall = true
    return this.correct(
      typeof toolChoice === "object" ? `Call the tool ${toolChoice.name}.` : "Call one of the tools."
    )
  }

  /** Returns true when a call through the prompt has arguments that violate the tool's schema. */
  private retriesArguments({ bridgedCalls }: ChunkRewriter): boolean {
    if (this.output.firstEventSent || this.retried.arguments) return false
    const isBroken = bridgedCalls.some(({ name, arguments: text }) => {
      const tool = this.tools().find((candidate) => candidate.name === name)
      return tool !== undefined && !matchesSchema(tool.parameters, text)
    })
    if (!isBroken) return false
    this.retried.arguments = true
    return this.correct(
      "The arguments of your tool call did not follow the tool's schema. Make the call again with arguments that do."
    )
  }

  /** Returns true when the answer of a local model violates the requested schema. */
  private retriesSchema(rewriter: ChunkRewriter, { upstream }: Target): boolean {
    const { format } = this.spec.request
    if (format?.type !== "json_schema" || upstream.record.kind !== "embedded") return false
    if (rewriter.callCount > 0 || matchesSchema(format.schema, rewriter.text)) return false
    if (!this.output.firstEventSent && !this.retried.schema) {
      this.retried.schema = true
      return this.correct(
        `Answer with JSON of this schema and nothing else: ${JSON.stringify(format.schema)}`
      )
    }
    if (format.strict === true) throw badResponse("it does not follow the schema")
    return false
  }
}
