/** Runs one candidate of one bench above the engines in a process of its own: tag handling, a look-up in a
 *  large memory, or terms of a 10 MiB glossary. It prints µs of CPU per operation and a checksum of the work:
 *  node language.js BENCH CANDIDATE SIZE */
import { distance } from "fastest-levenshtein"
import { termsOf } from "../../protocols/translation/glossaries/terms.ts"
import { splitMarkup } from "../../protocols/translation/text/markup.ts"
import { SimilarityIndex, similarityOf } from "../../protocols/translation/memories/similarity.ts"
import { Draft, render } from "../../protocols/translation/text/segments.ts"

const [, , bench, candidate, sized] = process.argv
const size = Number(sized)
let seed = 11

const next = (max: number): number => {
  seed = (Math.imul(seed, 1_103_515_245) + 12_345) & 0x7fffffff
  return (seed >> 8) % max
}

const vocabulary = Array.from({ length: 5_000 }, () =>
  Array.from({ length: 3 + next(7) }, () => String.fromCharCode(97 + next(26))).join("")
)

const sentence = (words: number): string =>
  Array.from({ length: words }, () => vocabulary[next(vocabulary.length)]).join(" ")

type Work = (operations: number) => number | Promise<number>

interface Repeated {
  readonly work: Work
  readonly operations: number
}

const tags = (): Repeated => {
  const text = `<doc>${Array.from({ length: 40 }, (_, i) => `<p id="${i}">${sentence(8)} <b>${sentence(2)}</b> &amp; <x>keep</x> {name} ${sentence(4)}.</p>`).join("\n")}</doc>`
  const markup = {
    kind: "xml" as const,
    strict: true,
    outline: true,
    splitting: new Set<string>(),
    nonSplitting: new Set<string>(),
    ignored: new Set(["x"])
  }
  const floor: Work = (n) => {
    let sum = 0
    for (let i = 0; i < n; i++) sum += text.split(/(<[^>]*>|&\w+;|\{\w+\})/).join("").length
    return sum
  }
  const troupe: Work = (n) => {
    let sum = 0
    for (let i = 0; i < n; i++) {
      const draft = new Draft()
      splitMarkup(text, markup, "1", "en", draft)
      sum += render(draft, draft.segments, { repair: true, escape: true, target: "de" }).length
    }
    return sum
  }
  return { work: candidate === "floor" ? floor : troupe, operations: Math.max(20, size) }
}

/** Looks texts up in a memory: 60 % of them have a similar segment there, the others none. */
const memory = (): Repeated => {
  const texts = Array.from({ length: size }, () => sentence(4 + next(14)))
  const questions = Array.from({ length: 64 }, (_, i) => {
    if (i % 5 > 2) return sentence(12)
    const from = texts[next(size)]!
    const at = next(from.length)
    return `${from.slice(0, at)}xy${from.slice(at + 2)}`
  })
  if (candidate === "floor")
    return {
      operations: 6,
      work: (n) => {
        let sum = 0
        for (let i = 0; i < n; i++) {
          const text = questions[i % 64]!
          let best = 0
          for (const one of texts)
            if (Math.abs(one.length - text.length) <= text.length / 4)
              best = Math.max(best, 1 - distance(one, text) / Math.max(one.length, text.length))
          if (best >= 0.745) sum++
        }
        return sum
      }
    }
  const index = new SimilarityIndex()
  for (const [i, text] of texts.entries()) index.add(i, text)
  index.seal()
  return {
    operations: 64,
    work: async (n) => {
      let sum = 0
      for (let i = 0; i < n; i++) {
        const text = questions[i % 64]!
        let best = 0
        for (const { place, ceiling } of await index.likely(text, 75, () => Promise.resolve())) {
          if (ceiling <= best) break
          best = Math.max(best, similarityOf(text, texts[place]!))
        }
        if (best >= 75) sum++
      }
      return sum
    }
  }
}

const glossary = (): Repeated => {
  const entries: Array<readonly [string, string]> = []
  for (let bytes = 0, i = 0; bytes < size; i++) {
    const entry = [`${sentence(1 + (i % 3))} ${i}`, sentence(2)] as const
    entries.push(entry)
    bytes += entry[0].length + entry[1].length + 2
  }
  const text = Array.from(
    { length: 30 },
    (_, i) => `${sentence(6)} ${entries[next(entries.length)]![0]}${i % 7 === 0 ? "." : ""}`
  ).join(" ")
  if (candidate === "floor") {
    const map = new Map(entries)
    return {
      operations: 2_000,
      work: (n) => {
        let sum = 0
        for (let i = 0; i < n; i++)
          for (const word of text.split(" "))
            if (map.has(word)) sum++
            else sum += 2
        return sum
      }
    }
  }
  const terms = termsOf([entries])
  return {
    operations: 2_000,
    work: (n) => {
      let sum = 0
      for (let i = 0; i < n; i++) sum += terms.find(text).length
      return sum
    }
  }
}

const benches: Readonly<Record<string, () => Repeated>> = { tags, memory, glossary }
const { work, operations } = benches[bench!]!()
await work(Math.ceil(operations / 4))
const cpu = process.cpuUsage()
const checksum = await work(operations)
const { user, system } = process.cpuUsage(cpu)

console.log(
  JSON.stringify({
    value: (user + system) / operations,
    checksum,
    extra: `checksum ${checksum}, ${Math.round(process.memoryUsage().rss / 1_048_576)} MB`
  })
)

process.exit(0)
