/** What a decoder without case and punctuation hears, as a reader expects it. Rules for English (spec engines
 *  4.1); pure. */

const asks =
  /^(?:who|what|when|where|why|how|which|whose|is|are|am|was|were|do|does|did|can|could|will|would|shall|should|may|might|have|has|had)\b/i

const names =
  /\b(?:i|i'm|i'll|i've|i'd|monday|tuesday|wednesday|thursday|friday|saturday|sunday|january|february|april|june|july|august|september|october|november|december|english|french|german|spanish|italian|america|england|london|paris|mister|john)\b/g

const capital = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1)

/** Words cased; no final mark: the speaker may go on. */
export const phraseOf = (heard: string): string =>
  capital(heard.replace(/\s+/g, " ").trim().replace(names, capital))

/** A whole utterance: cased, with its final mark. */
export const sentenceOf = (heard: string): string => {
  const phrase = phraseOf(heard)
  return phrase === "" ? "" : phrase + (asks.test(phrase) ? "?" : ".")
}
