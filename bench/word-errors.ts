/** Computes the word error rate, the usual measure of speech recognition, for the quality bench and for the
 *  recognizer's tests. It is pure. */

export const wordsOf = (text: string): ReadonlyArray<string> =>
  text
    .toLowerCase()
    .replace(/[^a-z' ]/g, " ")
    .split(/\s+/)
    .filter((word) => word !== "")

/** Counts substitutions, insertions and deletions. */
export const wordErrors = (expected: ReadonlyArray<string>, recognized: ReadonlyArray<string>): number => {
  let row = Array.from({ length: recognized.length + 1 }, (_, i) => i)
  for (let i = 1; i <= expected.length; i++) {
    const next = [i]
    for (let j = 1; j <= recognized.length; j++)
      next.push(
        Math.min(next[j - 1]! + 1, row[j]! + 1, row[j - 1]! + (expected[i - 1] === recognized[j - 1] ? 0 : 1))
      )
    row = next
  }
  return row[recognized.length]!
}
