/** What the checks of this house read of a TypeScript source: its syntax tree, and the names it declares that
 *  are participles. TypeScript 5 parses; version 7 has no such interface. */
import { readFileSync } from "node:fs"
import ts from "typescript5"

/** Words that say neither what a thing is nor what it does: a declaration wants its field's noun or verb. */
export const participles = new Set(["given", "known", "made", "shown", "gone", "kept", "named", "over"])

const scriptKindOf = (file) => (/\.m?js$/.test(file) ? ts.ScriptKind.JS : ts.ScriptKind.TS)

/** Nodes know their parents. */
export const parse = (file, text = readFileSync(file, "utf8")) =>
  ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true, scriptKindOf(file))

/** Calls `visit` for every node of a tree, parents first. */
export const walk = (node, visit) => {
  visit(node)
  ts.forEachChild(node, (child) => walk(child, visit))
}

const declares = (node) =>
  ts.isVariableDeclaration(node) ||
  ts.isParameter(node) ||
  ts.isBindingElement(node) ||
  ts.isFunctionDeclaration(node) ||
  ts.isFunctionExpression(node) ||
  ts.isClassLike(node) ||
  ts.isClassElement(node) ||
  ts.isTypeElement(node) ||
  ts.isTypeAliasDeclaration(node) ||
  ts.isInterfaceDeclaration(node) ||
  ts.isPropertyAssignment(node)

const declaredParticiple = new RegExp(`\\b(?:${[...participles].join("|")})\\b\\s*[,:=?!(<{}\\];)]`)

/** Cheap: whether a text may declare such a name, so that most files need no parsing. */
export const mayDeclareParticiple = (text) => declaredParticiple.test(text)

/** Declarations whose name is a participle, each with its line. */
export const participleDeclarations = (source) => {
  const found = []
  walk(source, (node) => {
    if (!declares(node) || node.name === undefined) return
    if (!ts.isIdentifier(node.name) && !ts.isPrivateIdentifier(node.name)) return
    const name = node.name.text.replace("#", "")
    if (!participles.has(name)) return
    const { line } = source.getLineAndCharacterOfPosition(node.name.getStart(source))
    found.push({ name, line: line + 1 })
  })
  return found
}
