/** A folder of Apertium modes whose programs are scripts of ours: shouts what it reads, block by null-flushed
 *  block, and misbehaves on demand. */
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const script = `#!${process.execPath}
const { appendFileSync, existsSync, writeFileSync } = require("node:fs")
const [, folder, name] = process.argv.slice(2)
appendFileSync(folder + "/started", name + " " + process.pid + "\\n")
const once = (what) => { const flag = folder + "/" + what; if (existsSync(flag)) return false; writeFileSync(flag, ""); return true }
let pending = "", mute = false
process.stdin.setEncoding("utf8").on("data", (data) => {
  pending += data
  for (let at = pending.indexOf("\\0"); at >= 0; at = pending.indexOf("\\0")) {
    const block = pending.slice(0, at)
    pending = pending.slice(at + 1)
    if (block.includes("DIE ONCE") && once("died")) process.exit(3)
    if (block.includes("DIE ALWAYS")) process.exit(3)
    if (block.includes("HANG ONCE") && once("hung")) mute = true
    if (name.includes("dead") && block.startsWith("La casa")) process.exit(11)
    if (name.includes("silent") && !block.startsWith("[/N")) continue
    if (name.includes("flood") && block.includes("FLOOD")) process.stdout.write("x".repeat(5_000_000))
    if (!mute) process.stdout.write(block.replace(/[a-z]+/g, (word, at) => block.slice(0, at).endsWith("[<") ? word : word.toUpperCase()) + (block.startsWith("[/N") ? "\\0" : "\\0\\0"))
  }
})
`

export interface FakePipelines {
  readonly folder: string
  starts(name?: string): number
  pids(): ReadonlyArray<number>
  remove(): void
}

/** `modes`: file name without `.mode` to the names of its programs; a name says how it behaves (dead, silent,
 *  flood, else well). */
export const fakePipelines = (modes: Readonly<Record<string, ReadonlyArray<string>>>): FakePipelines => {
  const root = mkdtempSync(join(tmpdir(), "pipelines-"))
  const folder = join(root, "modes")
  mkdirSync(folder)
  writeFileSync(join(root, "fake"), script)
  chmodSync(join(root, "fake"), 0o755)
  writeFileSync(join(root, "started"), "")
  for (const [mode, programs] of Object.entries(modes))
    writeFileSync(
      join(folder, `${mode}.mode`),
      programs.map((name) => `${join(root, "fake")} '${root}' ${name}`).join(" | ")
    )
  const started = (): ReadonlyArray<string> =>
    readFileSync(join(root, "started"), "utf8")
      .split("\n")
      .filter((line) => line !== "")
  return {
    folder,
    starts: (name) => started().filter((line) => name === undefined || line.startsWith(`${name} `)).length,
    pids: () => started().map((line) => Number(line.split(" ")[1])),
    remove: () => rmSync(root, { recursive: true, force: true })
  }
}
