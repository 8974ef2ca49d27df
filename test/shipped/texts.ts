/** Texts in the scripts of the world: what a bundle, a decoder or a header breaks first. */

/** A sentence of each language, by the code that the translation service detects. */
export const sentences: Readonly<Record<string, string>> = {
  EN: "The weather is nice today, and we will go to the park.",
  DE: "Über den Wäldern größerer Städte schweben träge Möwen.",
  FR: "Où est passée la forêt d'été, s'interrogeait le garçon naïf.",
  PL: "Zażółć gęślą jaźń, powiedział starszy pan do córki.",
  TR: "İstanbul'da çığlık çığlığa ötüşen kuşları dinliyorduk.",
  VI: "Hôm nay trời đẹp nên chúng tôi sẽ đi dạo ở công viên.",
  RU: "Сегодня хорошая погода, и мы пойдём гулять в парк.",
  UK: "Сьогодні гарна погода, і ми підемо гуляти в парк.",
  BE: "Сёння добрае надвор'е, і мы пойдзем у парк. Ўвечары вернемся.",
  MK: "Денес времето е убаво. Ќе одиме во парк со моите браќа, а ѓавол чека.",
  BG: "Днес времето е хубаво и ще отидем на разходка в парка.",
  EL: "Σήμερα ο καιρός είναι ωραίος και θα πάμε στο πάρκο.",
  AR: "الطقس جميل اليوم وسوف نذهب إلى الحديقة.",
  HE: "מזג האוויר נעים היום, ונלך לפארק.",
  JA: "今日は天気がいいので、公園に行きましょう。",
  ZH: "今天天气很好，我们去公园吧。",
  KO: "오늘은 날씨가 좋아서 공원에 갈 거예요.",
  TH: "วันนี้อากาศดี เราจะไปสวนสาธารณะกัน",
  KA: "დღეს კარგი ამინდია და პარკში წავალთ.",
  HY: "Այսօր եղանակը լավ է, և մենք կգնանք այգի։"
}

/** What is no language: emoji beyond the BMP and joined ones, combining marks, directions, odd spaces. */
export const oddities: ReadonlyArray<string> = [
  "Ship 🚢 to 👩‍👩‍👧‍👦 and 🏳️‍🌈, please 🫶🏽.",
  "e\u0301le\u0300ve a\u030angstro\u0308m s\u0323\u0307",
  "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𠜎𠜱𠝹 𓀀",
  "\u200fשלום\u200e world \u202bمرحبا\u202c",
  "narrow\u202fno\u00a0break\u3000wide",
  "“curly” ‘single’ «guillemets» „low“ — dash – en … dots",
  "⟦0⟧ [brackets] 【lenticular】 ¿qué? ¡hola!",
  "µ ß ﬁ ǆ Å Ω № ™ €"
]

export const everyText: ReadonlyArray<string> = [...Object.values(sentences), ...oddities]

/** Names as people give them to files, products, clients. */
export const names: ReadonlyArray<string> = [
  "Größe & Straße",
  "Лампа настольная",
  "Ўласны файл",
  "επιτραπέζιο φωτιστικό",
  "مصباح مكتبي",
  "מנורת שולחן",
  "卓上ランプ",
  "桌灯",
  "탁상 램프",
  "โคมไฟตั้งโต๊ะ",
  "Lamp 🪔 𠮷",
  "e\u0301tude"
]
