import { expect, it } from "vitest"
import { ReplayBuffer, samplesPerMs } from "../../../actors/voice/replay-buffer.ts"

const second = (mark: number) => new Int16Array(1_000 * samplesPerMs).fill(mark)
const msOf = (buffer: ReplayBuffer): number =>
  buffer.contents.reduce((sum, part) => sum + part.length, 0) / samplesPerMs

it("it holds 30 s at most and drops the oldest sound first", () => {
  const buffer = new ReplayBuffer(500)
  for (let i = 0; i < 30; i++) buffer.push(second(i) as never)
  expect([buffer.startMs, msOf(buffer)]).toEqual([500, 30_000])
  for (let i = 30; i < 75; i++) {
    buffer.push(second(i) as never)
    expect(msOf(buffer)).toBe(30_000)
  }
  expect([buffer.startMs, buffer.contents[0]![0], buffer.contents.at(-1)![0]]).toEqual([45_500, 45, 74])
})

it("sound that a final text covers is dropped, also from within a part", () => {
  const buffer = new ReplayBuffer(0)
  for (let i = 0; i < 3; i++) buffer.push(second(i) as never)
  buffer.dropUntil(1_500)
  expect([buffer.startMs, msOf(buffer), buffer.contents[0]![0]]).toEqual([1_500, 1_500, 1])
  buffer.dropUntil(1_000)
  expect(buffer.startMs).toBe(1_500)
  buffer.dropUntil(99_000)
  expect([buffer.startMs, msOf(buffer)]).toEqual([3_000, 0])
})
