import { Effect, Result, Stream } from "effect"
import { places } from "../../../actors/engines/pool.ts"
import { RecognizerPools } from "../../../actors/engines/speech/recognizer-pools.ts"
import { stillClock } from "./scripted-recognizer.ts"
import { describe, expect, it } from "vitest"
import {
  EngineFault,
  type Recognizer,
  type EngineSegment,
  type Synthesizer,
  type Translator,
  type SegmentUnit
} from "../../../actors/engines/ports.ts"
import {
  recognizerRouter,
  repaired,
  synthesizerRouter,
  translatorRouter
} from "../../../actors/engines/router.ts"

const text = (of: string): SegmentUnit => ({ _tag: "text", text: of })
const mark = (id: number): SegmentUnit => ({ _tag: "opaque", id })

const plain = ({ units }: EngineSegment): string =>
  units.map((unit) => (unit._tag === "text" ? unit.text : `‹${unit.id}›`)).join("")

const info = (id: string) => ({ id, version: "1", tier: "local" as const, licence: "MIT" })
type Fate = EngineFault["reason"] | "well" | "short"

interface Fake extends Translator {
  calls: number
  fate: Fate
  ready: boolean
}

const fake = (
  id: string,
  pairs: ReadonlyArray<readonly [string, string]> = [["en", "es"]],
  fate: Fate = "well"
): Fake => {
  const self: Fake = {
    calls: 0,
    fate,
    ready: true,
    info: info(id),
    readiness: () => (self.ready ? { ready: true } : { ready: false, reason: "asleep" }),
    supports: (source, target) => {
      if (!pairs.some(([from, to]) => from === source && to === target)) return false
      return id === "pivot" ? "pivot" : "direct"
    },
    pairs: () => pairs,
    formality: (target) => id === "formal" && target === "de",
    translate: ({ segments }) =>
      Effect.suspend(() => {
        self.calls++
        if (self.fate === "well") return Effect.succeed({ segments, engine: id })
        return self.fate === "short"
          ? Effect.succeed({ segments: [], engine: id })
          : Effect.fail(new EngineFault({ reason: self.fate, engine: id, detail: "as asked" }))
      })
  }
  return self
}

let nowMs = 0
const router = (...engines: ReadonlyArray<Translator>) => translatorRouter(engines, () => nowMs)

const ask = async (translator: Translator, target = "es"): Promise<string> => {
  const result = await Effect.runPromise(
    Effect.result(translator.translate({ source: "en", target, segments: [{ units: [text("hello")] }] }))
  )
  return Result.isSuccess(result) ? result.success.engine : result.failure.reason
}

describe("engines 11.1: the router", () => {
  it("takes the first that is ready and supports the pair", async () => {
    const a = fake("a", [["en", "fr"]])
    const b = fake("b")
    const c = fake("c")
    const one = router(a, b, c)
    expect(await ask(one)).toBe("b")
    b.ready = false
    expect(await ask(one)).toBe("c")
    c.ready = false
    expect(await ask(one)).toBe("unavailable")
    expect(a.calls).toBe(0)
    expect(one.readiness()).toEqual({ ready: true })
    a.ready = false
    expect(one.readiness()).toEqual({ ready: false, reason: "a: asleep; b: asleep; c: asleep" })
    expect(router().readiness()).toEqual({ ready: false, reason: "no engine is configured" })
  })
  it("falls through on retryable faults, on a pair that has just dropped out and on answers of the wrong length, never on bad input", async () => {
    for (const fate of [
      "crashed",
      "timeout",
      "upstream",
      "overloaded",
      "unavailable",
      "unsupported",
      "short"
    ] as const)
      expect(await ask(router(fake("a", [["en", "es"]], fate), fake("b"))), fate).toBe("b")
    const second = fake("b")
    expect(await ask(router(fake("a", [["en", "es"]], "bad-input"), second))).toBe("bad-input")
    expect(second.calls).toBe(0)
    expect(
      await ask(router(fake("a", [["en", "es"]], "timeout"), fake("b", [["en", "es"]], "crashed")))
    ).toBe("crashed")
  })
  it("circuit breaker: 5 failures → 30 s off; one success in between starts the count anew", async () => {
    const a = fake("a", [["en", "es"]], "crashed")
    const b = fake("b")
    const one = router(a, b)
    for (let i = 0; i < 4; i++) await ask(one)
    a.fate = "well"
    expect(await ask(one)).toBe("a")
    a.fate = "crashed"
    for (let i = 0; i < 9; i++) expect(await ask(one)).toBe("b")
    expect(a.calls).toBe(10)
    nowMs += 29_999
    await ask(one)
    expect(a.calls).toBe(10)
    nowMs += 1
    a.fate = "well"
    expect(await ask(one)).toBe("a")
  })
  it("being busy or asked for too much rests nobody", async () => {
    const a = fake("a", [["en", "es"]], "overloaded")
    const one = router(a)
    for (let i = 0; i < 20; i++) expect(await ask(one)).toBe("overloaded")
    expect(a.calls).toBe(20)
  })
  it("offers what its ready engines offer, each pair once, direct before pivot", () => {
    const a = fake("pivot", [
      ["en", "es"],
      ["en", "fr"]
    ])
    const b = fake("formal", [
      ["en", "es"],
      ["en", "de"]
    ])
    const one = router(a, b)
    expect(one.pairs().map((pair) => pair.join(">"))).toEqual(["en>es", "en>fr", "en>de"])
    expect([one.supports("en", "es"), one.supports("en", "fr"), one.supports("en", "it")]).toEqual([
      "direct",
      "pivot",
      false
    ])
    expect([one.formality("de"), one.formality("es")]).toEqual([true, false])
    b.ready = false
    expect([one.supports("en", "es"), one.formality("de")]).toEqual(["pivot", false])
  })
})

describe("engines 11.2: every opaque id of the source occurs exactly once", () => {
  const source: EngineSegment = { units: [text("one two "), mark(1), text(" three four"), mark(2)] }
  it("missing ids are inserted at proportional word position, doubles and strangers go", () => {
    expect(plain(repaired(source, { units: [text("uno dos tres cuatro")] }))).toBe(
      "uno dos‹1› tres cuatro‹2›"
    )
    expect(plain(repaired(source, { units: [mark(2), text("uno "), mark(2), text("dos"), mark(7)] }))).toBe(
      "‹2›uno‹1› dos"
    )
    expect(plain(repaired({ units: [mark(1), text("a"), mark(2)] }, { units: [text("b")] }))).toBe("‹1›b‹2›")
    expect(
      plain(
        repaired(
          { units: [text("a b "), mark(1), mark(2), mark(3), text(" c d")] },
          { units: [text("e f g h")] }
        )
      )
    ).toBe("e f‹1›‹2›‹3› g h")
    expect(plain(repaired(source, { units: [] }))).toBe("‹1›‹2›")
    expect(plain(repaired({ units: [text("a")] }, { units: [mark(1), text("b")] }))).toBe("b")
  })
  it("whatever an engine makes of 2,000 random segments: the ids are those of the source, the words those of the engine", () => {
    let seed = 7
    const random = (below: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
      return Math.floor(seed / 65_536) % below
    }
    const words = ["a", " ", "bc ", " d", "e f g", "\n", ""]
    const units = (idsBelow: number): Array<SegmentUnit> =>
      Array.from({ length: random(8) }, () =>
        random(2) === 0 ? text(words[random(words.length)]!) : mark(random(idsBelow))
      )
    for (let i = 0; i < 2_000; i++) {
      const seen = new Set<number>()
      const asked: EngineSegment = {
        units: units(6).filter((unit) => unit._tag === "text" || (!seen.has(unit.id) && seen.add(unit.id)))
      }
      const translated: EngineSegment = { units: units(8) }
      const is = repaired(asked, translated)
      expect(is.units.flatMap((unit) => (unit._tag === "opaque" ? [unit.id] : [])).toSorted()).toEqual(
        [...seen].toSorted()
      )
      expect(is.units.map((unit) => (unit._tag === "text" ? unit.text : "")).join("")).toBe(
        translated.units.map((unit) => (unit._tag === "text" ? unit.text : "")).join("")
      )
    }
  })
})

describe("recognizers and synthesizers", () => {
  const recognizer = (
    id: string,
    languages: ReadonlyArray<string>,
    free: number,
    detects = false
  ): Recognizer => ({
    info: info(id),
    readiness: () => ({ ready: true }),
    languages: () => languages,
    detects,
    capacity: () => ({ used: 2 - free, max: 2 }),
    places: new RecognizerPools({ id, live: places(free), jobs: places(free), clock: stillClock }),
    recognize: (_, { language }) =>
      Stream.succeed({ _tag: "final", text: id, startMs: 0, endMs: 1, language: language ?? "??" })
  })
  const heard = async (one: Recognizer, language: string | undefined): Promise<unknown> => {
    const result = await Effect.runPromise(
      Effect.result(Stream.runCollect(one.recognize(Stream.empty, { language })))
    )
    return Result.isSuccess(result)
      ? result.success.map((item) => ("text" in item ? item.text : item._tag))
      : result.failure.reason
  }
  it("the first that knows the language and has room hears", async () => {
    const one = recognizerRouter([recognizer("a", ["en"], 0), recognizer("b", ["en", "de"], 1)])
    expect(await heard(one, "en")).toEqual(["b"])
    expect(await heard(one, "de")).toEqual(["b"])
    expect(await heard(one, "fr")).toBe("unavailable")
    expect([one.languages(), one.capacity()]).toEqual([["en", "de"], { used: 3, max: 4 }])
  })
  it("the first that speaks the language speaks, the next when it fails", async () => {
    const speaker = (
      id: string,
      languages: ReadonlyArray<string>,
      fault?: EngineFault["reason"]
    ): Synthesizer => ({
      info: info(id),
      readiness: () => ({ ready: true }),
      languages: () => languages,
      speak: () =>
        fault === undefined
          ? Effect.succeed({ pcm: Int16Array.of(1), rate: id.length })
          : Effect.fail(new EngineFault({ reason: fault, engine: id, detail: "as asked" }))
    })
    const said = async (engines: ReadonlyArray<Synthesizer>, language: string): Promise<unknown> => {
      const result = await Effect.runPromise(
        Effect.result(synthesizerRouter(engines).speak("hi", { language }))
      )
      return Result.isSuccess(result) ? result.success.rate : result.failure.reason
    }
    expect(await said([speaker("a", ["en"]), speaker("bb", ["en", "de"])], "en-US")).toBe(1)
    expect(await said([speaker("a", ["en"], "crashed"), speaker("bb", ["en", "de"])], "en")).toBe(2)
    expect(await said([speaker("a", ["en"], "bad-input"), speaker("bb", ["en", "de"])], "en")).toBe(
      "bad-input"
    )
    expect(await said([speaker("a", ["en"])], "de")).toBe("unavailable")
  })
})
