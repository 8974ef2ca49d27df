import { execFileSync } from "node:child_process"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Effect, Fiber, Result } from "effect"
import { afterEach, describe, expect, it, vi } from "vitest"
import { expectLinear } from "../../../linear.ts"
import type { EngineFault, EngineSegment, SegmentUnit } from "../../../../actors/engines/ports.ts"
import { apertium, type Apertium } from "../../../../actors/engines/translation/apertium.ts"
import {
  canaries,
  commandOf,
  directionsIn,
  languages
} from "../../../../actors/engines/translation/apertium-modes.ts"
import { escape, segmentOf, streamOf } from "../../../../actors/engines/translation/apertium-stream.ts"
import { hosted, type Hosted } from "../hosted.ts"
import { fakePipelines, type FakePipelines } from "./fake-pipeline.ts"

const text = (of: string): EngineSegment => ({ units: [{ _tag: "text", text: of }] })
/** Processes start late on a busy machine. */
const patience = { timeout: 15_000 }

const mark = (id: number): SegmentUnit => ({ _tag: "opaque", id })

const plain = ({ units }: EngineSegment): string =>
  units.map((unit) => (unit._tag === "text" ? unit.text : `‹${unit.id}›`)).join("")

const alive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return readFileSync(`/proc/${pid}/stat`, "utf8").split(" ")[2] !== "Z"
  } catch {
    return false
  }
}

let host: Hosted | undefined
let fakes: FakePipelines | undefined

afterEach(async () => {
  await host?.close()
  fakes?.remove()
  host = undefined
  fakes = undefined
})

const faking = (
  modes: Readonly<Record<string, ReadonlyArray<string>>>,
  options: { readonly warmMax?: number; readonly pairsWarm?: ReadonlyArray<string> } = {}
): Apertium => {
  host = hosted("real")
  fakes = fakePipelines(modes)
  return apertium({ system: host.system, starts: host.starts, modesFolder: fakes.folder, ...options })
}

type Input = EngineSegment | string | ReadonlyArray<EngineSegment>

const segmentsOf = (input: Input): ReadonlyArray<EngineSegment> => {
  if (typeof input === "string") return [text(input)]
  return "units" in input ? [input] : input
}

const translate = (
  engine: Apertium,
  input: Input,
  source = "en",
  target = "es"
): Promise<ReadonlyArray<EngineSegment>> =>
  Effect.runPromise(
    Effect.map(engine.translate({ source, target, segments: segmentsOf(input) }), ({ segments }) => segments)
  )

const outcome = (
  engine: Apertium,
  of: string,
  source = "en",
  target = "es"
): Promise<Result.Result<unknown, EngineFault>> =>
  Effect.runPromise(Effect.result(engine.translate({ source, target, segments: [text(of)] })))

describe("engines 2.4: how a pipeline is driven", () => {
  it("1: $2 dropped, $1 is -n, -z after each program but those that do not know it", () => {
    expect(
      commandOf(
        "lt-proc 'a b.bin' | apertium-tagger -g $2 'x.prob' | cg-mwesplit | vislcg3 --g x | hfst-tokenise y | divvun-suggest z | lt-proc $1 'gen.bin'\n"
      )
    ).toBe(
      "lt-proc -z 'a b.bin' | apertium-tagger -z -g  'x.prob' | cg-mwesplit | vislcg3 --g x | hfst-tokenise y | divvun-suggest z | lt-proc -z -n 'gen.bin'"
    )
  })
  it("3: \\ ^ $ / [ ] { } < > @ are escaped and come back", () => {
    expect(escape("\\^$/[]{}<>@ a\0b")).toBe("\\\\\\^\\$\\/\\[\\]\\{\\}\\<\\>\\@ a b")
    const stream = streamOf(text("\\^$/[]{}<>@."))
    expect(segmentOf(stream.text, stream)).toEqual(text("\\^$/[]{}<>@."))
  })
  it("4: text without final punctuation gets a full stop and [], and loses both", () => {
    const stream = streamOf(text("Hello"))
    expect(stream.text).toBe("Hello .[]")
    expect(segmentOf("Hola.[]", stream)).toEqual(text("Hola"))
    expect(segmentOf("Hola .[]", stream)).toEqual(text("Hola"))
    const own = streamOf(text("Hello."))
    expect(own.text).toBe("Hello.[]")
    expect(segmentOf("Hola.[]", own)).toEqual(text("Hola."))
  })
  it("5: opaque units are superblanks", () => {
    const stream = streamOf({
      units: [{ _tag: "text", text: "Hello " }, mark(0), { _tag: "text", text: "big world" }, mark(12)]
    })
    expect(stream.text).toBe("Hello [<x0>]big world[<x12>] .[]")
    expect(segmentOf("Hola [<x0>]Mundo grande[<x12>].[]", stream)).toEqual({
      units: [{ _tag: "text", text: "Hola " }, mark(0), { _tag: "text", text: "Mundo grande" }, mark(12)]
    })
  })
  it("8: doubled and leading spaces go, those of the source stay", () => {
    const stream = streamOf(text("  I saw the cat.\n"))
    expect(plain(segmentOf(" Vi el  gato.[]", stream))).toBe("  Vi el gato.\n")
    expect(plain(segmentOf("a  b.[]", streamOf(text("a  b."))))).toBe("a  b.")
  })
  it("a text that looks like our own frames and blanks is only text", () => {
    for (const hostile of ["[/N1]", "[<x1>]", "a [] b", "\\[/N2\\]", "[[t:b:1]]x[[/]]", "^cat<n>$", "\\"]) {
      const stream = streamOf(text(`${hostile}.`))
      expect(stream.text).not.toMatch(/(?<!\\)\[(?!\]$)/)
      expect(segmentOf(stream.text, stream)).toEqual(text(`${hostile}.`))
    }
  })
  it("100,000 blanks inside a sentence cost what 25,000 cost, four times", () => {
    expectLinear(
      (blanks) => {
        const stream = streamOf(text(`a${" ".repeat(blanks)}b`))
        segmentOf(stream.text, stream)
      },
      25_000,
      "blanks"
    )
  })
  it("every language that a mode may name has a canary", () => {
    for (const language of new Set(Object.values(languages)))
      expect(canaries[language], language).toMatch(/\p{L}{2}/u)
  })
})

describe("pairs", () => {
  it("are read from the mode files, in our codes; variants and the known dead of engines 15.1 are none", () => {
    fakes = fakePipelines({
      "eng-spa": ["a"],
      "fr-es": ["a"],
      "spa-cat_valencia": ["a"],
      "rus-ukr": ["a"],
      "rus-bel": ["a"],
      "es-eo": ["a"],
      "ukr-rus": ["a"],
      "xyz-eng": ["a"]
    })
    expect([...directionsIn(fakes.folder).modes.keys()].sort()).toEqual(["en>es", "fr>es", "uk>ru"])
  })
  it("whose programs are not all installed are none, and one line says which", () => {
    host = hosted("real")
    fakes = fakePipelines({})
    writeFileSync(
      join(fakes.folder, "spa-cat.mode"),
      "lt-proc -w 'a.bin' | cg-proc-that-nobody-has -w 'b.bin'"
    )
    const engine = apertium({ ...host, modesFolder: fakes.folder })
    expect(engine.pairs()).toEqual([])
    expect(engine.readiness()).toMatchObject({
      ready: false,
      reason: expect.stringContaining("cg-proc-that-nobody-has")
    })
  })
  it("reach through one language in the middle, and no further; targets with a region fall to their base", async () => {
    const engine = faking({ "eng-spa": ["a"], "es-fr": ["b"], "fra-cat": ["c"] })
    expect(
      engine
        .pairs()
        .map((pair) => pair.join(">"))
        .sort()
    ).toEqual(["en>es", "en>fr", "es>ca", "es>fr", "fr>ca"])
    expect([
      engine.supports("en", "es"),
      engine.supports("en", "es-419"),
      engine.supports("en", "fr"),
      engine.supports("en", "ca"),
      engine.supports("es", "en")
    ]).toEqual(["direct", "direct", "pivot", false, false])
    expect(plain((await translate(engine, "Hi there.", "en", "fr"))[0]!)).toBe("HI THERE.")
    expect([fakes!.starts("a"), fakes!.starts("b"), fakes!.starts("c")]).toEqual([1, 1, 0])
    expect(engine.formality("es")).toBe(false)
  })
  it("15.1: a direction that crashes on its canary, in the source language, is no pair any more", async () => {
    const engine = faking({ "eng-spa": ["good"], "spa-eng": ["dead"] })
    expect(engine.supports("es", "en")).toBe("direct")
    const cold = await outcome(engine, "Hola", "es", "en")
    expect(cold).toMatchObject({ failure: { reason: "unavailable" } })
    expect(engine.supports("es", "en")).toBe(false)
    expect(engine.pairs()).toEqual([["en", "es"]])
    expect(engine.readiness()).toEqual({ ready: true })
    expect(plain((await translate(engine, "still"))[0]!)).toBe("STILL")
  })
  it("15.1: a direction that gives nothing is no pair any more, and an engine without pairs is not ready", async () => {
    const engine = faking({ "eng-spa": ["silent"] })
    expect(await outcome(engine, "Hello")).toMatchObject({
      failure: { reason: "unavailable", detail: expect.stringContaining("canary") }
    })
    expect(engine.pairs()).toEqual([])
    expect(engine.readiness()).toMatchObject({ ready: false, reason: expect.stringContaining("en>es") })
  })
  it("none installed: one line says how to get them; switched off: so", () => {
    host = hosted("real")
    expect(apertium({ ...host, modesFolder: "/nowhere" }).readiness()).toMatchObject({
      ready: false,
      reason: expect.stringContaining("apt-get install")
    })
    expect(apertium({ ...host, enabled: false }).readiness()).toMatchObject({
      ready: false,
      reason: expect.stringContaining("switched off")
    })
  })
})

describe("a pipeline", () => {
  it("2: pipelines 600 segments of one request, in order, one process", async () => {
    const engine = faking({ "eng-spa": ["a", "b"] })
    const many = await translate(
      engine,
      Array.from({ length: 600 }, (_, i) => text(`word ${i}.`))
    )
    expect(many.map(plain)).toEqual(Array.from({ length: 600 }, (_, i) => `WORD ${i}.`))
    expect(fakes!.starts()).toBe(2)
  })
  it("beyond 512 sentences in flight refuses, overloaded", async () => {
    const engine = faking({ "eng-spa": ["a"] })
    await translate(engine, "warm")
    const all = await Promise.all(Array.from({ length: 600 }, (_, i) => outcome(engine, `word ${i}`)))
    expect(all.filter(Result.isSuccess)).toHaveLength(512)
    expect(all.filter(Result.isFailure).map(({ failure }) => failure.reason)).toEqual(
      Array.from({ length: 88 }, () => "overloaded")
    )
  })
  it("T-1: a run without blanks does not reach the programs, and comes back as it was; marks and words around it are as ever", async () => {
    const engine = faking({ "eng-spa": ["a"] })
    const run = "a1".repeat(50_000)
    const segment: EngineSegment = {
      units: [{ _tag: "text", text: `before ${run} after ` }, mark(1), { _tag: "text", text: `and ${run}.` }]
    }
    expect(plain((await translate(engine, segment))[0]!)).toBe(`BEFORE ${run} AFTER ‹1›AND ${run}.`)
    expect(plain((await translate(engine, [text(run)]))[0]!)).toBe(run)
  })
  it("T-1: a text without end goes in pieces that end at blanks, and is whole again", async () => {
    const engine = faking({ "eng-spa": ["a"] })
    const long = Array.from({ length: 9_000 }, (_, i) => `word${i} `).join("")
    expect(plain((await translate(engine, [text(long)]))[0]!)).toBe(long.toUpperCase())
  })
  it("T-1: one account's flood does not hold up another's sentence, and a client that goes frees its places", async () => {
    const engine = faking({ "eng-spa": ["a"] })
    await translate(engine, "warm")
    const told: Array<string> = []
    const ask = (account: string, segments: ReadonlyArray<EngineSegment>) =>
      Effect.tap(engine.translate({ account, source: "en", target: "es", segments }), () =>
        Effect.sync(() => told.push(account))
      )
    const flood = Array.from({ length: 10 }, (_, i) =>
      Effect.runFork(
        ask(
          "hostile",
          Array.from({ length: 32 }, () => text(`flood ${i}`))
        )
      )
    )
    const leaving = Effect.runFork(ask("leaving", [text("leaving")]))
    const quiet = Effect.runFork(ask("quiet", [text("quiet")]))
    await Effect.runPromise(Fiber.interrupt(leaving))
    for (const fiber of [quiet, ...flood]) await Effect.runPromise(Fiber.await(fiber))
    // What was in the pipeline already comes first, and each turn of the quiet one follows one of the flood's.
    expect(told.indexOf("quiet")).toBeLessThanOrEqual(2)
    expect(told).toHaveLength(11)
  })
  it("leaves segments without words alone", async () => {
    const engine = faking({ "eng-spa": ["a"] })
    expect(
      await translate(engine, [{ units: [mark(1), { _tag: "text", text: " " }, mark(2)] }, { units: [] }])
    ).toEqual([{ units: [mark(1), { _tag: "text", text: " " }, mark(2)] }, { units: [] }])
    expect(fakes!.starts()).toBe(0)
  })
  it("dies under a request: those in flight are answered by the next one, once each", async () => {
    const engine = faking({ "eng-spa": ["a", "b"] })
    expect((await translate(engine, [text("before"), text("DIE ONCE"), text("after")])).map(plain)).toEqual([
      "BEFORE",
      "DIE ONCE",
      "AFTER"
    ])
    expect(fakes!.starts("a")).toBe(2)
  })
  it("dies of one text again and again: that request fails, crashed, and the next is answered", async () => {
    const engine = faking({ "eng-spa": ["a"] })
    expect(await outcome(engine, "DIE ALWAYS")).toMatchObject({ failure: { reason: "crashed" } })
    expect(plain((await translate(engine, "well"))[0]!)).toBe("WELL")
  })
  it("floods: it is ended, and nothing of the flood is an answer", async () => {
    const engine = faking({ "eng-spa": ["flood"] })
    await translate(engine, "warm")
    expect(await outcome(engine, "FLOOD")).toMatchObject({ failure: { reason: "crashed" } })
  })
  it("at most so many directions run: the least recently used idle one is ended, and comes back when asked", async () => {
    const engine = faking({ "eng-spa": ["a"], "spa-eng": ["b"], "es-fr": ["c"] }, { warmMax: 2 })
    const living = () => fakes!.pids().filter(alive).length
    await translate(engine, "one")
    await translate(engine, "dos", "es", "en")
    await translate(engine, "tres", "es", "fr")
    await vi.waitFor(() => expect(living()).toBe(2), patience)
    expect(plain((await translate(engine, "four"))[0]!)).toBe("FOUR")
    await vi.waitFor(() => expect(living()).toBe(2), patience)
    expect([fakes!.starts("a"), fakes!.starts("b"), fakes!.starts("c")]).toEqual([2, 1, 1])
  })
  it("warm starts the pairs of the configuration; the end of the system leaves no process behind", async () => {
    const engine = faking({ "eng-spa": ["a", "b"], "spa-eng": ["c"] }, { pairsWarm: ["en>es", "xx>yy"] })
    expect(fakes!.starts()).toBe(0)
    engine.warm()
    await vi.waitFor(() => expect(fakes!.starts()).toBe(2), patience)
    await translate(engine, "hello")
    await host!.close()
    await vi.waitFor(() => expect(fakes!.pids().filter(alive)).toEqual([]), patience)
  })
})

const installed =
  existsSync("/usr/share/apertium/modes/eng-spa.mode") && existsSync("/usr/share/apertium/modes/es-fr.mode")

describe("Apertium itself", () => {
  const real = (): Apertium => {
    host = hosted("real")
    return apertium(host)
  }
  /** The programs of our own pipelines: children of shells that are children of this process. */
  const programs = (): ReadonlyArray<{ readonly pid: number; readonly command: string }> => {
    const all = execFileSync("ps", ["-eo", "pid,ppid,args"], { encoding: "utf8" })
      .split("\n")
      .flatMap((line) => {
        const [, pid, parent, command] = /^\s*(\d+)\s+(\d+)\s+(.*)$/.exec(line) ?? []
        return command === undefined ? [] : [{ pid: Number(pid), parent: Number(parent), command }]
      })
    const shells = new Set(all.filter(({ parent }) => parent === process.pid).map(({ pid }) => pid))
    return all.filter(({ parent }) => shells.has(parent))
  }

  it.skipIf(!installed && !process.env["CI"])(
    "translates, keeps marks and strange characters, pivots",
    async () => {
      const engine = real()
      expect(
        plain(
          (await translate(engine, "The invoice was sent yesterday, but the customer has not paid yet."))[0]!
        )
      ).toBe("La factura estuvo enviada ayer, pero el cliente no ha pagado todavía.")
      expect(
        plain(
          (
            await translate(engine, {
              units: [{ _tag: "text", text: "Hello " }, mark(3), { _tag: "text", text: "big world" }, mark(4)]
            })
          )[0]!
        )
      ).toBe("Hola ‹3›Mundo grande‹4›")
      expect(plain((await translate(engine, "The house is big.", "en", "fr"))[0]!)).toMatch(
        /^La maison est grande\.$/
      )
      expect(plain((await translate(engine, "No"))[0]!)).toBe("No")
    }
  )
  it.skipIf(!installed && !process.env["CI"])(
    "answers sentences with any ASCII character that is no letter, control characters, emoji, broken pairs; printable ones survive",
    async () => {
      const engine = real()
      const strange = [
        ...Array.from({ length: 127 }, (_, i) => String.fromCharCode(i + 1)).filter(
          (one) => !/[a-z]/i.test(one)
        ),
        "😀",
        "\u0301",
        "\u200d",
        "\ufeff",
        "\ud800",
        "漢",
        "\u2028",
        "\n\n"
      ]
      const translations = await translate(
        engine,
        strange.map((one) => text(`The house ${one} is red`))
      )
      for (const [i, one] of translations.entries()) {
        expect(plain(one), JSON.stringify(strange[i])).toMatch(/^La casa ?[\s\S]*roj[ao]$/)
        if (/^[!-~]$/.test(strange[i]!)) expect(plain(one)).toContain(strange[i]!)
      }
      expect(host!.system.list("engine", 9)).toMatchObject([{ restarts: 0 }])
    }
  )
  it.skipIf(!installed && !process.env["CI"])(
    "kill -9 of any of its programs under a request: it is answered, and no orphan stays",
    async () => {
      const seen = new Set<number>()
      const engine = real()
      await translate(engine, "Hello.")
      for (const victim of [/apertium-pretransfer/, /lt-proc -z -p/, /apertium-tagger/]) {
        for (const { pid } of programs()) seen.add(pid)
        const found = programs().find(({ command }) => victim.test(command))!
        const answers = translate(
          engine,
          Array.from({ length: 40 }, (_, i) => text(`The house is red ${i}.`))
        )
        process.kill(found.pid, "SIGKILL")
        expect((await answers).map(plain)).toEqual(
          Array.from({ length: 40 }, (_, i) => `La casa es roja ${i}.`)
        )
      }
      for (const { pid } of programs()) seen.add(pid)
      expect(seen.size).toBeGreaterThan(30)
      await host!.close()
      await vi.waitFor(() => expect([...seen].filter(alive)).toEqual([]), patience)
    }
  )
})
