/** The plan of a run: which actors appear, what befalls them and in which order. It is drawn from the seed
 *  before the run, and each step carries its own seed, so that a step can be left out without changing what
 *  the others do. Each seed leaves out some kinds of fault altogether, because faults that fall all the time
 *  hide each other. */
import { chooseParts, type Part } from "./cast/cast.ts"
import { Random } from "./random.ts"
import type { WorkOdds } from "./work.ts"

/** How far the loop runs after a step: not at all, to the end of the turn, one more turn, until it rests. */
export type Rest = "none" | "soon" | "turn" | "quiet"

export type Deed =
  | {
      readonly act: "say"
      readonly via: "callback" | "fiber" | "tell"
      readonly times: number
      /** So often the client says it again from within the answer, or from within a fault. */
      readonly repeats: number
      readonly onlyFaults: boolean
      /** It says something else, to somebody else, instead. */
      readonly elsewhere: boolean
      readonly throws: boolean
    }
  | { readonly act: "watch"; readonly throws: boolean; readonly restarts: boolean }
  | { readonly act: "unwatch" }
  | { readonly act: "leave" }
  | { readonly act: "lanes" }
  | { readonly act: "rest" }
  | { readonly act: "settle"; readonly fault: "full" | "io" | undefined }
  | { readonly act: "wait"; readonly ms: number }
  | { readonly act: "jump"; readonly ms: number }
  | { readonly act: "spoil record"; readonly restarts: boolean }
  | { readonly act: "mend records" }
  | { readonly act: "spoil expiry" }
  | { readonly act: "restart"; readonly mends: boolean }
  /** Within one turn, somebody tells it and others, and an operator restarts it while it cannot be read and
   *  when it can. */
  | { readonly act: "crowd"; readonly size: number }
  | { readonly act: "crash"; readonly landed: boolean }
  | { readonly act: "stop" }

export type Step = Deed & { readonly on: number; readonly salt: number; readonly rest: Rest }

export interface Plan {
  readonly seed: number
  readonly parts: ReadonlyArray<Part>
  readonly odds: WorkOdds
  /** How many actors may be in memory; undefined: as many as there are. */
  readonly residentMax: number | undefined
  readonly steps: ReadonlyArray<Step>
}

export const stepsPerSeed = 520

const hourMs = 3_600_000
const waitsMs = [10, 50, 60, 200, 500, 1_000, 1_100, 1_500, 6_000, 31_000, hourMs]

type Chooser = (random: Random) => Deed

const viaOf = (at: number, fibers: number, tells: number): "callback" | "fiber" | "tell" => {
  if (at < fibers) return "fiber"
  return at < fibers + tells ? "tell" : "callback"
}

/** The deeds of one seed, by weight. */
const deedsOf = (random: Random): ReadonlyArray<readonly [weight: number, chooser: Chooser]> => {
  const sometimes = (probability: number, weight: number): number => (random.chance(probability) ? weight : 0)
  const throwsOdds = sometimes(0.35, 0.3)
  const repeatOdds = sometimes(0.5, 0.4)
  const restartOdds = sometimes(0.3, 0.4)
  const faultOdds = sometimes(0.6, 0.25)
  const fibers = sometimes(0.7, 0.4)
  const tells = random.pick([0.1, 0.4])
  const floods = sometimes(0.4, 0.15)
  const long = random.chance(0.4)
  const watcherThrows = sometimes(0.3, 0.5)
  const say: Chooser = (r) => {
    const repeating = r.chance(repeatOdds)
    return {
      act: "say",
      via: viaOf(r.next(), fibers, tells),
      times: r.chance(floods) ? 6 : 1,
      repeats: repeating ? 1 + r.int(2) : 0,
      onlyFaults: r.chance(0.5),
      elsewhere: r.chance(0.3),
      throws: r.chance(throwsOdds)
    }
  }
  return [
    [40, say],
    [
      sometimes(0.6, 5),
      (r) => ({ act: "watch", throws: r.chance(watcherThrows), restarts: r.chance(restartOdds) })
    ],
    [sometimes(0.4, 2), () => ({ act: "unwatch" })],
    [sometimes(0.6, 3), () => ({ act: "leave" })],
    [4, () => ({ act: "lanes" })],
    [10, () => ({ act: "rest" })],
    [
      10 + random.int(12),
      (r) => ({ act: "settle", fault: r.chance(faultOdds) ? r.pick(["full", "io"]) : undefined })
    ],
    [12, (r) => ({ act: "wait", ms: waitsMs[r.int(long ? waitsMs.length : waitsMs.length - 3)]! })],
    [sometimes(0.25, 1), (r) => ({ act: "jump", ms: r.chance(0.5) ? -hourMs : hourMs })],
    [sometimes(0.3, 2), (r) => ({ act: "spoil record", restarts: r.chance(0.5) })],
    [3, () => ({ act: "mend records" })],
    [sometimes(0.2, 1), () => ({ act: "spoil expiry" })],
    [sometimes(0.5, 3), (r) => ({ act: "restart", mends: r.chance(0.5) })],
    [sometimes(0.4, 3), (r) => ({ act: "crowd", size: 6 + r.int(10) })],
    [sometimes(0.4, 1), (r) => ({ act: "crash", landed: r.chance(0.5) })],
    [sometimes(0.3, 0.7), () => ({ act: "stop" })]
  ]
}

const restOf = (random: Random, hurry: number): Rest => {
  if (random.chance(hurry)) return "none"
  return random.pick(["soon", "turn", "quiet", "quiet", "quiet"])
}

const pickDeed = (random: Random, deeds: ReadonlyArray<readonly [number, Chooser]>, total: number): Deed => {
  let at = random.next() * total
  for (const [weight, chooser] of deeds) {
    at -= weight
    if (at < 0) return chooser(random)
  }
  return { act: "rest" }
}

export const planOf = (seed: number, count = stepsPerSeed): Plan => {
  const random = new Random(seed)
  const parts = chooseParts(random)
  const busy = random.chance(0.6)
  const odds: WorkOdds = {
    dies: busy ? random.next() * 0.3 : 0,
    hangs: random.next() * 0.15,
    fails: random.next() * 0.2,
    bursts: random.next() * 0.3
  }
  const deeds = deedsOf(random)
  const total = deeds.reduce((sum, [weight]) => sum + weight, 0)
  const hurry = random.pick([0.1, 0.3, 0.5, 0.85])
  // A few actors get most of the attention, so that their stories become long.
  const favourites = Array.from({ length: 3 }, () => random.int(parts.length))
  const steps = Array.from({ length: count }, (): Step => {
    const deed = pickDeed(random, deeds, total)
    const on = random.chance(0.5) ? random.pick(favourites) : random.int(parts.length)
    return { ...deed, on, salt: random.int(2 ** 31), rest: restOf(random, hurry) }
  })
  const residentMax = random.chance(0.15) ? 6 + random.int(8) : undefined
  return { seed, parts, odds, residentMax, steps }
}
