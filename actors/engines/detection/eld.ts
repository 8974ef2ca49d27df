/** Detects the language of a text: by scripts that settle it, by everyday phrases too short for
 *  statistics, then by eld's small model. It is guaranteed that the model is loaded at the first use (0.3
 *  to 0.5 s, 100 MiB) or by `warm`, so that a start does not pay. Source: docs/spec/engines.md, section 3. */
import { existsSync } from "node:fs"
import { createRequire } from "node:module"
import { join } from "node:path"
import type { Detection, Detector, Language } from "../ports.ts"

/** The languages that translation can detect, as eld calls them (docs/spec/translation.md, appendix C). */
const subset = [
  "ar",
  "bg",
  "cs",
  "da",
  "de",
  "el",
  "en",
  "es",
  "et",
  "fi",
  "fr",
  "he",
  "hu",
  "it",
  "ja",
  "ko",
  "lt",
  "lv",
  "ms",
  "nl",
  "no",
  "pl",
  "pt",
  "ro",
  "ru",
  "sk",
  "sl",
  "sv",
  "tr",
  "uk",
  "vi",
  "zh"
]

/** Our codes where eld's differ: it has one for both Norwegians, and takes Indonesian for Malay. */
const codes: Readonly<Record<string, Language>> = { no: "nb", ms: "id" }

/** Scripts that settle the language, with the weight of a letter. Of several scripts in one text the one
 *  with most letters counts; an ideogram weighs as much as a short word. */
const scripts: ReadonlyArray<readonly [RegExp, Language, number]> = [
  [/[\uac00-\ud7af\u1100-\u11ff]/g, "ko", 3],
  [/[\u3040-\u30ff\u4e00-\u9fff\u3400-\u4dbf]/g, "zh", 3],
  [/[\u0e00-\u0e7f]/g, "th", 1],
  [/[\u0370-\u03ff\u1f00-\u1fff]/g, "el", 1],
  [/[\u0590-\u05ff]/g, "he", 1],
  [/[\u10a0-\u10ff]/g, "ka", 1],
  [/[\u0530-\u058f]/g, "hy", 1]
]

const latin = /[A-Za-z\u00c0-\u024f]/g
const cyrillic = /[\u0400-\u04ff]/g
const kana = /[\u3040-\u30ff]/

const cyrillicLetters: ReadonlyArray<readonly [RegExp, Language]> = [
  [/[ѓќ]/i, "mk"],
  [/ў/i, "be"],
  [/[іїєґ]/i, "uk"],
  [/[ыэё]/i, "ru"]
]

const scriptOf = (text: string): Language | undefined => {
  if (/^[\0-\u024f\u2000-\u20ff]*$/.test(text)) return undefined
  const count = (letters: RegExp): number => text.match(letters)?.length ?? 0
  const inCyrillic = count(cyrillic)
  let language: Language | undefined
  let most = Math.max(count(latin), inCyrillic)
  for (const [letters, scriptLanguage, weight] of scripts) {
    const weighted = count(letters) * weight
    if (weighted > most) {
      most = weighted
      language = scriptLanguage
    }
  }
  if (language === "zh") return kana.test(text) ? "ja" : "zh"
  if (language !== undefined || inCyrillic < most) return language
  return cyrillicLetters.find(([letters]) => letters.test(text))?.[1]
}

/** Everyday phrases that are too short for statistics, by language. */
const phrases: Record<Language, string> = {
  en: "hello|hi|thanks|thank you|yes|good morning|good evening|good night|goodbye|bye|please|sorry|excuse me|how are you|welcome",
  es: "hola|gracias|muchas gracias|sí|buenos días|buenas tardes|buenas noches|adiós|por favor|lo siento|perdón|cómo estás|bienvenido",
  fr: "bonjour|salut|merci|merci beaucoup|oui|bonsoir|bonne nuit|au revoir|s'il vous plaît|pardon|désolé|comment ça va|bienvenue",
  de: "hallo|danke|vielen dank|ja|nein|guten morgen|guten tag|guten abend|gute nacht|tschüss|auf wiedersehen|bitte|entschuldigung|wie geht's|willkommen",
  it: "ciao|grazie|grazie mille|buongiorno|buonasera|buonanotte|arrivederci|per favore|prego|scusa|mi dispiace|come stai|benvenuto",
  pt: "olá|oi|obrigado|obrigada|sim|não|bom dia|boa tarde|boa noite|adeus|tchau|por favor|desculpe|como vai|bem-vindo",
  nl: "hoi|dank je|dank u|bedankt|nee|goedemorgen|goedenavond|tot ziens|alsjeblieft|alstublieft|sorry hoor|hoe gaat het|welkom",
  da: "hej hej|mange tak|godmorgen|godaften|godnat|farvel|undskyld|velkommen til|hvordan går det|vær så god",
  nb: "takk|tusen takk|god kveld|ha det|ha det bra|unnskyld|vær så snill|hvordan går det med deg|hyggelig å møte deg",
  fi: "moi|hei hei|kiitos|kiitos paljon|kyllä|ei|hyvää huomenta|hyvää päivää|hyvää iltaa|hyvää yötä|näkemiin|anteeksi|ole hyvä|mitä kuuluu|tervetuloa",
  cs: "ahoj|děkuji|díky|ano|dobré ráno|dobrý den|dobrý večer|dobrou noc|na shledanou|prosím|promiňte|jak se máš|vítejte",
  sk: "ďakujem|áno|dobré ráno prajem|dobrý deň|dobrú noc|dovidenia|prosím vás|prepáčte|ako sa máš|vitajte",
  hu: "szia|köszönöm|igen|nem|jó reggelt|jó napot|jó estét|jó éjszakát|viszontlátásra|kérem|bocsánat|hogy vagy|üdvözöljük",
  ro: "bună|mulțumesc|da|nu|bună dimineața|bună ziua|bună seara|noapte bună|la revedere|vă rog|scuze|ce mai faci|bine ai venit",
  tr: "merhaba|teşekkürler|teşekkür ederim|evet|hayır|günaydın|iyi günler|iyi akşamlar|iyi geceler|hoşça kal|güle güle|lütfen|özür dilerim|nasılsın|hoş geldiniz",
  id: "halo|terima kasih|ya|tidak|selamat pagi|selamat siang|selamat malam|selamat tinggal|tolong|maaf|apa kabar|selamat datang",
  ru: "привет|спасибо|да|нет|доброе утро|добрый день|добрый вечер|спокойной ночи|до свидания|пожалуйста|извините|как дела|добро пожаловать|здравствуйте",
  uk: "дякую|так|ні|доброго ранку|добрий день|добрий вечір|на добраніч|до побачення|будь ласка|вибачте|як справи|ласкаво просимо",
  bg: "здравей|здравейте|благодаря|не|добро утро|добър ден|добър вечер|лека нощ|довиждане|моля|извинете|как си|добре дошли",
  ar: "مرحبا|شكرا|شكرا لك|نعم|لا|صباح الخير|مساء الخير|مع السلامة|من فضلك|آسف|كيف حالك|أهلا وسهلا",
  vi: "xin chào|cảm ơn|vâng|không|chào buổi sáng|chúc ngủ ngon|tạm biệt|xin lỗi|bạn khỏe không",
  et: "tere|aitäh|jah|tere hommikust|head õhtut|head ööd|nägemist|palun|vabandust",
  lv: "sveiki|paldies|jā|labrīt|labdien|labvakar|uz redzēšanos|lūdzu|atvainojiet",
  lt: "labas|ačiū|taip|labas rytas|laba diena|labas vakaras|labanakt|viso gero|prašau|atsiprašau",
  sl: "živjo|hvala|dobro jutro|dober dan|dober večer|lahko noč|nasvidenje|oprostite",
  pl: "cześć|dziękuję|tak|dzień dobry|dobry wieczór|dobranoc|do widzenia|proszę|przepraszam|jak się masz|witaj",
  sv: "hej|tack|tack så mycket|god morgon|god natt|hej då|snälla|förlåt|hur mår du|välkommen"
}

/** Languages by phrase. */
const phraseLanguages = new Map(
  Object.entries(phrases).flatMap(([language, list]) =>
    list.split("|").map((phrase) => [phrase, language] as const)
  )
)

interface Eld {
  detect(text: string): {
    readonly language: string
    isReliable(): boolean
    getScores(): Record<string, number>
  }
  setLanguageSubset(languages: Array<string>): unknown
}

let eld: Eld | undefined

/** Loads the package by `require`, because the port is synchronous. It is an ES module without top-level
 *  await that names only `import` in its exports, so it is found by its file. */
const load = (): Eld => {
  if (eld === undefined) {
    const require = createRequire(import.meta.url)
    const files = (require.resolve.paths("eld") ?? []).map((folder) =>
      join(folder, "eld/src/entries/static.small.js")
    )
    eld = (require(files.find((file) => existsSync(file)) ?? "eld") as { readonly eld: Eld }).eld
    eld.setLanguageSubset(subset)
  }
  return eld
}

/** A text is looked at no further: more says nothing new, and would hold everybody up. */
const charsMax = 1_000

const phraseCharsMax = 40
const unknown: Detection = { language: undefined, confidence: 0, reliable: false }

export interface WarmDetector extends Detector {
  readonly warm: () => Promise<void>
}

export const eldDetector = (): WarmDetector => {
  const detectOne = (text: string): Detection => {
    const letters = text.trimStart().slice(0, charsMax).normalize("NFC").trim()
    if (!/\p{L}/u.test(letters)) return unknown
    const script = scriptOf(letters)
    if (script !== undefined) return { language: script, confidence: 0.99, reliable: true }
    const phrase =
      letters.length > phraseCharsMax
        ? undefined
        : phraseLanguages.get(
            letters
              .toLowerCase()
              .replace(/[¡!¿?.,…]+/g, "")
              .trim()
          )
    if (phrase !== undefined) return { language: phrase, confidence: 0.95, reliable: true }
    const result = load().detect(letters)
    if (result.language === "") return unknown
    const language = codes[result.language] ?? result.language
    return { language, confidence: result.getScores()[result.language] ?? 0.5, reliable: result.isReliable() }
  }
  return {
    info: { id: "eld", version: "2.1.0", tier: "embedded", licence: "Apache-2.0" },
    readiness: () => ({ ready: true }),
    warm: async () => {
      load()
    },
    detect: (text, together) => {
      const alone = detectOne(text)
      if (alone.reliable || together === undefined || together.length < 2) return alone
      const all = detectOne(joined(together))
      return all.language === undefined ? alone : all
    }
  }
}

const joined = (texts: ReadonlyArray<string>): string => {
  let all = ""
  for (const text of texts) if ((all += `${text}\n`).length > charsMax) break
  return all
}
