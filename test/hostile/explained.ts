/** Finds the 5xx answers that the log does not explain: each needs the line of its trace id, or a place among
 *  the lines of its route and status that a storm held back. Source: docs/operations.md, "Logs". */
import type { LogLine } from "./served.ts"
import type { Failure } from "./tally.ts"

interface Held {
  readonly route: RegExp
  readonly status: number
  left: number
}

const routePattern = (route: string): RegExp =>
  new RegExp(
    `^${route
      .split("/")
      .map((part) => {
        if (part === "*") return ".*"
        return part.startsWith(":") ? "[^/]+" : part.replace(/[^\w-]/g, "\\$&")
      })
      .join("/")}$`
  )

export class Explanations {
  private readonly traceIds = new Set<string>()
  private readonly held = new Map<string, Held>()

  /** Every line of the log, in any order. */
  hear({ traceId, of, suppressed = 0 }: LogLine): void {
    if (traceId !== undefined) this.traceIds.add(traceId)
    const [, route, status] = /(\S+) (\d{3})$/.exec(of ?? "") ?? []
    if (route === undefined) return
    const held = this.held.get(of!) ?? { route: routePattern(route), status: Number(status), left: 0 }
    held.left += suppressed
    this.held.set(of!, held)
  }

  /** Returns what nothing explains, once the log is complete. */
  unexplained(failures: ReadonlyArray<Failure>): ReadonlyArray<Failure> {
    return failures.filter((failure) => !this.explains(failure))
  }

  private explains({ traceId, path, status }: Failure): boolean {
    // The parser's own answer to another version of HTTP, of which the services hear nothing.
    if (status === 505) return true
    if (traceId !== "" && this.traceIds.has(traceId)) return true
    const plain = path.split("?")[0]!
    for (const held of this.held.values())
      if (held.left > 0 && held.status === status && (plain === "" || held.route.test(plain))) {
        held.left--
        return true
      }
    return false
  }
}
