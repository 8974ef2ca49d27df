/** HTML: text and selected attributes are translated. The source is never repaired, so unbalanced markup is
 *  written back as it is. htmlparser2 provides the position of each token.
 *  Source: docs/spec/documents.md, section 5.5. */
import { decodeHTML } from "entities"
import { Tokenizer } from "htmlparser2"
import { BadDocument, type ExtractOptions, type Format } from "./document.ts"
import { decode, encode } from "./encoding.ts"
import { Builder, legal, replace, Segments, spliced, type Edit, type Writing } from "./splice.ts"

const words = (names: string): ReadonlySet<string> => new Set(names.split(" "))

const blocks = words(
  "address article aside blockquote body caption center col colgroup dd details dialog dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 " +
    "head header hgroup hr html legend li link main menu meta nav noscript ol optgroup option p param pre search section select summary table tbody td template textarea tfoot th thead title tr ul base area map"
)

const voids = words("area base br col embed frame hr img input link meta param source track wbr")
const opaque = words("script style iframe object ruby math audio video canvas applet")
const locks = words("code kbd samp var")
const attributes = words("alt title placeholder aria-label aria-description summary label")
const metas = /^(?:description|keywords|og:title|og:description|twitter:.+)$/i

type Token =
  | { readonly is: "text" | "other"; readonly from: number; readonly to: number }
  | {
      readonly is: "open" | "close"
      readonly name: string
      readonly from: number
      readonly to: number
      readonly alone: boolean
    }

/** Visits every token with its position; the tokens together cover the whole text. */
const eachToken = (text: string, told: (token: Token) => void): void => {
  let at = 0
  let name = ""
  let open = 0
  const upTo = (to: number, is: "text" | "other"): void => {
    if (to > at) {
      const from = at
      at = to
      told({ is, from, to })
    }
  }
  const tag = (is: "open" | "close", to: number, alone: boolean): void => {
    upTo(open, "other")
    at = to
    told({ is, name, from: open, to, alone })
  }
  const tokenizer = new Tokenizer(
    { decodeEntities: false },
    {
      onattribdata: () => {},
      onattribentity: () => {},
      onattribend: () => {},
      onattribname: () => {},
      ontextentity: () => {},
      ontext: (from, to) => {
        upTo(from, "other")
        upTo(to, "text")
      },
      onopentagname: (from, to) => {
        name = text.slice(from, to).toLowerCase()
        open = from - 1
      },
      onopentagend: (end) => tag("open", end + 1, voids.has(name)),
      onselfclosingtag: (end) => tag("open", end + 1, true),
      onclosetag: (from, to) => {
        name = text.slice(from, to).toLowerCase()
        open = text.lastIndexOf("<", from)
        const end = text.indexOf(">", to)
        tag("close", end < 0 ? text.length : end + 1, false)
      },
      oncdata: () => {},
      oncomment: () => {},
      ondeclaration: () => {},
      onprocessinginstruction: () => {},
      onend: () => {}
    }
  )
  tokenizer.write(text)
  tokenizer.end()
  upTo(text.length, "other")
}

const attribute = /([^\s=<>"'/]+)(?:\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+))?/g

interface Attribute {
  readonly name: string
  readonly value: string
  readonly from: number
  readonly to: number
  readonly quote: string
}

const none: ReadonlyArray<Attribute> = []

const attributesOf = (tag: string, at: number): ReadonlyArray<Attribute> => {
  const found: Array<Attribute> = []
  const from = /^<[^\s/>]+/.exec(tag)?.[0].length ?? 0
  for (const match of tag.slice(from).matchAll(attribute)) {
    const raw = match[2] ?? ""
    const quote = raw[0] === '"' || raw[0] === "'" ? raw[0] : ""
    const end = at + from + match.index + match[0].length
    found.push({
      name: match[1]!.toLowerCase(),
      value: decodeHTML(quote === "" ? raw : raw.slice(1, -1)),
      from: end - raw.length,
      to: end,
      quote
    })
  }
  return found
}

interface Frame {
  readonly name: string
  readonly locked: boolean
  readonly pair: boolean
}

class Reading {
  readonly segments: Segments
  readonly edits: Array<Edit> = []
  private readonly text: string
  private readonly options: ExtractOptions
  private readonly frames: Array<Frame> = []
  private readonly open = new Map<string, number>()
  private builder = new Builder()

  /** The element that is being skipped: its name, its nesting depth, its start, and whether it replaces
   *  words of the sentence. */
  private skipping:
    | { readonly name: string; depth: number; readonly from: number; readonly lock: boolean }
    | undefined

  private readonly writing: Writing
  private readonly inPre: Writing

  constructor(text: string, options: ExtractOptions) {
    this.text = text
    this.options = options
    this.segments = new Segments(options)
    const nbsp = text.includes("&nbsp;")
    const shy = text.includes("&shy;")
    const escape = (translation: string): string => {
      const plain = legal(translation)
        .replaceAll("&", "&amp;")
        .replaceAll("<", "&lt;")
        .replaceAll(">", "&gt;")
      const spaced = nbsp ? plain.replaceAll("\u00A0", "&nbsp;") : plain
      return shy ? spaced.replaceAll("\u00AD", "&shy;") : spaced
    }
    this.writing = { escape, collapse: true }
    this.inPre = { escape }
  }

  read(): void {
    eachToken(this.text, (token) => {
      if (this.skipping !== undefined) return this.skip(token)
      switch (token.is) {
        case "text":
          this.words(token.from, token.to)
          break
        case "other":
          if (!this.builder.empty) this.builder.point(token.from, token.to)
          break
        case "open":
          this.opened(token)
          break
        case "close":
          this.closed(token)
          break
      }
    })
    if (this.skipping !== undefined && !this.builder.empty)
      this.builder.point(this.skipping.from, this.text.length)
    this.flush()
  }

  private get locked(): boolean {
    return this.frames.at(-1)?.locked === true
  }

  private preserving = 0

  private get pre(): boolean {
    return this.preserving > 0
  }

  private flush(): void {
    if (this.builder.empty) return
    if (this.builder.hasText) this.segments.add(this.builder, this.pre ? this.inPre : this.writing)
    this.builder = new Builder()
  }

  private words(from: number, to: number): void {
    if (this.locked) {
      this.builder.point(from, to, undefined, true)
      return
    }
    if (!this.pre) {
      this.builder.text(decodeHTML(this.text.slice(from, to)), from, to)
      return
    }
    for (let at = from; at < to;) {
      const end = this.text.indexOf("\n", at)
      const stop = end < 0 || end >= to ? to : end
      if (stop > at) this.builder.text(decodeHTML(this.text.slice(at, stop)), at, stop)
      if (stop < to) this.flush()
      at = stop + 1
    }
  }

  private skip(token: Token): void {
    const skipping = this.skipping!
    if ((token.is !== "open" && token.is !== "close") || token.name !== skipping.name) return
    if (token.is === "open") {
      if (!token.alone) skipping.depth++
      return
    }
    if (--skipping.depth > 0) return
    if (!this.builder.empty || skipping.lock)
      this.builder.point(skipping.from, token.to, undefined, skipping.lock)
    this.skipping = undefined
  }

  /** Returns whether the element is locked by its `translate` attribute; without one it inherits from its
   *  parent. */
  private isLocked(translate: string | undefined, notranslate: boolean): boolean {
    if (translate === "no" || notranslate) return true
    if (translate === "yes" || translate === "") return false
    return this.locked
  }

  private opened({ name, from, to, alone }: Extract<Token, { is: "open" | "close" }>): void {
    const tag = this.text.slice(from, to)
    const found = to - from > name.length + 2 ? attributesOf(tag, from) : none
    const asked = found.find((one) => one.name === "translate")?.value.toLowerCase()
    const classed = found.some((one) => one.name === "class" && /(?:^|\s)notranslate(?:\s|$)/.test(one.value))
    const locked = this.isLocked(asked, classed)
    if (!locked && found.length > 0) this.attributes(name, found)
    if (name === "html") {
      const lang = found.find((one) => one.name === "lang")
      if (lang !== undefined && lang.value !== this.options.target)
        this.edits.push(replace(lang.from, lang.to, `${lang.quote}${this.options.target}${lang.quote}`))
    }
    const block = blocks.has(name)
    if (block) this.flush()
    if (
      !alone &&
      (opaque.has(name) ||
        (locks.has(name) && !this.pre) ||
        (name === "svg" && !/<(?:title|text)\b/i.test(this.text.slice(to, to + 65_536))))
    ) {
      this.skipping = { name, depth: 1, from, lock: locks.has(name) }
      return
    }
    if (alone) {
      if (!block) this.builder.point(from, to)
      return
    }
    const pair = !block && !locked
    if (pair) this.builder.start(from, to)
    else if (!block) this.builder.point(from, to, undefined, true)
    this.frames.push({ name, locked, pair })
    this.open.set(name, (this.open.get(name) ?? 0) + 1)
    if (name === "pre" || name === "textarea") this.preserving++
  }

  private closed({ name, from, to }: Extract<Token, { is: "open" | "close" }>): void {
    const block = blocks.has(name)
    if (block) this.flush()
    const top = this.frames.at(-1)
    if (top?.name === name) {
      this.pop()
      if (block) return
      if (top.pair && this.builder.depth > 0) this.builder.end(from, to)
      else if (!this.builder.empty || top.locked) this.builder.point(from, to, undefined, top.locked)
      return
    }
    // The end tag crosses other elements or was never opened. The end of a block closes the elements still
    // open inside it; the end of an inline element becomes a point.
    if (!block) {
      this.builder.point(from, to)
      return
    }
    if ((this.open.get(name) ?? 0) === 0) return
    while (this.frames.at(-1)!.name !== name) this.pop()
    this.pop()
  }

  private pop(): void {
    const { name } = this.frames.pop()!
    this.open.set(name, this.open.get(name)! - 1)
    if (name === "pre" || name === "textarea") this.preserving--
  }

  private attributes(tag: string, found: ReadonlyArray<Attribute>): void {
    const value = (name: string): string => found.find((one) => one.name === name)?.value ?? ""
    for (const { name, value: text, from, to, quote } of found) {
      const wanted =
        attributes.has(name) ||
        (tag === "meta" && name === "content" && metas.test(value("name") || value("property"))) ||
        (tag === "input" && name === "value" && /^(?:submit|button|reset)$/i.test(value("type")))
      if (!wanted || text === "") continue
      const builder = new Builder()
      const inside = quote === "" ? 0 : 1
      builder.text(text, from + inside, to - inside)
      const escape = (translation: string): string =>
        `${inside === 0 ? '"' : ""}${this.writing.escape(translation).replaceAll('"', "&quot;").replaceAll("'", "&#39;")}${inside === 0 ? '"' : ""}`
      this.segments.add(builder, { escape })
    }
  }
}

const charset = /<meta\b[^>]{0,400}?charset\s*=\s*["']?\s*([A-Za-z][\w:.-]{0,39})/i

export const html: Format = {
  id: "html",
  extensions: ["htm", "html"],
  mime: "text/html",
  inspect: (bytes) => {
    if (bytes.length === 0) throw new BadDocument("empty")
  },
  extract: (bytes, options) => {
    const file = decode(bytes, (head) => charset.exec(head)?.[1])
    const reading = new Reading(file.text, options)
    reading.read()
    return {
      segments: reading.segments.list,
      characters: reading.segments.characters,
      warnings: [],
      rebuild: (translated) => {
        if (spliced(file.text, reading.segments.placed, translated) === file.text) return bytes
        return encode(spliced(file.text, reading.segments.placed, translated, reading.edits), file, {
          refer: true,
          redeclare: (whole) =>
            whole.replace(charset, (tag, name: string) => `${tag.slice(0, tag.length - name.length)}UTF-8`)
        })
      }
    }
  }
}
