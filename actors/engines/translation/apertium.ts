/** Apertium's pipelines (GPL, separate processes from Debian), kept warm: one per direction, null-flushed, pipelined.
 *  How they must be driven is spec engines 2.4: null flush between programs, nonce framing, escapes, opaque units as superblanks,
 *  a final full stop, process groups. Each direction passes a canary in its source language before it answers. */
import { spawn } from "node:child_process"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { Effect } from "effect"
import type { ActorSystem } from "../../../runtime/registry.ts"
import { EngineFault, type Language, type Segment, type Translator, type TranslateRequest, type Unit } from "../ports.ts"
import { supervise, type Start, type Supervised } from "../process.ts"

/** Apertium's codes (ISO 639-3, or -1 in older pairs) as the API's. */
const languages: Record<string, Language> = {
  eng: "en", en: "en", spa: "es", es: "es", cat: "ca", ca: "ca", fra: "fr", fr: "fr", ita: "it", it: "it", por: "pt", pt: "pt", glg: "gl", gl: "gl",
  ron: "ro", ro: "ro", oci: "oc", oc: "oc", arg: "an", an: "an", eus: "eu", eu: "eu", bre: "br", br: "br", epo: "eo", eo: "eo", swe: "sv", sv: "sv",
  dan: "da", da: "da", nob: "nb", nb: "nb", isl: "is", is: "is", mkd: "mk", mk: "mk", bul: "bg", bg: "bg", bel: "be", be: "be", rus: "ru", ru: "ru",
  ukr: "uk", uk: "uk", slv: "sl", sl: "sl", afr: "af", af: "af", nld: "nl", nl: "nl", ind: "id", id: "id", zlm: "ms", ms: "ms", urd: "ur", ur: "ur", hin: "hi", hi: "hi"
}
/** Installed they may be, but they crash, stay silent or leave half the words (spec engines 15.1). */
const dead = new Set(["ru>uk", "ru>be", "es>eo"])
const canaries: Record<Language, string> = {
  en: "The house is big.", es: "La casa es grande.", ca: "La casa és gran.", fr: "La maison est grande.", it: "La casa è grande.", pt: "A casa é grande.",
  gl: "A casa é grande.", ro: "Casa este mare.", sv: "Huset är stort.", da: "Huset er stort.", nb: "Huset er stort.", is: "Húsið er stórt.",
  mk: "Куќата е голема.", bg: "Къщата е голяма.", be: "Дом вялікі.", ru: "Дом большой.", uk: "Будинок великий.", eo: "La domo estas granda."
}
const modesFolderDefault = "/usr/share/apertium/modes"
const warmMax = 6
const inFlightMax = 512
/** A pipeline that keeps somebody waiting longer than his deadline by this is killed. */
const overdueMs = 2_000
const startMs = 15_000

export const directionsIn = (folder: string): ReadonlyMap<string, string> => {
  const found = new Map<string, string>()
  if (!existsSync(folder)) return found
  for (const file of readdirSync(folder).sort()) {
    const [, from, to] = /^([a-z]{2,3})-([a-z]{2,3})\.mode$/.exec(file) ?? []
    const source = languages[from ?? ""], target = languages[to ?? ""]
    if (source !== undefined && target !== undefined && !dead.has(`${source}>${target}`)) found.set(`${source}>${target}`, join(folder, file))
  }
  return found
}

/** Unmarked unknown words, null flush in every program that knows it. */
export const commandOf = (mode: string): string => mode.trim().split("|").map((program) => {
  const words = program.trim().replaceAll("$2", "").replaceAll("$1", "-n")
  const name = words.split(/\s/, 1)[0]!
  return /^(?:vislcg3|cg-mwesplit|hfst-tokenise|divvun-suggest)$/.test(name) ? words : words.replace(name, `${name} -z`)
}).join(" | ")

const special = /[\\^$/[\]{}<>@]/g
export const escape = (text: string): string => text.replaceAll("\0", " ").replace(special, "\\$&")
const unescape = (text: string): string => text.replace(/\\(.)/gs, "$1")

/** A segment as the pipeline's stream. */
export const streamOf = ({ units }: Segment): { readonly text: string; readonly lead: string; readonly trail: string; readonly stop: boolean } => {
  const raw = units.map((unit) => unit.kind === "text" ? escape(unit.text) : `[<x${unit.id}>]`).join("")
  const lead = /^\s*/.exec(raw)![0], trail = raw.length === lead.length ? "" : /\s*$/.exec(raw)![0]
  const core = raw.slice(lead.length, raw.length - trail.length)
  const stop = !/[.!?…:;。！？](?:\[<x\d+>\])*$/.test(core)
  return { text: stop ? `${core}.[]` : `${core}[]`, lead, trail, stop }
}
export const segmentOf = (answer: string, { lead, trail, stop }: ReturnType<typeof streamOf>): Segment => {
  let text = answer.replace(/\[\]/g, "").trim()
  if (stop) text = text.replace(/\s*\.((?:\[<x\d+>\])*)$/, "$1")
  text = lead + text.replace(/ {2,}/g, " ") + trail
  const units: Array<Unit> = []
  for (const [i, part] of text.split(/\[<x(\d+)>\]/).entries()) {
    if (i % 2 === 1) units.push({ kind: "opaque", id: Number(part) })
    else if (part !== "") units.push({ kind: "text", text: unescape(part) })
  }
  return { units }
}

interface Pipeline { readonly run: (text: string) => Effect.Effect<string, EngineFault> }

export const pipeline = (id: string, command: string, canary: string | undefined): Start<Pipeline> => Effect.gen(function* () {
  const crashed = (detail: string) => new EngineFault({ reason: "crashed", engine: id, detail })
  const child = yield* Effect.acquireRelease(
    Effect.sync(() => spawn("sh", ["-c", command], { detached: true, stdio: ["pipe", "pipe", "ignore"] })),
    (process) => Effect.sync(() => killGroup(process.pid)))
  const waiting: Array<{ readonly marker: string; readonly settle: (exit: Effect.Effect<string, EngineFault>) => void }> = []
  let nonce = 0, pending = "", over: EngineFault | undefined
  let mourn: ((fault: EngineFault) => void) | undefined
  const die = (detail: string): void => {
    if (over !== undefined) return
    over = crashed(detail)
    for (const { settle } of waiting.splice(0)) settle(Effect.fail(over))
    mourn?.(over)
  }
  child.on("error", (cause) => die(cause.message))
  child.on("exit", (code, signal) => die(`the pipeline ended (${signal ?? code})`))
  child.stdin.on("error", () => {})
  child.stdout.setEncoding("utf8")
  child.stdout.on("data", (data: string) => {
    pending += data.replaceAll("\0", "")
    for (let next = waiting[0]; next !== undefined; next = waiting[0]) {
      const at = pending.indexOf(next.marker)
      if (at < 0) return
      const answer = pending.slice(0, at)
      pending = pending.slice(at + next.marker.length)
      waiting.shift()
      next.settle(Effect.succeed(answer))
    }
  })
  const run = (text: string): Effect.Effect<string, EngineFault> => Effect.callback((resume) => {
    if (over !== undefined) return resume(Effect.fail(over))
    if (waiting.length >= inFlightMax) return resume(Effect.fail(new EngineFault({ reason: "overloaded", engine: id, detail: "too many sentences at once" })))
    const marker = `[/N${++nonce}]`
    let answered = false
    waiting.push({ marker, settle: (exit) => { answered = true; resume(exit) } })
    child.stdin.write(`${text}\0${marker}\0`)
    return Effect.sync(() => { setTimeout(() => { if (!answered) killGroup(child.pid) }, overdueMs).unref() })
  })
  if (canary !== undefined) {
    const answer = yield* Effect.timeoutOrElse(run(escape(canary)), { duration: startMs, orElse: () => Effect.fail(crashed("no answer to its canary")) })
    if (answer.trim().length < canary.length / 4) return yield* Effect.fail(new EngineFault({ reason: "unavailable", engine: id, detail: `${id} does not translate its canary` }))
  }
  return { handle: { run }, death: Effect.callback<never, EngineFault>((resume) => { if (over === undefined) mourn = (fault) => resume(Effect.fail(fault)); else resume(Effect.fail(over)) }) }
})
const killGroup = (pid: number | undefined): void => { try { if (pid !== undefined) process.kill(-pid, "SIGKILL") } catch { /* gone already */ } }

export interface ApertiumOptions { readonly system: ActorSystem; readonly starts: Map<string, any>; readonly modesFolder?: string; readonly enabled?: boolean; readonly warm?: ReadonlyArray<string> }

export const apertium = ({ system, starts, modesFolder = modesFolderDefault, enabled = true, warm = [] }: ApertiumOptions): Translator => {
  const modes = enabled ? directionsIn(modesFolder) : new Map<string, string>()
  const failed = new Set<string>()
  const engines = new Map<string, Supervised<Pipeline>>()
  const direction = (name: string): Supervised<Pipeline> => {
    const known = engines.get(name)
    if (known !== undefined) { engines.delete(name); engines.set(name, known); return known }
    const command = commandOf(readFileSync(modes.get(name)!, "utf8"))
    const engine = supervise(system, starts, `apertium/${name}`, Effect.tapError(pipeline(`apertium ${name}`, command, canaries[name.split(">")[0]!]),
      (fault) => Effect.sync(() => { if (fault.reason === "unavailable") failed.add(name) })))
    engines.set(name, engine)
    if (engines.size > warmMax) { const [oldest, least] = engines.entries().next().value!; if (oldest !== name) { least.stop(); engines.delete(oldest); engines.set(oldest, least) } }
    return engine
  }
  const has = (name: string): boolean => modes.has(name) && !failed.has(name)
  const hubs = [...new Set([...modes.keys()].flatMap((name) => name.split(">")))]
  /** The way from source to target: one direction, or two through the hub most pairs share. */
  const way = (source: Language, target: Language): ReadonlyArray<string> | undefined => {
    if (has(`${source}>${target}`)) return [`${source}>${target}`]
    const hub = hubs.find((via) => has(`${source}>${via}`) && has(`${via}>${target}`))
    return hub === undefined ? undefined : [`${source}>${hub}`, `${hub}>${target}`]
  }
  const base = (language: Language): Language => language.split("-", 1)[0]!.toLowerCase()
  const run = (name: string, segments: ReadonlyArray<Segment>): Effect.Effect<ReadonlyArray<Segment>, EngineFault> => {
    const engine = direction(name)
    return Effect.forEach(segments, (segment) => {
      if (segment.units.every((unit) => unit.kind === "opaque" || unit.text.trim() === "")) return Effect.succeed(segment)
      const stream = streamOf(segment)
      return Effect.map(engine.use(({ run }) => run(stream.text)), (answer) => segmentOf(answer, stream))
    }, { concurrency: "unbounded" })
  }
  for (const name of warm) if (has(name)) direction(name).start()
  return {
    info: { id: "apertium", version: "3", tier: "local", licence: "GPL-2.0-or-later (separate processes)" },
    readiness: () => modes.size > 0 ? { ready: true } : { ready: false, reason: enabled
      ? "Apertium is not installed: apt-get install --no-install-recommends apertium apertium-eng-spa" : "switched off by configuration" },
    supports: (source, target) => { const found = way(base(source), base(target)); return found === undefined ? false : found.length === 1 ? "direct" : "pivot" },
    pairs: () => hubs.flatMap((source) => hubs.filter((target) => target !== source && way(source, target) !== undefined).map((target) => [source, target] as const)),
    formality: () => false,
    translate: ({ source, target, segments }: TranslateRequest) => Effect.suspend(() => {
      const found = way(base(source), base(target))
      if (found === undefined) return Effect.fail(new EngineFault({ reason: "unsupported", engine: "apertium", detail: `no pair ${source}-${target}` }))
      return Effect.map(found.slice(1).reduce((before, name) => Effect.flatMap(before, (through) => run(name, through)), run(found[0]!, segments)),
        (translated) => ({ segments: translated, engine: "apertium" }))
    })
  }
}
