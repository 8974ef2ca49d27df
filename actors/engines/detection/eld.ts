/** Which language a text is in: scripts that settle it, everyday phrases too short for statistics, then eld's small model.
 *  Loaded on first use (0.5 s, 100 MiB) or by `warm`, so that a start does not pay. Source: spec engines 3. */
import type { Detection, Detector, Language } from "../ports.ts"

/** The languages that translation can detect (translation appendix C, auto_detection). */
const subset = ["ar", "bg", "cs", "da", "de", "el", "en", "es", "et", "fi", "fr", "he", "hu", "it", "ja", "ko", "lt", "lv", "nl", "no", "pl", "pt", "ro", "ru", "sk", "sl", "sv", "tr", "uk", "vi", "zh"]
const scripts: ReadonlyArray<readonly [RegExp, Language]> = [
  [/[\u3040-\u30ff]/, "ja"], [/[\uac00-\ud7af\u1100-\u11ff]/, "ko"], [/[\u4e00-\u9fff]/, "zh"], [/[\u0e00-\u0e7f]/, "th"], [/[\u0370-\u03ff]/, "el"],
  [/[\u0590-\u05ff]/, "he"], [/[\u10a0-\u10ff]/, "ka"], [/[\u0530-\u058f]/, "hy"], [/[ѓќ]/i, "mk"], [/ў/i, "be"], [/[іїєґ]/i, "uk"], [/[ыэё]/i, "ru"]
]
const phrases: Record<Language, string> = {
  en: "hello|hi|thanks|thank you|yes|good morning|good evening|good night|goodbye|bye|please|sorry|excuse me|how are you|welcome",
  es: "hola|gracias|muchas gracias|sí|buenos días|buenas tardes|buenas noches|adiós|por favor|lo siento|perdón|cómo estás|bienvenido",
  fr: "bonjour|salut|merci|merci beaucoup|oui|bonsoir|bonne nuit|au revoir|s'il vous plaît|pardon|désolé|comment ça va|bienvenue",
  de: "hallo|danke|vielen dank|ja|nein|guten morgen|guten tag|guten abend|gute nacht|tschüss|auf wiedersehen|bitte|entschuldigung|wie geht's|willkommen",
  it: "ciao|grazie|grazie mille|buongiorno|buonasera|buonanotte|arrivederci|per favore|prego|scusa|mi dispiace|come stai|benvenuto",
  pt: "olá|oi|obrigado|obrigada|sim|não|bom dia|boa tarde|boa noite|adeus|tchau|por favor|desculpe|como vai|bem-vindo",
  nl: "hoi|dank je|dank u|bedankt|nee|goedemorgen|goedenavond|tot ziens|alsjeblieft|alstublieft|sorry hoor|hoe gaat het|welkom",
  pl: "cześć|dziękuję|tak|dzień dobry|dobry wieczór|dobranoc|do widzenia|proszę|przepraszam|jak się masz|witaj",
  sv: "hej|tack|tack så mycket|god morgon|god natt|hej då|snälla|förlåt|hur mår du|välkommen"
}
const known = new Map(Object.entries(phrases).flatMap(([language, list]) => list.split("|").map((phrase) => [phrase, language] as const)))

interface Eld { detect(text: string): { readonly language: string; isReliable(): boolean; getScores(): Record<string, number> }; setLanguageSubset(languages: Array<string>): unknown }
let eld: Eld | undefined
let loading: Promise<void> | undefined
const unknown: Detection = { language: undefined, confidence: 0, reliable: false }

export interface WarmDetector extends Detector { readonly warm: () => Promise<void> }
export const eldDetector = (): WarmDetector => {
  const load = (): Promise<void> => loading ??= import("eld/small").then((module) => {
    eld = (module as unknown as { eld: Eld }).eld
    eld.setLanguageSubset(subset)
  })
  const detectOne = (text: string): Detection => {
    const letters = text.normalize("NFC").trim()
    if (!/\p{L}/u.test(letters)) return unknown
    for (const [script, language] of scripts) if (script.test(letters)) return { language, confidence: 0.99, reliable: true }
    const phrase = known.get(letters.toLowerCase().replace(/[¡!¿?.,…]+/g, "").trim())
    if (phrase !== undefined) return { language: phrase, confidence: 0.95, reliable: true }
    if (eld === undefined) return unknown
    const result = eld.detect(letters)
    if (result.language === "") return unknown
    const language = result.language === "no" ? "nb" : result.language
    return { language, confidence: result.getScores()[result.language] ?? 0.5, reliable: result.isReliable() }
  }
  return {
    info: { id: "eld", version: "2.1.0", tier: "embedded", licence: "Apache-2.0" },
    readiness: () => eld === undefined ? { ready: false, reason: "loading" } : { ready: true },
    warm: load,
    detect: (text, together) => {
      const alone = detectOne(text)
      if (alone.reliable || together === undefined || together.length < 2) return alone
      const all = detectOne(together.join("\n"))
      return all.language === undefined ? alone : all
    }
  }
}
