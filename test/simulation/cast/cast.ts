/** Everybody who can appear in a simulation, and the choice of who does. */
import { probed } from "../probe.ts"
import type { Random } from "../random.ts"
import { jobRoles } from "./jobs.ts"
import { ownRoles } from "./own.ts"
import { recordRoles } from "./records.ts"
import type { Role } from "./role.ts"
import { voiceSession } from "./voice.ts"

export const roles: ReadonlyArray<Role> = [...ownRoles, ...recordRoles, ...jobRoles, voiceSession].map(
  (role) => ({ ...role, definition: probed(role.definition) })
)

/** One actor of a run. */
export interface Part {
  readonly role: Role
  readonly id: string
}

const actorsMin = 8
const actorsMax = 12
const kindsMin = 3
const kindsMax = 6

/** Chooses three to six kinds and eight to twelve actors of them, each kind at least one. */
export const chooseParts = (random: Random): ReadonlyArray<Part> => {
  const left = [...roles]
  const kinds: Array<Role> = []
  const count = kindsMin + random.int(kindsMax - kindsMin + 1)
  // One of ours and a few of the program's.
  kinds.push(left.splice(random.int(ownRoles.length), 1)[0]!)
  while (kinds.length < count) kinds.push(left.splice(random.int(left.length), 1)[0]!)
  const actors = actorsMin + random.int(actorsMax - actorsMin + 1)
  return Array.from({ length: actors }, (_, i) => {
    const role = i < kinds.length ? kinds[i]! : random.pick(kinds)
    return { role, id: `r${i}` }
  })
}
