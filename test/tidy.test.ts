/** The one rule worth a machine: which room may import which. And what nobody should have to look for by
 *  hand. */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs"
import { dirname, join, normalize } from "node:path"
import { expect, it } from "vitest"
import { mayDeclareParticiple, parse, participleDeclarations } from "./tools/source.mjs"

const root = new URL("..", import.meta.url).pathname

const filesBelow = (folder: string): ReadonlyArray<string> =>
  readdirSync(join(root, folder)).flatMap((name) => {
    const path = join(folder, name)
    if (statSync(join(root, path)).isDirectory()) return filesBelow(path)
    return path.endsWith(".ts") ? [path] : []
  })

const rooms = ["storage", "runtime", "actors", "protocols"]
const sources = rooms.flatMap(filesBelow)

const importsOf = (file: string): ReadonlyArray<string> =>
  [...readFileSync(join(root, file), "utf8").matchAll(/(?:from|import\()\s*"(\.[^"]+)"/g)].map(([, path]) =>
    normalize(join(dirname(file), path!))
  )

/** The composition root sees every room: it puts the program together. */
const composition = (file: string): boolean => file.startsWith("runtime/program/")

const may = (from: string, to: string): boolean => {
  const [source, target] = [from.split("/")[0]!, to.split("/")[0]!]
  if (composition(from) || source === target)
    return !(source === "runtime" && !composition(from) && composition(to))
  if (composition(to)) return false
  if (/\/wire\.ts$|-wire\.ts$|^protocols\/shared\//.test(from)) return to === "runtime/defined.ts"
  switch (source) {
    case "protocols":
      return (
        target === "actors" ||
        to === "storage/store.ts" ||
        to === "storage/seal.ts" ||
        [
          "runtime/http.ts",
          "runtime/registry.ts",
          "runtime/indexed-set.ts",
          "runtime/defined.ts",
          "runtime/metrics.ts"
        ].includes(to)
      )
    case "actors":
      return target === "runtime" ? !to.startsWith("runtime/transport/") : to === "storage/store.ts"
    case "runtime":
      return to === "storage/store.ts"
    default:
      return false
  }
}

it("imports run one way: protocols → actors → runtime → storage/store.ts", () => {
  expect(
    sources.flatMap((file) =>
      importsOf(file)
        .filter((to) => !may(file, to))
        .map((to) => `${file} → ${to}`)
    )
  ).toEqual([])
})

it("the rule can fail", () => {
  expect([
    may("storage/lmdb.ts", "runtime/cell.ts"),
    may("runtime/cell.ts", "storage/lmdb.ts"),
    may("actors/rate-window.ts", "protocols/translation/text.ts"),
    may("protocols/translation/wire.ts", "runtime/http.ts"),
    may("runtime/cell.ts", "runtime/program/start.ts")
  ]).toEqual([false, false, false, false, false])
})

it("no import runs in a circle", () => {
  const state = new Map<string, "open" | "done">()
  const circles: Array<string> = []
  const visit = (file: string, path: ReadonlyArray<string>): void => {
    if (state.get(file) === "done") return
    if (state.get(file) === "open") {
      circles.push([...path.slice(path.indexOf(file)), file].join(" → "))
      return
    }
    state.set(file, "open")
    for (const to of importsOf(file)) if (sources.includes(to)) visit(to, [...path, file])
    state.set(file, "done")
  }
  for (const file of sources) visit(file, [])
  expect(circles).toEqual([])
})

it("every file that a document names is there", () => {
  const documents = ["README.md", "bench/README.md"].concat(
    ["docs", "docs/spec"].flatMap((folder) =>
      readdirSync(join(root, folder))
        .filter((name) => name.endsWith(".md") && name !== "renames.md")
        .map((name) => join(folder, name))
    )
  )
  const path =
    /(?<![\w/.-])(?:runtime|actors|protocols|storage|bench|test|docs)\/[\w./-]+\.(?:ts|mjs|md|sh)\b/g
  const missing = documents.flatMap((document) =>
    [...readFileSync(join(root, document), "utf8").matchAll(path)]
      .filter(([file]) => !existsSync(join(root, file)))
      .map(([file]) => `${document}: ${file}`)
  )
  expect(missing).toEqual([])
})

it("nothing is left undone, no file is two files", () => {
  for (const file of sources) {
    const text = readFileSync(join(root, file), "utf8")
    expect(/\b(?:TODO|FIXME|XXX|not implemented)\b/.exec(text)?.[0], file).toBeUndefined()
    expect(text.split("\n").length, file).toBeLessThanOrEqual(600)
    expect(
      /^(?:\/\*\*|\/\/ )/.test(text) || file.endsWith(".d.ts"),
      `${file} says what it is in its first line`
    ).toBe(true)
  }
})

/** Stored and wire names that are participles, by file: they stay properties, and no variable is called so. */
const participlesStored: Readonly<
  Record<string, { readonly names: ReadonlyArray<string>; readonly why: string }>
> = {
  "protocols/store/access/rate-limit.ts": {
    names: ["made"],
    why: "a member of the rows of store-windows, which are on disk"
  }
}

it("names: the eight participles are nobody's", () => {
  const files = [...sources, ...filesBelow("bench"), ...filesBelow("test")]
  const declared = files
    .filter((file) => !file.startsWith("test/samples/"))
    .flatMap((file) => {
      const text = readFileSync(join(root, file), "utf8")
      if (!mayDeclareParticiple(text)) return []
      const stored = participlesStored[file]?.names ?? []
      return participleDeclarations(parse(file, text))
        .filter(({ name }) => !stored.includes(name))
        .map(({ name, line }) => `${file}:${line} ${name}`)
    })
  expect(declared).toEqual([])
}, 60_000)
