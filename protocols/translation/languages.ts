/** The table of all languages and features of the service (appendix A and C). What the installed engines do
 *  not support now is not listed and is refused, so each look-up that depends on engines takes them as an
 *  argument. Codes are BCP 47 here (`en-US`, `zh-Hans`, `es-419`) and lower case towards engines; wire.ts
 *  converts them to the case of each endpoint.
 *  Source: docs/spec/translation.md, appendix A, appendix C and section 1.5. */
import type { Engines, Language, Translator } from "../../actors/engines/ports.ts"

export interface SupportedLanguage {
  /** Language code by BCP 47. */
  readonly code: string
  /** English name of the language. */
  readonly name: string
  /** Base code: everything before the first "-". */
  readonly base: Language
  readonly source: boolean
  readonly target: boolean
  /** The language appears in /v2/languages. */
  readonly listed: boolean
}

/** Rows are code=name=S(ource)T(arget); * means that the language does not appear in /v2/languages. */
const table = [
  "ace=Acehnese=ST*|af=Afrikaans=ST|an=Aragonese=ST|ar=Arabic=ST|as=Assamese=ST|ay=Aymara=ST|az=Azerbaijani=ST|ba=Bashkir=ST",
  "be=Belarusian=ST|bg=Bulgarian=ST|bho=Bhojpuri=ST*|bn=Bengali=ST|br=Breton=ST|bs=Bosnian=ST|ca=Catalan=ST|ceb=Cebuano=ST*",
  "ckb=Kurdish (Sorani)=ST*|cs=Czech=ST|cy=Welsh=ST|da=Danish=ST|de=German=ST|de-CH=German (Swiss)=T|el=Greek=ST|en=English=S",
  "en-GB=English (British)=T|en-US=English (American)=T|eo=Esperanto=ST|es=Spanish=ST|es-419=Spanish (Latin American)=T",
  "et=Estonian=ST|eu=Basque=ST|fa=Persian=ST|fi=Finnish=ST|fr=French=ST|fr-CA=French (Canadian)=T|ga=Irish=ST|gl=Galician=ST",
  "gn=Guarani=ST|gom=Konkani=ST*|gu=Gujarati=ST|ha=Hausa=ST|he=Hebrew=ST|hi=Hindi=ST|hr=Croatian=ST|ht=Haitian Creole=ST",
  "hu=Hungarian=ST|hy=Armenian=ST|id=Indonesian=ST|ig=Igbo=ST|is=Icelandic=ST|it=Italian=ST|ja=Japanese=ST|jv=Javanese=ST",
  "ka=Georgian=ST|kk=Kazakh=ST|kmr=Kurdish (Kurmanji)=ST*|ko=Korean=ST|ky=Kyrgyz=ST|la=Latin=ST|lb=Luxembourgish=ST",
  "lmo=Lombard=ST*|ln=Lingala=ST|lt=Lithuanian=ST|lv=Latvian=ST|mai=Maithili=ST*|mg=Malagasy=ST|mi=Maori=ST|mk=Macedonian=ST",
  "ml=Malayalam=ST|mn=Mongolian=ST|mr=Marathi=ST|ms=Malay=ST|mt=Maltese=ST|my=Burmese=ST|nb=Norwegian (bokmål)=ST|ne=Nepali=ST",
  "nl=Dutch=ST|oc=Occitan=ST|om=Oromo=ST|pa=Punjabi=ST|pag=Pangasinan=ST*|pam=Kapampangan=ST*|pl=Polish=ST|prs=Dari=ST*",
  "ps=Pashto=ST|pt=Portuguese=S|pt-BR=Portuguese (Brazilian)=T|pt-PT=Portuguese (European)=T|qu=Quechua=ST|ro=Romanian=ST",
  "ru=Russian=ST|sa=Sanskrit=ST|scn=Sicilian=ST*|sk=Slovak=ST|sl=Slovenian=ST|sq=Albanian=ST|sr=Serbian=ST|st=Sesotho=ST",
  "su=Sundanese=ST|sv=Swedish=ST|sw=Swahili=ST|ta=Tamil=ST|te=Telugu=ST|tg=Tajik=ST|th=Thai=ST|tk=Turkmen=ST|tl=Tagalog=ST",
  "tn=Tswana=ST|tr=Turkish=ST|ts=Tsonga=ST|tt=Tatar=ST|uk=Ukrainian=ST|ur=Urdu=ST|uz=Uzbek=ST|vi=Vietnamese=ST|wo=Wolof=ST",
  "xh=Xhosa=ST|yi=Yiddish=ST|yue=Cantonese=ST*|zh=Chinese=ST|zh-Hans=Chinese (simplified)=T|zh-Hant=Chinese (traditional)=T",
  "zu=Zulu=ST"
].join("|")

export const languages: ReadonlyArray<SupportedLanguage> = table.split("|").map((row) => {
  const [code, name, uses] = row.split("=") as [string, string, string]
  return {
    code,
    name,
    base: code.split("-")[0]!,
    source: uses.includes("S"),
    target: uses.includes("T"),
    listed: !uses.includes("*")
  }
})

const byCode = new Map(languages.map((language) => [language.code.toLowerCase(), language]))

/** The map also has the upper-case and mixed-case spellings that clients send, so that usual codes need no
 *  folding. */
for (const language of languages) {
  byCode.set(language.code, language)
  byCode.set(language.code.toUpperCase(), language)
}

/** Finds a language by its code in any case. */
export const languageOf = (code: string): SupportedLanguage | undefined =>
  byCode.get(code) ?? byCode.get(code.toLowerCase())

/** Finds a source language; variants are target languages only. */
export const sourceOf = (code: string): SupportedLanguage | undefined => {
  const language = languageOf(code)
  return language?.source === true ? language : undefined
}

/** The variant that a bare code means as a target (section 1.5.4). */
const variants: Readonly<Record<string, SupportedLanguage>> = {
  en: byCode.get("en-us")!,
  pt: byCode.get("pt-pt")!,
  zh: byCode.get("zh-hans")!
}

export const targetOf = (code: string): SupportedLanguage | undefined => {
  const language = languageOf(code)
  if (language === undefined) return undefined
  return variants[language.code] ?? (language.target ? language : undefined)
}

/** A variant that its base language cannot replace, because it has another script. */
const traditionalChinese = "zh-Hant"

/** Returns the code to use with the translator, or undefined when it does not support the pair now. */
export const pairFor = (
  translator: Translator,
  source: Language,
  target: SupportedLanguage
): Language | undefined => {
  const code = target.code.toLowerCase()
  if (translator.supports(source, code) !== false) return code
  return target.code !== traditionalChinese &&
    code !== target.base &&
    translator.supports(source, target.base) !== false
    ? target.base
    : undefined
}

/** The languages that the translator supports now, over all its pairs. */
export interface TranslatorCoverage {
  readonly source: (language: SupportedLanguage) => boolean
  readonly target: (language: SupportedLanguage) => boolean
}

export const coverageOf = (translator: Translator): TranslatorCoverage => {
  const sources = new Set<Language>()
  const targets = new Set<Language>()
  for (const [source, target] of translator.pairs()) {
    sources.add(source.split("-")[0]!)
    targets.add(target.split("-")[0]!)
  }
  const traditional = [...sources].some(
    (source) => source !== "zh" && translator.supports(source, traditionalChinese.toLowerCase()) !== false
  )
  return {
    source: (language) => language.source && sources.has(language.base),
    target: (language) => (language.code === traditionalChinese ? traditional : targets.has(language.base))
  }
}

type Needs = "source" | "target" | "both"

export interface Feature {
  readonly name: string
  readonly needs: Needs
  readonly has: (code: string) => boolean
}

const words = (codes: string): ReadonlySet<string> => new Set(codes.split(" "))

/** Declares a feature; variants inherit a target-side feature of their base. */
const feature = (name: string, needs: Needs, codes: string | undefined): Feature => {
  if (codes === undefined) return { name, needs, has: () => true }
  const set = words(codes)
  return { name, needs, has: (code) => set.has(code) || (needs !== "source" && set.has(code.split("-")[0]!)) }
}

const detectableCodes =
  "ar bg cs da de el en es et fi fr he hu id it ja ko lt lv nb nl pl pt ro ru sk sl sv tr uk vi zh"

const glossaryCodes = detectableCodes
const glossaryUse = `${glossaryCodes} en-GB en-US es-419 pt-BR pt-PT zh-Hans zh-Hant`
const formalityCodes = "de es es-419 fr it ja nl pl pt pt-BR pt-PT ru"
const styleRuleCodes = "de en en-GB en-US es es-419 fr it ja ko zh zh-Hans zh-Hant"
const memoryCodes = words("de en en-GB en-US es es-419 fr it ja ko zh zh-Hans")

const recognizableCodes =
  "ar bg bn cs da de el en es et fi fr ga he hi hr hu id it ja ko lt lv ms mt nb nl pl pt ro ru sk sl sv ta th tl tr uk vi zh"

const synthesizableCodes =
  "ar bg cs da de el en en-GB en-US es fi fr hi hu id it ja ko ms nb nl pl pt pt-BR pt-PT ro ru sk sv ta tr uk vi zh zh-Hans zh-Hant"

export const voiceSources = words(recognizableCodes)
export const voiceTargets = words(`${recognizableCodes} en-GB en-US pt-BR pt-PT zh-Hans zh-Hant`)
export const voiceMediaTargets = words(synthesizableCodes)

/** Languages that appear in /v3/languages for voice only with `include=beta`. */
export const voiceBeta = words("hi ms ta")

export const glossaryLanguages: ReadonlySet<string> = words(glossaryCodes)

/** Base codes of targets that accept custom instructions and style lists. */
export const instructionLanguages = words("de en es fr it ja ko zh")

const textFeatures = [
  feature("auto_detection", "source", detectableCodes),
  feature("tag_handling", "both", undefined),
  feature("formality", "target", formalityCodes),
  feature("glossary", "both", glossaryUse),
  feature("style_rules", "target", styleRuleCodes),
  { name: "translation_memory", needs: "both" as const, has: (code: string) => memoryCodes.has(code) }
]

export interface LanguageResource {
  readonly name: string
  readonly has: (code: string) => boolean
  readonly features: ReadonlyArray<Feature>
}

export const writeLanguages = words("de en en-GB en-US es fr it ja ko pt pt-BR pt-PT zh zh-Hans")
const writeStyledCodes = "de en-GB en-US es fr it pt-BR pt-PT"

/** Languages with styles and tones, provided that an engine supports them. */
export const writeStyled = words(writeStyledCodes)

export const languageResources: ReadonlyArray<LanguageResource> = [
  { name: "translate_text", has: () => true, features: textFeatures },
  { name: "translate_document", has: (code) => code !== "ts", features: textFeatures },
  { name: "glossary", has: (code) => glossaryLanguages.has(code), features: [] },
  {
    name: "voice",
    has: (code) => voiceTargets.has(code),
    features: [
      feature("glossary", "both", glossaryUse),
      feature("auto_detection", "source", recognizableCodes),
      feature("transcription", "source", recognizableCodes),
      feature("formality", "target", formalityCodes.replace(" nl", "").replace(" es-419", "")),
      feature("translated_speech", "target", synthesizableCodes),
      feature("spoken_terms", "source", recognizableCodes)
    ]
  },
  {
    name: "write",
    has: (code) => writeLanguages.has(code),
    features: [
      feature("auto_detection", "source", "de en es fr it ja ko pt zh"),
      feature("writing_style", "target", writeStyledCodes),
      feature("tone", "target", writeStyledCodes)
    ]
  },
  { name: "style_rules", has: (code) => instructionLanguages.has(code), features: [] },
  { name: "translation_memory", has: (code) => memoryCodes.has(code), features: [] }
]

/** Returns whether the language has formality and the translator supports it. */
export const formalityOf = (translator: Translator, target: SupportedLanguage): boolean =>
  textFeatures[2]!.has(target.code) &&
  (translator.formality(target.code.toLowerCase()) || translator.formality(target.base))

/** Returns what rephrasing and correction offer for a language; styles only where an engine distinguishes
 *  them. */
const writeOffers = (
  { has, features }: LanguageResource,
  { corrector, rephraser }: Engines
): ReadonlyArray<Offer> => {
  const written = new Set([...(corrector?.languages() ?? []), ...(rephraser?.languages() ?? [])])
  return languages
    .filter(({ code, base }) => has(code) && written.has(base))
    .map((language) => {
      const { code, base } = language
      const source = code === base
      const target = language.target || code === base
      return {
        language,
        source,
        target,
        beta: false,
        features: features
          .filter(
            ({ name, has: may }) =>
              may(code) &&
              (name === "auto_detection" ? source : rephraser?.styles(code.toLowerCase()) === true && target)
          )
          .map(({ name }) => name)
      }
    })
}

/** Returns, by feature, whether the engines support it for a language now. Features without a row depend on
 *  no engine. */
const engineFeatures: Readonly<
  Record<string, (engines: Engines, language: SupportedLanguage, voice: boolean) => boolean>
> = {
  formality: ({ translator }, language) => formalityOf(translator, language),
  translated_speech: ({ synthesizer }, { base }) => basesOf(synthesizer.languages()).has(base),
  spoken_terms: ({ recognizer }) => recognizer.takesHints === true,
  auto_detection: ({ recognizer, detector }, _, voice) =>
    voice ? recognizer.detects : detector.readiness().ready
}

const basesOf = (codes: ReadonlyArray<string>): ReadonlySet<Language> =>
  new Set(codes.map((code) => code.split("-")[0]!))

/** A row of /v3/languages before its codes are cased and encoded. */
export interface Offer {
  readonly language: SupportedLanguage
  readonly source: boolean
  readonly target: boolean
  readonly beta: boolean
  readonly features: ReadonlyArray<string>
}

export const offersOf = (resource: LanguageResource, engines: Engines): ReadonlyArray<Offer> => {
  if (resource.name === "write") return writeOffers(resource, engines)
  const reach = coverageOf(engines.translator)
  const voice = resource.name === "voice"
  const recognizable = basesOf(voice ? engines.recognizer.languages() : [])
  const offers: Array<Offer> = []
  for (const language of languages) {
    if (!resource.has(language.code)) continue
    const { base, code } = language
    const text = resource.name.startsWith("translate_")
    const source =
      code === base &&
      resource.name !== "style_rules" &&
      (voice ? recognizable.has(base) && voiceSources.has(code) : reach.source(language))
    const target = text && !language.target ? false : reach.target(language)
    if (!source && !target) continue
    offers.push({
      language,
      source,
      target,
      beta: voice && voiceBeta.has(code),
      features: resource.features
        .filter(
          ({ name, needs, has }) =>
            has(code) &&
            (needs !== "source" || source) &&
            (needs !== "target" || target) &&
            engineFeatures[name]?.(engines, language, voice) !== false
        )
        .map(({ name }) => name)
    })
  }
  return offers
}
