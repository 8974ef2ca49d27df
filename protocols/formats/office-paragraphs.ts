/** Paragraphs of Word, DrawingML and spreadsheet strings. Runs with equal formatting are joined for the
 *  engine, runs with other formatting become pairs, and markup between them becomes points. Paragraphs may
 *  nest (text boxes); a stack makes each a segment of its own.
 *  Source: docs/spec/documents.md, sections 2 "Runs", 5.1–5.3. */
import type { Wrap } from "./document.ts"
import { Builder, replace, type Edit, type Segments, type Writing } from "./splice.ts"
import { namespaces } from "./office-package.ts"
import { escapeAttribute, escapeXml, textRuns, XmlScanner } from "./xml-scan.ts"

/** The role of an element, found by one look-up because every tag needs it. `aside` belongs to the paragraph
 *  but not to its text; `deep` may contain paragraphs; `needed` is a pair that is written even when it is
 *  empty. */
type Place =
  | "paragraph"
  | "run"
  | "text"
  | "looks"
  | "aside"
  | "dropped"
  | "pair"
  | "needed"
  | "passed"
  | "deep"

const places: ReadonlyMap<string, Place> = new Map(
  Object.entries({
    paragraph: "w:p a:p x:si x:is x:text c:v",
    run: "w:r a:r x:r",
    text: "w:t a:t x:t",
    looks: "w:rPr a:rPr x:rPr",
    aside: "w:pPr a:pPr a:endParaRPr x:phoneticPr",
    dropped: "w:proofErr w:lastRenderedPageBreak",
    pair: "w:ins w:smartTag w:moveTo w:customXml w:dir w:bdo",
    needed: "w:hyperlink w:sdt w:fldSimple",
    passed: "w:sdtContent",
    deep: "w:drawing w:pict w:object mc:AlternateContent"
  }).flatMap(([place, list]) => list.split(" ").map((name) => [name, place as Place] as const))
)

const uncounted =
  /^\s*(?:PAGE|NUMPAGES|SECTIONPAGES|SECTION|SEQ|DATE|TIME|CREATEDATE|SAVEDATE|PRINTDATE|=|FORMULA|NUMCHARS|NUMWORDS|FILESIZE|REVNUM)\b|^\s*=/i

interface Look {
  readonly key: string
  readonly open: string
  readonly close: string
  readonly wrap: Wrap
}

type Draft =
  | {
      readonly is: "text"
      readonly text: string
      readonly from: number
      readonly to: number
      readonly look: Look
    }
  | {
      readonly is: "point"
      readonly from: number
      readonly to: number
      readonly look: Look | undefined
      readonly lock: boolean
    }
  | { readonly is: "open" | "close"; readonly from: number; readonly to: number; readonly needed: boolean }

interface Paragraph {
  readonly drafts: Array<Draft>
  readonly depth: number
  also: Array<Edit> | undefined
  readonly fallback: boolean
  /** Formatting of the open run, computed when it is first needed. */
  look: Look | undefined
  run: number
  runTag: string
  runFrom: number
  /** Start of the region that is rewritten when runs change their order. */
  start: number
  end: number
  /** Depths of the pairs that are still open. */
  openPairs: Array<number> | undefined
}

interface Deep {
  readonly depth: number
  readonly from: number
  readonly look: Look | undefined
}

const plainLook: Look = { key: "", open: "", close: "", wrap: { open: "", close: "" } }

/** Normalizes run properties by removing those without a visible effect, so that equal formatting compares
 *  equal. */
const keyOf = (raw: string): string =>
  raw
    .replace(/<(?:\w+:)?(?:lang|noProof|webHidden)\b[^>]*?\/>/g, "")
    .replace(/\s(?:lang|altLang|dirty|err|smtClean|noProof|w:rsid\w*)="[^"]*"/g, "")
    .replace(/<((?:\w+:)?rPr)>\s*<\/\1>|<(?:\w+:)?rPr\s*\/>/g, "")

const localOf = (raw: string): string => /^<([^\s/>]+)/.exec(raw)![1]!

const lookOf = (runTag: string, properties: string): Look => {
  const tag = localOf(runTag)
  const text = tag.replace(/r$/, "t")
  const word = !/^a:|^x:/.test(tag)
  const open = `${runTag}${properties}`
  return {
    key: keyOf(properties),
    open,
    close: `</${tag}>`,
    wrap: { open: `${open}<${text}${word ? ' xml:space="preserve"' : ""}>`, close: `</${text}></${tag}>` }
  }
}

export interface TextOptions {
  readonly part: string
  /** Translate the alternative texts of pictures and shapes. */
  readonly altTexts?: boolean
  /** Translate the cached strings of charts. */
  readonly cached?: boolean
  /** Returns true for an element whose content is not translated. It is called at the start tag. */
  readonly leaves?: (name: string, text: string, from: number) => boolean
  /** Returns true for a string that must not be translated. */
  readonly keeps?: (text: string) => boolean
}

export const readOfficeText = (text: string, segments: Segments, options: TextOptions): void => {
  new OfficeText(text, segments, options).read()
}

class OfficeText {
  private readonly text: string
  private readonly segments: Segments
  private readonly options: TextOptions
  private readonly scan: XmlScanner
  private readonly open: Array<Paragraph> = []
  private readonly deeps: Array<Deep> = []

  /** Open complex fields: the field code read so far, and whether the result has begun. A field may span
   *  paragraphs. */
  private readonly fields: Array<{ code: string; result: boolean }> = []

  private readonly fallbacks: Array<number> = []

  constructor(text: string, segments: Segments, options: TextOptions) {
    this.text = text
    this.segments = segments
    this.options = options
    this.scan = new XmlScanner(text, { namespaces, doctype: "refused", part: options.part })
  }

  private readonly looks = new Map<string, Look>()

  /** Returns the formatting of a run from a cache, because a document has few formattings in many runs, and
   *  fewer without the revision identifiers. */
  private lookOf(runTag: string, properties: string): Look {
    const key = runTag + properties
    let look = this.looks.get(key)
    if (look === undefined && this.looks.size < 10_000)
      this.looks.set(key, (look = lookOf(runTag, properties)))
    return look ?? lookOf(runTag, properties)
  }

  private lookIn(paragraph: Paragraph): Look {
    return (paragraph.look ??= paragraph.runTag === "" ? plainLook : this.lookOf(paragraph.runTag, ""))
  }

  private get paragraph(): Paragraph | undefined {
    return this.open.at(-1)
  }

  read(): void {
    const { scan } = this
    while (scan.next()) {
      if (scan.kind === "open" || scan.kind === "empty") this.opened()
      else if (scan.kind === "close") this.closed()
      else if (scan.kind === "comment" || scan.kind === "pi") this.point(scan.from, scan.to)
    }
  }

  private opened(): void {
    const { scan, options } = this
    const { name, kind } = scan
    const paragraph = this.paragraph
    if (options.altTexts === true && /:(?:cNvPr|docPr)$/.test(name)) this.altTexts()
    if (options.leaves?.(name, this.text, scan.from) === true) {
      scan.skip()
      return
    }
    if (name === "mc:Fallback" && kind === "open") {
      this.fallbacks.push(scan.depth)
      return
    }
    const place = places.get(name)
    if (place === "paragraph" && (name !== "c:v" || options.cached === true)) {
      if (kind === "empty") return
      this.open.push({
        drafts: [],
        depth: scan.depth,
        also: undefined,
        fallback: this.fallbacks.length > 0,
        look: undefined,
        run: 0,
        runTag: "",
        runFrom: 0,
        start: -1,
        end: 0,
        openPairs: undefined
      })
      if (name === "c:v") this.characters()
      return
    }
    if (paragraph === undefined) return
    // The element is inside a picture but outside the picture's own paragraphs.
    if (this.deeps.length > 0 && this.deeps.at(-1)!.depth > paragraph.depth) return
    const { from } = scan
    if (place === "run") {
      if (kind === "empty") return
      paragraph.run = scan.depth
      paragraph.runFrom = scan.from
      paragraph.runTag = scan.raw
      paragraph.look = undefined
      return
    }
    if (place === "looks") {
      if (kind === "open") scan.skip()
      if (paragraph.run > 0) paragraph.look = this.lookOf(paragraph.runTag, this.text.slice(from, scan.to))
      return
    }
    if (place === "text") {
      if (kind === "open") this.characters()
      return
    }
    if (place === "aside" || place === "dropped") {
      scan.skip()
      return
    }
    if (name === "x:rPh") {
      scan.skip()
      ;(paragraph.also ??= []).push(replace(from, scan.to, ""))
      return
    }
    if (place === "passed") return
    const inRun = paragraph.run > 0
    if (!inRun && (place === "pair" || place === "needed") && kind === "open")
      return this.pair(paragraph, name)
    if (name === "w:fldChar") this.field(scan.local("fldCharType"))
    if (place === "deep" && kind === "open") {
      this.deeps.push({ depth: scan.depth, from, look: inRun ? this.lookIn(paragraph) : undefined })
      return
    }
    const code = name === "w:instrText" && kind === "open"
    scan.skip()
    if (code && this.fields.length > 0)
      this.fields.at(-1)!.code += this.text.slice(from, scan.to).replace(/<[^>]*>/g, "")
    const lock = name === "a:fld" || name === "w:sym" || name === "m:oMath" || name === "w:ruby"
    this.put(paragraph, {
      is: "point",
      from,
      to: scan.to,
      look: inRun ? this.lookIn(paragraph) : undefined,
      lock
    })
  }

  private pair(paragraph: Paragraph, name: string): void {
    const { scan } = this
    const { from } = scan
    if (name === "w:fldSimple" && uncounted.test(scan.local("instr") ?? "")) {
      scan.skip()
      this.put(paragraph, { is: "point", from, to: scan.to, look: undefined, lock: true })
      return
    }
    const depth = scan.depth
    // A content control starts with its properties, which end where its content begins.
    if (name === "w:sdt")
      while (scan.next() && scan.name !== "w:sdtContent" && scan.depth >= depth)
        if (scan.kind === "open") scan.skip()
    const openPairs = (paragraph.openPairs ??= [])
    openPairs.push(depth)
    this.put(paragraph, { is: "open", from, to: scan.to, needed: places.get(name) === "needed" })
  }

  /** Reads the text of the element that has just been opened; positions are those of its characters. */
  private characters(): void {
    const { scan } = this
    const paragraph = this.paragraph!
    const depth = scan.depth
    const look = this.lookIn(paragraph)
    const locked =
      this.fields.length > 0 && this.fields.some(({ code, result }) => result && uncounted.test(code))
    while (scan.next() && scan.depth >= depth) {
      const at = scan.from
      const end = scan.to
      if (scan.kind === "text") {
        if (locked)
          this.put(paragraph, { is: "point", from: at, to: end, look: { ...look, ...look.wrap }, lock: true })
        else {
          textRuns(
            scan.raw,
            at,
            (words, a, b) => this.put(paragraph, { is: "text", text: words, from: a, to: b, look }),
            (a, b) => this.put(paragraph, { is: "point", from: a, to: b, look: undefined, lock: true })
          )
        }
      } else if (scan.kind === "cdata")
        this.put(paragraph, { is: "text", text: scan.raw.slice(9, -3), from: at, to: end, look })
      else {
        scan.skip()
        this.put(paragraph, { is: "point", from: at, to: scan.to, look: undefined, lock: false })
      }
    }
    if (paragraph.depth > scan.depth) this.finish()
  }

  private field(type: string | undefined): void {
    if (type === "begin") this.fields.push({ code: "", result: false })
    else if (type === "separate" && this.fields.length > 0) this.fields.at(-1)!.result = true
    else if (type === "end") this.fields.pop()
  }

  private point(from: number, to: number): void {
    const paragraph = this.paragraph
    if (paragraph !== undefined && !(this.deeps.length > 0 && this.deeps.at(-1)!.depth > paragraph.depth))
      this.put(paragraph, {
        is: "point",
        from,
        to,
        look: paragraph.run > 0 ? this.lookIn(paragraph) : undefined,
        lock: false
      })
  }

  private closed(): void {
    const { scan } = this
    const depth = scan.depth + 1
    const paragraph = this.paragraph
    if (this.fallbacks.at(-1) === depth) this.fallbacks.pop()
    const within = this.deeps.at(-1)
    if (within?.depth === depth) {
      this.deeps.pop()
      if (paragraph !== undefined)
        this.put(paragraph, { is: "point", from: within.from, to: scan.to, look: within.look, lock: false })
      return
    }
    if (paragraph === undefined) return
    if (paragraph.depth === depth) return this.finish()
    if (paragraph.run === depth) {
      paragraph.run = 0
      if (paragraph.start >= 0) paragraph.end = scan.to
      return
    }
    if (
      paragraph.openPairs !== undefined &&
      places.get(scan.name) === "passed" &&
      paragraph.openPairs?.at(-1) === depth - 1
    ) {
      this.controlEnd = scan.from
      return
    }
    if (paragraph.openPairs?.at(-1) === depth) {
      paragraph.openPairs!.pop()
      this.put(paragraph, { is: "close", from: this.controlEnd ?? scan.from, to: scan.to, needed: false })
      this.controlEnd = undefined
    }
  }

  private controlEnd: number | undefined = undefined

  private put(paragraph: Paragraph, draft: Draft): void {
    paragraph.drafts.push(draft)
    if (paragraph.start < 0) paragraph.start = paragraph.run > 0 ? paragraph.runFrom : draft.from
    if (paragraph.run === 0) paragraph.end = draft.to
  }

  private finish(): void {
    const { drafts, also, fallback, start, end } = this.open.pop()!
    if (!drafts.some(worded)) return
    if (
      this.options.keeps?.(drafts.map((draft) => (draft.is === "text" ? draft.text : "")).join("")) === true
    )
      return
    const base = mostUsed(drafts)
    const builder = new Builder()
    const { wrap } = base
    let current = base
    const turn = (look: Look, at: number): void => {
      if (look.key === current.key) return
      if (current.key !== base.key) builder.end(at, at)
      if (look.key !== base.key) builder.start(at, at, { wrap: look.wrap })
      current = look
    }
    for (const draft of drafts) {
      switch (draft.is) {
        case "text":
          if (draft.text.trim() !== "") turn(draft.look, draft.from)
          builder.text(draft.text, draft.from, draft.to)
          break
        case "point":
          builder.point(
            draft.from,
            draft.to,
            draft.look === undefined || draft.look.open === ""
              ? undefined
              : { open: draft.look.open, close: draft.look.close },
            draft.lock
          )
          break
        case "open":
          turn(base, draft.from)
          builder.start(draft.from, draft.to, { needed: draft.needed })
          break
        case "close":
          turn(base, draft.from)
          builder.end(draft.from, draft.to)
          break
      }
    }
    turn(base, drafts.at(-1)!.to)
    const { escape, leaf } = this.writing
    const writing = wrap.open === "" ? this.writing : { escape, leaf, wrap, region: { from: start, to: end } }
    const plain = fallback ? unbilled : undefined
    this.segments.add(builder, writing, also === undefined ? plain : { unbilled: fallback, also })
  }

  /** White space at the edges of an element's text is significant only with `xml:space`. */
  private readonly writing: Required<Pick<Writing, "escape" | "leaf">> = {
    escape: escapeXml,
    leaf: (item, text) => {
      const edit = replace(item.from, item.to, escapeXml(text))
      const raw = text.trim() === text && !/\s\s/.test(text) ? undefined : tagBefore(this.text, item.from)
      if (raw === undefined) return [edit]
      return raw.includes("xml:space") || raw.startsWith("<a:") || raw.startsWith("<c:")
        ? [edit]
        : [replace(item.from - raw.length, item.from, raw.replace(/>$/, ' xml:space="preserve">')), edit]
    }
  }

  private altTexts(): void {
    for (const { name, value, from, to } of this.scan.attributes()) {
      if ((name !== "descr" && name !== "title") || value === "") continue
      const builder = new Builder()
      builder.text(value, from, to)
      this.segments.add(builder, { escape: escapeAttribute })
    }
  }
}

/** Returns the start tag that ends at this offset. */
const tagBefore = (text: string, at: number): string | undefined => {
  if (text.charCodeAt(at - 1) !== 62) return undefined
  const raw = text.slice(text.lastIndexOf("<", at - 1), at)
  return /^<[^/!?]/.test(raw) && !raw.endsWith("/>") ? raw : undefined
}

const unbilled = { unbilled: true }
const worded = (draft: Draft): boolean => draft.is === "text" && draft.text !== ""

const mostUsed = (drafts: ReadonlyArray<Draft>): Look => {
  const first = drafts.find((draft) => draft.is === "text")?.look ?? plainLook
  if (drafts.every((draft) => draft.is !== "text" || draft.look === first)) return first
  const counts = new Map<string, { look: Look; count: number }>()
  let best: { look: Look; count: number } | undefined
  for (const draft of drafts) {
    if (draft.is !== "text") continue
    const one = counts.get(draft.look.key) ?? { look: draft.look, count: 0 }
    one.count += draft.text.length
    counts.set(draft.look.key, one)
    if (best === undefined || one.count > best.count) best = one
  }
  return best?.look ?? plainLook
}
