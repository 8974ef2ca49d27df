/** Writes the bare words of a decoder with case and punctuation, by rules for English. It is guaranteed
 *  that no word is added or lost. Source: docs/spec/engines.md, section 4.1. */

const questionStart =
  /^(?:who|what|when|where|why|how|which|whose|is|are|am|was|were|do|does|did|can|could|will|would|shall|should|may|might|have|has|had)\b/i

const names =
  /\b(?:i|i'm|i'll|i've|i'd|monday|tuesday|wednesday|thursday|friday|saturday|sunday|january|february|april|june|july|august|september|october|november|december|english|french|german|spanish|italian|america|england|london|paris|mister|john)\b/g

const capital = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1)

/** Writes a part of an utterance: with case, without a final mark, because the speaker may go on. */
export const phraseOf = (words: string): string =>
  capital(words.replace(/\s+/g, " ").trim().replace(names, capital))

/** Writes a whole utterance, with its final mark. */
export const sentenceOf = (words: string): string => {
  const phrase = phraseOf(words)
  return phrase === "" ? "" : phrase + (questionStart.test(phrase) ? "?" : ".")
}
