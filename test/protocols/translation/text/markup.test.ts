import { describe, expect, it } from "vitest"
import { expectLinear } from "../../../linear.ts"
import { splitMarkup, MarkupFault, type Markup } from "../../../../protocols/translation/text/markup.ts"
import { Draft, render } from "../../../../protocols/translation/text/segments.ts"

const set = (...names: ReadonlyArray<string>): ReadonlySet<string> => new Set(names)

const xml: Markup = {
  kind: "xml",
  strict: true,
  outline: true,
  splitting: set(),
  nonSplitting: set(),
  ignored: set()
}

const html: Markup = { ...xml, kind: "html", strict: false, outline: false }
const lenient: Markup = { ...xml, strict: false }

const draftOf = (text: string, markup: Markup): Draft => {
  const draft = new Draft()
  splitMarkup(text, markup, markup.kind === "html" ? "nonewlines" : "1", "en", draft)
  return draft
}

const sentences = (text: string, markup: Markup): ReadonlyArray<string> =>
  draftOf(text, markup).sentences.map(({ segment, raws }) =>
    segment.units.map((unit) => (unit._tag === "text" ? unit.text : `‹${raws[unit.id]}›`)).join("")
  )

const how = { repair: false, escape: true, target: "de" }

const upper = (text: string, markup: Markup): string => {
  const draft = draftOf(text, markup)
  return render(
    draft,
    draft.segments.map(({ units }) => ({
      units: units.map((unit) =>
        unit._tag === "text" ? { _tag: "text" as const, text: unit.text.toUpperCase() } : unit
      )
    })),
    how
  )
}

describe("translate 3.3.6 tags, xml", () => {
  it("markup is kept, text nodes translated", () =>
    expect(upper('<a href="x">Hello <b>big</b> world</a>', xml)).toBe(
      '<a href="x">HELLO <b>BIG</b> WORLD</a>'
    ))
  it("`ignore_tags` content copied verbatim", () =>
    expect(upper("Press <key>Enter <b>x</b></key> now", { ...xml, ignored: set("key") })).toBe(
      "PRESS <key>Enter <b>x</b></key> NOW"
    ))
  it("nested ignored elements of one name", () =>
    expect(upper("a <x>b <x>c</x> d</x> e", { ...xml, ignored: set("x") })).toBe("A <x>b <x>c</x> d</x> E"))
  it("`splitting_tags` always start a new unit", () =>
    expect(
      sentences("Hello <par>world</par> again", { ...xml, outline: false, splitting: set("par") })
    ).toEqual(["Hello", "world", "again"]))
  it("`non_splitting_tags` never do", () =>
    expect(sentences("<d><p>One</p><p>two</p></d>", { ...xml, nonSplitting: set("p") })).toEqual([
      "‹<p>›One‹</p>›‹<p>›two‹</p>›"
    ]))
  it("with `outline_detection` true, elements that directly hold text among element-only siblings split", () => {
    expect(sentences("<d><t>Title</t>\n<p>Some <i>mixed</i> text</p></d>", xml)).toEqual([
      "Title",
      "Some ‹<i>›mixed‹</i>› text"
    ])
  })
  it("`outline_detection` false: nothing splits by itself", () => {
    expect(sentences("<d><t>Title</t><p>text</p></d>", { ...xml, outline: false })).toEqual([
      "‹<t>›Title‹</t>›‹<p>›text‹</p>›"
    ])
  })
  it("sentences inside an element still split", () =>
    expect(sentences("<p>One. <b>Two.</b> Three</p>", xml)).toEqual(["One.", "Two.", "Three"]))
  it("a fragment without a single root is fine", () =>
    expect(upper("<a>x</a><a>y</a> z", xml)).toBe("<a>X</a><a>Y</a> Z"))
  it("a DOCTYPE or XML declaration is passed through", () => {
    const text = '<?xml version="1.0"?>\n<!DOCTYPE d [<!ENTITY a "b">]>\n<!-- note --><d>x</d>'
    expect(upper(text, xml)).toBe(text.replace(">x<", ">X<"))
  })
  it("CDATA is copied", () =>
    expect(upper("<d>a <![CDATA[b < c]]> d</d>", xml)).toBe("<d>A <![CDATA[b < c]]> D</d>"))
  it("entities are preserved as entities", () =>
    expect(upper("<d>Tom &amp; Ann &#x41; &eacute;</d>", xml)).toBe("<d>TOM &amp; ANN &#x41; &eacute;</d>"))
  it("what the engine writes cannot become markup", () => {
    const draft = draftOf("<d>x</d>", xml)
    expect(render(draft, [{ units: [{ _tag: "text", text: "a < b & c" }] }], how)).toBe(
      "<d>a &lt; b &amp; c</d>"
    )
  })
  it.each([
    "<a>x",
    "x</a>",
    "<a><b>x</a></b>",
    "a & b",
    "a < b",
    "<a b=c>x</a>",
    '<a b="1" b="2">x</a>',
    "<a b>x</a>",
    "<1>x</1>",
    "<a>x</A>",
    "<a",
    "<!-- a -- b -->x",
    "<a>]]></a>",
    '<a b="<">x</a>',
    '<a b="&">x</a>',
    "<!-- x",
    "<![CDATA[x",
    "<?x",
    "<a>x</a",
    "< a>x</a>"
  ])("v2 is strict: %s is not well-formed", (text) => expect(() => draftOf(text, xml)).toThrow(MarkupFault))
  it.each([
    "<a>x",
    "x</a>",
    "<a><b>x</a></b>",
    "a & b",
    "a < b",
    "<a b=c>x</a>",
    "<1>x</1>",
    "<a",
    "<!-- x",
    "<![CDATA[x",
    "<a>x</a",
    "1 <2> 3",
    "<a 'x>y</a>",
    "</>",
    "<>"
  ])("v1 is lenient: %s passes", (text) => {
    const draft = draftOf(text, lenient)
    expect(render(draft, draft.segments, how)).toBe(text)
  })
})

describe("translate 3.3.7 tags, html", () => {
  it("blocks part sentences, inline tags do not", () =>
    expect(sentences("<ul><li>One <b>two</b></li><li>three</li></ul><p>four<br>five</p>", html)).toEqual([
      "One ‹<b>›two‹</b>›",
      "three",
      "four",
      "five"
    ]))
  it('`translate="no"` is not translated', () =>
    expect(upper('Say <span translate="no">Hello <i>you</i></span> to all', html)).toBe(
      'SAY <span translate="no">Hello <i>you</i></span> TO ALL'
    ))
  it("class `notranslate` is not translated", () =>
    expect(upper("<p class='a notranslate'>x</p><p class=notranslateX>y</p>", html)).toBe(
      "<p class='a notranslate'>x</p><p class=notranslateX>Y</p>"
    ))
  it("script/style content untouched", () =>
    expect(upper("<style>p > a {}</style><script>if (a<b) x('</p>')</script>y", html)).toBe(
      "<style>p > a {}</style><script>if (a<b) x('</p>')</script>Y"
    ))
  it("entities are preserved as entities", () =>
    expect(upper("a&nbsp;b &copy; c", html)).toBe("A&nbsp;B &copy; C"))
  it("lenient: void elements, unclosed and stray tags, bare ampersands", () => {
    const text = "<p>a & b<img src=x><p>c </i> < d"
    expect(upper(text, html)).toBe("<p>A & B<img src=x><p>C </i> < D")
  })
  it("names in any case", () => expect(sentences("<P>One</P><P>two</P>", html)).toEqual(["One", "two"]))
})

describe("laws", () => {
  it("with an engine that changes nothing, markup comes back byte for byte, and strict fails by MarkupFault alone", () => {
    let seed = 5
    const next = (below: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff
      return (seed >> 8) % below
    }
    const alphabet = [
      "<a>",
      "</a>",
      "<b x='1'>",
      "</b>",
      "<p>",
      "</p>",
      "<br/>",
      "<br>",
      "<",
      ">",
      "&",
      "&amp;",
      "&#1;",
      '"',
      "'",
      "Word",
      "one. Two",
      " ",
      "\n",
      "<!--",
      "-->",
      "<![CDATA[",
      "]]>",
      "<?",
      "?>",
      "<!D",
      "<script>",
      "</script>",
      "{x}",
      "<i class=notranslate>",
      "</i>",
      "日本。"
    ]
    for (let round = 0; round < 4_000; round++) {
      let text = ""
      for (let i = next(18); i >= 0; i--) text += alphabet[next(alphabet.length)]
      for (const markup of [
        xml,
        lenient,
        html,
        { ...lenient, ignored: set("a"), splitting: set("b"), nonSplitting: set("p") }
      ]) {
        try {
          const draft = draftOf(text, markup)
          expect(render(draft, draft.segments, how)).toBe(text)
        } catch (fault) {
          if (!(fault instanceof MarkupFault && markup.strict)) throw fault
        }
      }
    }
  })
  it("hostile markup takes no more than its share: four times the text, about four times the work", () => {
    const pieces = [
      "<a ",
      '<a "',
      "<a '\"",
      "<b>",
      "<a><b>",
      "</b>",
      "<!--",
      '<!A"',
      "<![CDATA[",
      "<?",
      "<script>",
      "&",
      "<",
      "&amp;",
      "<a b='c' "
    ]
    for (const piece of pieces)
      for (const markup of [xml, lenient, html, { ...lenient, ignored: set("a", "b") }]) {
        const work = (length: number): void => {
          const many = piece.repeat(Math.floor(length / piece.length))
          for (const text of [many, `${many}>`, `x ${many}> y`]) {
            try {
              const draft = draftOf(text, markup)
              expect(render(draft, draft.segments, how) === text).toBe(true)
            } catch (fault) {
              if (!(fault instanceof MarkupFault && markup.strict)) throw fault
            }
          }
        }
        expectLinear(work, 32_768, JSON.stringify(piece))
      }
  }, 120_000)
})
