/** One turn: what the model is offered, the rounds it takes (built-in tools, one more try where the answer
 *  cannot stand), and the answer's end.
 *  Source: chat sections 7.4 to 7.6, 11, 13.6, 14. */
import { createRequire } from "node:module"
import type { Ajv } from "ajv"
import { signalOf, type Abort } from "../../../actors/engines/chat/abort.ts"
import { attempt, type AttemptOptions, type Caller } from "../../../actors/engines/chat/attempts.ts"
import {
  badResponse,
  estimated,
  type Hint,
  type Message,
  type ModelRequest,
  type Part,
  type Tool,
  type Usage
} from "../../../actors/engines/chat/model.ts"
import { supportsOf, type Target } from "../../../actors/engines/chat/upstreams.ts"
import type { BuiltinTools } from "./builtin-tools.ts"
import type { TurnSpec } from "../request/completions-request.ts"
import { ChunkRewriter, renumbered, type Output, type RewriteRules } from "./chunk-rewriter.ts"
import { unsupportedParameter, unsupportedValue } from "../problems.ts"
import { bridgeMessages } from "./prompt-bridge.ts"
import { ToolNames } from "../request/tools.ts"

export interface TurnRunDeps extends AttemptOptions {
  readonly builtins: BuiltinTools
  readonly unsupported: "drop" | "error"
}

export interface TurnResult {
  readonly usage: Usage
  readonly estimated: boolean
}

const holds = (messages: ReadonlyArray<Message>, type: Part["type"]): boolean =>
  messages.some(
    ({ content }) => typeof content === "object" && content?.some((part) => part.type === type) === true
  )

const hintsOf = {
  seed: "seed",
  frequencyPenalty: "frequency_penalty",
  presencePenalty: "presence_penalty",
  logitBias: "logit_bias",
  hints: "hints"
} as const satisfies Record<Hint, string>

const everyHint = Object.keys(hintsOf) as ReadonlyArray<Hint>

/** What the model lacks: hints go silently (or are refused, if so configured), what would change the answer's
 *  shape is refused. */
export const fitToUpstream = (
  request: ModelRequest,
  target: Target,
  unsupported: "drop" | "error"
): ModelRequest => {
  const may = supportsOf(target)
  if (request.logprobs === true && may.logprobs === false)
    throw unsupportedParameter("logprobs", "This model gives no 'logprobs'.")
  if (request.audio !== undefined && may.audio !== true)
    throw unsupportedValue("modalities", "This model makes no audio.")
  if (may.images === false && holds(request.messages, "image"))
    throw unsupportedValue("messages", "This model takes no images.")
  if (may.audio === false && holds(request.messages, "audio"))
    throw unsupportedValue("messages", "This model takes no audio.")
  if (may.files === false && holds(request.messages, "file"))
    throw unsupportedValue("messages", "This model takes no files.")
  if (request.format?.type === "json_schema" && may.json_schema === false)
    throw unsupportedParameter("response_format", "This model cannot follow a JSON schema.")
  if (request.stop !== undefined && may.stop === false)
    throw unsupportedParameter("stop", "This model takes no 'stop'.")
  let fit = request
  const lacks = may.hints === false ? everyHint : may.lacks
  if (lacks !== undefined)
    for (const name of lacks)
      if (fit[name] !== undefined) {
        if (unsupported === "error")
          throw unsupportedParameter(name === "hints" ? Object.keys(fit.hints!)[0]! : hintsOf[name])
        fit = { ...fit, [name]: undefined }
      }
  return fit
}

export interface TurnCaller extends Caller {
  /** Ends the signal from inside: the answer outgrows its limit. */
  onOutputTooLong(): void
  /** The upstreams had it for so long; `usage` when they answered. */
  addUpstreamTime(ms: number, usage: Usage | undefined): void
}

/** Figures as upstreams give them: what is no count is none. */
const whole = (figure: number): number =>
  figure >= 0 && figure <= Number.MAX_SAFE_INTEGER ? Math.floor(figure) : 0

const noTools: ReadonlyArray<Tool> = []
const noNames: ReadonlySet<string> = new Set()

const namesOf = (tools: ReadonlyArray<Tool>): ReadonlySet<string> =>
  tools.length === 0 ? noNames : new Set(tools.map(({ name }) => name))

export class TurnRun {
  private readonly spec: TurnSpec
  private readonly output: Output
  private readonly deps: TurnRunDeps
  private readonly caller: TurnCaller
  private extra: Array<Message> = []
  private usage: Usage = { input: 0, output: 0, cached: 0, reasoning: 0 }
  private guessed = false
  private ran = false
  private begun = false
  private namespace: ToolNames | undefined
  private retried = { unknown: false, required: false, schema: false, repair: false }
  private readonly signal: Abort

  constructor(spec: TurnSpec, output: Output, deps: TurnRunDeps, caller: TurnCaller) {
    this.spec = spec
    this.output = output
    this.deps = deps
    this.caller = caller
    this.signal = caller.signal
  }

  /** Resolves when the whole answer, its finishes and usage included, is in the output. */
  async run(first: Target): Promise<TurnResult> {
    const { spec, output } = this
    const began = performance.now()
    let target = first
    let answered = false
    try {
      fitToUpstream(spec.request, first, this.deps.unsupported)
      for (let round = 0; ; round++) {
        const builtins = spec.external
          ? noTools
          : round < this.deps.builtins.roundsMax
            ? this.deps.builtins.allowed
            : noTools
        const filter = new ChunkRewriter(this.output, this.rulesFor(target, builtins), this.begun)
        try {
          target = await this.ask(target, filter, builtins)
        } catch (fault) {
          if (!filter.cut) throw fault
        } finally {
          this.begun ||= filter.begunOnce
        }
        filter.settle()
        this.count(filter, target)
        if (filter.builtinCalls.length > 0) {
          this.ran = true
          const calls = filter.asToolCalls()
          this.extra.push({ role: "assistant", content: filter.said === "" ? null : filter.said, calls })
          for (const call of calls)
            this.extra.push({
              role: "tool",
              callId: call.id,
              content: await this.deps.builtins.run(call, signalOf(this.signal))
            })
          if (round <= this.deps.builtins.roundsMax) continue
        }
        if (this.again(filter, target)) {
          output.reset()
          continue
        }
        for (const finish of filter.finishes()) output.event(finish)
        output.event({ _tag: "usage", usage: this.usage })
        output.flush()
        answered = true
        return { usage: this.usage, estimated: this.guessed }
      }
    } finally {
      this.caller.addUpstreamTime(performance.now() - began, answered ? this.usage : undefined)
    }
  }

  private tools(): ReadonlyArray<Tool> {
    const {
      request: { tools },
      choice
    } = this.spec
    return tools === undefined
      ? noTools
      : choice.allowed === undefined
        ? tools
        : tools.filter(({ name }) => choice.allowed!.has(name))
  }

  private plain(target: Target): boolean {
    const { record } = target.upstream
    return !(record.namespace ?? record.kind === "embedded")
  }

  private names(target: Target): ToolNames {
    const plain = this.plain(target)
    return this.namespace?.plain === plain
      ? this.namespace
      : (this.namespace = new ToolNames(this.tools(), this.spec.request.messages, plain))
  }

  private bridges(target: Target): boolean {
    return supportsOf(target).native_tools === false && target.upstream.record.kind !== "openai-responses"
  }

  private rulesFor(target: Target, builtins: ReadonlyArray<Tool>): RewriteRules {
    const { request } = this.spec
    const tools = this.tools()
    return {
      names: this.names(target),
      external: request.toolChoice === "none" ? noNames : namesOf(tools),
      builtins: namesOf(builtins),
      dropCalls: request.toolChoice === "none",
      oneCall: request.parallel === false,
      bridge:
        this.bridges(target) && (tools.length > 0 || builtins.length > 0)
          ? [
              ...tools.map((tool) =>
                this.plain(target) ? tool : new ToolNames(tools, [], false).tool(tool)
              ),
              ...builtins
            ]
          : undefined,
      keepsText:
        builtins.length > 0 ||
        (request.format?.type === "json_schema" && target.upstream.record.kind === "embedded"),
      onOutputTooLong: () => this.caller.onOutputTooLong()
    }
  }

  /** The request in the target's terms. */
  private requestFor(target: Target, builtins: ReadonlyArray<Tool>): ModelRequest {
    const { request: spec } = this.spec
    const request = fitToUpstream(spec, target, this.deps.unsupported)
    const tools = this.tools()
    const names = this.names(target)
    let messages = this.extra.length === 0 ? request.messages : [...request.messages, ...this.extra]
    if (!names.plain) messages = messages.map((message) => names.message(message))
    const may = supportsOf(target)
    const unoffered = may.tools === false || (spec.toolChoice === "none" && may.tool_choice_none === false)
    let offered =
      unoffered || tools.length + builtins.length === 0
        ? noTools
        : [...tools.map((tool) => names.tool(tool)), ...builtins]
    const toolChoice =
      typeof spec.toolChoice === "object" ? { name: names.inward(spec.toolChoice.name) } : spec.toolChoice
    if (this.bridges(target)) {
      messages = bridgeMessages(messages, offered, toolChoice, spec.parallel)
      offered = noTools
    }
    const none = offered.length === 0
    return {
      ...request,
      model: target.model,
      messages,
      verbatim: messages === spec.messages ? spec.verbatim : undefined,
      stream: spec.stream && may.stream !== false,
      tools: none ? undefined : offered,
      toolChoice: none ? undefined : toolChoice
    }
  }

  /** One round over retries and fallbacks; `n` answers by as many calls where the upstream cannot. */
  private ask(target: Target, filter: ChunkRewriter, builtins: ReadonlyArray<Tool>): Promise<Target> {
    const n = this.spec.request.n ?? 1
    return n === 1 || supportsOf(target).n !== false
      ? attempt(
          target,
          (to) => {
            if (to !== target) filter.retarget(this.rulesFor(to, builtins))
            return this.requestFor(to, builtins)
          },
          filter,
          this.caller,
          !this.ran,
          this.deps
        )
      : this.askOften(n, target, filter, builtins)
  }

  private async askOften(
    n: number,
    target: Target,
    filter: ChunkRewriter,
    builtins: ReadonlyArray<Tool>
  ): Promise<Target> {
    const many = new AbortController()
    const all = AbortSignal.any([signalOf(this.signal), many.signal])
    const caller: Caller = { signal: all, attempted: (to, retryOf) => this.caller.attempted(to, retryOf) }
    let input = 0
    let output = 0
    await Promise.all(
      Array.from({ length: n }, (_, choice) =>
        attempt(
          target,
          (to) => ({ ...this.requestFor(to, builtins), n: undefined }),
          Object.defineProperty(
            {
              ...renumbered(filter, choice, (usage) => {
                input = usage.input
                output += usage.output
              }),
              firstEventSent: false,
              reset: () => {}
            },
            "firstEventSent",
            { get: () => filter.firstEventSent }
          ),
          caller,
          false,
          this.deps
        ).catch((fault: unknown) => {
          many.abort()
          throw fault
        })
      )
    )
    if (input + output > 0) filter.event({ _tag: "usage", usage: { input, output, cached: 0, reasoning: 0 } })
    return target
  }

  private count(filter: ChunkRewriter, target: Target): void {
    let { usage } = filter
    if (usage === undefined) {
      this.guessed = true
      usage = {
        input: estimated(JSON.stringify(this.requestFor(target, []).messages)),
        output: Math.ceil(filter.outputBytes / 4),
        cached: 0,
        reasoning: 0
      }
    }
    const { input, output, cached, reasoning } = this.usage
    this.usage = {
      input: input + whole(usage.input),
      output: output + whole(usage.output),
      cached: cached + whole(usage.cached),
      reasoning: reasoning + whole(usage.reasoning)
    }
  }

  /** Whether the answer cannot stand and may be asked for once more; throws when it cannot stand at all. */
  private again(filter: ChunkRewriter, target: Target): boolean {
    const { request } = this.spec
    const { output, retried } = this
    if (filter.unknownCalls > 0 && filter.calls === 0 && !filter.content) {
      if (output.firstEventSent || retried.unknown) throw badResponse("it calls a tool that does not exist")
      retried.unknown = true
      this.extra.push({
        role: "system",
        content: `Only these tools exist: ${
          this.tools()
            .map(({ name }) => name)
            .join(", ") || "none"
        }.`
      })
      return true
    }
    const forced = request.toolChoice === "required" || typeof request.toolChoice === "object"
    if (forced && filter.calls === 0 && !output.firstEventSent && !retried.required) {
      retried.required = true
      this.extra.push({
        role: "system",
        content:
          typeof request.toolChoice === "object"
            ? `Call the tool ${request.toolChoice.name}.`
            : "Call one of the tools."
      })
      return true
    }
    if (
      !output.firstEventSent &&
      !retried.repair &&
      filter.bridged.some(({ name, arguments: text }) => {
        const tool = this.tools().find((known) => known.name === name)
        return tool !== undefined && !matchesSchema(tool.parameters, text)
      })
    ) {
      retried.repair = true
      this.extra.push({
        role: "system",
        content:
          "The arguments of your tool call did not follow the tool's schema. Make the call again with arguments that do."
      })
      return true
    }
    return this.schemaFails(filter, target)
  }

  private schemaFails(filter: ChunkRewriter, { upstream }: Target): boolean {
    const { format } = this.spec.request
    if (
      format?.type !== "json_schema" ||
      upstream.record.kind !== "embedded" ||
      filter.calls > 0 ||
      matchesSchema(format.schema, filter.said)
    )
      return false
    if (!this.output.firstEventSent && !this.retried.schema) {
      this.retried.schema = true
      this.extra.push({
        role: "system",
        content: `Answer with JSON of this schema and nothing else: ${JSON.stringify(format.schema)}`
      })
      return true
    }
    if (format.strict === true) throw badResponse("it does not follow the schema")
    return false
  }
}

/** Loaded when a schema is first looked at. */
let validator: Ajv | undefined

const ajv = (): Ajv =>
  (validator ??= new (createRequire(import.meta.url)("ajv") as { Ajv: typeof Ajv }).Ajv({
    strict: false,
    logger: false,
    validateSchema: false
  }))

const schemasMax = 256
const compiled = new Map<string, (value: unknown) => boolean>()

/** A schema that is none holds for everything. */
export const matchesSchema = (schema: object, text: string): boolean => {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return false
  }
  const key = JSON.stringify(schema)
  let check = compiled.get(key)
  if (check === undefined) {
    try {
      check = ajv().compile(schema) as (value: unknown) => boolean
    } catch {
      check = () => true
    }
    if (compiled.size >= schemasMax) {
      compiled.clear()
      ajv().removeSchema()
    }
    compiled.set(key, check)
  }
  return check(value)
}
