/** Word error rate, as speech is judged: by the quality bench and by the recognizer's tests. Pure. */

export const wordsOf = (text: string): ReadonlyArray<string> =>
  text
    .toLowerCase()
    .replace(/[^a-z' ]/g, " ")
    .split(/\s+/)
    .filter((word) => word !== "")

/** Substitutions, insertions and deletions. */
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
