/** Names settings that nobody reads: a variable with a prefix of ours, or one letter beside a name of ours, and
 *  the name that was probably meant. Source: docs/operations.md, "Configuration". */

/** Variables that begin so are ours. Those of engines and chat have names of many beginnings, which others may
 *  use too: of them only a slip of the pen is told. */
const ownPrefixes = ["TROUPE_", "STORE_", "SERVICE_"]

/** Variables that are read before there is a configuration, or by the build and the tests. */
const read = new Set(["TROUPE_CONFIG", "TROUPE_BUILT", "TROUPE_CHROMIUM"])

/** What a container platform sets for a service of the same name. */
const ofPlatform = /_(?:SERVICE_(?:HOST|PORT\w*)|PORT(?:_\d+_(?:TCP|UDP)\w*)?)$/

const slipMax = 2
const slipLengthMin = 8

/** Counts the letters to insert, delete or replace between two names. */
const distance = (a: string, b: string): number => {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++)
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)))
    row = next
  }
  return row[b.length]!
}

/** Returns the name that is most like `name`. */
export const nearest = (name: string, names: Iterable<string>): string => {
  let best = ""
  let least = Infinity
  for (const candidate of names) {
    const far = distance(name, candidate)
    if (far < least) {
      least = far
      best = candidate
    }
  }
  return best
}

const isSlip = (name: string, near: string): boolean =>
  name.length >= slipLengthMin && distance(name, near) <= slipMax

/** Returns one line for each variable that is no setting, though it looks like one. */
export const unknownVariables = (
  env: Readonly<Record<string, string | undefined>>,
  settings: ReadonlyArray<string>
): ReadonlyArray<string> => {
  const names = new Set(settings)
  const initials = new Set(settings.map((name) => name.split("_")[0]))
  return Object.keys(env)
    .sort()
    .flatMap((name) => {
      if (names.has(name) || read.has(name) || !initials.has(name.split("_")[0])) return []
      const near = nearest(name, settings)
      const isOurs = ownPrefixes.some((prefix) => name.startsWith(prefix)) && !ofPlatform.test(name)
      return isOurs || isSlip(name, near) ? [`${name} is no setting; the nearest is ${near}`] : []
    })
}
