/** Codes inside text as marks: noncharacters around a number, which no document's text is made of (one that
 *  holds them keeps them as codes). And repair: whatever an engine makes of the marks, what comes back is
 *  well nested and loses nothing. Pure. Source: documents section 2. */
import type { Code } from "./document.ts"

const begin = "\uFDD0"
export type Edge = "open" | "close" | "whole"

/** A lock stands for words, a point for none: who cuts sentences must know. */
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

/** Text of a document that is not to be taken for a mark. */
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

/** The codes of the source in their order, each edge once. */
const orderOf = (source: ReadonlyArray<Piece>) =>
  source.filter((piece): piece is Exclude<Piece, string> => typeof piece !== "string")

/** Strange codes and doubles go, crossing ones are closed in time, missing points come back beside their
 *  neighbour. Identity in, identity out. */
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

/** Puts back what must not be missing: after its nearest surviving left neighbour of the source, and the word
 *  behind that. */
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
