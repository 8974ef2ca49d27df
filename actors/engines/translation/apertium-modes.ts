/** Finds what is installed of Apertium: directions, the command lines of their pipelines, and the programs
 *  that are missing. It is guaranteed that a direction is listed only if all of its programs are installed.
 *  Source: docs/spec/engines.md, sections 2.4 and 15. */
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import type { Language } from "../ports.ts"

/** Maps Apertium's language codes (ISO 639-3, or -1 in older pairs) to the API's. */
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

/** Directions that may be installed, but crash, answer nothing or leave half the words untranslated. */
const unusable = new Set(["ru>uk", "ru>be", "es>eo"])

/** A canary sentence per language, which its directions have to translate before they are used. It is written
 *  in the source language, because "Test 123." passes on broken pairs, too. */
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

const isInstalled = (program: string): boolean =>
  program.includes("/")
    ? existsSync(program)
    : (process.env["PATH"] ?? "").split(":").some((folder) => existsSync(join(folder, program)))

const programsOf = (mode: string): ReadonlyArray<string> =>
  mode.split("|").map((program) => program.trim().split(/\s/, 1)[0]!)

export interface InstalledDirections {
  /** Maps a direction (`en>es`) to its command line. */
  readonly modes: ReadonlyMap<string, string>
  /** Programs that modes require but nobody has installed (cg-proc is only recommended by its pairs). */
  readonly lacking: ReadonlySet<string>
}

/** Reads the directions out of a folder of Apertium's modes. */
export const directionsIn = (folder: string): InstalledDirections => {
  const modes = new Map<string, string>()
  const lacking = new Set<string>()
  const present = new Set<string>()
  if (!existsSync(folder)) return { modes, lacking }
  for (const file of readdirSync(folder).sort()) {
    const [, from, to] = /^([a-z]{2,3})-([a-z]{2,3})\.mode$/.exec(file) ?? []
    const source = languages[from ?? ""]
    const target = languages[to ?? ""]
    if (source === undefined || target === undefined || unusable.has(`${source}>${target}`)) continue
    const mode = readFileSync(join(folder, file), "utf8")
    const absent = programsOf(mode).filter((program) => !present.has(program) && !isInstalled(program))
    for (const program of programsOf(mode)) if (!absent.includes(program)) present.add(program)
    for (const program of absent) lacking.add(program)
    if (absent.length === 0) modes.set(`${source}>${target}`, commandOf(mode))
  }
  return { modes, lacking }
}

/** Makes a mode's command line: unknown words stay unmarked, every program that knows it flushes at a
 *  null. */
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
