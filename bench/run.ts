/** `npm run bench -- [NAME …] [--against COMMIT] [--rounds N] [--smoke] [--list]` measures every path side by
 *  side with its floor and peers, or this tree beside another commit. bench/README.md says how to run it and
 *  how to read it. It never asserts on time: a worse figure is printed as such. */
import { parseArgs } from "node:util"
import { benches, guardedBenches } from "./catalogue.ts"
import { checkOut, thisTree } from "./checkout.ts"
import { comparedTable, machine, store, table } from "./report.ts"
import { beforeAndAfter, sideBySide, type ComparedRow, type Row, type Size } from "./rounds.ts"

function fail(text: string): never {
  console.error(text)
  process.exit(2)
}

interface Options {
  readonly names: ReadonlyArray<string>
  readonly against: string | undefined
  readonly size: Size
}

const parse = () => {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        against: { type: "string" },
        rounds: { type: "string" },
        names: { type: "string" },
        smoke: { type: "boolean", default: false },
        list: { type: "boolean", default: false }
      }
    })
  } catch (cause) {
    return fail((cause as Error).message)
  }
}

const readOptions = (): Options => {
  const { values, positionals } = parse()
  if (values.list) {
    console.log(Object.keys(benches).join("\n"))
    process.exit(0)
  }
  const rounds = values.rounds === undefined ? undefined : Number(values.rounds)
  if (rounds !== undefined && !(Number.isInteger(rounds) && rounds > 0))
    fail(`--rounds ${values.rounds}: a whole number of at least 1`)
  const requested = [...positionals, ...(values.names?.split(",") ?? [])]
  const unknown = requested.filter((name) => benches[name] === undefined)
  if (unknown.length > 0) fail(`no bench ${unknown.join(", ")}; there are ${Object.keys(benches).join(", ")}`)
  const usual = values.against === undefined ? Object.keys(benches) : guardedBenches
  return {
    names: Object.keys(benches).filter((name) => (requested.length > 0 ? requested : usual).includes(name)),
    against: values.against,
    size: { smoke: values.smoke, seconds: values.smoke ? 0.4 : 3, rounds }
  }
}

const runSideBySide = async ({ names, size }: Options): Promise<ReadonlyArray<Row>> => {
  const rows: Array<Row> = []
  for (const name of names) {
    const found = await sideBySide(benches[name]!, size, thisTree())
    rows.push(...found)
    console.log(`\n${table(found)}`)
  }
  return rows
}

const runAgainst = async (
  revision: string,
  { names, size }: Options
): Promise<ReadonlyArray<ComparedRow>> => {
  const trees = { before: await checkOut(revision), after: thisTree() }
  console.log(`before: ${trees.before.description}\nafter: ${trees.after.description}`)
  const rows: Array<ComparedRow> = []
  for (const name of names) {
    const found = await beforeAndAfter(benches[name]!, size, trees)
    rows.push(...found)
    console.log(`\n${comparedTable(found)}`)
  }
  return rows
}

const options = readOptions()
console.log(machine())

const rows =
  options.against === undefined ? await runSideBySide(options) : await runAgainst(options.against, options)

if (!options.size.smoke) store(rows)
process.exit(0)
