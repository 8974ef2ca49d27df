/** Measures programs that run alone: documents rebuilt, the steps above the engines, the start of a
 *  process. */
import { mkdtempSync } from "node:fs"
import net from "node:net"
import { join } from "node:path"
import { freePort } from "../port.ts"
import { launch } from "../processes.ts"
import type { Bench, Measured } from "../rounds.ts"
import { root, type Tree } from "../tree.ts"
import { programBench } from "./single.ts"

/** Measures one document that is extracted and rebuilt with nothing changed, against parsing and packing
 *  it. */
const document = (format: string): Bench =>
  programBench({
    title: `document-${format}`,
    unit: "ms",
    program: "documents",
    candidates: ["least", "troupe"],
    args: (name, smoke) => [format, name === "troupe" ? "ours" : "least", smoke ? 0.02 : 1]
  })

interface LanguageBench {
  readonly title: string
  readonly bench: string
  readonly operations: number
  readonly smokeOperations: number
}

/** Measures the steps above the engines; the floors do less (bench/programs/language.ts). */
const language = ({ title, bench, operations, smokeOperations }: LanguageBench): Bench =>
  programBench({
    title,
    unit: "µs CPU",
    rounds: 1,
    program: "language",
    candidates: ["floor", "troupe"],
    args: (name, smoke) => [bench, name, smoke ? smokeOperations : operations]
  })

const startMsMax = 20_000

const accepts = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = net.connect(port, "127.0.0.1")
    socket.on("connect", () => {
      socket.destroy()
      resolve(true)
    })
    socket.on("error", () => setTimeout(() => resolve(false), 3))
  })

/** Measures the time from the start of the process to its first accepted connection, or to its end if it does
 *  not listen. */
const startMs = async (args: ReadonlyArray<string>, data: string, listens: boolean): Promise<Measured> => {
  const port = await freePort()
  const startedMs = performance.now()
  const child = launch(process.execPath, args, {
    stdio: "ignore",
    env: { ...process.env, TROUPE_DATA: data, TROUPE_PORT: String(port), TROUPE_LOG_LEVEL: "error" }
  })
  const exited = new Promise((resolve) => child.on("exit", resolve))
  if (!listens) await exited
  while (listens && !(await accepts(port)))
    if (performance.now() - startedMs > startMsMax) throw new Error(`${args.join(" ")} does not start`)
  const value = performance.now() - startedMs
  child.kill("SIGTERM")
  await exited
  return { value }
}

const fastifyScript = `const f=require(${JSON.stringify(join(root, "node_modules/fastify"))})();f.get("/",()=>"ok");f.listen({port:+process.env.TROUPE_PORT})`

const coldStart: Bench = {
  title: "cold-start",
  unit: "ms",
  rounds: 5,
  open: () => {
    const dataOf = (tree: Tree): string => mkdtempSync(join(tree.temporary, "data-"))
    return {
      candidates: [
        {
          name: "bare node",
          prepare: (tree) => ({ measure: () => startMs(["-e", "0"], dataOf(tree), false) })
        },
        {
          name: "fastify",
          prepare: (tree) => ({ measure: () => startMs(["-e", fastifyScript], dataOf(tree), true) })
        },
        {
          name: "troupe",
          compared: true,
          prepare: async (tree) => {
            const data = dataOf(tree)
            const measure = () => startMs([join(tree.root, "dist", "main.cjs"), "serve"], data, true)
            // The first start creates the data folder and V8's code cache.
            await measure()
            return { measure }
          }
        }
      ]
    }
  }
}

const formats = ["docx", "xlsx", "xml", "xlf", "html", "json", "srt", "txt", "seal"]

export const programBenches: Record<string, Bench> = {
  ...Object.fromEntries(formats.map((format) => [`document-${format}`, document(format)])),
  tags: language({
    title: "tags, 40 paragraphs of XML",
    bench: "tags",
    operations: 2_000,
    smokeOperations: 20
  }),
  memory: language({
    title: "memory, 1 M segments",
    bench: "memory",
    operations: 1_000_000,
    smokeOperations: 5_000
  }),
  glossary: language({
    title: "glossary of 10 MiB",
    bench: "glossary",
    operations: 10_485_760,
    smokeOperations: 200_000
  }),
  "cold-start": coldStart
}
