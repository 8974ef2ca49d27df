/** Formats the words of a decoder without case and punctuation as a reader expects them, by rules for
 *  English. The functions are pure. Source: docs/spec/engines.md, section 4.1. */

const asks =
  /^(?:who|what|when|where|why|how|which|whose|is|are|am|was|were|do|does|did|can|could|will|would|shall|should|may|might|have|has|had)\b/i

const names =
  /\b(?:i|i'm|i'll|i've|i'd|monday|tuesday|wednesday|thursday|friday|saturday|sunday|january|february|april|june|july|august|september|october|november|december|english|french|german|spanish|italian|america|england|london|paris|mister|john)\b/g

const capital = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1)

/** Formats a phrase: its words are cased, but it gets no final mark, because the speaker may continue. */
export const phraseOf = (heard: string): string =>
  capital(heard.replace(/\s+/g, " ").trim().replace(names, capital))

/** Formats a whole utterance: its words are cased, and it gets a final mark. */
export const sentenceOf = (heard: string): string => {
  const phrase = phraseOf(heard)
  return phrase === "" ? "" : phrase + (asks.test(phrase) ? "?" : ".")
}
