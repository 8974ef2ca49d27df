/** The session's rules as a table (chat section 15.1), and replay. */
import { describe, expect, it } from "vitest"
import { ProxySession, Responses, type ResponseRecord } from "../../actors/proxy-session.ts"

const { on, evolve } = ProxySession
const facts = (nowMs: number) => ({ id: "s", nowMs, newId: () => "" })

const record: ResponseRecord = {
  sessionId: "s",
  owner: "o",
  parentId: null,
  status: "completed",
  hidden: false,
  background: false,
  streamed: false,
  object: "{}",
  input: "[]",
  messages: "[]",
  bytes: 2,
  upstream: null
}

const commit = (id: string, more: Partial<ResponseRecord> = {}) => ({
  id,
  record: { ...record, ...more },
  retentionMs: 1_000,
  others: false,
  work: null,
  events: [],
  eventsFrom: 0
})

type Active = Parameters<typeof on.Active.Inspect>[0]

const after = (...commits: ReadonlyArray<ReturnType<typeof commit>>): Active =>
  commits.reduce<any>((state, committed) => {
    const decision = (on as any)[state._tag].Commit(state, committed, facts(100))
    return decision.events.reduce((now: any, event: any) => (evolve as any)[event._tag](now, event), state)
  }, ProxySession.initial)

const begin = (state: Active, nowMs: number, more: Record<string, unknown> = {}): unknown =>
  on.Active.Begin(state, { owner: "o", previousId: "a", holdMs: 10, ...more } as never, facts(nowMs)).answer

describe("Absent", () => {
  it("knows nothing; a commit opens it, with the row and the count in the same transaction", () => {
    for (const rule of ["Begin", "Inspect", "Delete"] as const)
      expect((on.Absent as any)[rule]({}, {}, facts(0)).answer).toEqual({
        refuse: { _tag: "ResponseUnknown" }
      })
    const decision = on.Absent.Commit({ _tag: "Absent" }, commit("a"), facts(100))
    expect(decision.rows.map((row) => [row._tag, "table" in row ? row.table : ""])).toEqual([
      ["add", "chat-sessions"],
      ["put", Responses.name],
      ["delete", "chat-background"]
    ])
    expect(after(commit("a"))).toMatchObject({ _tag: "Active", owner: "o", expiresAtMs: 1_100 })
  })
})

describe("Active", () => {
  it.each<[string, Active, number, Record<string, unknown>, unknown]>([
    ["completed", after(commit("a")), 100, {}, { reply: undefined }],
    ["one ms before the end", after(commit("a")), 1_099, { holdMs: 0 }, { reply: undefined }],
    ["exactly at the end", after(commit("a")), 1_100, {}, { refuse: { _tag: "ResponseUnknown" } }],
    ["another owner", after(commit("a")), 100, { owner: "p" }, { refuse: { _tag: "ResponseUnknown" } }],
    ["unknown", after(commit("a")), 100, { previousId: "z" }, { refuse: { _tag: "ResponseUnknown" } }],
    ["failed", after(commit("a", { status: "failed" })), 100, {}, { refuse: { _tag: "ResponseUnknown" } }],
    ["incomplete", after(commit("a", { status: "incomplete" })), 100, {}, { reply: undefined }],
    ["cancelled", after(commit("a", { status: "cancelled" })), 100, {}, { reply: undefined }],
    ["queued", after(commit("a", { status: "queued" })), 100, {}, { refuse: { _tag: "ResponseNotReady" } }],
    [
      "in progress",
      after(commit("a", { status: "in_progress" })),
      100,
      {},
      { refuse: { _tag: "ResponseNotReady" } }
    ]
  ])("Begin: %s", (_, state, nowMs, more, answer) => expect(begin(state, nowMs, more)).toEqual(answer))
  it("a turn near the end holds the session; its commit sets the time anew", () => {
    const state = after(commit("a"))
    const { events } = on.Active.Begin(state, { owner: "o", previousId: "a", holdMs: 500 }, facts(1_000))
    expect(events).toEqual([{ _tag: "Held", untilMs: 1_500 }])
    const held = evolve.Held(state, { _tag: "Held", untilMs: 1_500 }) as Active
    expect(on.Active.Expire(held, {}, facts(1_200)).events).toEqual([])
    expect(on.Active.Expire(held, {}, facts(1_500)).events).toEqual([{ _tag: "Expired" }])
    expect(
      evolve.Committed(held, on.Active.Commit(held, commit("b"), facts(1_400)).events[0] as never)
    ).toMatchObject({ expiresAtMs: 2_400, heldUntilMs: 0 })
  })
  it("Expire before its time does nothing; at its time every row goes", () => {
    const state = after(commit("a", { upstream: { id: "u", session: "x" } }), commit("b"))
    expect(on.Active.Expire(state, {}, facts(1_099)).events).toEqual([])
    const decision = on.Active.Expire(state, {}, facts(1_100))
    expect(decision.events).toEqual([{ _tag: "Expired" }])
    expect(decision.rows.filter((row) => row._tag === "delete" && row.table === Responses.name)).toHaveLength(
      2
    )
    expect(decision.rows.filter((row) => row._tag === "put").map((row) => row.key)).toEqual([["u", "x"]])
  })
  it("Delete hides one and keeps its turn for descendants; the last one ends the session", () => {
    const state = after(commit("a"), commit("b"))
    const first = on.Active.Delete(state, { owner: "o", id: "a" }, facts(100))
    expect(first.events).toEqual([{ _tag: "Deleted", id: "a" }])
    const hidden = evolve.Deleted(state, { _tag: "Deleted", id: "a" }) as Active
    expect(begin(hidden, 100)).toEqual({ refuse: { _tag: "ResponseUnknown" } })
    expect(on.Active.Delete(hidden, { owner: "o", id: "a" }, facts(100)).answer).toEqual({
      refuse: { _tag: "ResponseUnknown" }
    })
    expect(on.Active.Delete(hidden, { owner: "o", id: "b" }, facts(100)).events).toEqual([
      { _tag: "Expired" }
    ])
  })
})
