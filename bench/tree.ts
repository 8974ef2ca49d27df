/** A built tree of the project, whose programs a bench runs: this one, or with `--against` another commit's
 *  (bench/checkout.ts). */
import { fileURLToPath } from "node:url"

/** The folder of this tree, which is found relative to dist/bench. */
export const root = fileURLToPath(new URL("../..", import.meta.url))

export interface Tree {
  readonly root: string
  /** The folder of its built bench programs. */
  readonly programs: string
  /** The `TMPDIR` of its programs, so that two trees never share a file. */
  readonly temporary: string
  /** The tree's name in a report. */
  readonly description: string
}
