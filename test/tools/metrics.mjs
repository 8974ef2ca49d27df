/** How the sources read, in numbers, a row per room. `node test/tools/metrics.mjs` measures the sources that
 *  git lists; with file names on standard input it measures those. `--longest` adds the longest functions. */
import { execFileSync } from "node:child_process"
import { existsSync, fstatSync, readFileSync } from "node:fs"
import ts from "typescript5"
import { parse, participleDeclarations, walk } from "./source.mjs"

const sourceRooms = ["runtime", "actors", "protocols", "storage", "bench"]
const generated = new Set(["protocols/translation/styles/rule-values.ts"])
const wideColumns = 120
const longFunctionLines = 80

const lines = (text) => text.split("\n").filter((line) => line.trim() !== "")

const listed = () =>
  lines(execFileSync("git", ["ls-files", "--", ...sourceRooms], { encoding: "utf8" })).filter((file) =>
    file.endsWith(".ts")
  )

const isPiped = () => {
  const input = fstatSync(0)
  return input.isFIFO() || input.isFile()
}

const filesToMeasure = () => {
  const piped = isPiped() ? lines(readFileSync(0, "utf8")) : []
  const files = new Set(piped.length > 0 ? piped : listed())
  return [...files].filter((file) => !generated.has(file) && existsSync(file))
}

/** `protocols/chat`, `runtime`, `test/protocols/chat`. */
const roomOf = (file) => {
  const parts = file.split("/")
  const isTest = parts[0] === "test"
  const room = isTest ? parts.slice(1, -1) : parts.slice(0, -1)
  const depth = room[0] === "protocols" ? 2 : 1
  return [...(isTest ? ["test"] : []), ...room.slice(0, depth)].join("/")
}

const isNestedTernary = (node) => {
  if (!ts.isConditionalExpression(node)) return false
  let { parent } = node
  while (ts.isParenthesizedExpression(parent)) ({ parent } = parent)
  return ts.isConditionalExpression(parent)
}

const isComment = (line) => /^(?:\/\/|\/\*|\*)/.test(line.trim())

const measure = (file) => {
  const text = readFileSync(file, "utf8")
  const source = parse(file, text)
  const filled = lines(text)
  const lineAt = (position) => source.getLineAndCharacterOfPosition(position).line
  const crowded = new Set()
  const functions = []
  let declarations = 0
  let declarationsOfSeveral = 0
  let nestedTernaries = 0

  walk(source, (node) => {
    for (const [i, statement] of (node.statements ?? []).entries()) {
      const line = lineAt(statement.getStart(source))
      if (i > 0 && lineAt(node.statements[i - 1].end) === line) crowded.add(line)
    }
    if (ts.isVariableStatement(node)) {
      declarations++
      if (node.declarationList.declarations.length > 1) declarationsOfSeveral++
    }
    if (isNestedTernary(node)) nestedTernaries++
    if (ts.isFunctionLike(node) && node.body !== undefined) {
      const first = lineAt(node.getStart(source))
      functions.push({ file, line: first + 1, lines: lineAt(node.end) - first + 1 })
    }
  })

  return {
    files: 1,
    lines: filled.length,
    characters: filled.reduce((sum, line) => sum + line.length, 0),
    commentLines: filled.filter(isComment).length,
    wideLines: filled.filter((line) => line.length > wideColumns).length,
    crowdedLines: crowded.size,
    declarations,
    declarationsOfSeveral,
    nestedTernaries,
    participles: participleDeclarations(source).length,
    longFunctions: functions.filter((entry) => entry.lines > longFunctionLines).length,
    longestFile: text.split("\n").length,
    functions
  }
}

const sumOf = (measures) => {
  const total = { functions: [] }
  for (const { functions, longestFile, ...counts } of measures) {
    for (const [name, count] of Object.entries(counts)) total[name] = (total[name] ?? 0) + count
    total.longestFile = Math.max(total.longestFile ?? 0, longestFile)
    total.functions.push(...functions)
  }
  return total
}

const percent = (part, whole) => (whole === 0 ? "0.0" : ((100 * part) / whole).toFixed(1))

const columns = {
  files: ({ files }) => files,
  lines: ({ lines: count }) => count,
  "mean line": ({ characters, lines: count }) => (characters / count).toFixed(1),
  "comment %": ({ commentLines, lines: count }) => percent(commentLines, count),
  [`over ${wideColumns}`]: ({ wideLines }) => wideLines,
  "2+ statements": ({ crowdedLines }) => crowdedLines,
  "several names %": ({ declarationsOfSeveral, declarations }) =>
    percent(declarationsOfSeveral, declarations),
  "nested ?:": ({ nestedTernaries }) => nestedTernaries,
  participles: ({ participles }) => participles,
  [`functions > ${longFunctionLines}`]: ({ longFunctions }) => longFunctions,
  "longest file": ({ longestFile }) => longestFile
}

const rowOf = (label, measured) => [label, ...Object.values(columns).map((cell) => String(cell(measured)))]

const print = (rows) => {
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => row[column].length)))
  for (const [label, ...cells] of rows)
    console.log([label.padEnd(widths[0]), ...cells.map((cell, i) => cell.padStart(widths[i + 1]))].join("  "))
}

const byRoom = (files) => {
  const rooms = new Map()
  for (const file of files) {
    const room = roomOf(file)
    rooms.set(room, [...(rooms.get(room) ?? []), file])
  }
  return rooms
}

const measured = [...byRoom(filesToMeasure())].map(([room, members]) => [room, sumOf(members.map(measure))])
const total = sumOf(measured.map(([, sum]) => sum))

print([
  ["room", ...Object.keys(columns)],
  ...measured.map(([room, sum]) => rowOf(room, sum)),
  rowOf("all", total)
])

if (process.argv.includes("--longest")) {
  const longest = total.functions.toSorted((a, b) => b.lines - a.lines).slice(0, 25)
  for (const { lines: count, file, line } of longest) console.log(`${count}  ${file}:${line}`)
}
