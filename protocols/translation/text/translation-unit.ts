/** The sentences of one text while their translations are collected: from the memory, then the glossaries,
 *  the rest from the engine. Guarantee: a translation from the memory is not changed, and a glossary's target
 *  is used exactly as written.
 *  Source: docs/spec/translation.md, sections 3.3.4–5. */
import { repaired } from "../../../actors/engines/router.ts"
import type { EngineSegment } from "../../../actors/engines/ports.ts"
import type { Terms } from "../glossaries/terms.ts"
import type { MemorySearch, MemoryUse } from "../memories/search.ts"
import {
  answerWith,
  protect,
  render,
  textOf,
  withPlaceholders,
  type Draft,
  type Piece,
  type Rendering
} from "./segments.ts"

/** Returns plain text in which every line that equals an entry is replaced by its target; placeholders are
 *  unchanged. */
export const applyWholeLineTerms = (text: string, terms: Terms): ReadonlyArray<Piece> => {
  const whole = terms.exactly(text.trim())
  const around = (line: string, target: string): Array<Piece> => {
    const start = line.length - line.trimStart().length
    const end = line.trimEnd().length
    return [
      { text: line.slice(0, start) },
      { raw: target, role: "inside" as const },
      { text: line.slice(end) }
    ].filter((piece) => !("text" in piece) || piece.text !== "")
  }
  if (whole !== undefined) return around(text, whole)
  if (!text.includes("\n")) return withPlaceholders(text)
  const pieces: Array<Piece> = []
  let plain = ""
  for (const line of text.split(/(?<=\n)/)) {
    const target = terms.exactly(line.trim())
    if (target === undefined) {
      plain += line
      continue
    }
    withPlaceholders(plain, pieces)
    plain = ""
    pieces.push(...around(line, target))
  }
  return withPlaceholders(plain, pieces)
}

/** Splits plain text into pieces: placeholders are opaque, and so is every line that equals a glossary
 *  entry. */
export const piecesOfText = (text: string, terms: Terms | undefined): ReadonlyArray<Piece> =>
  terms === undefined ? withPlaceholders(text) : applyWholeLineTerms(text, terms)

export class TranslationUnit {
  private readonly draft: Draft
  private readonly source: string
  private readonly markup: boolean
  private readonly translations: Array<EngineSegment | undefined>
  private readonly verbatim = new Set<number>()
  private whole: string | undefined

  constructor(source: string, draft: Draft, markup: boolean) {
    this.source = source
    this.draft = draft
    this.markup = markup
    this.translations = new Array(draft.sentences.length).fill(undefined)
  }

  /** Looks up the whole text first, then each sentence. Resolves with the places of the segments used; rejects
   *  when `signal` aborts. */
  async applyMemory(
    use: MemoryUse,
    search: Pick<MemorySearch, "find">,
    signal?: AbortSignal
  ): Promise<ReadonlyArray<number>> {
    if (!this.markup) {
      const hit = await search.find(use, this.source, signal)
      if (hit !== undefined) {
        const { source } = this
        const end = source.trimEnd().length
        this.whole =
          source.slice(0, source.length - source.trimStart().length) + hit.target + source.slice(end)
        return [hit.place]
      }
      if (
        this.draft.sentences.length < 2 &&
        this.draft.sentences[0] !== undefined &&
        textOf(this.draft.sentences[0], false) === this.source
      )
        return []
    }
    const places: Array<number> = []
    for (const [i, sentence] of this.draft.sentences.entries()) {
      const hit = await search.find(use, textOf(sentence, this.markup), signal)
      if (hit === undefined) continue
      this.translations[i] = repaired(sentence.segment, answerWith(sentence, hit.target))
      this.verbatim.add(i)
      places.push(hit.place)
    }
    return places
  }

  protect(terms: Terms): void {
    if (this.whole !== undefined) return
    for (let i = 0; i < this.translations.length; i++) {
      if (this.translations[i] === undefined && protect(this.draft, i, terms.find, this.markup))
        this.translations[i] = this.draft.sentences[i]!.segment
    }
  }

  get done(): boolean {
    return this.whole !== undefined || !this.translations.includes(undefined)
  }

  /** Segments that the engine must translate. */
  get untranslated(): ReadonlyArray<EngineSegment> {
    return this.whole !== undefined
      ? []
      : this.draft.sentences.flatMap(({ segment }, i) =>
          this.translations[i] === undefined ? [segment] : []
        )
  }

  /** Takes the engine's answers for the untranslated segments, starting at `from`; returns how many it
   *  took. */
  acceptAnswers(
    answers: ReadonlyArray<EngineSegment>,
    from: number,
    finish: ((text: string) => string) | undefined
  ): number {
    if (this.whole !== undefined) return 0
    let taken = 0
    for (let i = 0; i < this.translations.length; i++)
      if (this.translations[i] === undefined) {
        const answer = answers[from + taken++]!
        this.translations[i] =
          finish === undefined
            ? answer
            : {
                units: answer.units.map((unit) =>
                  unit._tag === "text" ? { _tag: "text", text: finish(unit.text) } : unit
                )
              }
      }
    return taken
  }

  text(rendering: Rendering): string {
    return (
      this.whole ??
      render(this.draft, this.translations as ReadonlyArray<EngineSegment>, {
        ...rendering,
        verbatim: this.verbatim
      })
    )
  }
}
