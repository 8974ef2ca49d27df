/** Represents the codes of a segment as marks inside its text: a number between two Unicode noncharacters. A
 *  document whose own text contains those characters has them replaced by codes. Guarantee of `repaired`:
 *  whatever an engine does to the marks, the result is well nested and no code is lost. Pure.
 *  Source: docs/spec/documents.md, section 2. */
import type { Code } from "./document.ts"

const begin = "\uFDD0"
export type Edge = "open" | "close" | "whole"

/** Noncharacters that delimit marks. Locks and points have different ones, because sentence splitting must
 *  know that a lock stands for words and a point for none. */
const edges = { open: "\uFDD1", close: "\uFDD2", whole: "\uFDD3", lock: "\uFDD4" } as const

export type Piece = string | { readonly code: number; readonly edge: Edge }

const edgeOf: Readonly<Record<string, Edge>> = {
  "\uFDD1": "open",
  "\uFDD2": "close",
  "\uFDD3": "whole",
  "\uFDD4": "whole"
}

export const mark = /\uFDD0(\d{1,7})([\uFDD1-\uFDD4])/g
const strays = /[\uFDD0-\uFDD4]/g

export const markOf = (code: number, edge: keyof typeof edges): string => begin + code + edges[edge]
const anyMark = /[\uFDD0-\uFDD4]/

/** Returns whether text of a document contains characters that would be mistaken for a mark. */
export const hasMarks = (text: string): boolean => anyMark.test(text)

export const plainOf = (text: string): string => (text.includes(begin) ? text.replace(mark, "") : text)

export const piecesOf = (text: string): Array<Piece> => {
  if (!text.includes(begin)) return text === "" ? [] : [text.replace(strays, "")]
  const pieces: Array<Piece> = []
  let from = 0
  const push = (part: string): void => {
    const clean = part.replace(strays, "")
    if (clean !== "") pieces.push(clean)
  }
  for (const found of text.matchAll(mark)) {
    push(text.slice(from, found.index))
    pieces.push({ code: Number(found[1]), edge: edgeOf[found[2]!]! })
    from = found.index + found[0].length
  }
  push(text.slice(from))
  return pieces
}

export const textOf = (pieces: ReadonlyArray<Piece>): string =>
  pieces.map((piece) => (typeof piece === "string" ? piece : markOf(piece.code, piece.edge))).join("")

/** Lists the codes of the source in order, each edge of a pair once. */
const orderOf = (source: ReadonlyArray<Piece>) =>
  source.filter((piece): piece is Exclude<Piece, string> => typeof piece !== "string")

/** Makes the codes of a translation match its source: unknown and duplicate codes are removed, crossing
 *  pairs are closed early, and missing points are restored next to their neighbour. A translation without
 *  such faults is returned unchanged. */
export const repaired = (
  source: ReadonlyArray<Piece>,
  translation: ReadonlyArray<Piece>,
  codes: ReadonlyMap<number, Code>
): ReadonlyArray<Piece> => {
  const out: Array<Piece> = []
  const open: Array<number> = []
  const seen = new Set<number>()
  const close = (id: number): void => {
    open.splice(open.lastIndexOf(id), 1)
    out.push({ code: id, edge: "close" })
  }
  for (const piece of translation) {
    if (typeof piece === "string") {
      const before = out.at(-1)
      if (typeof before === "string") out[out.length - 1] = before + piece
      else out.push(piece)
      continue
    }
    const kind = codes.get(piece.code)?.kind
    if (kind === undefined || (kind === "pair") === (piece.edge === "whole")) continue
    if (piece.edge === "close") {
      if (!open.includes(piece.code)) continue
      while (open.at(-1) !== piece.code) close(open.at(-1)!)
      close(piece.code)
    } else if (!seen.has(piece.code)) {
      seen.add(piece.code)
      out.push(piece)
      if (piece.edge === "open") open.push(piece.code)
    }
  }
  while (open.length > 0) close(open.at(-1)!)
  return restored(orderOf(source), out, seen, codes)
}

/** Restores missing codes: each is inserted after the nearest preceding code of the source that survived,
 *  and after the word that follows it. */
const restored = (
  order: ReturnType<typeof orderOf>,
  out: Array<Piece>,
  seen: ReadonlySet<number>,
  codes: ReadonlyMap<number, Code>
): ReadonlyArray<Piece> => {
  let left: Exclude<Piece, string> | undefined
  let lastPut = false
  for (const piece of order) {
    const code = codes.get(piece.code)!
    const missing =
      !seen.has(piece.code) && piece.edge !== "close" && (code.kind !== "pair" || code.needed === true)
    if (missing) {
      const put: ReadonlyArray<Piece> =
        code.kind === "pair"
          ? [
              { code: code.id, edge: "open" },
              { code: code.id, edge: "close" }
            ]
          : [piece]
      const at =
        left === undefined
          ? out.length
          : out.findIndex(
              (other) => typeof other !== "string" && other.code === left!.code && other.edge === left!.edge
            ) + 1
      const next = out[at]
      const word =
        !lastPut && left !== undefined && typeof next === "string" ? /^\s*\S+/.exec(next)?.[0] : undefined
      if (word === undefined) out.splice(left === undefined ? out.length : at, 0, ...put)
      else
        out.splice(
          at,
          1,
          word,
          ...put,
          ...(word.length < (next as string).length ? [(next as string).slice(word.length)] : [])
        )
      left = put.at(-1) as Exclude<Piece, string>
      lastPut = true
    } else if (seen.has(piece.code)) {
      left = piece
      lastPut = false
    }
  }
  return out
}
