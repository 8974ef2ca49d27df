/** Runs the benches of one program: each candidate is a run of the program to its end, which prints its own
 *  figure. */
import { run, serverCore } from "../processes.ts"
import type { Bench, Measured } from "../rounds.ts"

type Args = ReadonlyArray<string | number>

export interface ProgramBench {
  readonly title: string
  readonly unit: string
  readonly rate?: boolean
  readonly rounds?: number
  /** The file name of the program in bench/programs. */
  readonly program: string
  readonly candidates: ReadonlyArray<string>
  readonly compared?: ReadonlyArray<string>
  readonly args: (candidate: string, smoke: boolean) => Args
}

/** Makes such a bench; `compared` is "troupe" unless it is set. */
export const programBench = ({
  program,
  candidates,
  compared = ["troupe"],
  args,
  ...description
}: ProgramBench): Bench => ({
  ...description,
  open: ({ smoke }) => ({
    candidates: candidates.map((name) => ({
      name,
      compared: compared.includes(name),
      prepare: (tree) => ({
        measure: () => run<Measured>({ tree, core: serverCore, name: program, args: args(name, smoke) })
      })
    }))
  })
})
