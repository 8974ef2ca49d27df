/** The correctors of this installation: Harper for English, Hunspell for every language that has a dictionary
 *  here (those of our packages, and what Debian keeps in /usr/share/hunspell: GPL ones are the operator's to
 *  install). Source: spec engines 8.1, 8.2. */
import { Effect } from "effect"
import { existsSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import type { ActorSystem } from "../../../runtime/registry.ts"
import { EngineFault, type Corrector } from "../ports.ts"
import { threadCorrector } from "./thread-corrector.ts"

type Starts = Map<string, any>

export const harper = (system: ActorSystem, starts: Starts): Corrector =>
  threadCorrector({
    system,
    starts,
    worker: "harper",
    data: {},
    languages: ["en"],
    info: { id: "harper", version: "2.10.0", tier: "embedded", licence: "Apache-2.0" },
    canary: { text: "He go to school.", language: "en-us", wants: "He goes to school." }
  })

/** Our language → package, or the name in /usr/share/hunspell. */
const packaged = {
  es: "dictionary-es",
  fr: "dictionary-fr",
  pt: "dictionary-pt-pt",
  "pt-br": "dictionary-pt",
  "pt-pt": "dictionary-pt-pt"
}

const installed = { de: ["de_DE", "de_DE_frami"], it: ["it_IT"] }
const systemFolder = "/usr/share/hunspell"

const canaries: Readonly<Record<string, readonly [string, string]>> = {
  es: ["la accion", "la acción"],
  fr: ["le langgage", "le langage"],
  pt: ["o coracao", "o coração"]
}

export const hunspellDictionaries = (folder = systemFolder): Readonly<Record<string, string>> => {
  const found: Record<string, string> = {}
  for (const [language, names] of Object.entries(installed)) {
    const name = names.find((one) => existsSync(join(folder, `${one}.dic`)))
    if (name !== undefined) found[language] = join(folder, name)
  }
  const require = createRequire(import.meta.url)
  for (const [language, name] of Object.entries(packaged))
    try {
      found[language] = join(dirname(require.resolve(name)), "index")
    } catch {
      /* not installed */
    }
  return found
}

export const hunspell = (
  system: ActorSystem,
  starts: Starts,
  dictionaries = hunspellDictionaries()
): Corrector => {
  const languages = Object.keys(dictionaries).filter((language) => !language.includes("-"))
  const tested = languages.find((language) => language in canaries) ?? "es"
  const [text, wants] = canaries[tested]!
  return threadCorrector({
    system,
    starts,
    worker: "hunspell",
    data: { dictionaries },
    languages,
    info: {
      id: "hunspell",
      version: "4.0.2",
      tier: "embedded",
      licence: "MIT, MPL-2.0 (Hunspell); dictionaries MPL, LGPL"
    },
    canary: { text, language: tested, wants }
  })
}

export const correctorRouter = (engines: ReadonlyArray<Corrector>): Corrector => ({
  info: { id: "corrector", version: "1", tier: "embedded", licence: "MIT" },
  readiness: () =>
    engines.some((engine) => engine.readiness().ready)
      ? { ready: true }
      : { ready: false, reason: "no corrector is ready" },
  languages: () => [...new Set(engines.flatMap((engine) => engine.languages()))],
  correct: (text, language) =>
    Effect.suspend(
      () =>
        engines
          .find((engine) => engine.languages().includes(language.split("-")[0]!))
          ?.correct(text, language) ??
        Effect.fail(
          new EngineFault({
            reason: "unsupported",
            engine: "corrector",
            detail: `nothing corrects ${language}`
          })
        )
    )
})
