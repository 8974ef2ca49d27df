/** Twenty everyday sentences, written for this project, with one human translation each: what translation
 *  quality is measured on. */
export interface Sentence {
  readonly en: string
  readonly es: string
  readonly fr: string
}

export const sentences: ReadonlyArray<Sentence> = [
  {
    en: "The train to Madrid leaves at eight in the morning.",
    es: "El tren a Madrid sale a las ocho de la mañana.",
    fr: "Le train pour Madrid part à huit heures du matin."
  },
  {
    en: "We have booked two rooms for three nights.",
    es: "Hemos reservado dos habitaciones para tres noches.",
    fr: "Nous avons réservé deux chambres pour trois nuits."
  },
  {
    en: "The meeting begins tomorrow at ten.",
    es: "La reunión empieza mañana a las diez.",
    fr: "La réunion commence demain à dix heures."
  },
  {
    en: "My sister lives in a small house near the sea.",
    es: "Mi hermana vive en una casa pequeña cerca del mar.",
    fr: "Ma sœur habite une petite maison près de la mer."
  },
  {
    en: "The new software solves several security problems.",
    es: "El nuevo software resuelve varios problemas de seguridad.",
    fr: "Le nouveau logiciel résout plusieurs problèmes de sécurité."
  },
  {
    en: "I do not understand this question.",
    es: "No entiendo esta pregunta.",
    fr: "Je ne comprends pas cette question."
  },
  {
    en: "The children are playing in the garden.",
    es: "Los niños están jugando en el jardín.",
    fr: "Les enfants jouent dans le jardin."
  },
  {
    en: "You can pay with a credit card or in cash.",
    es: "Puede pagar con tarjeta de crédito o en efectivo.",
    fr: "Vous pouvez payer par carte de crédit ou en espèces."
  },
  {
    en: "The museum is closed on Mondays.",
    es: "El museo está cerrado los lunes.",
    fr: "Le musée est fermé le lundi."
  },
  {
    en: "She wrote a long letter to her mother.",
    es: "Escribió una carta larga a su madre.",
    fr: "Elle a écrit une longue lettre à sa mère."
  },
  {
    en: "The price of the product includes taxes.",
    es: "El precio del producto incluye los impuestos.",
    fr: "Le prix du produit comprend les taxes."
  },
  {
    en: "Where is the nearest pharmacy?",
    es: "¿Dónde está la farmacia más cercana?",
    fr: "Où est la pharmacie la plus proche ?"
  },
  {
    en: "Our company has offices in five countries.",
    es: "Nuestra empresa tiene oficinas en cinco países.",
    fr: "Notre entreprise a des bureaux dans cinq pays."
  },
  {
    en: "It rained all day, but the streets are dry now.",
    es: "Llovió todo el día, pero las calles ya están secas.",
    fr: "Il a plu toute la journée, mais les rues sont sèches maintenant."
  },
  {
    en: "The doctor says that I have to sleep more.",
    es: "El médico dice que tengo que dormir más.",
    fr: "Le médecin dit que je dois dormir davantage."
  },
  {
    en: "This road is dangerous in winter.",
    es: "Esta carretera es peligrosa en invierno.",
    fr: "Cette route est dangereuse en hiver."
  },
  {
    en: "We will send you the documents next week.",
    es: "Le enviaremos los documentos la próxima semana.",
    fr: "Nous vous enverrons les documents la semaine prochaine."
  },
  {
    en: "The water in this lake is very cold.",
    es: "El agua de este lago está muy fría.",
    fr: "L'eau de ce lac est très froide."
  },
  {
    en: "He forgot his keys in the car.",
    es: "Olvidó sus llaves en el coche.",
    fr: "Il a oublié ses clés dans la voiture."
  },
  {
    en: "The students read a book every month.",
    es: "Los estudiantes leen un libro cada mes.",
    fr: "Les étudiants lisent un livre chaque mois."
  }
]
