/** A program whose data become a sample, and the ways to ask it. Whatever it does not answer as it should ends the generation. */
import { createHash } from "node:crypto"
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { sleep } from "../asking/asked.ts"
import type { Outside } from "../outside.ts"
import { Program, type Answer, type Asking, type Place } from "../program.ts"

const startMs = Date.UTC(2026, 10, 20, 6)
export const minuteMs = 60_000
export const until = async <A>(what: string, ask: () => Promise<A | undefined | false>): Promise<A> => {
  for (let i = 0; i < 400; i++) {
    const answer = await ask()
    if (answer !== undefined && answer !== false) return answer
    await sleep(25)
  }
  throw new Error(`never: ${what}`)
}
/** An answer with one of these statuses, or the generation ends. */
export const good = async (answer: Promise<Answer>, ...statuses: ReadonlyArray<number>): Promise<any> => {
  const { status, text, body } = await answer
  if (!(statuses.length === 0 ? status >= 200 && status < 300 : statuses.includes(status)))
    throw new Error(`${status}: ${text.slice(0, 800)}\n${new Error("asked").stack}`)
  return body
}
export const challenge = (verifier: string): string =>
  createHash("sha256").update(verifier).digest("base64url")
export const callback = "https://app.example.com/cb"

/** Where a sample is made: checkout, tools, configurations, and a folder for the work. */
export interface Workshop {
  readonly root: string
  readonly tools: string
  readonly target: string
  readonly work: string
}

export class Making {
  program!: Program
  readonly outside: Outside
  readonly place: Omit<Place, "clockMs">
  readonly facts: Record<string, any> = {}
  private clockMs = startMs
  constructor({ root, tools, target, work }: Workshop, outside: Outside, name: string) {
    this.outside = outside
    const data = join(work, name, "data")
    mkdirSync(join(work, name))
    this.place = { root, tools, data, config: join(target, `${name}.yaml`), outside }
    outside.nowMs = () => this.program.nowMs
  }
  async up(): Promise<void> {
    this.program = await Program.start({ ...this.place, clockMs: this.clockMs })
    for (const [name, value] of Object.entries(this.program.said))
      if (name !== "url" && name !== "port") this.facts[name] = value
  }
  /** Killed, and started so much later. */
  async later(ms: number, how: "kill" | "stop" = "kill"): Promise<void> {
    this.clockMs = this.program.nowMs + ms
    await this.program[how]()
    await this.up()
  }
  call(path: string, asking?: Asking): Promise<Answer> {
    return this.program.call(path, asking)
  }
  key(asking: Asking = {}, key: string = this.facts["developerKey"]): Asking {
    return { ...asking, headers: { authorization: `DeepL-Auth-Key ${key}`, ...asking.headers } }
  }
  translation(path: string, asking: Asking = {}): Promise<any> {
    return good(this.call(path, this.key(asking)))
  }
  admin(path: string, asking: Asking = {}): Promise<any> {
    return good(
      this.call(`/admin/${path}`, {
        ...asking,
        headers: { authorization: `Bearer ${this.facts["oauthAdminKey"]}`, ...asking.headers }
      })
    )
  }
  private calls = 0
  /** The store's rate: 50 in 10 s. */
  async store(path: string, asking: Asking = {}, token: string = this.facts["storeToken"]): Promise<any> {
    if (++this.calls % 40 === 0) await this.program.later()
    return good(
      this.call(`/api/v1/${path}`, {
        ...asking,
        headers: { "x-sample-auth-token": token, "x-store-auth-token": token, ...asking.headers }
      })
    )
  }
  actors(): Promise<any> {
    return good(
      this.call("/console/api/actors", {
        headers: { authorization: `Bearer ${this.facts["operatorToken"]}` }
      })
    )
  }
  actor(kind: string, id: string): Promise<any> {
    return good(
      this.call(`/console/api/actors/${kind}/${encodeURIComponent(id)}`, {
        headers: { authorization: `Bearer ${this.facts["operatorToken"]}` }
      })
    )
  }
  async phase(kind: string, id: string): Promise<string | undefined> {
    return (await this.actors()).actors.find((one: any) => one.kind === kind && one.id === id)?.phase
  }
}
