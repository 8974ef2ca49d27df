/** Asks a program and writes down what it says. */
import type { Outside } from "../outside.ts"
import type { Answer, Asking, Inventory, Program } from "../program.ts"
import type { Said } from "../recording.ts"

/** What the generator knows of its sample: ids, keys, tokens. All of it made up. */
export type Known = Readonly<Record<string, any>>
/** Real time, not the program's. */
export const sleep = (ms: number): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(resolve, ms)
  })

const comparedHeaders = ["content-type", "location", "idempotency-replayed", "etag", "x-troupe-engine"]

/** The program of a sample, and what it has been asked. */
export class Asked {
  readonly answers: Record<string, Said> = {}
  readonly states: Record<string, unknown> = {}
  readonly journals: Record<string, unknown> = {}
  readonly before: Inventory
  readonly program: Program
  readonly outside: Outside
  readonly facts: Known
  constructor(program: Program, outside: Outside, facts: Known, before: Inventory) {
    this.before = before
    this.program = program
    this.outside = outside
    this.facts = facts
  }
  /** The port is another at each start. */
  private plain(text: string): string {
    return text.replaceAll(this.program.url, "http://localhost:8080")
  }
  say(name: string, body: unknown, status = 0): void {
    if (name in this.answers) throw new Error(`asked twice: ${name}`)
    this.answers[name] = { status, type: "", body }
  }
  async take(name: string, answering: Promise<Answer>): Promise<any> {
    const { status, headers, text, body } = await answering
    if (name in this.answers) throw new Error(`asked twice: ${name}`)
    const type = comparedHeaders
      .flatMap((header) => {
        const value = headers.get(header)
        return value === null ? [] : [`${header}: ${this.plain(value)}`]
      })
      .join("\n")
    this.answers[name] = {
      status,
      type,
      body: body === undefined ? this.plain(text).split("\n") : JSON.parse(this.plain(JSON.stringify(body)))
    }
    return body
  }
  /** Named by method and path. */
  ask(
    path: string,
    asking: Asking = {},
    name = `${asking.method ?? ((asking.json ?? asking.form ?? asking.raw) ? "POST" : "GET")} ${path}`
  ): Promise<any> {
    return this.take(name, this.program.call(path, asking))
  }
  /** The state of every actor of the sample, or of one kind, that is in memory now, and its events. */
  async look(moment: string, kindWanted?: string): Promise<void> {
    for (const address of this.before.actors) {
      const [, kind = "", id = ""] = /^([^/]+)\/(.*)$/s.exec(address)!
      if (kindWanted !== undefined && kind !== kindWanted) continue
      const path = `${kind}/${encodeURIComponent(id)}`
      const { status, body } = await this.program.call(`/console/api/actors/${path}`, operator(this))
      this.states[`${moment}: ${address}`] =
        status === 200
          ? {
              phase: body.phase,
              failed: body.status === "failed",
              fault: body.lastFault ?? null,
              restarts: body.restarts,
              state: body.state
            }
          : `not in memory (${status})`
      const journal = await this.program.call(`/console/api/journal/${path}`, operator(this))
      this.journals[`${moment}: ${address}`] =
        journal.status === 200 ? journal.body : `not readable (${journal.status})`
    }
  }
  async until(what: string, ask: () => Promise<boolean>): Promise<void> {
    for (let i = 0; i < 400; i++) {
      if (await ask()) return
      await sleep(25)
    }
    throw new Error(`never: ${what}`)
  }
}

export const operator = ({ facts }: Asked): Asking => ({
  headers: { authorization: `Bearer ${facts["operatorToken"]}` }
})
