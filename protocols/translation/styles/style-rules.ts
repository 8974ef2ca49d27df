/** Style lists over HTTP, for paid accounts: rules are checked against the published values, instructions
 *  have ids of their own, and the version increases with each change; every answer is sent after its commit.
 *  Source: docs/spec/translation.md, section 10. */
import { randomUUID } from "node:crypto"
import type { Answer, Request, Response, Route } from "../../../runtime/http.ts"
import type { Store } from "../../../storage/store.ts"
import type { RawParams, Params } from "../../shared/params.ts"
import type { Guard, Guarded } from "../account/guard.ts"
import { instructionLanguages, sourceOf } from "../languages.ts"
import { problem } from "../problems.ts"
import {
  bodyOf,
  buffered,
  durable,
  faultOf,
  idIn,
  invalid,
  isResponse,
  noContent,
  notFound,
  objectIn,
  objectsIn,
  ok,
  pageOf,
  queryOf
} from "../endpoint.ts"
import { StyleLists, stylesOf, type Instruction, type StyleList } from "./records.ts"
import { ruleValues } from "./rule-values.ts"
import { instructionJson, styleJson } from "./styles-wire.ts"
import { codePoints } from "../../shared/code-points.ts"

const bytesMax = 1_048_576
const nameCharsMax = 1_024
const labelCharsMax = 100
const promptCharsMax = 300
const instructionsMax = 200
const listsPerAccountMax = 100
type Rules = StyleList["rules"]

/** Returns the known categories, rules and values as a plain object, or the path of the first unknown one. */
export const rulesIn = (input: RawParams): Rules | { readonly unknown: string } => {
  const rules: Record<string, Record<string, string>> = {}
  for (const [category, chosen] of Object.entries(input)) {
    const allowed = Object.hasOwn(ruleValues, category) ? ruleValues[category]! : undefined
    if (allowed === undefined || typeof chosen !== "object" || chosen === null || Array.isArray(chosen))
      return { unknown: category }
    const of: Record<string, string> = {}
    for (const [rule, value] of Object.entries(chosen)) {
      if (
        !Object.hasOwn(allowed, rule) ||
        typeof value !== "string" ||
        !allowed[rule]!.split("|").includes(value)
      )
        return { unknown: `${category}.${rule}` }
      of[rule] = value
    }
    rules[category] = of
  }
  return rules
}

const checkedRules = (input: RawParams): Rules | Response => {
  const rules = rulesIn(input)
  return "unknown" in rules && typeof rules["unknown"] === "string"
    ? invalid(`configured_rules.${rules["unknown"]}`)
    : (rules as Rules)
}

const textIn = (params: Params, name: string, charsMax: number): string => {
  const text = params.string(name)
  if (text === undefined || text.trim() === "") {
    params.missing(name)
    return ""
  }
  if (codePoints(text) > charsMax) params.invalid(name, `At most ${charsMax} characters.`)
  return text
}

const instructionIn = (params: Params, language: string, id: string): Instruction => {
  const label = textIn(params, "label", labelCharsMax)
  const prompt = textIn(params, "prompt", promptCharsMax)
  const requested = params.string("source_language")
  const source = requested === undefined || requested === "" ? undefined : sourceOf(requested)
  if (requested !== undefined && requested !== "" && source === undefined) params.invalid("source_language")
  return { id, label, prompt, sourceLanguage: source?.code ?? language }
}

export interface StyleDeps {
  readonly store: Store
  readonly clock: () => number
  /** Style lists visible to every account, after its own; they never change. */
  readonly fixtures?: ReadonlyArray<StyleList>
}

export class StyleRoutes {
  private readonly store: Store
  private readonly clock: () => number
  private readonly fixtures: ReadonlyArray<StyleList>

  constructor({ store, clock, fixtures = [] }: StyleDeps) {
    this.store = store
    this.clock = clock
    this.fixtures = fixtures
  }

  find(accountId: string, styleId: string): StyleList | undefined {
    return (
      StyleLists.get(this.store, [accountId, styleId]) ?? this.fixtures.find((one) => one.styleId === styleId)
    )
  }

  routes(guard: Guard): ReadonlyArray<Route> {
    const base = "/v3/style_rules"
    const one = `${base}/:style_id`
    const each = `${one}/custom_instructions`
    const body = buffered(bytesMax)
    const paid =
      (handle: Guarded): Guarded =>
      (request, using) =>
        using.account.tier === "free" ? problem({ _tag: "Forbidden" }) : handle(request, using)
    const read = (handle: Guarded) => guard("style_rules:read", paid(handle))
    const write = (handle: Guarded) => guard("style_rules:write", paid(handle))
    return [
      { method: "GET", path: base, handle: read(this.list) },
      { method: "POST", path: base, body, handle: write(this.create) },
      { method: "GET", path: one, handle: read(this.with((list) => ok(styleJson(list, true)))) },
      { method: "PATCH", path: one, body, handle: write(this.with(this.rename)) },
      {
        method: "DELETE",
        path: one,
        handle: write(
          this.with((list) =>
            this.own(list, () =>
              durable(
                this.store,
                [StyleLists.delete([list.accountId, list.styleId], "present")],
                () => noContent
              )
            )
          )
        )
      },
      { method: "PUT", path: `${one}/configured_rules`, body, handle: write(this.with(this.configure)) },
      { method: "POST", path: each, body, handle: write(this.with(this.instruct)) },
      {
        method: "GET",
        path: `${each}/:instruction_id`,
        handle: read(this.with(this.one((_, instruction) => ok(instructionJson(instruction)))))
      },
      {
        method: "PUT",
        path: `${each}/:instruction_id`,
        body,
        handle: write(this.with(this.one(this.reword)))
      },
      {
        method: "DELETE",
        path: `${each}/:instruction_id`,
        handle: write(
          this.with(
            this.one((list, { id }) =>
              this.change(
                list,
                { instructions: list.instructions.filter((one) => one.id !== id) },
                () => noContent
              )
            )
          )
        )
      }
    ]
  }

  private with(handle: (list: StyleList, request: Request) => Answer): Guarded {
    return (request, { account }) => {
      const id = idIn(request, "style_id")
      if (isResponse(id)) return id
      const list = this.find(account.accountId, id)
      return list === undefined ? notFound("Style list") : handle(list, request)
    }
  }

  private one(handle: (list: StyleList, instruction: Instruction, request: Request) => Answer) {
    return (list: StyleList, request: Request): Answer => {
      const id = idIn(request, "instruction_id")
      if (isResponse(id)) return id
      const instruction = list.instructions.find((one) => one.id === id)
      return instruction === undefined ? notFound("Custom instruction") : handle(list, instruction, request)
    }
  }

  private own(list: StyleList, change: () => Answer): Answer {
    return this.fixtures.includes(list) ? problem({ _tag: "Forbidden" }) : change()
  }

  private change(
    list: StyleList,
    change: Partial<StyleList>,
    answer: (changed: StyleList) => Response
  ): Answer {
    const changed = { ...list, ...change, version: list.version + 1, updatedMs: this.clock() }
    return this.own(list, () =>
      durable(
        this.store,
        [StyleLists.put([list.accountId, list.styleId], changed, "present")],
        () => answer(changed),
        () => notFound("Style list")
      )
    )
  }

  private readonly list: Guarded = (request, { account: { accountId } }) => {
    const query = queryOf(request)
    if (isResponse(query)) return query
    const { from, size } = pageOf(query, 25, 10)
    const detailed = query.boolean("detailed") ?? false
    return (
      faultOf(query) ??
      ok({
        style_rules: [...stylesOf(this.store, accountId), ...this.fixtures]
          .slice(from, from + size)
          .map((list) => styleJson(list, detailed))
      })
    )
  }

  private readonly create: Guarded = (request, { account: { accountId } }) => {
    const params = bodyOf(request)
    if (isResponse(params)) return params
    const name = textIn(params, "name", nameCharsMax)
    const language = params.string("language")?.toLowerCase()
    if (language === undefined || language === "") params.missing("language")
    else if (!instructionLanguages.has(language)) params.invalid("language")
    const rules = checkedRules(objectIn(params, "configured_rules")?.raw ?? {})
    const instructionInputs = objectsIn(params, "custom_instructions") ?? []
    const fault = faultOf(params)
    if (fault !== undefined) return fault
    if (isResponse(rules)) return rules
    if (instructionInputs.length > instructionsMax)
      return invalid("custom_instructions", `At most ${instructionsMax} instructions.`)
    const instructions: Array<Instruction> = []
    for (const one of instructionInputs) {
      instructions.push(instructionIn(one, language!, randomUUID()))
      const wrong = faultOf(one)
      if (wrong !== undefined) return wrong
    }
    if (stylesOf(this.store, accountId).length >= listsPerAccountMax)
      return problem({ _tag: "QuotaExceeded", owner: "account" })
    const nowMs = this.clock()
    const styleId = randomUUID()
    const list: StyleList = {
      styleId,
      accountId,
      name,
      language: language!,
      version: 1,
      createdMs: nowMs,
      updatedMs: nowMs,
      rules,
      instructions
    }
    return durable(this.store, [StyleLists.put([accountId, styleId], list, "absent")], () =>
      ok(styleJson(list, true), 201)
    )
  }

  private readonly rename = (list: StyleList, request: Request): Answer => {
    const params = bodyOf(request)
    if (isResponse(params)) return params
    const name = textIn(params, "name", nameCharsMax)
    return faultOf(params) ?? this.change(list, { name }, (changed) => ok(styleJson(changed, true)))
  }

  private readonly configure = (list: StyleList, request: Request): Answer => {
    const params = bodyOf(request)
    if (isResponse(params)) return params
    const rules = checkedRules(params.raw)
    return isResponse(rules) ? rules : this.change(list, { rules }, (changed) => ok(styleJson(changed, true)))
  }

  private readonly instruct = (list: StyleList, request: Request): Answer => {
    const params = bodyOf(request)
    if (isResponse(params)) return params
    const instruction = instructionIn(params, list.language, randomUUID())
    if (params.fault === undefined && list.instructions.length >= instructionsMax)
      return invalid("custom_instructions", `At most ${instructionsMax} instructions.`)
    return (
      faultOf(params) ??
      this.change(list, { instructions: [...list.instructions, instruction] }, () =>
        ok(instructionJson(instruction), 201)
      )
    )
  }

  private readonly reword = (list: StyleList, { id }: Instruction, request: Request): Answer => {
    const params = bodyOf(request)
    if (isResponse(params)) return params
    const instruction = instructionIn(params, list.language, id)
    return (
      faultOf(params) ??
      this.change(
        list,
        { instructions: list.instructions.map((one) => (one.id === id ? instruction : one)) },
        () => ok(instructionJson(instruction))
      )
    )
  }
}
