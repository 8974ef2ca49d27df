/** Refresh-token families that must be treated as ended whatever the store says, because their end is being
 *  written or could not be. From `add` until `settle` every reader sees the family as ended; an id that was
 *  `record`ed is found again by `restore` after a restart, before the first answer.
 *  Source: docs/spec/authorization.md, section 8.5. */
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, rmSync, writeSync } from "node:fs"

/** Storage for revocation intents that outlives the process. */
export interface RevocationIntents {
  add(familyId: string): void
  all(): ReadonlyArray<string>
  clear(): void
}

/** Storage for servers without a data folder: the intents end with the process. */
export const revocationIntentsInMemory = (): RevocationIntents => {
  const familyIds = new Set<string>()
  return {
    add: (familyId) => {
      familyIds.add(familyId)
    },
    all: () => [...familyIds],
    clear: () => familyIds.clear()
  }
}

const idsIn = (text: string): ReadonlyArray<string> => [
  ...new Set(text.split("\n").filter((line) => line !== ""))
]

/** Storage in a file beside the store, with one family id a line; each line is flushed before the call
 *  returns. */
export const revocationIntentsInFile = (path: string): RevocationIntents => ({
  add: (familyId) => {
    const file = openSync(path, "a", 0o600)
    try {
      writeSync(file, `${familyId}\n`)
      fsyncSync(file)
    } finally {
      closeSync(file)
    }
  },
  all: () => (existsSync(path) ? idsIn(readFileSync(path, "utf8")) : []),
  clear: () => rmSync(path, { force: true })
})

export class PendingRevocations {
  private readonly familyIds = new Set<string>()
  private readonly intents: RevocationIntents

  constructor(intents: RevocationIntents) {
    this.intents = intents
  }

  has(familyId: string): boolean {
    return this.familyIds.has(familyId)
  }

  /** True when the family was not pending before. */
  add(familyId: string): boolean {
    const isNew = !this.familyIds.has(familyId)
    this.familyIds.add(familyId)
    return isNew
  }

  /** Called when the store has the end of the family. */
  settle(familyId: string): void {
    this.familyIds.delete(familyId)
  }

  /** Writes the intent beside the store, because the store could not write the end of the family. Throws when
   *  that fails too. */
  record(familyId: string): void {
    this.intents.add(familyId)
  }

  /** Makes pending what an earlier process recorded, and returns it. */
  restore(): ReadonlyArray<string> {
    const familyIds = this.intents.all()
    for (const familyId of familyIds) this.familyIds.add(familyId)
    return familyIds
  }

  /** Called when the store has the end of every recorded family. */
  settleAll(): void {
    this.intents.clear()
    this.familyIds.clear()
  }
}
