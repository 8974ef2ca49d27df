/** Describes a fault for the log: name, message, first lines of the stack, and the whole chain of causes.
 *  Guarantee: it never throws, its size is bounded, and what looks like a secret or like somebody's text is
 *  struck out. Source: docs/operations.md, "Logs". */
import { Cause } from "effect"

export interface FaultDescription {
  readonly name: string
  readonly message?: string
  readonly stack?: ReadonlyArray<string>
  /** The members of a fault that say more than its message: codes and reasons. */
  readonly details?: Readonly<Record<string, string | number | boolean>>
  readonly cause?: FaultDescription
  readonly errors?: ReadonlyArray<FaultDescription>
}

const messageLengthMax = 500
const nameLengthMax = 80
const stackLinesMax = 6
const causesMax = 6
const errorsMax = 4

const secrets: ReadonlyArray<readonly [RegExp, string]> = [
  [/\b(Bearer|Basic|DPoP)\s+[^\s,;"']+/gi, "$1 …"],
  [/\b(?:sk|pk|ghp|xox[a-z]|at|rt)[-_][\w-]{8,}/g, "…"],
  [/\beyJ[\w-]+\.[\w-]+(?:\.[\w-]*)?/g, "…"],
  [
    /((?:api[_-]?key|key|token|secret|password|passwd|pwd|authorization|cookie|assertion|signature|code)["']?\s*[=:]\s*)["']?[^\s"'&,;}]+/gi,
    "$1…"
  ],
  [/\/\/[^\s/@]+@/g, "//…@"],
  [/[^\s<>"'(]+@[^\s<>"')]+\.[a-z]{2,}/gi, "…"],
  [/(https?:\/\/[^\s"'?]+)\?[^\s"']*/gi, "$1?…"],
  // Nothing that a person reads is that long without a space: it is a key, a hash or encoded bytes. Trace ids,
  // UUIDs and paths are kept.
  [/(?<![\w/.-])(?![0-9a-f]{32}(?!\w))[\w+-]{40,}={0,2}/g, "…"]
]

/** What stands in quotes is often the input: it is kept only if it can be a name, a path or a number. */
const quoted = /"([^"]*)"|'([^']*)'|`([^`]*)`/g
const nameLike = /^[\w$@.,:/\\\-[\]]{0,120}$/

/** Strikes out what the log must not hold. */
export const withoutSecrets = (text: string): string => {
  let clean = text.length > 4 * messageLengthMax ? text.slice(0, 4 * messageLengthMax) : text
  for (const [pattern, replacement] of secrets) clean = clean.replace(pattern, replacement)
  clean = clean.replace(quoted, (whole, a?: string, b?: string, c?: string) =>
    nameLike.test(a ?? b ?? c ?? "") ? whole : `${whole[0]}…${whole[0]}`
  )
  return clean.length > messageLengthMax ? `${clean.slice(0, messageLengthMax)}…` : clean
}

const framesOf = (stack: unknown): ReadonlyArray<string> | undefined => {
  if (typeof stack !== "string") return undefined
  // The lines before the first frame repeat the message.
  const frames = stack
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line.startsWith("at "))
    .slice(0, stackLinesMax)
  return frames.length === 0 ? undefined : frames
}

/** Members that are worded by us or by the system, never by a client. */
const detailNames = [
  "_tag",
  "code",
  "errno",
  "syscall",
  "status",
  "reason",
  "engine",
  "upstream",
  "provider",
  "detail"
]

const detailsOf = (fault: object, except: ReadonlyArray<unknown>): FaultDescription["details"] => {
  const details: Record<string, string | number | boolean> = {}
  for (const name of detailNames) {
    const value = (fault as Record<string, unknown>)[name]
    if (except.includes(value)) continue
    if (typeof value === "string" && value !== "") details[name] = withoutSecrets(value)
    else if (typeof value === "number" || typeof value === "boolean") details[name] = value
  }
  return Object.keys(details).length === 0 ? undefined : details
}

const textOf = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value : undefined

const describe = (fault: unknown, depth: number, seen: Set<unknown>): FaultDescription | undefined => {
  if (fault === undefined || depth >= causesMax || seen.has(fault)) return undefined
  if (typeof fault !== "object" || fault === null)
    return { name: typeof fault, message: withoutSecrets(String(fault)) }
  seen.add(fault)
  if (Cause.isCause(fault)) return describe(Cause.squash(fault), depth, seen)
  // An actor's answer that is none.
  if ("fault" in fault) return describe(fault.fault, depth, seen)
  if ("refuse" in fault) return describe(fault.refuse, depth, seen)
  const { name, message, description, details, stack, cause, errors, problem, _tag } = fault as Record<
    string,
    unknown
  >
  const label = textOf(name) ?? textOf(_tag) ?? fault.constructor?.name ?? "Object"
  const words = textOf(message) ?? textOf(description) ?? textOf(details)
  const inner = describe(cause ?? problem, depth + 1, seen)
  const several = Array.isArray(errors)
    ? errors
        .slice(0, errorsMax)
        .map((one) => describe(one, depth + 1, seen))
        .filter((one) => one !== undefined)
    : []
  const frames = framesOf(stack)
  const members = detailsOf(fault, [label, words])
  return {
    name: label.slice(0, nameLengthMax),
    ...(words === undefined ? {} : { message: withoutSecrets(words) }),
    ...(members === undefined ? {} : { details: members }),
    ...(frames === undefined ? {} : { stack: frames }),
    ...(inner === undefined ? {} : { cause: inner }),
    ...(several.length === 0 ? {} : { errors: several })
  }
}

export const describeFault = (fault: unknown): FaultDescription | undefined => {
  try {
    return describe(fault, 0, new Set())
  } catch {
    // A getter or a proxy of the fault threw.
    return { name: "unreadable" }
  }
}
