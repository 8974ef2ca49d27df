/** A mutant is one fault that a tired engineer could make: a text of today's code, its replacement, and the
 *  tests that must turn red. `npm run mutants` applies one at a time to a copy of the tree and demands red;
 *  list.test.ts demands that each text still occurs exactly once. docs/contributing.md, "Mutants", says how
 *  to run and to add. */

export interface Edit {
  /** Occurs exactly once in the file. */
  readonly find: string
  readonly replace: string
}

export interface Mutant extends Edit {
  /** Unique within its class. */
  readonly id: string
  readonly file: string
  /** Another edit of the same file, where the fault is one of two sides that agree. */
  readonly also?: Edit
  /** Says what breaks for whom. */
  readonly why: string
  /** The test files of which one must turn red. */
  readonly tests: ReadonlyArray<string>
  /** Runs only the tests whose full name matches this pattern, where the files take long. */
  readonly only?: string
  /** True when the tests run the built program: it is built anew with the fault in it. */
  readonly built?: true
  /** True when a run that never ends is what the fault looks like; otherwise a time-out is no kill. */
  readonly timeoutKills?: true
  /** Says why no test can see the difference. Such a mutant is not run. */
  readonly equivalent?: string
}
