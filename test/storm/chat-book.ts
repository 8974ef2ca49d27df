/** Stored responses, each continuing the one before, some deleted. Source: docs/spec/chat.md, section 8. */
import { backwards } from "../hostile/models.ts"
import { oneOf, random, sampleOf, type Book, type Violations } from "./book.ts"
import type { Caller } from "./caller.ts"

interface Stored {
  readonly id: string
  readonly text: string
  /** `perhaps`: the answer to its deletion was lost. */
  deleted: "no" | "yes" | "perhaps"
}

const checked = 8
const storedMax = 1_000

const textOf = (response: any): string =>
  response.output
    .flatMap((item: any) => item.content ?? [])
    .map((part: any) => part.text)
    .join("")

export class ChatBook implements Book {
  readonly name = "chat"
  promises = 0
  readonly acts: ReadonlyArray<() => Promise<void>>
  private readonly responses: Array<Stored> = []
  private readonly caller: Caller
  private readonly violations: Violations
  private turns = 0

  constructor(caller: Caller, violations: Violations) {
    this.caller = caller
    this.violations = violations
    this.acts = [() => this.ask(), () => this.ask(), () => this.goOn(), () => this.remove()]
  }

  private async ask(previous?: Stored): Promise<void> {
    const input = `question ${this.turns++}`
    const reply = await this.caller.call("/v1/responses", {
      body: {
        model: "main/model",
        input,
        store: true,
        ...(previous === undefined ? {} : { previous_response_id: previous.id })
      }
    })
    if (reply === undefined || reply.status === 429 || reply.status >= 500) return
    this.violations.unless(
      reply.status === 200 && textOf(reply.body) === backwards(input),
      () => `chat: a turn was answered ${reply.text}`
    )
    if (reply.status !== 200) return
    this.responses.push({ id: reply.body.id, text: textOf(reply.body), deleted: "no" })
    this.promises++
  }

  /** Newer ones only: an old session may have ended at its age. */
  private recent(): ReadonlyArray<Stored> {
    return this.responses.slice(-200).filter(({ deleted }) => deleted === "no")
  }

  private goOn(): Promise<void> {
    return this.ask(oneOf(this.recent().slice(-20)))
  }

  private async remove(): Promise<void> {
    await new Promise((resolve) => {
      setTimeout(resolve, 50 + random(100))
    })
    const response = oneOf(this.recent().slice(0, -50))
    if (response === undefined) return
    response.deleted = "perhaps"
    const reply = await this.caller.call(`/v1/responses/${response.id}`, { method: "DELETE" })
    if (reply?.status !== 200) return
    response.deleted = "yes"
    this.promises++
  }

  async check(isWhole: boolean): Promise<void> {
    for (const response of sampleOf(this.responses.slice(-storedMax), checked, isWhole)) {
      const { status, body, text } = await this.caller.answer(`/v1/responses/${response.id}`)
      if (response.deleted === "perhaps") response.deleted = status === 404 ? "yes" : "no"
      this.violations.unless(
        response.deleted === "yes" ? status === 404 : status === 200 && textOf(body) === response.text,
        () => `chat: ${response.id}, deleted "${response.deleted}", is ${status} ${text.slice(0, 300)}`
      )
    }
    this.responses.splice(0, Math.max(0, this.responses.length - 2 * storedMax))
  }
}
