/** An actor's rules as a table: a row is one decision in one phase. Every cell of phase × command must be named
 *  by a row, and a row says everything that is decided: events, rows of tables, what is answered when a row's
 *  condition fails, and the answer. */
import { describe, expect, it } from "vitest"
import type { AnyDefinition } from "../../runtime/actor.ts"
import type { Write } from "../../storage/store.ts"

export interface Tagged {
  readonly _tag: string
  readonly [field: string]: unknown
}

interface Decided {
  readonly events?: ReadonlyArray<Tagged>
  readonly rows?: ReadonlyArray<Write>
  readonly otherwise?: unknown
  readonly answer: unknown
}

export interface Row {
  readonly title: string
  readonly state: Tagged
  readonly command: string
  readonly payload?: unknown
  readonly nowMs?: number
  readonly decides: Decided
}

export const actorId = "actor-id"
export const done: Decided = { answer: { reply: undefined } }
export const replies = (reply: unknown): Decided => ({ answer: { reply } })
export const refuses = (refuse: unknown): Decided => ({ answer: { refuse } })

/** Cells that change nothing, whatever the payload and the time: `silent` are answered by nothing, the others
 *  as `answers` says. */
export const quiet = (
  state: Tagged,
  silent: ReadonlyArray<string>,
  answers: Readonly<Record<string, Decided>> = {}
): ReadonlyArray<Row> => {
  const silentCells = silent.map((command): [string, Decided] => [command, done])
  return [...silentCells, ...Object.entries(answers)].map(([command, decides]) => ({
    title: "changes nothing",
    state,
    command,
    nowMs: Number.MAX_SAFE_INTEGER,
    decides
  }))
}

export const rulesOf = ({ on, evolve }: AnyDefinition) => ({
  decide: ({ state, command, payload, nowMs }: Omit<Row, "decides" | "title">) =>
    on[state._tag]![command]!(state, payload ?? {}, { id: actorId, nowMs: nowMs ?? 0, newId: () => "new" }),
  fold: (state: Tagged, event: Tagged): unknown => evolve[event._tag]!(state, event)
})

/** The tests of a table: a test per row, and one that finds the cells that no row names. */
export const describeRules = (definition: AnyDefinition, rows: ReadonlyArray<Row>): void => {
  const { decide } = rulesOf(definition)
  describe("the table of rules", () => {
    for (const row of rows)
      it(`${row.state._tag} × ${row.command}: ${row.title}`, () => {
        const { events, rows: tableRows, otherwise, answer } = decide(row)
        expect({ events, rows: tableRows, otherwise: otherwise?.answer, answer }).toEqual({
          events: [],
          rows: [],
          otherwise: undefined,
          ...row.decides
        })
      })
    it("names every cell", () => {
      const cells = Object.entries(definition.on).flatMap(([phase, rules]) =>
        Object.keys(rules as object).map((command) => `${phase} × ${command}`)
      )
      const rowCells = new Set(rows.map(({ state, command }) => `${state._tag} × ${command}`))
      expect([...rowCells].sort()).toEqual(cells.sort())
    })
  })
}
