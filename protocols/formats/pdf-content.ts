/** PDF content streams as tokens with positions: where each piece of text is drawn and in which colour, and
 *  the stream without the operators that a translation replaces. Inline images are copied as bytes.
 *  Source: docs/spec/documents.md, section 5.4 step 3; ISO 32000-1 sections 8, 9. */
import { BadDocument } from "./document.ts"

export type Matrix = readonly [number, number, number, number, number, number]
export const identityMatrix: Matrix = [1, 0, 0, 1, 0, 0]

export const times = (m: Matrix, n: Matrix): Matrix => [
  m[0] * n[0] + m[1] * n[2],
  m[0] * n[1] + m[1] * n[3],
  m[2] * n[0] + m[3] * n[2],
  m[2] * n[1] + m[3] * n[3],
  m[4] * n[0] + m[5] * n[2] + n[4],
  m[4] * n[1] + m[5] * n[3] + n[5]
]

/** A text-showing operator with its operands and its offsets in the stream. */
export interface TextOperator {
  readonly from: number
  readonly to: number
  readonly operator: string
  /** Start of the text in page space. */
  readonly x: number
  readonly y: number
  readonly colour: string
  readonly font: string
  readonly invisible: boolean
}

export interface DrawnForm {
  readonly name: string
  readonly matrix: Matrix
  readonly colour: string
}

export interface Content {
  readonly textOperators: ReadonlyArray<TextOperator>
  /** Form XObjects that the stream draws. */
  readonly forms: ReadonlyArray<DrawnForm>
}

const operandsMax = 100_000

const delimiter = (code: number): boolean =>
  code <= 32 ||
  code === 40 ||
  code === 41 ||
  code === 60 ||
  code === 62 ||
  code === 91 ||
  code === 93 ||
  code === 123 ||
  code === 125 ||
  code === 47 ||
  code === 37

const colours = new Set(["g", "rg", "k", "sc", "scn"])

/** Reads a content stream; `text` is the stream's bytes as Latin-1. */
export const readContent = (text: string, matrix: Matrix = identityMatrix): Content => {
  const textOperators: Array<TextOperator> = []
  const drawn: Array<DrawnForm> = []
  let ctm = matrix
  let tm = identityMatrix
  let line = identityMatrix
  let leading = 0
  let colour = "0 g"
  let space = ""
  let font = ""
  let mode = 0
  const stack: Array<readonly [Matrix, string, string, string, number, number]> = []
  let operands: Array<string> = []
  let first = -1
  const number = (i: number): number => Number(operands[i] ?? 0) || 0
  const move = (x: number, y: number): void => {
    line = times([1, 0, 0, 1, x, y], line)
    tm = line
  }
  let at = 0
  const string = (): number => {
    let depth = 0
    let i = at
    for (; i < text.length; i++) {
      const code = text.charCodeAt(i)
      if (code === 92) i++
      else if (code === 40) depth++
      else if (code === 41 && --depth === 0) return i + 1
    }
    return i
  }
  const push = (to: number): void => {
    if (operands.length >= operandsMax) throw new BadDocument("too large")
    if (operands.length === 0) first = at
    operands.push(text.slice(at, to))
    at = to
  }
  while (at < text.length) {
    const code = text.charCodeAt(at)
    if (code <= 32) {
      at++
      continue
    }
    if (code === 37) {
      while (at < text.length && text.charCodeAt(at) !== 10 && text.charCodeAt(at) !== 13) at++
      continue
    }
    if (code === 40) {
      push(string())
      continue
    }
    if (code === 91) {
      // An array counts as one operand.
      const from = at
      for (at++; at < text.length && text.charCodeAt(at) !== 93;)
        at = text.charCodeAt(at) === 40 ? string() : at + 1
      const to = Math.min(at + 1, text.length)
      at = from
      push(to)
      continue
    }
    if (code === 60) {
      const end = text.charCodeAt(at + 1) === 60 ? at + 2 : text.indexOf(">", at) + 1 || text.length
      push(end)
      continue
    }
    if (code === 47 || delimiter(code)) {
      let end = at + 1
      if (code === 47) while (end < text.length && !delimiter(text.charCodeAt(end))) end++
      push(end)
      continue
    }
    let end = at + 1
    while (end < text.length && !delimiter(text.charCodeAt(end))) end++
    const word = text.slice(at, end)
    if (/^[-+.\d]/.test(word) || word === "true" || word === "false" || word === "null") {
      push(end)
      continue
    }
    const from = operands.length > 0 ? first : at
    at = end
    switch (word) {
      case "q":
        stack.push([ctm, colour, space, font, mode, leading])
        break
      case "Q": {
        const saved = stack.pop()
        if (saved !== undefined) [ctm, colour, space, font, mode, leading] = saved
        break
      }
      case "cm":
        ctm = times([number(0), number(1), number(2), number(3), number(4), number(5)], ctm)
        break
      case "BT":
        tm = line = identityMatrix
        break
      case "Tm":
        tm = line = [number(0), number(1), number(2), number(3), number(4), number(5)]
        break
      case "Td":
        move(number(0), number(1))
        break
      case "TD":
        leading = -number(1)
        move(number(0), number(1))
        break
      case "TL":
        leading = number(0)
        break
      case "T*":
        move(0, -leading)
        break
      case "Tf":
        font = (operands[0] ?? "").slice(1)
        break
      case "Tr":
        mode = number(0)
        break
      case "cs":
        space = `${operands[0] ?? ""} cs `
        break
      case "Do":
        drawn.push({ name: (operands[0] ?? "").slice(1), matrix: ctm, colour })
        break
      case "BI": {
        const data = /\sID[\s]/g
        data.lastIndex = at
        const begin = data.exec(text)
        const stop = /\sEI(?=[\s]|$)/g
        stop.lastIndex = begin === null ? at : begin.index + 3
        const close = stop.exec(text)
        at = close === null ? text.length : close.index + 3
        break
      }
      case "Tj":
      case "TJ":
      case "'":
      case '"': {
        if (word === "'" || word === '"') move(0, -leading)
        const [, , , , x, y] = times(tm, ctm)
        textOperators.push({ from, to: at, operator: word, x, y, colour, font, invisible: mode === 3 })
        break
      }
      default:
        if (colours.has(word)) colour = `${word.startsWith("sc") ? space : ""}${operands.join(" ")} ${word}`
    }
    operands = []
    first = -1
  }
  return { textOperators: textOperators, forms: drawn }
}

/** Removes text operators from the stream; the line feeds that `'` and `"` imply are preserved. */
export const withoutOperators = (text: string, removed: ReadonlyArray<TextOperator>): string => {
  const parts: Array<string> = []
  let at = 0
  for (const { from, to, operator } of removed) {
    parts.push(text.slice(at, from), operator === "'" || operator === '"' ? "T*" : " ")
    at = to
  }
  return parts.join("") + text.slice(at)
}
