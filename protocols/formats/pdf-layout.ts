/** Groups pieces of text on a page into lines and paragraphs, in the order of the page's content. Everything
 *  is measured along the text's own direction, so rotated text needs no special case.
 *  Source: docs/spec/documents.md, section 5.4 step 2. */
export interface TextItem {
  readonly str: string
  readonly transform: ReadonlyArray<number>
  readonly width: number
  readonly fontName: string
}

export interface TextLine {
  text: string
  readonly angle: number
  readonly size: number
  readonly font: string
  /** Coordinates along (`u`) and across (`v`) the text's direction, in units of page space. */
  readonly u: number
  readonly v: number
  end: number
}

export interface TextBlock {
  readonly lines: ReadonlyArray<TextLine>
  readonly text: string
  readonly angle: number
  readonly size: number
  readonly font: string
  readonly u: number
  readonly v: number
  readonly width: number
  readonly leading: number
  readonly centred: boolean
}

const gapOfWords = 0.15
const gapOfColumns = 1.5

export const linesOf = (items: ReadonlyArray<TextItem>): ReadonlyArray<TextLine> => {
  const lines: Array<TextLine> = []
  let line: TextLine | undefined
  for (const { str, transform, width, fontName } of items) {
    if (str === "") continue
    const [a, b, c, d, x, y] = transform as [number, number, number, number, number, number]
    const angle = Math.round(Math.atan2(b, a) * 1_000) / 1_000
    const size = Math.hypot(c, d) || Math.hypot(a, b)
    if (!(size > 0)) continue
    const u = x * Math.cos(angle) + y * Math.sin(angle)
    const v = y * Math.cos(angle) - x * Math.sin(angle)
    const gap = line === undefined ? Infinity : u - line.end
    const goesOn =
      line !== undefined &&
      line.angle === angle &&
      Math.abs(v - line.v) < 0.3 * Math.max(size, line.size) &&
      gap > -0.5 * size &&
      gap < gapOfColumns * size
    if (goesOn && line !== undefined) {
      if (str.trim() !== "") {
        line.text += (gap > gapOfWords * size && !/\s$/.test(line.text) && !/^\s/.test(str) ? " " : "") + str
        line.end = Math.max(line.end, u + width)
      } else if (!/\s$/.test(line.text)) line.text += " "
    } else if (str.trim() !== "")
      lines.push((line = { text: str, angle, size, font: fontName, u, v, end: u + width }))
  }
  for (const one of lines) one.text = one.text.replace(/\s+/g, " ").trim()
  return lines.filter(({ text }) => text !== "")
}

const sameStart = (a: TextLine, b: TextLine): boolean => Math.abs(a.u - b.u) < 0.6 * a.size
const sameCentre = (a: TextLine, b: TextLine): boolean => Math.abs(a.u + a.end - b.u - b.end) < 0.8 * a.size

export const blocksOf = (lines: ReadonlyArray<TextLine>): ReadonlyArray<TextBlock> => {
  const blocks: Array<Array<TextLine>> = []
  for (const line of lines) {
    const block = blocks.at(-1)
    const before = block?.at(-1)
    const leading = before === undefined ? 0 : (before.v - line.v) / line.size
    const widest =
      block === undefined ? 0 : Math.max(...block.map(({ u, end }) => end - u), line.end - line.u)
    const follows =
      block !== undefined &&
      before !== undefined &&
      before.angle === line.angle &&
      Math.abs(before.size - line.size) < 0.1 * line.size &&
      before.font === line.font &&
      leading > 0.9 &&
      leading < 1.6 &&
      (sameStart(before, line) ||
        (sameCentre(before, line) && !sameStart(before, line)) ||
        (block.length === 1 && Math.abs(before.u - line.u) < 3 * line.size)) &&
      before.end - before.u >= 0.7 * widest &&
      !/^[\u2022\u25CF\u25AA\u2013*-]\s|^\(?\d{1,3}[.)]\s/.test(line.text)
    if (follows) block.push(line)
    else blocks.push([line])
  }
  return blocks.map((block) => {
    const first = block[0]!
    const u = Math.min(...block.map((line) => line.u))
    const end = Math.max(...block.map((line) => line.end))
    let text = ""
    for (const line of block) {
      // A word hyphenated at the end of a line is joined when it continues in lower case.
      if (/\p{Ll}[-\u00AD]$/u.test(text) && /^\p{Ll}/u.test(line.text)) text = text.slice(0, -1) + line.text
      else text += (text === "" ? "" : " ") + line.text
    }
    return {
      lines: block,
      text,
      angle: first.angle,
      size: first.size,
      font: first.font,
      u,
      v: first.v,
      width: end - u,
      leading: block.length > 1 ? (first.v - block.at(-1)!.v) / (block.length - 1) : first.size * 1.2,
      centred: block.length > 1 && !sameStart(first, block[1]!) && sameCentre(first, block[1]!)
    }
  })
}
