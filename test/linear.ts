/** Whether work grows with its input and not with its square. CPU time of this process is counted, never the
 *  clock on the wall, and only against itself: a busy machine makes both sides dearer alike. */
import { expect } from "vitest"

/** 4 is linear, 16 is quadratic; caches and collections lie between. */
const growthMax = 11

/** Below this nothing can be told from noise, and nothing is amiss either: quadratic work at these sizes
 *  costs seconds. */
const noiseMs = 60

const tries = 4

const cpuMs = (work: () => void): number => {
  const before = process.cpuUsage()
  work()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1_000
}

/** `work` of `size` against `work` of four times `size`; one try of several within bounds is enough, since
 *  noise only ever adds. */
export const expectLinear = (work: (size: number) => void, size: number, what: string): void => {
  const seen: Array<string> = []
  for (let turn = 0; turn < tries; turn++) {
    const small = cpuMs(() => work(size))
    const large = cpuMs(() => work(4 * size))
    if (large <= Math.max(noiseMs, growthMax * small)) return
    seen.push(`${small.toFixed(0)} → ${large.toFixed(0)} ms`)
  }
  expect.fail(`${what}: CPU time for four times the input: ${seen.join(", ")}`)
}
