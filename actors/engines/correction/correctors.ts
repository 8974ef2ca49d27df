/** The correctors of this installation: Harper for English, and Hunspell for every language that has a
 *  dictionary here. It is guaranteed that we distribute no GPL dictionary: we use those of our packages, and
 *  those that the operator has installed into /usr/share/hunspell. Source: docs/spec/engines.md, sections 8.1
 *  and 8.2. */
import { Effect } from "effect"
import { existsSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import type { ActorSystem } from "../../../runtime/registry.ts"
import type { EngineStartMap } from "../engine-process.ts"
import { EngineFault, type Corrector } from "../ports.ts"
import { workerCorrector } from "./worker-corrector.ts"

export const harper = (system: ActorSystem, starts: EngineStartMap): Corrector =>
  workerCorrector({
    system,
    starts,
    worker: "harper",
    data: {},
    languages: ["en"],
    info: { id: "harper", version: "2.10.0", tier: "embedded", licence: "Apache-2.0" },
    canary: { text: "He go to school.", language: "en-us", corrected: "He goes to school." }
  })

/** The packages of dictionaries, by language. */
const packages = {
  es: "dictionary-es",
  fr: "dictionary-fr",
  pt: "dictionary-pt-pt",
  "pt-br": "dictionary-pt",
  "pt-pt": "dictionary-pt-pt"
}

/** Names of dictionaries in /usr/share/hunspell, by language. */
const systemDictionaries = { de: ["de_DE", "de_DE_frami"], it: ["it_IT"] }
const systemFolder = "/usr/share/hunspell"

/** A canary per language: a text and its correction. */
const canaries: Readonly<Record<string, readonly [string, string]>> = {
  es: ["la accion", "la acción"],
  fr: ["le langgage", "le langage"],
  pt: ["o coracao", "o coração"]
}

/** Paths of dictionaries without their extension, by language. */
export const hunspellDictionaries = (folder = systemFolder): Readonly<Record<string, string>> => {
  const found: Record<string, string> = {}
  for (const [language, names] of Object.entries(systemDictionaries)) {
    const name = names.find((candidate) => existsSync(join(folder, `${candidate}.dic`)))
    if (name !== undefined) found[language] = join(folder, name)
  }
  const require = createRequire(import.meta.url)
  for (const [language, name] of Object.entries(packages))
    try {
      found[language] = join(dirname(require.resolve(name)), "index")
    } catch {
      /* not installed */
    }
  return found
}

export const hunspell = (
  system: ActorSystem,
  starts: EngineStartMap,
  dictionaries = hunspellDictionaries()
): Corrector => {
  const languages = Object.keys(dictionaries).filter((language) => !language.includes("-"))
  const tested = languages.find((language) => language in canaries) ?? "es"
  const [text, corrected] = canaries[tested]!
  return workerCorrector({
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
    canary: { text, language: tested, corrected }
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
