/** DITA topics: XML whose elements have fixed roles. Code, file names and messages are locked, so they are
 *  never translated; DITA maps are refused.
 *  Source: docs/spec/documents.md, section 5.12. */
import { BadDocument, type Format } from "./document.ts"
import { xmlDocument, type Dialect, type Role } from "./xml.ts"

const words = (names: string): ReadonlySet<string> => new Set(names.split(" "))

const inline = words(
  "b i u sup sub ph q cite term keyword xref link linktext tm tt line-through overline strong em uicontrol menucascade wintitle shortcut abbreviated-form state boolean data-about text"
)

const locked = words(
  "codeph filepath cmdname systemoutput userinput msgnum apiname option parmname synph varname msgph image delim oper sep repsep var kwd xmlelement xmlatt textentity parameterentity numcharref markupname"
)

const never = words("codeblock draft-comment required-cleanup prolog foreign unknown object data")
const own = words("fn indexterm index-see index-see-also index-sort-as")
const maps = words("map bookmap subjectScheme topicgroup")

const roles = new Map<string, Role>([
  ...[...own].map((name) => [name, "own"] as const),
  ...[...never].map((name) => [name, "skip"] as const),
  ...[...locked].map((name) => [name, "lock"] as const),
  ...[...inline].map((name) => [name, "inline"] as const)
])

const dialect: Dialect = {
  roleOf: (name) => roles.get(name) ?? "block",
  preserves: (name) => name === "pre" || name === "lines" || name === "screen" || name === "msgblock",
  setsLanguage: true,
  checkRoot: (name) => {
    if (maps.has(name) || /map$/i.test(name)) throw new BadDocument("topics only")
  }
}

export const dita: Format = {
  id: "dita",
  extensions: ["dita"],
  mime: "application/dita+xml",
  inspect: (bytes) => {
    if (bytes.length === 0) throw new BadDocument("empty")
    const root = /<(?![?!])([\w.:-]+)/.exec(
      bytes.toString("latin1", 0, 16_384).replace(/<!--[\s\S]*?-->/g, "")
    )?.[1]
    if (root !== undefined) dialect.checkRoot!(root)
  },
  extract: (bytes, options) => xmlDocument(bytes, options, () => dialect)
}
