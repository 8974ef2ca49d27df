/** chrF2 (Popović 2015): F-score of character n-grams, n from 1 to 6, recall weighing twice, blanks ignored;
 *  0 to 100. Over a whole set the counts are summed first. Pure. */
const orderMax = 6

const beta = 2

const grams = (text: string, n: number): Map<string, number> => {
  const letters = [...text.replace(/\s+/g, "")]
  const counts = new Map<string, number>()
  for (let i = 0; i + n <= letters.length; i++) {
    const gram = letters.slice(i, i + n).join("")
    counts.set(gram, (counts.get(gram) ?? 0) + 1)
  }
  return counts
}

const sum = (counts: Map<string, number>): number => {
  let all = 0
  for (const count of counts.values()) all += count
  return all
}

/** Pairs of hypothesis and reference. */
export const chrf2 = (pairs: ReadonlyArray<readonly [string, string]>): number => {
  let precision = 0
  let recall = 0
  let orders = 0
  for (let n = 1; n <= orderMax; n++) {
    let common = 0
    let produced = 0
    let wanted = 0
    for (const [hypothesis, reference] of pairs) {
      const ours = grams(hypothesis, n)
      const theirs = grams(reference, n)
      produced += sum(ours)
      wanted += sum(theirs)
      for (const [gram, count] of ours) common += Math.min(count, theirs.get(gram) ?? 0)
    }
    if (produced === 0 || wanted === 0) continue
    orders++
    precision += common / produced
    recall += common / wanted
  }
  if (orders === 0 || precision + recall === 0) return 0
  const p = precision / orders
  const r = recall / orders
  return (100 * (1 + beta ** 2) * p * r) / (beta ** 2 * p + r)
}
