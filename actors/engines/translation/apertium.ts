/** Apertium's pipelines (GPL, separate processes from Debian), kept warm: one per direction, null-flushed,
 *  pipelined. How they must be driven is spec engines 2.4: null flush between programs, nonce framing,
 *  escapes, opaque units as superblanks, a final full stop, process groups. Each direction passes a canary in
 *  its source language before it answers. */
import { spawn } from "node:child_process"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { Effect } from "effect"
import type { ActorSystem } from "../../../runtime/registry.ts"
import {
  EngineFault,
  type Language,
  type EngineSegment,
  type Translator,
  type TranslateRequest,
  type SegmentUnit
} from "../ports.ts"
import { supervise, type Start, type Supervised } from "../engine-process.ts"

/** Apertium's codes (ISO 639-3, or -1 in older pairs) as the API's. */
export const languages: Record<string, Language> = {
  eng: "en",
  en: "en",
  spa: "es",
  es: "es",
  cat: "ca",
  ca: "ca",
  fra: "fr",
  fr: "fr",
  ita: "it",
  it: "it",
  por: "pt",
  pt: "pt",
  glg: "gl",
  gl: "gl",
  ron: "ro",
  ro: "ro",
  oci: "oc",
  oc: "oc",
  arg: "an",
  an: "an",
  eus: "eu",
  eu: "eu",
  bre: "br",
  br: "br",
  epo: "eo",
  eo: "eo",
  swe: "sv",
  sv: "sv",
  dan: "da",
  da: "da",
  nob: "nb",
  nb: "nb",
  isl: "is",
  is: "is",
  mkd: "mk",
  mk: "mk",
  bul: "bg",
  bg: "bg",
  bel: "be",
  be: "be",
  rus: "ru",
  ru: "ru",
  ukr: "uk",
  uk: "uk",
  slv: "sl",
  sl: "sl",
  afr: "af",
  af: "af",
  nld: "nl",
  nl: "nl",
  ind: "id",
  id: "id",
  zlm: "ms",
  ms: "ms",
  urd: "ur",
  ur: "ur",
  hin: "hi",
  hi: "hi"
}

/** Installed they may be, but they crash, stay silent or leave half the words (spec engines 15.1). */
const dead = new Set(["ru>uk", "ru>be", "es>eo"])

/** In the source language: "Test 123." passes on broken pairs too. Every language above has one. */
export const canaries: Record<Language, string> = {
  en: "The house is big.",
  es: "La casa es grande.",
  ca: "La casa és gran.",
  fr: "La maison est grande.",
  it: "La casa è grande.",
  pt: "A casa é grande.",
  gl: "A casa é grande.",
  ro: "Casa este mare.",
  sv: "Huset är stort.",
  da: "Huset er stort.",
  nb: "Huset er stort.",
  is: "Húsið er stórt.",
  mk: "Куќата е голема.",
  bg: "Къщата е голяма.",
  be: "Дом вялікі.",
  ru: "Дом большой.",
  uk: "Будинок великий.",
  eo: "La domo estas granda.",
  oc: "L'ostal es grand.",
  an: "A casa ye gran.",
  eu: "Etxea handia da.",
  br: "Bras eo an ti.",
  af: "Die huis is groot.",
  nl: "Het huis is groot.",
  id: "Rumah itu besar.",
  ms: "Rumah itu besar.",
  ur: "گھر بڑا ہے۔",
  hi: "घर बड़ा है।",
  sl: "Hiša je velika."
}

const modesFolderDefault = "/usr/share/apertium/modes"
const warmMaxDefault = 6

/** Of one request, of all: in one pipeline at a time. */
const segmentsAtOnce = 32

const inFlightMax = 512

/** Unread answer at most: more means that the pipeline has lost the thread. */
const pendingCharsMax = 4 * 1_048_576

const startMs = 15_000

const isInstalled = (program: string): boolean =>
  program.includes("/")
    ? existsSync(program)
    : (process.env["PATH"] ?? "").split(":").some((folder) => existsSync(join(folder, program)))

const programsOf = (mode: string): ReadonlyArray<string> =>
  mode.split("|").map((program) => program.trim().split(/\s/, 1)[0]!)

/** Direction (`en>es`) to command line; `lacking`: programs that modes want and nobody has installed (cg-proc
 *  is only recommended by its pairs). */
export const directionsIn = (
  folder: string
): { readonly modes: ReadonlyMap<string, string>; readonly lacking: ReadonlySet<string> } => {
  const modes = new Map<string, string>()
  const lacking = new Set<string>()
  const present = new Set<string>()
  if (!existsSync(folder)) return { modes, lacking }
  for (const file of readdirSync(folder).sort()) {
    const [, from, to] = /^([a-z]{2,3})-([a-z]{2,3})\.mode$/.exec(file) ?? []
    const source = languages[from ?? ""]
    const target = languages[to ?? ""]
    if (source === undefined || target === undefined || dead.has(`${source}>${target}`)) continue
    const mode = readFileSync(join(folder, file), "utf8")
    const absent = programsOf(mode).filter((program) => !present.has(program) && !isInstalled(program))
    for (const program of programsOf(mode)) if (!absent.includes(program)) present.add(program)
    for (const program of absent) lacking.add(program)
    if (absent.length === 0) modes.set(`${source}>${target}`, commandOf(mode))
  }
  return { modes, lacking }
}

/** Unmarked unknown words, null flush in every program that knows it. */
export const commandOf = (mode: string): string =>
  mode
    .trim()
    .split("|")
    .map((program) => {
      const words = program.trim().replaceAll("$2", "").replaceAll("$1", "-n")
      const name = words.split(/\s/, 1)[0]!
      return /^(?:vislcg3|cg-mwesplit|hfst-tokenise|divvun-suggest)$/.test(name)
        ? words
        : words.replace(name, `${name} -z`)
    })
    .join(" | ")

const special = /[\\^$/[\]{}<>@]/g

/** A tilde wakes the post-generator even when escaped, so it goes as a superblank. */
export const escape = (text: string): string =>
  text.replaceAll("\0", " ").replace(special, "\\$&").replaceAll("~", "[~]")

const unescape = (text: string): string => text.replaceAll("[~]", "~").replace(/\\(.)/gs, "$1")

/** A segment as the pipeline's stream. */
export const streamOf = ({
  units
}: EngineSegment): {
  readonly text: string
  readonly lead: string
  readonly trail: string
  readonly stop: boolean
  readonly doubled: boolean
} => {
  const raw = units.map((unit) => (unit._tag === "text" ? escape(unit.text) : `[<x${unit.id}>]`)).join("")
  const core = raw.trim()
  const lead = raw.slice(0, raw.length - raw.trimStart().length)
  const trail = core === "" ? "" : raw.slice(raw.trimEnd().length)
  const stop = !/[.!?…:;。！？](?:\[<x\d+>\])*$/.test(core)
  // Apart from the last word: "No." is short for number.
  return { text: stop ? `${core} .[]` : `${core}[]`, lead, trail, stop, doubled: core.includes("  ") }
}

export const segmentOf = (
  answer: string,
  { lead, trail, stop, doubled }: ReturnType<typeof streamOf>
): EngineSegment => {
  let text = answer.replace(/\[\]/g, "").trim()
  if (stop) {
    const marks = /(?:\[<x\d+>\])*$/.exec(text)![0]
    const words = text.slice(0, text.length - marks.length)
    if (words.endsWith(".")) text = words.slice(0, -1).trimEnd() + marks
  }
  text = lead + (doubled ? text : text.replace(/ {2,}/g, " ")) + trail
  const units: Array<SegmentUnit> = []
  for (const [i, part] of text.split(/\[<x(\d+)>\]/).entries()) {
    if (i % 2 === 1) units.push({ _tag: "opaque", id: Number(part) })
    else if (part !== "") units.push({ _tag: "text", text: unescape(part) })
  }
  return { units }
}

interface Pipeline {
  readonly run: (text: string) => Effect.Effect<string, EngineFault>
}

export const pipeline = (id: string, command: string, canary: string | undefined): Start<Pipeline> =>
  Effect.gen(function* () {
    const crashed = (detail: string) => new EngineFault({ reason: "crashed", engine: id, detail })
    const child = yield* Effect.acquireRelease(
      Effect.sync(() =>
        spawn("sh", ["-c", `exec 3<&0; <&3 ${command} & exec <&- 3<&- >&-; wait`], {
          detached: true,
          stdio: ["pipe", "pipe", "ignore"]
        })
      ),
      (process) => Effect.sync(() => killGroup(process.pid))
    )
    const waiting: Array<{
      readonly marker: string
      readonly settle: (exit: Effect.Effect<string, EngineFault>) => void
    }> = []
    let nonce = 0
    let pending = ""
    let over: EngineFault | undefined
    let mourn: ((fault: EngineFault) => void) | undefined
    const die = (detail: string): void => {
      if (over !== undefined) return
      over = crashed(detail)
      for (const { settle } of waiting.splice(0)) settle(Effect.fail(over))
      mourn?.(over)
    }
    child.on("error", (cause) => die(cause.message))
    child.on("exit", (code, signal) => die(`the pipeline ended (${signal ?? code})`))
    // A program may not notice that a later one is dead, so the shell may wait for ever. It keeps no end of
    // the pipes, so that theirs shows it.
    child.stdout.on("close", () => die("a program of the pipeline ended"))
    child.stdin.on("error", () => {})
    child.stdout.setEncoding("utf8")
    child.stdout.on("data", (data: string) => {
      pending += data.replaceAll("\0", "")
      for (let next = waiting[0]; next !== undefined; next = waiting[0]) {
        const at = pending.indexOf(next.marker)
        if (at < 0) break
        const answer = pending.slice(0, at)
        pending = pending.slice(at + next.marker.length)
        waiting.shift()
        next.settle(Effect.succeed(answer))
      }
      if (pending.length > pendingCharsMax) killGroup(child.pid)
    })
    const run = (text: string): Effect.Effect<string, EngineFault> =>
      Effect.callback((resume) => {
        if (over !== undefined) return resume(Effect.fail(over))
        if (waiting.length >= inFlightMax)
          return resume(
            Effect.fail(
              new EngineFault({ reason: "overloaded", engine: id, detail: "too many sentences at once" })
            )
          )
        const marker = `[/N${++nonce}]`
        waiting.push({ marker, settle: resume })
        child.stdin.write(`${text}\0${marker}\0`)
      })
    if (canary !== undefined) {
      const answer = yield* Effect.timeoutOrElse(run(escape(canary)), {
        duration: startMs,
        orElse: () => Effect.fail(crashed("no answer to its canary"))
      })
      if (answer.trim().length < canary.length / 4)
        return yield* Effect.fail(
          new EngineFault({
            reason: "unavailable",
            engine: id,
            detail: `${id} does not translate its canary`
          })
        )
    }
    return {
      handle: { run },
      death: Effect.callback<never, EngineFault>((resume) => {
        if (over === undefined) mourn = (fault) => resume(Effect.fail(fault))
        else resume(Effect.fail(over))
      })
    }
  })

const killGroup = (pid: number | undefined): void => {
  try {
    if (pid !== undefined) process.kill(-pid, "SIGKILL")
  } catch {
    /* gone already */
  }
}

export interface ApertiumOptions {
  readonly system: ActorSystem
  readonly starts: Map<string, any>
  readonly modesFolder?: string
  readonly enabled?: boolean
  /** Directions (`en>es`) that `warm` starts. */
  readonly pairsWarm?: ReadonlyArray<string>
  /** Pipelines running at once. */
  readonly warmMax?: number
}

export interface Apertium extends Translator {
  readonly warm: () => void
}

/** What is installed counts as a pair until its canary fails, because trying each would cost a cold start a
 *  quarter of a second apiece. */
export const apertium = ({
  system,
  starts,
  modesFolder = modesFolderDefault,
  enabled = true,
  pairsWarm = [],
  warmMax = warmMaxDefault
}: ApertiumOptions): Apertium => {
  const { modes, lacking } = enabled
    ? directionsIn(modesFolder)
    : { modes: new Map<string, string>(), lacking: new Set<string>() }
  const engines = new Map<string, Supervised<Pipeline>>()
  /** Least recently used first. */
  const running = new Map<string, Supervised<Pipeline>>()
  const engineOf = (name: string): Supervised<Pipeline> => {
    const known = engines.get(name)
    if (known !== undefined) return known
    const engine = supervise(
      system,
      starts,
      `apertium/${name}`,
      pipeline(`apertium ${name}`, modes.get(name)!, canaries[name.split(">")[0]!])
    )
    engines.set(name, engine)
    return engine
  }
  /** Undefined: so many others are at work already. */
  const direction = (name: string): Supervised<Pipeline> | undefined => {
    const engine = engineOf(name)
    if (!running.delete(name) && running.size >= warmMax) {
      const rested = [...running].find(([, other]) => !other.busy())
      if (rested === undefined) return undefined
      running.delete(rested[0])
      rested[1].stop()
    }
    running.set(name, engine)
    return engine
  }
  const has = (name: string): boolean => modes.has(name) && engines.get(name)?.lost() !== true
  const hubs = [...new Set([...modes.keys()].flatMap((name) => name.split(">")))]
  /** The way from source to target: one direction, or two through the hub most pairs share. */
  const way = (source: Language, target: Language): ReadonlyArray<string> | undefined => {
    if (has(`${source}>${target}`)) return [`${source}>${target}`]
    const hub = hubs.find((via) => has(`${source}>${via}`) && has(`${via}>${target}`))
    return hub === undefined ? undefined : [`${source}>${hub}`, `${hub}>${target}`]
  }
  const base = (language: Language): Language => language.split("-", 1)[0]!.toLowerCase()
  const run = (
    name: string,
    segments: ReadonlyArray<EngineSegment>
  ): Effect.Effect<ReadonlyArray<EngineSegment>, EngineFault> => {
    const engine = direction(name)
    if (engine === undefined)
      return Effect.fail(
        new EngineFault({
          reason: "overloaded",
          engine: "apertium",
          detail: `${warmMax} other directions are at work`
        })
      )
    return Effect.forEach(
      segments,
      (segment) => {
        if (segment.units.every((unit) => unit._tag === "opaque" || unit.text.trim() === ""))
          return Effect.succeed(segment)
        const stream = streamOf(segment)
        return Effect.map(
          engine.use(({ run }) => run(stream.text)),
          (answer) => segmentOf(answer, stream)
        )
      },
      { concurrency: segmentsAtOnce }
    )
  }
  return {
    info: { id: "apertium", version: "3", tier: "local", licence: "GPL-2.0-or-later (separate processes)" },
    readiness: () =>
      [...modes.keys()].some(has)
        ? { ready: true }
        : {
            ready: false,
            reason:
              modes.size > 0
                ? `its pairs do not work: ${[...modes.keys()].join(", ")}`
                : lacking.size > 0
                  ? `its pairs want programs that are not installed: ${[...lacking].join(", ")}`
                  : enabled
                    ? "Apertium is not installed: apt-get install --no-install-recommends apertium apertium-eng-spa"
                    : "switched off by configuration"
          },
    supports: (source, target) => {
      const found = way(base(source), base(target))
      return found === undefined ? false : found.length === 1 ? "direct" : "pivot"
    },
    pairs: () =>
      hubs.flatMap((source) =>
        hubs
          .filter((target) => target !== source && way(source, target) !== undefined)
          .map((target) => [source, target] as const)
      ),
    formality: () => false,
    warm: () => {
      for (const name of pairsWarm) if (has(name)) direction(name)?.start()
    },
    translate: ({ source, target, segments }: TranslateRequest) =>
      Effect.suspend(() => {
        const found = way(base(source), base(target))
        if (found === undefined)
          return Effect.fail(
            new EngineFault({
              reason: "unsupported",
              engine: "apertium",
              detail: `no pair ${source}-${target}`
            })
          )
        return Effect.map(
          found
            .slice(1)
            .reduce(
              (before, name) => Effect.flatMap(before, (through) => Effect.suspend(() => run(name, through))),
              run(found[0]!, segments)
            ),
          (translated) => ({ segments: translated, engine: "apertium" })
        )
      })
  }
}
