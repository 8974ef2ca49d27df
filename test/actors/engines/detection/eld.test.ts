import { describe, expect, it } from "vitest"
import { expectLinear } from "../../../linear.ts"
import { eldDetector } from "../../../../actors/engines/detection/eld.ts"

const detector = eldDetector()
const language = (text: string) => detector.detect(text).language

describe("engines 3: detection", () => {
  it("answers the first text, without having been warmed", () => {
    expect(eldDetector().detect("The weather is nice today and we will go to the park.")).toMatchObject({
      language: "en",
      reliable: true
    })
  })
  const sentences: Readonly<Record<string, string>> = {
    en: "The train to the airport leaves in twenty minutes.",
    de: "Der Zug zum Flughafen fährt in zwanzig Minuten ab.",
    fr: "Le train pour l'aéroport part dans vingt minutes.",
    es: "El tren al aeropuerto sale dentro de veinte minutos.",
    it: "Il treno per l'aeroporto parte tra venti minuti.",
    pt: "O comboio para o aeroporto parte dentro de vinte minutos.",
    nl: "De trein naar het vliegveld vertrekt over twintig minuten.",
    pl: "Pociąg na lotnisko odjeżdża za dwadzieścia minut.",
    cs: "Vlak na letiště odjíždí za dvacet minut.",
    sv: "Tåget till flygplatsen går om tjugo minuter.",
    fi: "Juna lentokentälle lähtee kahdenkymmenen minuutin kuluttua.",
    hu: "A repülőtérre tartó vonat húsz perc múlva indul.",
    ro: "Trenul spre aeroport pleacă peste douăzeci de minute.",
    tr: "Havaalanına giden tren yirmi dakika sonra kalkıyor.",
    id: "Kereta ke bandara berangkat dalam dua puluh menit.",
    ru: "Поезд в аэропорт отправляется через двадцать минут.",
    uk: "Потяг до аеропорту вирушає за двадцять хвилин.",
    bg: "Влакът за летището тръгва след двадесет минути.",
    ja: "空港行きの電車は二十分後に出ます。",
    zh: "去机场的火车二十分钟后出发。",
    ko: "공항행 기차는 이십 분 후에 출발합니다.",
    el: "Το τρένο για το αεροδρόμιο φεύγει σε είκοσι λεπτά.",
    he: "הרכבת לשדה התעופה יוצאת בעוד עשרים דקות.",
    ar: "يغادر القطار إلى المطار بعد عشرين دقيقة.",
    vi: "Tàu ra sân bay sẽ khởi hành sau hai mươi phút nữa.",
    th: "รถไฟไปสนามบินออกในอีกยี่สิบนาที"
  }
  for (const [is, text] of Object.entries(sentences))
    it(`${is}: ${text}`, () => expect(language(text)).toBe(is))
  it("short everyday phrases, whatever their case and marks", () => {
    for (const [text, is] of [
      ["¡Hola!", "es"],
      ["Danke", "de"],
      ["MERCI BEAUCOUP", "fr"],
      ["Grazie mille.", "it"],
      ["obrigada", "pt"],
      ["Tusen takk!", "nb"],
      ["Teşekkür ederim", "tr"],
      ["Dzień dobry", "pl"],
      ["Спасибо", "ru"],
      ["Дякую", "uk"],
      ["Xin chào", "vi"],
      ["Hello?", "en"]
    ] as const)
      expect(language(text), text).toBe(is)
  })
  it("one foreign letter or word does not settle a text", () => {
    expect(language("The particle α decays into two other particles after a while.")).toBe("en")
    expect(language("We ate at a restaurant called 寿司 in the middle of the town.")).toBe("en")
    expect(language("Wir nennen diese Konstante γ, weil sie schon immer so hieß.")).toBe("de")
  })
  it("an unreliable text is judged with the others of its request", () => {
    const together = ["No", "El tren al aeropuerto sale dentro de veinte minutos.", "Gracias por su visita."]
    expect(detector.detect("Taxi", ["Taxi", ...together]).language).toBe("es")
  })
  it("nothing to go by: no language, and no crash", () => {
    for (const text of ["", "   ", "12345", "?!", "😀", "\0", "\ud800"])
      expect(detector.detect(text)).toEqual({ language: undefined, confidence: 0, reliable: false })
  })
  it("costs no more for 128 KiB than for a page", () => {
    for (const hostile of [
      "a".repeat(131_072),
      "word ".repeat(26_000),
      " ".repeat(131_072),
      "é\u0301".repeat(60_000),
      "漢".repeat(40_000)
    ]) {
      const page = hostile.slice(0, 8_192)
      expectLinear(
        (size) => {
          for (let i = 0; i < 20; i++) detector.detect(size === 1 ? page : hostile)
        },
        1,
        JSON.stringify(hostile.slice(0, 5))
      )
    }
  })
})
