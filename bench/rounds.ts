/** Measures candidates in interleaved rounds, so that disturbances of the machine affect all of them alike.
 *  `sideBySide` computes each candidate's ratio to the floor of the same round; `beforeAndAfter` computes
 *  after ÷ before of the same round. Only such ratios are reported as results. */
import type { Tree } from "./tree.ts"
import { judge, median, roundsDefault, roundsMax, spreadMax, spreadOf, type Judgement } from "./verdict.ts"

export interface Size {
  readonly smoke: boolean
  /** Seconds of load in each round. */
  readonly seconds: number
  /** The number of rounds that `--rounds` requests. */
  readonly rounds: number | undefined
}

/** The figures of the load side, beside the bench's own figure. */
export interface LoadFigures {
  readonly p50Ms: number
  readonly p99Ms: number
  readonly perSecond?: number
}

export interface Measured {
  readonly value: number
  readonly extra?: string
  readonly load?: LoadFigures
  /** The reason why the latencies, or the figure, are meaningless. */
  readonly invalid?: string
}

export interface Prepared {
  readonly measure: () => Promise<Measured>
  /** Is called once before the first round, one candidate after the other. */
  readonly warm?: () => Promise<void>
  readonly close?: () => void
}

export interface Candidate {
  readonly name: string
  /** True for the project's own candidate, which `--against` measures in both trees. */
  readonly compared?: boolean
  readonly prepare: (tree: Tree) => Promise<Prepared> | Prepared
}

/** All rounds so far of each candidate. */
export type Results = ReadonlyMap<string, ReadonlyArray<Measured>>

export interface Session {
  /** The candidates, of which the first is the floor, unless it is compared itself. */
  readonly candidates: ReadonlyArray<Candidate>
  readonly close?: () => void
  /** Returns the text beside a candidate's figures; without it the `extra` of the last round is printed. */
  readonly describe?: (name: string, results: Results) => string
  /** A remark about the whole bench. */
  readonly note?: string
}

export interface Bench {
  readonly title: string
  readonly unit: string
  /** True when the figure is a rate, so that a ratio of 2 is twice as fast. Otherwise it is a cost, and 2 is
   *  twice as expensive. */
  readonly rate?: boolean
  /** The number of rounds side by side, if it is not the usual three. */
  readonly rounds?: number
  readonly open: (size: Size) => Promise<Session> | Session
}

export interface Row {
  readonly bench: string
  readonly candidate: string
  readonly unit: string
  readonly value: number
  /** The ratio to the floor of the same round: median, minimum and maximum. */
  readonly ratio: number
  readonly min: number
  readonly max: number
  readonly extra: string
  readonly note: string
}

/** One candidate of one bench, in two trees. */
export interface ComparedRow extends Judgement {
  readonly bench: string
  readonly candidate: string
  readonly unit: string
  /** Medians of the figures, and of their ratios to the floor where there is one. */
  readonly before: number
  readonly after: number
  readonly beforeToFloor: number | undefined
  readonly afterToFloor: number | undefined
  readonly ratios: ReadonlyArray<number>
  readonly note: string
}

interface Entry {
  readonly name: string
  readonly candidate: Candidate
  readonly tree: Tree
}

/** Starts every candidate (idle ones cost nothing), warms them, passes them to `measured`, and ends them. */
const withPrepared = async <A>(
  entries: ReadonlyArray<Entry>,
  smoke: boolean,
  measured: (prepared: ReadonlyMap<string, Prepared>) => Promise<A>
): Promise<A> => {
  const prepared = new Map<string, Prepared>()
  try {
    await Promise.all(
      entries.map(async ({ name, candidate, tree }) => {
        prepared.set(name, await candidate.prepare(tree))
      })
    )
    // The compiler's own work is not part of an operation.
    if (!smoke) for (const { name } of entries) await prepared.get(name)!.warm?.()
    return await measured(prepared)
  } finally {
    for (const { close } of prepared.values()) close?.()
  }
}

const invalidOf = (rounds: ReadonlyArray<Measured>): string => {
  const reason = rounds.find(({ invalid }) => invalid !== undefined)?.invalid
  return reason === undefined ? "" : `invalid: ${reason}`
}

const joined = (texts: ReadonlyArray<string | undefined>): string =>
  texts.filter((text) => text !== undefined && text !== "").join("; ")

const usualRounds = 3
const extraRounds = 2

/** Measures rounds A B C, B C A, …; a bench with a row that varies too much gets two more rounds. */
export const sideBySide = async (bench: Bench, size: Size, tree: Tree): Promise<ReadonlyArray<Row>> => {
  const session = await bench.open(size)
  const entries = session.candidates.map((candidate) => ({ name: candidate.name, candidate, tree }))
  const names = entries.map(({ name }) => name)
  const results = new Map<string, Array<Measured>>(names.map((name) => [name, []]))

  const ratiosOf = (name: string): ReadonlyArray<number> => {
    const floor = results.get(names[0]!)!
    return results.get(name)!.map(({ value }, round) => value / floor[round]!.value)
  }

  const rowOf = (name: string, index: number): Row => {
    const rounds = results.get(name)!
    const ratios = ratiosOf(name)
    const unstable = spreadOf(ratios) > spreadMax && !size.smoke
    return {
      bench: bench.title,
      candidate: name,
      unit: bench.unit,
      value: median(rounds.map(({ value }) => value)),
      ratio: median(ratios),
      min: Math.min(...ratios),
      max: Math.max(...ratios),
      extra: session.describe?.(name, results) ?? rounds.at(-1)!.extra ?? "",
      note: joined([invalidOf(rounds), unstable ? "unstable" : "", index === 0 ? session.note : ""])
    }
  }

  try {
    return await withPrepared(entries, size.smoke, async (prepared) => {
      const measureRound = async (turn: number): Promise<void> => {
        for (let i = 0; i < names.length; i++) {
          const name = names[(i + turn) % names.length]!
          results.get(name)!.push(await prepared.get(name)!.measure())
        }
      }
      const rounds = size.rounds ?? (size.smoke ? 1 : (bench.rounds ?? usualRounds))
      for (let turn = 0; turn < rounds; turn++) await measureRound(turn)
      if (!size.smoke && names.some((name) => spreadOf(ratiosOf(name)) > spreadMax))
        for (let turn = 0; turn < extraRounds; turn++) await measureRound(turn)
      return names.map(rowOf)
    })
  } finally {
    session.close?.()
  }
}

const change = (label: string, before: number, after: number): string =>
  `${label} ${before.toPrecision(3)} → ${after.toPrecision(3)} ms`

const loadChange = (before: ReadonlyArray<Measured>, after: ReadonlyArray<Measured>): string => {
  if (before[0]?.load === undefined) return ""
  const middle = (rounds: ReadonlyArray<Measured>, figure: (load: LoadFigures) => number): number =>
    median(rounds.flatMap(({ load }) => (load === undefined ? [] : [figure(load)])))
  const p50 = ({ p50Ms }: LoadFigures): number => p50Ms
  const p99 = ({ p99Ms }: LoadFigures): number => p99Ms
  return [
    change("p50", middle(before, p50), middle(after, p50)),
    change("p99", middle(before, p99), middle(after, p99))
  ].join(", ")
}

/** Measures rounds floor A B, B A floor, …, where A is the other commit's candidate and B this tree's. There
 *  are seven rounds, or fifteen when seven prove nothing for a row, and no number between, at which luck
 *  could stop. `--rounds` overrides both. */
export const beforeAndAfter = async (
  bench: Bench,
  size: Size,
  trees: { readonly before: Tree; readonly after: Tree }
): Promise<ReadonlyArray<ComparedRow>> => {
  const session = await bench.open(size)
  const compared = session.candidates.filter((candidate) => candidate.compared === true)
  const floor = session.candidates.filter((candidate, index) => index === 0 && candidate.compared !== true)
  const floorName = floor[0]?.name
  const entries: ReadonlyArray<Entry> = [
    ...floor.map((candidate) => ({ name: candidate.name, candidate, tree: trees.after })),
    ...compared.flatMap((candidate) => [
      { name: `${candidate.name} before`, candidate, tree: trees.before },
      { name: `${candidate.name} after`, candidate, tree: trees.after }
    ])
  ]
  const results = new Map<string, Array<Measured>>(entries.map(({ name }) => [name, []]))

  const ratiosOf = (name: string, to: string): ReadonlyArray<number> => {
    const base = results.get(to)!
    return results.get(name)!.map(({ value }, round) => value / base[round]!.value)
  }

  const rowOf = ({ name }: Candidate): ComparedRow => {
    const before = results.get(`${name} before`)!
    const after = results.get(`${name} after`)!
    const ratios = ratiosOf(`${name} after`, `${name} before`)
    const toFloor = (side: string): number | undefined =>
      floorName === undefined ? undefined : median(ratiosOf(`${name} ${side}`, floorName))
    return {
      ...judge(ratios, bench.rate),
      bench: bench.title,
      candidate: name,
      unit: bench.unit,
      before: median(before.map(({ value }) => value)),
      after: median(after.map(({ value }) => value)),
      beforeToFloor: toFloor("before"),
      afterToFloor: toFloor("after"),
      ratios,
      note: joined([loadChange(before, after), invalidOf([...before, ...after])])
    }
  }

  try {
    return await withPrepared(entries, size.smoke, async (prepared) => {
      let turn = 0
      const measureUntil = async (rounds: number): Promise<ReadonlyArray<ComparedRow>> => {
        for (; turn < rounds; turn++)
          for (const { name } of turn % 2 === 0 ? entries : entries.toReversed())
            results.get(name)!.push(await prepared.get(name)!.measure())
        return compared.map(rowOf)
      }
      if (size.rounds !== undefined || size.smoke) return await measureUntil(size.rounds ?? 1)
      const rows = await measureUntil(roundsDefault)
      return rows.some(({ verdict }) => verdict === "not shown") ? await measureUntil(roundsMax) : rows
    })
  } finally {
    session.close?.()
  }
}
