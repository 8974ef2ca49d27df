/** POST /v2/translate: parameters, quota, language detection, then memory, glossaries and the engine for
 *  each sentence, and billing. Guarantee: nothing is billed unless the answer is 200.
 *  Source: docs/spec/translation.md, section 3. */
import { Effect } from "effect"
import type {
  Engines,
  EngineSegment,
  TranslateRequest,
  TranslateResult
} from "../../../actors/engines/ports.ts"
import type { Answer, Request, Response } from "../../../runtime/http.ts"
import type { Store } from "../../../storage/store.ts"
import { readBody } from "../../shared/body.ts"
import type { Customization, Customizations } from "./customizations.ts"
import { TranslationCache } from "./cache.ts"
import { refusalOfEngineFault, callTranslator } from "./translator-call.ts"
import type { KeyInUse } from "../account/keys.ts"
import { answerBooked, answerReserved } from "../account/reserved-work.ts"
import type { MemorySearch } from "../memories/search.ts"
import { durable } from "../endpoint.ts"
import { piecesOfText, TranslationUnit } from "./translation-unit.ts"
import { languageOf, pairFor, type SupportedLanguage } from "../languages.ts"
import { splitMarkup, MarkupFault } from "./markup.ts"
import { isRefusal, problem, type Refusal } from "../problems.ts"
import { splitIntoSentences, Draft, type Rendering } from "./segments.ts"
import { readTextOptions, type TextOptions } from "./text-options.ts"
import type { Usage } from "../account/usage.ts"
import { translationsJson, type Translated } from "../wire.ts"
import { codePoints } from "../../shared/code-points.ts"
import { readReportingTag } from "../reporting-tag.ts"

export const translateBytesMax = 131_072

/** Language assumed when detection finds none. */
const fallback = languageOf("en")!

export interface TextDeps {
  readonly engines: Engines
  readonly usage: Usage
  readonly customizations: Customizations
  readonly memories: MemorySearch
  readonly store: Store
  readonly clock: () => number
  readonly cache?: TranslationCache
}

/** A text to translate: where its answer belongs, and its sentences. */
interface PendingText {
  readonly at: number
  readonly source: SupportedLanguage
  readonly pair: string
  readonly unit: TranslationUnit
  /** Cache key; absent when the answer must not be cached. */
  readonly key: string | undefined
}

/** State of one request in progress. */
interface TranslateRun {
  readonly accountId: string
  readonly options: TextOptions
  readonly customization: Customization
  /** Places of the memory's segments that were applied. */
  readonly applied: Array<number>
  readonly billed: ReadonlyArray<number>
  readonly answers: Array<Translated>
  readonly engineIds: Set<string>
  readonly cachePrefix: string
}

const refusedTags: Refusal = { _tag: "Refused", message: "Tag handling parsing failed, please check input." }

export class TextTranslation {
  private readonly engines: Engines
  private readonly usage: Usage
  private readonly cache: TranslationCache
  private readonly deps: TextDeps

  constructor(deps: TextDeps) {
    this.deps = deps
    this.engines = deps.engines
    this.usage = deps.usage
    this.cache = deps.cache ?? new TranslationCache()
  }

  handle(request: Request, using: KeyInUse): Answer {
    const tag = readReportingTag(request.headers.get("x-deepl-reporting-tag"))
    if (isRefusal(tag)) return problem(tag)
    const body = readBody(request.headers.get("content-type"), request.body)
    if (isRefusal(body)) return problem(body)
    const options = readTextOptions(body.bag, this.engines.translator)
    if (isRefusal(options)) return problem(options)
    const missing = this.unsupported(options)
    if (missing !== undefined) return problem(missing)
    const customization = this.deps.customizations.of(using.account.accountId, options)
    if (isRefusal(customization)) return problem(customization)

    const billed: Array<number> = []
    let characters = 0
    for (const text of options.texts) {
      const count = codePoints(text)
      billed.push(count)
      characters += count
    }
    const reservation = this.usage.reserve(using, "translate", characters)
    if (isRefusal(reservation)) return problem(reservation)

    const run: TranslateRun = {
      accountId: using.account.accountId,
      options,
      customization,
      applied: [],
      billed,
      answers: new Array(options.texts.length),
      engineIds: new Set(),
      cachePrefix: cachePrefix(using.account.accountId, options, customization)
    }
    const finish = (): Answer =>
      answerBooked(reservation.book(characters, tag), () => this.recordMemoryUse(run, () => answer(run)))
    let jobs: ReadonlyArray<PendingText> | Refusal
    try {
      jobs = this.plan(run)
    } catch (defect) {
      reservation.release()
      throw defect
    }
    if (isRefusal(jobs)) {
      reservation.release()
      return problem(jobs)
    }
    if (jobs.length === 0) return finish()
    return answerReserved({ reservation, work: this.work(run, jobs), finish })
  }

  /** Refuses a requested source language that cannot be translated to the target. */
  private unsupported({ source, target }: TextOptions): Refusal | undefined {
    const { translator } = this.engines
    if (
      source === undefined ||
      source.base === target.base ||
      pairFor(translator, source.base, target) !== undefined
    )
      return undefined
    const sourceSupported = translator.pairs().some(([from]) => from.split("-")[0] === source.base)
    return {
      _tag: "UnsupportedLanguage",
      name: sourceSupported ? "target_lang" : "source_lang",
      pair: sourceSupported
    }
  }

  /** Returns the language of a text: the detected one when reliable, with the help of neighbouring texts, or
   *  else the fallback. `alone` is true when detection needed no neighbour. */
  private sourceFor(
    text: string,
    texts: ReadonlyArray<string>
  ): { readonly source: SupportedLanguage; readonly alone: boolean } {
    const { detector } = this.engines
    const own = detector.detect(text)
    const found = own.reliable || texts.length === 1 ? own : detector.detect(text, texts)
    const supported = found.language === undefined ? undefined : languageOf(found.language.split("-")[0]!)
    return { source: supported?.source === true ? supported : fallback, alone: own.reliable }
  }

  /** Records the time of use in the applied segments of the memory, before the answer. */
  private recordMemoryUse(
    { customization: { memory }, applied }: TranslateRun,
    answered: () => Response
  ): Answer {
    const { memories, store, clock } = this.deps
    return memory === undefined || applied.length === 0
      ? answered()
      : durable(store, memories.applied(memory, applied, clock()), answered)
  }

  /** Answers the texts that need no engine and splits the others into sentences. */
  private plan({
    options,
    customization,
    billed,
    answers,
    engineIds,
    cachePrefix
  }: TranslateRun): ReadonlyArray<PendingText> | Refusal {
    const { texts, target, markup, split } = options
    const jobs: Array<PendingText> = []
    for (const [at, text] of texts.entries()) {
      const key = cachePrefix + text
      const cached = customization.memory === undefined ? this.cache.get(key) : undefined
      if (cached !== undefined) {
        answers[at] = { detected: cached.detected, text: cached.text, billed: billed[at]! }
        engineIds.add(cached.engine)
        continue
      }
      const { source, alone } =
        options.source !== undefined ? { source: options.source, alone: true } : this.sourceFor(text, texts)
      const draft = new Draft()
      if (markup === undefined)
        splitIntoSentences(piecesOfText(text, customization.terms), split, source.base, draft)
      else
        try {
          splitMarkup(text, markup, split, source.base, draft)
        } catch (fault) {
          if (fault instanceof MarkupFault) return refusedTags
          throw fault
        }
      const detected = source.base.toUpperCase()
      if (source.base === target.base) {
        answers[at] = { detected, text, billed: billed[at]! }
        continue
      }
      const unit = new TranslationUnit(text, draft, markup !== undefined)
      if (customization.memory === undefined && customization.terms !== undefined)
        unit.protect(customization.terms)
      if (customization.memory === undefined && unit.done) {
        answers[at] = { detected, text: unit.text(this.rendering(options)), billed: billed[at]! }
        continue
      }
      const pair = pairFor(this.engines.translator, source.base, target)
      if (pair === undefined) return { _tag: "UnsupportedLanguage", name: "target_lang", pair: true }
      jobs.push({
        at,
        source,
        pair,
        unit,
        key: alone && customization.memory === undefined ? key : undefined
      })
    }
    return jobs
  }

  /** Applies the memory, then the glossaries, then calls the engine once per source language. */
  private work(run: TranslateRun, jobs: ReadonlyArray<PendingText>): Effect.Effect<void, Refusal> {
    const { memory } = run.customization
    return memory === undefined
      ? this.translateGroups(run, jobs)
      : Effect.andThen(
          this.applyMemory(run, memory, jobs),
          Effect.suspend(() => this.translateGroups(run, jobs))
        )
  }

  private applyMemory(
    { applied, customization: { terms } }: TranslateRun,
    memory: NonNullable<Customization["memory"]>,
    jobs: ReadonlyArray<PendingText>
  ): Effect.Effect<void> {
    return Effect.forEach(
      jobs,
      ({ unit, source }) =>
        Effect.promise(async (signal) => {
          if (source.base === memory.memory.source)
            applied.push(...(await unit.applyMemory(memory, this.deps.memories, signal)))
          if (terms !== undefined) unit.protect(terms)
        }),
      { discard: true }
    )
  }

  private translateGroups(run: TranslateRun, jobs: ReadonlyArray<PendingText>): Effect.Effect<void, Refusal> {
    const groups = new Map<string, Array<PendingText>>()
    for (const job of jobs) {
      if (job.unit.done) {
        this.settle(run, [job], { segments: [], engine: "" })
        continue
      }
      const group = groups.get(job.source.base)
      if (group === undefined) groups.set(job.source.base, [job])
      else group.push(job)
    }
    const translated = (group: ReadonlyArray<PendingText>): Effect.Effect<void, Refusal> =>
      Effect.mapBoth(callTranslator(this.engines.translator, requestFor(group, run)), {
        onFailure: refusalOfEngineFault,
        onSuccess: (result) => this.settle(run, group, result)
      })
    return Effect.forEach(groups.values(), translated, { concurrency: "unbounded", discard: true })
  }

  private settle(
    { options, customization, billed, answers, engineIds }: TranslateRun,
    group: ReadonlyArray<PendingText>,
    { segments, engine }: TranslateResult
  ): void {
    const rendering = this.rendering(options)
    const keep = engine !== "" && this.isDeterministic(engine)
    if (engine !== "") engineIds.add(engine)
    let from = 0
    for (const { at, unit, source, key } of group) {
      from += unit.acceptAnswers(segments, from, customization.finish)
      const text = unit.text(rendering)
      const detected = source.base.toUpperCase()
      answers[at] = { detected, text, billed: billed[at]! }
      if (keep && key !== undefined) this.cache.set(key, { text, detected, engine })
    }
  }

  private rendering({ preserveFormatting, markup, target }: TextOptions): Rendering {
    return {
      repair: !preserveFormatting && this.engines.translator.verbatim !== true,
      escape: markup !== undefined,
      target: target.code.toLowerCase()
    }
  }

  /** Returns whether an engine always gives the same answer to the same text, which only local engines do. */
  private isDeterministic(engine: string): boolean {
    return this.engines
      .all()
      .some(({ info, port }) => port === "translator" && info.id === engine && info.tier !== "remote")
  }
}

const answer = ({ options, answers, engineIds }: TranslateRun): Response => {
  const body = translationsJson(answers, {
    billed: options.showBilled,
    model: options.model,
    tags: options.markup?.version
  })
  return {
    status: 200,
    headers:
      engineIds.size === 0 ? plainHeaders : [...plainHeaders, ["X-Troupe-Engine", [...engineIds].join(", ")]],
    body
  }
}

const plainHeaders = [
  ["Content-Type", "application/json"],
  ["Cache-Control", "no-store"]
] as const

const requestFor = (
  group: ReadonlyArray<PendingText>,
  { accountId, options: { formality, context, instructions: own }, customization }: TranslateRun
): TranslateRequest => {
  const segments: Array<EngineSegment> = []
  const instructions = customization.instructions.length === 0 ? own : [...own, ...customization.instructions]
  for (const { unit } of group) for (const segment of unit.untranslated) segments.push(segment)
  return {
    account: accountId,
    source: group[0]!.source.base,
    target: group[0]!.pair,
    segments,
    formality,
    ...(context === undefined ? {} : { context }),
    ...(instructions.length === 0 ? {} : { instructions })
  }
}

/** Everything that determines an answer besides the text. Accounts do not share entries, because the time of
 *  an answer would reveal what others translate. */
const cachePrefix = (accountId: string, options: TextOptions, customization: Customization): string => {
  const { source, target, split, preserveFormatting, formality, context, instructions, markup } = options
  const plain = `${accountId} ${source?.code ?? ""} ${target.code} ${split} ${preserveFormatting ? 1 : 0} ${formality} ${customization.name} `
  if (markup === undefined && context === undefined && instructions.length === 0) return `${plain}\0`
  const shape =
    markup === undefined
      ? null
      : [
          markup.kind,
          markup.version,
          markup.outline,
          [...markup.splitting],
          [...markup.nonSplitting],
          [...markup.ignored]
        ]
  return `${plain}${JSON.stringify([context ?? null, instructions, shape])}\0`
}
