/** Administration endpoints: the developer keys of an account with their limits, and usage by key, by day
 *  and by tag. Only admin keys may call them.
 *  Source: docs/spec/translation.md, section 15. */
import { Effect } from "effect"
import type { Answer, Request, Response, Route } from "../../../runtime/http.ts"
import type { ActorSystem } from "../../../runtime/registry.ts"
import type { Store } from "../../../storage/store.ts"
import type { Params } from "../../shared/params.ts"
import {
  keyJson,
  tagReportJson,
  usageReportJson,
  type Amounts,
  type KeyUsage,
  type Period,
  type TagUsage
} from "./admin-wire.ts"
import { guardOf, type Guarded } from "./guard.ts"
import type { Limits } from "./rate-limit.ts"
import type { KeyRing } from "./keys.ts"
import { problem } from "../problems.ts"
import { createKey, type Account, type HashKey, type Key } from "./records.ts"
import {
  bodyOf,
  buffered,
  unavailable,
  faultOf,
  invalid,
  isResponse,
  notFound,
  ok,
  queryOf
} from "../endpoint.ts"
import { dayCounter, tagCounter, tagsTable, units, usageTable, type Unit, type Usage } from "./usage.ts"
import { codePoints } from "../../shared/code-points.ts"
import { isUuid } from "../../shared/uuid.ts"
import { nextTurn } from "../../shared/event-loop.ts"

const bytesMax = 65_536
const labelCharsMax = 200
const activeMax = { paid: 25, free: 2 } as const
const daysMax = 366
const rowsPerPage = 100
const tagsPerAccountMax = 100_000
const labelDefault = "DeepL API Key"

export interface AdminDeps {
  readonly store: Store
  readonly actors: ActorSystem
  readonly ring: KeyRing
  readonly usage: Usage
  readonly hashKey: HashKey
  readonly clock: () => number
  readonly limits?: Limits | undefined
}

export class AdminRoutes {
  private readonly deps: AdminDeps

  constructor(deps: AdminDeps) {
    this.deps = deps
  }

  routes(): ReadonlyArray<Route> {
    const admin = guardOf(this.deps.ring, this.deps.actors, this.deps.limits, "admin")
    const guarded = (handle: Guarded) => admin(undefined, handle)
    const keys = "/v2/admin/developer-keys"
    const body = buffered(bytesMax)
    return [
      { method: "POST", path: keys, body, handle: guarded(this.create) },
      {
        method: "GET",
        path: keys,
        handle: guarded((_, { account }) => ok(this.developerKeys(account).map((key) => keyJson(key))))
      },
      // Voice connections of the key notice the change at their next check, within one second.
      {
        method: "PUT",
        path: `${keys}/deactivate`,
        body,
        handle: guarded(
          this.with(({ accountId }, { keyId }) =>
            this.changed(() => this.deps.ring.deactivate(accountId, keyId, this.deps.clock()))
          )
        )
      },
      { method: "PUT", path: `${keys}/label`, body, handle: guarded(this.with(this.relabel)) },
      { method: "PUT", path: `${keys}/limits`, body, handle: guarded(this.with(this.limit)) },
      { method: "GET", path: "/v2/admin/analytics", handle: guarded(this.analytics) },
      { method: "GET", path: "/v2/admin/analytics/custom-tags", handle: guarded(this.tags) }
    ]
  }

  private developerKeys({ accountId }: Account): ReadonlyArray<Key> {
    return this.deps.ring.list(accountId).filter(({ role }) => role === "developer")
  }

  private changed(change: () => Promise<Key | undefined>): Answer {
    return Effect.match(Effect.tryPromise({ try: change, catch: (cause) => cause }), {
      onSuccess: (key) => (key === undefined ? notFound("API key") : ok(keyJson(key))),
      onFailure: unavailable
    })
  }

  /** Handles a request with the key whose id is in the body. */
  private with(handle: (account: Account, key: Key, params: Params) => Answer): Guarded {
    return (request, { account }) => {
      const params = bodyOf(request)
      if (isResponse(params)) return params
      const id = params.string("key_id")
      if (id === undefined || id === "") return problem({ _tag: "Missing", name: "key_id" })
      const [accountId = "", keyId = "", ...more] = id.toLowerCase().split(":")
      if (!isUuid(accountId) || !isUuid(keyId) || more.length > 0) return invalid("key_id")
      const key =
        accountId === account.accountId
          ? this.developerKeys(account).find((one) => one.keyId === keyId)
          : undefined
      return key === undefined ? notFound("API key") : handle(account, key, params)
    }
  }

  private labelIn(params: Params): string {
    const label = params.string("label") ?? ""
    if (codePoints(label) > labelCharsMax) params.invalid("label", `At most ${labelCharsMax} characters.`)
    return label === "" ? labelDefault : label
  }

  private readonly create: Guarded = (request, { account }) => {
    const { store, hashKey, clock } = this.deps
    const params = bodyOf(request)
    if (isResponse(params)) return params
    const label = this.labelIn(params)
    const fault = faultOf(params)
    if (fault !== undefined) return fault
    if (
      this.developerKeys(account).filter(({ deactivatedMs }) => deactivatedMs === null).length >=
      activeMax[account.tier]
    ) {
      return problem({ _tag: "Refused", message: `At most ${activeMax[account.tier]} keys can be active.` })
    }
    const created = Effect.tryPromise({
      try: () => createKey(store, hashKey, account, { label, nowMs: clock() }),
      catch: (cause) => cause
    })
    return Effect.match(created, {
      onSuccess: ({ key, secret }) => ok(keyJson(key, secret)),
      onFailure: unavailable
    })
  }

  private readonly relabel = ({ accountId }: Account, { keyId }: Key, params: Params): Answer => {
    if (!params.has("label")) return problem({ _tag: "Missing", name: "label" })
    const label = this.labelIn(params)
    return (
      faultOf(params) ??
      this.changed(() => this.deps.ring.change(accountId, keyId, (key) => ({ ...key, label })))
    )
  }

  /** Replaces all limits of a key; a limit that is absent or null becomes unlimited. */
  private readonly limit = ({ accountId }: Account, { keyId }: Key, params: Params): Answer => {
    const read = (name: string): number | null => params.integer(name, 0, Number.MAX_SAFE_INTEGER) ?? null
    const limits = {
      characters: read("characters"),
      speechToTextMs: read("speech_to_text_milliseconds"),
      speechToSpeechMs: read("speech_to_speech_milliseconds")
    }
    return (
      faultOf(params) ??
      this.changed(() => this.deps.ring.change(accountId, keyId, (key) => ({ ...key, limits })))
    )
  }

  private periodIn(params: Params): Period | Response {
    const days = ["start_date", "end_date"].map((name) => {
      const text = params.string(name)
      if (text === undefined || text === "") {
        params.missing(name)
        return 0
      }
      const atMs = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.NaN
      if (Number.isNaN(atMs) || new Date(atMs).toISOString().slice(0, 10) !== text) {
        params.invalid(name)
        return 0
      }
      return atMs / 86_400_000
    })
    const [fromDay, toDay] = days as [number, number]
    const reason = (text: string) => problem({ _tag: "Refused", message: `Bad request. Reason: ${text}` })
    const fault = faultOf(params)
    if (fault !== undefined) return fault
    if (toDay < fromDay) return reason("The end date cannot be before the start date")
    if (toDay - fromDay >= daysMax) return reason("Date range cannot exceed 366 days")
    return { fromDay, toDay }
  }

  private amounts(keyOf: (unit: Unit) => ReadonlyArray<string | number>): Amounts {
    const amounts = {} as Record<Unit, number>
    for (const unit of units) amounts[unit] = this.deps.store.counter(usageTable, keyOf(unit))
    return amounts
  }

  private readonly analytics: Guarded = (request: Request, { account }) => {
    const query = queryOf(request)
    if (isResponse(query)) return query
    const groupBy = query.string("group_by") ?? ""
    const period = this.periodIn(query)
    if (isResponse(period)) return period
    if (groupBy !== "" && groupBy !== "key" && groupBy !== "key_and_day")
      return problem({
        _tag: "Refused",
        message: "Value for 'group_by' not supported. Allowed: '', 'key', 'key_and_day'."
      })
    return Effect.map(this.usageByKey(account, period, groupBy), ({ total, rows }) =>
      ok(usageReportJson(period, total, groupBy, rows))
    )
  }

  private readonly usageByKey = Effect.fnUntraced(
    { self: this },
    function* (account: Account, period: Period, groupBy: string) {
      yield* Effect.promise(() => this.deps.usage.settled())
      const total = zeroAmounts()
      const rows: Array<KeyUsage> = []
      for (const { keyId, masked, label } of this.developerKeys(account)) {
        const keyAmounts = zeroAmounts()
        for (let day = period.fromDay; day <= period.toDay; day++) {
          const amounts = this.amounts((unit) => dayCounter(account.accountId, keyId, day, unit))
          if (!isAnyUsed(amounts)) continue
          add(keyAmounts, amounts)
          add(total, amounts)
          if (groupBy === "key_and_day") rows.push({ masked, label, day, amounts })
        }
        if (groupBy === "key" && isAnyUsed(keyAmounts))
          rows.push({ masked, label, day: undefined, amounts: keyAmounts })
        yield* nextTurn
      }
      rows.sort((a, b) => (a.day ?? 0) - (b.day ?? 0) || compareText(a.label, b.label))
      return { total, rows }
    }
  )

  private readonly tags: Guarded = (request: Request, { account: { accountId } }) => {
    const query = queryOf(request)
    if (isResponse(query)) return query
    const by = query.string("aggregate_by") ?? ""
    const page = query.integer("page", 1, 1_000_000) ?? 1
    const period = this.periodIn(query)
    if (isResponse(period)) return period
    if (by !== "" && by !== "period" && by !== "day")
      return problem({
        _tag: "Refused",
        message: "Value for 'aggregate_by' not supported. Allowed: '', 'period', 'day'."
      })
    const wanted = page * rowsPerPage
    return Effect.map(this.usageByTag(accountId, period, by === "day", wanted), (rows) =>
      ok(
        tagReportJson(
          period,
          by === "day" ? "day" : "period",
          rows.slice(wanted - rowsPerPage, wanted),
          rows.length > wanted ? page + 1 : null
        )
      )
    )
  }

  /** Rows by tag, until there are more than wanted. */
  private readonly usageByTag = Effect.fnUntraced(
    { self: this },
    function* (accountId: string, period: Period, byDay: boolean, wanted: number) {
      yield* Effect.promise(() => this.deps.usage.settled())
      const rows: Array<TagUsage> = []
      for (const { key } of this.deps.store.range(tagsTable, {
        prefix: [accountId],
        limit: tagsPerAccountMax
      })) {
        const tag = key[1] as string
        const tagAmounts = zeroAmounts()
        for (let day = period.fromDay; day <= period.toDay; day++) {
          const amounts = this.amounts((unit) => tagCounter(accountId, tag, day, unit))
          if (!isAnyUsed(amounts)) continue
          add(tagAmounts, amounts)
          if (byDay) rows.push({ tag, day, amounts })
        }
        if (!byDay && isAnyUsed(tagAmounts)) rows.push({ tag, day: undefined, amounts: tagAmounts })
        if (rows.length > wanted) break
        yield* nextTurn
      }
      return rows
    }
  )
}

const zeroAmounts = (): Record<Unit, number> => ({
  translate: 0,
  document: 0,
  write: 0,
  speechToTextMs: 0,
  speechToSpeechMs: 0
})

const isAnyUsed = (amounts: Amounts): boolean => units.some((unit) => amounts[unit] > 0)

/** Compares texts by UTF-16 code units, independently of the locale. */
const compareText = (a: string, b: string): number => {
  if (a === b) return 0
  return a < b ? -1 : 1
}

const add = (to: Record<Unit, number>, amounts: Amounts): void => {
  for (const unit of units) to[unit] += amounts[unit]
}
