/** Images: lines of text are recognized, covered with the colour around them, and drawn again in their
 *  boxes. Recognition and painting are optional packages. The image header is checked before any decoder
 *  reads the image.
 *  Source: docs/spec/documents.md, section 5.14. */
import { existsSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import { BadDocument, type ExtractOptions, type Extraction, type Format, type Segment } from "./document.ts"
import { codePoints, isLanguage, legal } from "./splice.ts"

const megapixelsMax = 20
const sideMax = 10_000
const confidenceMin = 60
const quality = 90
const smallestSide = 8
const letterMin = 6

export interface PictureHead {
  readonly kind: "png" | "jpeg"
  readonly width: number
  readonly height: number
}

/** Image format according to the first bytes; undefined for anything but PNG and JPEG. */
const kindOf = (bytes: Buffer): PictureHead["kind"] | undefined => {
  if (bytes.subarray(0, 8).toString("hex") === "89504e470d0a1a0a") return "png"
  return bytes[0] === 0xff && bytes[1] === 0xd8 ? "jpeg" : undefined
}

/** Reads the size from the header; throws BadDocument when the header is invalid, truncated, or names too
 *  large a size. */
export const headOf = (bytes: Buffer): PictureHead => {
  const kind = kindOf(bytes)
  if (kind === undefined) throw new BadDocument("damaged image")
  const head = kind === "png" ? pngHead(bytes) : jpegHead(bytes)
  if (head === undefined) throw new BadDocument("damaged image")
  if (head.width > sideMax || head.height > sideMax || head.width * head.height > megapixelsMax * 1_000_000)
    throw new BadDocument("image too large")
  return head
}

const pngHead = (bytes: Buffer): PictureHead | undefined => {
  if (bytes.length < 33 || bytes.toString("latin1", 12, 16) !== "IHDR") return undefined
  const head: PictureHead = { kind: "png", width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) }
  if (head.width === 0 || head.height === 0) return undefined
  return head
}

const jpegHead = (bytes: Buffer): PictureHead | undefined => {
  for (let at = 2; at + 9 < bytes.length;) {
    if (bytes[at] !== 0xff) return undefined
    const marker = bytes[at + 1]!
    if (marker === 0xff) {
      at++
      continue
    }
    if (marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc) {
      const height = bytes.readUInt16BE(at + 5)
      const width = bytes.readUInt16BE(at + 7)
      return width === 0 || height === 0 || !bytes.subarray(at).includes(Buffer.from([0xff, 0xd9]))
        ? undefined
        : { kind: "jpeg", width, height }
    }
    at += marker >= 0xd0 && marker <= 0xd9 ? 2 : 2 + bytes.readUInt16BE(at + 2)
  }
  return undefined
}

const recognized: Readonly<Record<string, string>> = {
  en: "eng",
  de: "deu",
  fr: "fra",
  es: "spa",
  it: "ita",
  pt: "por",
  nl: "nld",
  pl: "pol",
  ru: "rus",
  ja: "jpn",
  zh: "chi_sim",
  ko: "kor",
  tr: "tur",
  sv: "swe",
  da: "dan",
  fi: "fin",
  cs: "ces",
  el: "ell",
  uk: "ukr"
}

const require = createRequire(import.meta.url)

/** Returns the folder of a language's recognition data, or undefined when its package is not installed. */
export const dataOf = (language: string): { readonly name: string; readonly folder: string } | undefined => {
  const name = recognized[language.split("-")[0]!]
  try {
    const folder =
      name === undefined
        ? undefined
        : join(dirname(require.resolve(`@tesseract.js-data/${name}/package.json`)), "4.0.0_best_int")
    return folder !== undefined && existsSync(folder) ? { name: name!, folder } : undefined
  } catch {
    return undefined
  }
}

interface Box {
  readonly x0: number
  readonly y0: number
  readonly x1: number
  readonly y1: number
}

interface Line {
  readonly text: string
  readonly box: Box
}

const recognize = async (
  bytes: Buffer,
  { name, folder }: { readonly name: string; readonly folder: string }
): Promise<ReadonlyArray<Line>> => {
  const { createWorker } = await import("tesseract.js")
  let broken: unknown
  // Without an error handler a broken image would end the whole process.
  const worker = await createWorker(name, 1, {
    langPath: folder,
    cacheMethod: "none",
    gzip: true,
    errorHandler: (cause: unknown) => {
      broken = cause
    }
  })
  try {
    const { data } = await worker.recognize(bytes, {}, { blocks: true, text: false })
    const lines: Array<Line> = []
    for (const block of data.blocks ?? [])
      for (const paragraph of block.paragraphs)
        for (const { text, confidence, bbox } of paragraph.lines)
          if (confidence >= confidenceMin && text.trim() !== "") lines.push({ text: text.trim(), box: bbox })
    return lines
  } catch {
    throw new BadDocument("damaged image")
  } finally {
    await worker.terminate()
    if (broken !== undefined) broken = undefined
  }
}

const extract = async (bytes: Buffer, options: ExtractOptions): Promise<Extraction> => {
  const { kind, width, height } = headOf(bytes)
  const unchanged: Extraction = { segments: [], characters: 0, warnings: [], rebuild: () => bytes }
  if (width < smallestSide || height < smallestSide) return unchanged
  const data = dataOf(options.source ?? "en")
  if (data === undefined) throw new BadDocument("no text recognition for this language")
  const lines = (await recognize(bytes, data)).filter(
    ({ text, box }) => isLanguage(text) && box.y1 - box.y0 >= letterMin
  )
  const segments: ReadonlyArray<Segment> = lines.map(({ text }, id) => ({
    id,
    text,
    billed: codePoints(text)
  }))
  const characters = segments.reduce((sum, { billed }) => sum + billed, 0)
  if (characters > options.charactersMax) throw new BadDocument("too many characters")
  return {
    segments,
    characters,
    warnings: [],
    rebuild: async (translated) => {
      const changed = lines.flatMap(({ box, text }, id) => {
        const translation = translated(id)
        return translation === undefined || translation === text ? [] : [{ box, text: legal(translation) }]
      })
      return changed.length === 0 ? bytes : painted(bytes, kind, changed)
    }
  }
}

const painted = async (
  bytes: Buffer,
  kind: "png" | "jpeg",
  lines: ReadonlyArray<{ readonly box: Box; readonly text: string }>
): Promise<Buffer> => {
  const { createCanvas, GlobalFonts, loadImage } = await import("@napi-rs/canvas")
  GlobalFonts.registerFromPath(require.resolve("dejavu-fonts-ttf/ttf/DejaVuSans.ttf"), "Troupe Sans")
  const image = await loadImage(bytes).catch(() => {
    throw new BadDocument("damaged image")
  })
  const canvas = createCanvas(image.width, image.height)
  const context = canvas.getContext("2d")
  context.drawImage(image, 0, 0)
  for (const {
    box: { x0, y0, x1, y1 },
    text
  } of lines) {
    const width = x1 - x0
    const height = y1 - y0
    const edge = 2
    const around = context.getImageData(
      Math.max(0, x0 - edge),
      Math.max(0, y0 - edge),
      Math.min(image.width, x1 + edge) - Math.max(0, x0 - edge),
      Math.min(image.height, y1 + edge) - Math.max(0, y0 - edge)
    )
    const { paper, ink } = coloursOf(around.data, around.width, around.height)
    context.fillStyle = paper
    context.fillRect(x0, y0, width, height)
    context.fillStyle = ink
    context.textBaseline = "alphabetic"
    let size = height * 0.92
    context.font = `${size}px "Troupe Sans"`
    const wide = context.measureText(text).width
    if (wide > width) {
      size = Math.max(size * 0.4, (size * width) / wide)
      context.font = `${size}px "Troupe Sans"`
    }
    context.fillText(text, x0, y0 + height / 2 + size * 0.36, width)
  }
  return kind === "png" ? canvas.toBuffer("image/png") : canvas.toBuffer("image/jpeg", quality)
}

/** Estimates the colours of a box: the background is the median of its border, the text colour is what
 *  differs most from it inside. */
const coloursOf = (
  data: ArrayLike<number>,
  width: number,
  height: number
): { readonly paper: string; readonly ink: string } => {
  const border: Array<readonly [number, number, number]> = []
  const at = (x: number, y: number): readonly [number, number, number] => {
    const i = (y * width + x) * 4
    return [data[i]!, data[i + 1]!, data[i + 2]!]
  }
  for (let x = 0; x < width; x++) border.push(at(x, 0), at(x, height - 1))
  for (let y = 0; y < height; y++) border.push(at(0, y), at(width - 1, y))
  const median = (channel: 0 | 1 | 2): number =>
    border.map((colour) => colour[channel]).sort((a, b) => a - b)[border.length >> 1]!
  const paper = [median(0), median(1), median(2)] as const
  const away = (colour: readonly [number, number, number]): number =>
    colour.reduce((sum, value, i) => sum + Math.abs(value - paper[i]!), 0)
  const inside: Array<readonly [number, number, number]> = []
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) inside.push(at(x, y))
  const inks = inside.sort((a, b) => away(b) - away(a)).slice(0, Math.max(1, Math.floor(inside.length / 50)))
  const ink = [0, 1, 2].map((channel) =>
    Math.round(inks.reduce((sum, colour) => sum + colour[channel]!, 0) / inks.length)
  )
  return { paper: `rgb(${paper.join(",")})`, ink: `rgb(${ink.join(",")})` }
}

const pictureOf = (kind: "png" | "jpeg", extensions: ReadonlyArray<string>, mime: string): Format => ({
  id: kind,
  extensions,
  mime,
  inspect: (bytes, _, options) => {
    if (bytes.length === 0) throw new BadDocument("empty")
    const actual = kindOf(bytes)
    if (actual !== undefined && actual !== kind)
      throw new BadDocument("the content does not match the file extension")
    headOf(bytes)
    if (options?.source !== undefined && dataOf(options.source) === undefined)
      throw new BadDocument("no text recognition for this language")
  },
  extract
})

export const png = pictureOf("png", ["png"], "image/png")
export const jpeg = pictureOf("jpeg", ["jpg", "jpeg"], "image/jpeg")
